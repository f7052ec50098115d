/*---
description: >-
  The groups with their number of members, by name; all, or those that one contact is in.
examples:
  - List all my groups with how many are in each.
  - Which groups is Barbara in?
  - What clubs and teams have I set up with you?
  - Does my colleague Timo belong to any club of mine?
  - How many circles, crews and families do you keep for me?
args:
  contact_id: {type: string, format: uuid, description: "Only groups that this contact is in."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT g.id, g.name, g.type, g.members
  FROM groups_of(:contact_id::uuid, coalesce(:limit::int, 50), coalesce(:offset::int, 0)) g;
