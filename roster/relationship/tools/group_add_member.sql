/*---
description: >-
  Put a contact into a group. Who is in it already stays, and takes the new role if one is given.
examples:
  - Add Sandra as a member to the book club group.
  - Put Rolf into the football group as goalkeeper.
  - Claudia joined our choir on Thursday as treasurer.
  - The Hubers have a baby, little Ella belongs to their family now.
  - From now on Erik plays in the volleyball team with us.
args:
  group_id: {type: string, format: uuid, required: true, description: "The group, by the id that group_list gave."}
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  role: {type: string, description: "What they are in it: captain, treasurer, child, …"}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT m.group_id, m.contact_id, m.name, m.role, m.already_there
  FROM group_add_member(:group_id::uuid, :contact_id::uuid, :role::text) m;
