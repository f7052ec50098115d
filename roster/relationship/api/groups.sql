/*---
description: The groups, each with the number of its people.
method: get
path: groups
returns: rows
---*/
SELECT g.id, g.name, g.type,
       (SELECT count(*) FROM group_members m WHERE m.group_id = g.id AND m.deleted_at IS NULL) AS people
  FROM groups g
 ORDER BY g.name_key, g.id;
