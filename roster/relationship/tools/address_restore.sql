/*---
description: >-
  Bring back a removed address. address_list with deleted true lists them.
examples:
  - Restore the address of Monika that I deleted yesterday.
  - Bring back the removed Geneva address for Luc.
  - Oops, the villa in Lugano was right after all, put it back.
  - You threw out his Oxford flat too hastily, I need that street again.
  - Turns out mum's cottage by the lake is still hers, undo the deletion.
args:
  address_id: {type: string, format: uuid, required: true, description: "The id that address_list or contact_get
    gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE addresses a
   SET deleted_at = NULL
 WHERE a.id = address_there(:address_id::uuid, true)
RETURNING a.id, a.contact_id, a.label, a.line_1, a.city, a.deleted_at;
