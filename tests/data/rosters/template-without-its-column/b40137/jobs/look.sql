/*---
description: Look.
notify: {template: "It is {colour}."}
---*/
SELECT name FROM things
