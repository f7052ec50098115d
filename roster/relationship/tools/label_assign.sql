/*---
description: >-
  Give a contact a label. changed false means that it had it already.
examples:
  - Assign the label Christmas cards to the Zimmermanns.
  - Give Leonie the label vegetarian.
  - Mark Patrick as one of my running buddies.
  - Tag Yuki with university, we studied together.
  - The electrician should be flagged under craftsmen.
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
