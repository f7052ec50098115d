/*---
description: Symptoms, newest first.
method: get
path: symptoms
args:
  limit: {type: integer, default: 100, minimum: 1, maximum: 1000, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
---*/
SELECT s.id, s.name, s.severity, s.occurred_at, s.notes, c.name AS condition
  FROM symptoms s LEFT JOIN conditions c ON c.id = s.condition_id
 WHERE s.deleted_at IS NULL
 ORDER BY s.occurred_at DESC, s.id
 LIMIT :limit::int OFFSET :offset::int;
