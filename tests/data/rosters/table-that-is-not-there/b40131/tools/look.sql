/*---
description: Look.
returns: rows
---*/
SELECT id
FROM thongs
