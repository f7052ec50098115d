/*---
description: Blood pressure by day, the average where there are several readings.
method: get
path: blood-pressure
args:
  days: {type: integer, default: 180, minimum: 1, maximum: 999, description: "How many days back, today included."}
returns: rows
card: {kind: line, title: Blood pressure, x: day, y: [systolic, diastolic], unit: mmHg}
---*/
SELECT m.measured_at::date AS day, round(avg((m.value ->> 'systolic')::numeric)) AS systolic,
       round(avg((m.value ->> 'diastolic')::numeric)) AS diastolic
  FROM measurements m
 WHERE m.kind = 'blood_pressure' AND m.deleted_at IS NULL AND m.measured_at::date > shared.today() - :days::int
 GROUP BY 1
 ORDER BY 1;
