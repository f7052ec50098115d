/*---
description: All names.
returns: rows
---*/
SELECT name FROM plants
