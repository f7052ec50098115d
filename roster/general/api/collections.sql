/*---
description: The collections by name, with the number of their items and when one last changed.
method: get
path: collections
returns: rows
card: {kind: table, title: Collections, columns: [name, items, changed_at]}
---*/
SELECT c.id, c.name, c.description, n.items, coalesce(n.changed_at, c.created_at) AS changed_at
  FROM collections c
 CROSS JOIN LATERAL (SELECT count(*)::int AS items, max(coalesce(i.updated_at, i.created_at)) AS changed_at
                       FROM items i WHERE i.collection_id = c.id AND i.deleted_at IS NULL) n
 WHERE c.deleted_at IS NULL
 ORDER BY lower(c.name), c.id;
