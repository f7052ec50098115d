/*---
description: >-
  Bring back a deleted gift. gift_list with deleted set to true lists them.
examples:
  - Restore the gift I deleted for Ines.
  - Bring back the deleted gift idea with the hammock.
  - I do want to surprise him with the telescope after all, put it back.
  - The tour got rescheduled, so her concert voucher is on again.
  - We crossed out the puzzle for Jakob, but it was a good idea, undo.
args:
  gift_id: {type: string, format: uuid, required: true, description: "The id of the deleted gift."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.description, p.occasion, p.status FROM gift_keep(:gift_id::uuid, false) p;
