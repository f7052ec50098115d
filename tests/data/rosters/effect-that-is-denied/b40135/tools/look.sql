/*---
description: Look.
meta: {effect: none}
returns: rows
---*/
DELETE FROM things RETURNING id
