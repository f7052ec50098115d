/*---
description: Forget all plants.
returns: none
---*/
DROP TABLE plants
