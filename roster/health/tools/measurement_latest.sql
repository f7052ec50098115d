/*---
description: >-
  The most recent measurement of one kind: its value, unit, moment and id.
examples:
  - What is my latest weight measurement?
  - Give me the latest blood pressure measurement
  - How heavy was I when I last stepped on the scale?
  - The nurse wants my most recent pulse
  - What did the glucose meter say last time?
args:
  kind: {type: string, enum: [weight, blood_pressure, heart_rate, temperature, glucose, steps, sleep], required: true,
    description: "What was measured."}
returns: row
meta: {reads_private: true, effect: none}
---*/
SELECT m.id, m.kind, m.value, m.unit, m.measured_at, m.notes
  FROM measurements m
 WHERE m.kind = :kind::text AND m.deleted_at IS NULL
 ORDER BY m.measured_at DESC, m.created_at DESC
 LIMIT 1;
