/*---
description: >-
  Bring back a deleted gift. gift_list with deleted set to true lists them.
args:
  gift_id: {type: string, format: uuid, required: true, description: "The id of the deleted gift."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.description, p.occasion, p.status FROM gift_keep(:gift_id::uuid, false) p;
