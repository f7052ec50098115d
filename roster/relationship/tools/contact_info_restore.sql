/*---
description: >-
  Bring back a removed address, number or account. contact_info_list with deleted true lists them.
examples:
  - Restore the phone number in Klara's contact info.
  - Bring back the e-mail you removed from the info for Adrian.
  - Ben's Gmail works again, so I want it on his entry as before.
  - The mobile we threw out was still hers, undo that.
  - I deleted grandpa's landline by accident, put it back.
args:
  contact_info_id: {type: string, format: uuid, required: true, description: "The id that contact_info_list,
    contact_info_add or contact_get gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT i.id, i.contact_id, i.type, i.value, i.label, i.is_primary, i.deleted_at
  FROM contact_info_set_deleted(:contact_info_id::uuid, false) i;
