/*---
description: Conditions, the active ones first.
method: get
path: conditions
returns: rows
---*/
SELECT c.id, c.name, c.status, c.diagnosed_at, c.notes
  FROM conditions c
 WHERE c.deleted_at IS NULL
 ORDER BY c.status, lower(c.name), c.id;
