/*---
description: >-
  Take a gift off the list that is not wanted any more. gift_restore with the same id brings it back.
examples:
  - Delete the gift idea with the perfume for Nicole.
  - Take the cheese knife off the gift list for Hugo.
  - Scrap the drone for my nephew, his parents forbid it.
  - She already owns that necklace, forget about buying it.
  - The concert voucher for Mum is off, the tour was cancelled.
args:
  gift_id: {type: string, format: uuid, required: true, description: "The id that gift_add or gift_list gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.description, p.status, p.deleted_at FROM gift_keep(:gift_id::uuid, true) p;
