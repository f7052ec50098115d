/*---
description: Look.
returns: rows
---*/
SELECT id,
    colour
FROM things
