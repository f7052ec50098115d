/*---
description: >-
  Correct a measurement that was logged wrongly. Give only what changes; the rest stays. What it said before its
  latest correction comes back as previous and is kept.
examples:
  - Update that measurement, I weigh 82 not 28
  - Correct yesterday's glucose measurement to 6.1
  - I mistyped, the upper pressure number was 135 instead of 153
  - The step count I gave you belongs to Saturday, not Sunday
  - Note with that pulse reading that I'd just climbed stairs
args:
  measurement_id: {type: string, format: uuid, required: true, description: "The id that measurement_log,
    measurement_latest or measurement_history gave."}
  kind: {type: string, enum: [weight, blood_pressure, heart_rate, temperature, glucose, steps, sleep],
    description: "The right kind; value is then needed too."}
  value: {type: object, description: "The right numbers, whole, in the form that measurement_log takes."}
  measured_at: {type: string, format: date-time, description: "The right moment, RFC 3339 with the offset."}
  notes: {type: string, description: "The new notes, which replace the old ones; an empty text removes them."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE measurements m
   SET kind = coalesce(:kind::text, m.kind),
       value = coalesce(:value::jsonb, m.value),
       measured_at = coalesce(shared.moment('measured_at', :measured_at::text), m.measured_at),
       notes = nullif(coalesce(:notes::text, m.notes), '')
 WHERE m.id = :measurement_id::uuid AND health_known('measurement', :measurement_id::uuid, true) IS NOT NULL
RETURNING m.id, m.kind, m.value, m.unit, m.measured_at, m.notes, m.revisions -> -1 AS previous;
