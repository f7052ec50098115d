/*---
description: The weight of each day, the last reading where there are several.
method: get
path: weight
args:
  days: {type: integer, default: 180, minimum: 1, maximum: 999, description: "How many days back, today included."}
returns: rows
card: {kind: line, title: Weight, x: day, y: weight, unit: kg}
---*/
SELECT DISTINCT ON (m.measured_at::date) m.measured_at::date AS day, (m.value ->> 'kg')::numeric AS weight
  FROM measurements m
 WHERE m.kind = 'weight' AND m.deleted_at IS NULL AND m.measured_at::date > shared.today() - :days::int
 ORDER BY 1, m.measured_at DESC, m.created_at DESC;
