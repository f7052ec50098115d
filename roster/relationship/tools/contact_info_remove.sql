/*---
description: >-
  Take away an address, number or account of a contact that is wrong or no longer holds. contact_info_restore with the
  same id brings it back. From then on messages from there are a stranger's.
examples:
  - Remove the old office number from Emil's contact info.
  - Delete the Hotmail info of Tanja, it is dead.
  - Mails to Kurt at his former employer bounce, drop that one.
  - Her landline was disconnected in spring, forget the number.
  - Somebody else picks up at that mobile, so strike it from Ludwig.
args:
  contact_info_id: {type: string, format: uuid, required: true, description: "The id that contact_info_list,
    contact_info_add or contact_get gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT i.id, i.contact_id, i.type, i.value, i.label, i.is_primary, i.deleted_at
  FROM contact_info_set_deleted(:contact_info_id::uuid, true) i;
