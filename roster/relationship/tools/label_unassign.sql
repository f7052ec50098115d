/*---
description: >-
  Take a label off a contact. label_assign gives it back.
examples:
  - Unassign the label babysitter from Julie.
  - Take the label vegetarian off Samuel.
  - Werner eats steak again, so untag him as vegetarian.
  - She no longer needs Christmas cards, clear that tag from her.
  - Andy injured his knee and stopped jogging, unmark him as running buddy.
args:
  label_id: {type: string, format: uuid, required: true, description: "The label, by the id that label_list or
    label_create gave."}
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT l.label_id, l.contact_id, l.label_name, l.contact_name, l.assigned, l.changed
  FROM label_assign(:label_id::uuid, :contact_id::uuid, true) l;
