/*---
description: Plants that have had no water for some days.
args:
  days: {type: integer, required: true}
notify: {template: "{name} wants water.", priority: low}
---*/
UPDATE plants SET watered_at = shared.clock()
WHERE watered_at < shared.clock() - :days::int * interval '1 day'
RETURNING name
