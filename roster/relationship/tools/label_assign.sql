/*---
description: >-
  Give a contact a label. changed false means that it had it already.
args:
  label_id: {type: string, format: uuid, required: true, description: "The label, by the id that label_list or
    label_create gave."}
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT l.label_id, l.contact_id, l.label_name, l.contact_name, l.assigned, l.changed
  FROM label_assign(:label_id::uuid, :contact_id::uuid, false) l;
