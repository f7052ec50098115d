/*---
description: >-
  Take away an address that is wrong. address_restore with the same id brings it back. One they moved away from stays:
  it only is no longer current.
examples:
  - Remove that old wrong address of Stefan's.
  - Delete the Basel address from Julia's entry.
  - Peter never lived on Elm Street, take that street out.
  - Her holiday flat in Nice was a mix-up, scrap it.
  - The postcard bounced because that house number belongs to a total stranger, drop it.
args:
  address_id: {type: string, format: uuid, required: true, description: "The id that address_list or contact_get
    gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE addresses a
   SET deleted_at = coalesce(a.deleted_at, shared.clock())
 WHERE a.id = address_there(:address_id::uuid, true)
RETURNING a.id, a.contact_id, a.label, a.line_1, a.city, a.deleted_at;
