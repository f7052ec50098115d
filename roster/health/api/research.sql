/*---
description: What was read about health and kept, newest first.
method: get
path: research
args:
  limit: {type: integer, default: 100, minimum: 1, maximum: 1000, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
---*/
SELECT r.id, r.title, r.tags, r.source_url, r.created_at, c.name AS condition
  FROM research r LEFT JOIN conditions c ON c.id = r.condition_id
 WHERE r.deleted_at IS NULL
 ORDER BY r.created_at DESC, r.id
 LIMIT :limit::int OFFSET :offset::int;
