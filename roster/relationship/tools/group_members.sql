/*---
description: >-
  Who is in a group, by name, with their roles.
examples:
  - Who are the members of the sailing group?
  - Show the group members of the band with their roles.
  - Who all sings with us in the choir?
  - Who is the captain of our handball team again?
  - Name everybody belonging to the Rossi family.
args:
  group_id: {type: string, format: uuid, required: true, description: "The group, by the id that group_list gave."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
  deleted: {type: boolean, default: false, description: "True lists those who were taken out instead; group_add_member
    puts them back."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT m.contact_id, m.name, m.role, m.deleted_at
  FROM group_there(:group_id::uuid) AS g(id),
       LATERAL (SELECT m.contact_id, c.name, m.role, m.deleted_at
                  FROM group_members m JOIN contacts c ON c.id = m.contact_id
                 WHERE m.group_id = g.id AND c.archived_at IS NULL
                   AND (m.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
                 ORDER BY c.name_key, c.id
                 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0)) m;
