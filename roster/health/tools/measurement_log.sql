/*---
description: >-
  Log one measurement of the person's body. Use it whenever the person reports a number they measured. It returns the
  stored row with its id; already_logged is true if the very same reading at the same moment was there before, which
  is then kept once.
examples:
  - Log a measurement, weight 81.4 kilos
  - Record my blood pressure measurement, 128 over 82
  - The scale said 76 and a half this morning
  - I've got a fever, thermometer shows 38.7
  - Slept six hours and walked eleven thousand steps yesterday
args:
  kind: {type: string, enum: [weight, blood_pressure, heart_rate, temperature, glucose, steps, sleep], required: true,
    description: "What was measured."}
  value: {type: object, required: true, description: 'The numbers, in the unit that the key names. weight {"kg":
    81.4}; blood_pressure {"systolic": 128, "diastolic": 82} in mmHg; heart_rate {"bpm": 62}; temperature {"celsius":
    36.8}; glucose {"mmol_l": 5.4}; steps {"count": 8400}; sleep {"hours": 7.5}. Convert other units first.'}
  measured_at: {type: string, format: date-time, description: "When it was measured, RFC 3339 with the offset. Leave
    it out if it was just now."}
  notes: {type: string, description: "Circumstances in the person's words, for example fasting, after a run, left
    arm."}
returns: row
meta: {reads_private: true, effect: once}
---*/
INSERT INTO measurements AS m (kind, value, measured_at, notes)
VALUES (:kind::text, :value::jsonb, coalesce(shared.moment('measured_at', :measured_at::text), shared.clock()),
        nullif(:notes::text, ''))
ON CONFLICT (tenant_id, kind, measured_at, value) WHERE deleted_at IS NULL
DO UPDATE SET notes = coalesce(excluded.notes, m.notes)
-- xmax is 0 in a row that this statement made, and set in one that it found.
RETURNING m.id, m.kind, m.value, m.unit, m.measured_at, m.notes, (m.xmax <> 0) AS already_logged;
