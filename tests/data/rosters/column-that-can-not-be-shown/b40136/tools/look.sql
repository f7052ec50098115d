/*---
description: Look.
returns: rows
---*/
SELECT t FROM things t
