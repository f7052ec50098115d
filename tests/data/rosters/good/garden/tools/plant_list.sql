/*---
description: All plants, the thirstiest first.
args:
  limit: {type: integer, minimum: 1, maximum: 100, default: 50}
returns: rows
---*/
SELECT id, name, watered_at
FROM plants
ORDER BY watered_at, id
LIMIT :limit::bigint
