/*---
description: Items that are due within the next days and not done, and those past their day.
method: get
path: due
args:
  days: {type: integer, default: 30, minimum: 0, maximum: 3650, description: "How many days ahead."}
returns: rows
card: {kind: timeline, title: Due, at: day, label: what}
---*/
SELECT item_due(i.data) AS day,
       c.name || ': ' || left(coalesce(i.data ->> 'title', i.data ->> 'name', i.data ->> 'text',
                                       (i.data - 'due' - 'done')::text), 120) AS what,
       i.id
  FROM items i JOIN collections c ON c.id = i.collection_id AND c.deleted_at IS NULL
 WHERE i.deleted_at IS NULL AND NOT i.data @> '{"done": true}' AND item_due(i.data) <= shared.today() + :days::int
 ORDER BY 1, i.created_at, i.id;
