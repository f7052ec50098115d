/*---
description: >-
  Take a gift off the list that is not wanted any more. gift_restore with the same id brings it back.
args:
  gift_id: {type: string, format: uuid, required: true, description: "The id that gift_add or gift_list gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.description, p.status, p.deleted_at FROM gift_keep(:gift_id::uuid, true) p;
