/*---
description: >-
  Take a contact out of a group. group_add_member puts them back, with the role they had.
examples:
  - Remove Gabriel as a member from the poker group.
  - Take Anja out of the neighbours group.
  - Oliver quit the rowing team this week.
  - The Walters moved out of the building, they left our neighbourhood circle.
  - Petra resigned from the choir, so she is no longer one of us.
args:
  group_id: {type: string, format: uuid, required: true, description: "The group, by the id that group_list gave."}
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT m.group_id, m.contact_id, m.role, m.deleted_at
  FROM group_remove_member(:group_id::uuid, :contact_id::uuid) m;
