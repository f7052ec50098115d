/*---
description: Plants that have had no water for some days.
args:
  days: {type: integer, required: true}
notify: {template: "{name} wants water.", priority: low}
---*/
SELECT name
FROM plants
WHERE watered_at < shared.clock() - :days::int * interval '1 day'
ORDER BY name
