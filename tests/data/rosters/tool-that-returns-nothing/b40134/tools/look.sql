/*---
description: Look.
returns: rows
---*/
INSERT INTO things (id) VALUES (gen_random_uuid())
