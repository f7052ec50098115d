/*---
description: >-
  The groups with their number of members, by name; all, or those that one contact is in.
args:
  contact_id: {type: string, format: uuid, description: "Only groups that this contact is in."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT g.id, g.name, g.type, g.members
  FROM groups_of(:contact_id::uuid, coalesce(:limit::int, 50), coalesce(:offset::int, 0)) g;
