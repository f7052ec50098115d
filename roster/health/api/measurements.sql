/*---
description: Measurements, newest first.
method: get
path: measurements
args:
  kind: {type: string, enum: [weight, blood_pressure, heart_rate, temperature, glucose, steps, sleep],
    description: "Only this kind."}
  limit: {type: integer, default: 100, minimum: 1, maximum: 1000, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
---*/
SELECT m.id, m.kind, m.value, m.unit, m.measured_at, m.notes
  FROM measurements m
 WHERE m.deleted_at IS NULL AND (:kind::text IS NULL OR m.kind = :kind::text)
 ORDER BY m.measured_at DESC, m.id
 LIMIT :limit::int OFFSET :offset::int;
