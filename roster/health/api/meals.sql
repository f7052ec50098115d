/*---
description: Meals, newest first.
method: get
path: meals
args:
  limit: {type: integer, default: 100, minimum: 1, maximum: 1000, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
---*/
SELECT m.id, m.type, m.description, m.eaten_at, m.nutrition, m.tags, m.notes
  FROM meals m
 WHERE m.deleted_at IS NULL
 ORDER BY m.eaten_at DESC, m.id
 LIMIT :limit::int OFFSET :offset::int;
