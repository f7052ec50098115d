/*---
description: >-
  What became of the doses that were due, by day: taken, skipped on purpose, or missed (not on record two hours
  later).
method: get
path: doses
args:
  days: {type: integer, default: 30, minimum: 1, maximum: 366, description: "How many days back, today included."}
returns: rows
card: {kind: bar, title: Doses, x: day, y: [taken, skipped, missed], unit: doses}
---*/
SELECT u.slot_at::date AS day, count(*) FILTER (WHERE u.status = 'taken') AS taken,
       count(*) FILTER (WHERE u.status = 'skipped') AS skipped, count(*) FILTER (WHERE u.status = 'missed') AS missed
  FROM medications m
 CROSS JOIN LATERAL medication_due(m.id, (shared.today() - :days::int + 1)::timestamptz, shared.clock()) u
 GROUP BY 1
 ORDER BY 1;
