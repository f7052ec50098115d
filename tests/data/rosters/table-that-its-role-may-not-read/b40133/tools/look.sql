/*---
description: Look.
returns: rows
---*/
SELECT name
FROM shared.secrets
