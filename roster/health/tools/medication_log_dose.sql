/*---
description: >-
  Record that a dose was taken, or left out on purpose (skipped). Use it whenever the person says so. Returns the dose
  with its id. already_logged is true if a dose of that moment was there before (without taken_at: of the last five
  minutes), which is then kept once and takes over what is said now. taken_before lists other doses of the last four
  hours, not skipped: tell the person if there is one.
examples:
  - Log a dose of my medication now
  - Record that I took my medication dose at seven
  - Just swallowed an ibuprofen with a glass of water
  - I left out my water pill today because I felt dizzy
  - Gave myself the insulin shot right before supper
args:
  medication_id: {type: string, format: uuid, required: true, description: "The id that medication_list gave."}
  taken_at: {type: string, format: date-time, description: "When, RFC 3339 with the offset. Leave it out if it was just
    now. If the answer has taken_before, other doses of the last hours, tell the person."}
  skipped: {type: boolean, default: false, description: "True: it was left out, and taken_at is when it was due."}
  notes: {type: string, description: "Circumstances in the person's words: with breakfast, felt sick, half a tablet."}
returns: row
meta: {reads_private: true, effect: once}
---*/
INSERT INTO medication_doses AS d (medication_id, taken_at, skipped, dosage, notes)
SELECT m.id,
       coalesce(health_past('taken_at', :taken_at::text),
                (SELECT max(o.taken_at) FROM medication_doses o
                  WHERE o.medication_id = m.id AND o.deleted_at IS NULL AND o.taken_at <= shared.clock()
                    AND o.taken_at > shared.clock() - interval '5 minutes'),
                shared.clock()),
       coalesce(:skipped::boolean, false), m.dosage, nullif(health_note('notes', :notes::text), '')
  FROM medications m
 WHERE m.id = :medication_id::uuid AND medication_known(:medication_id::uuid) IS NOT NULL
ON CONFLICT (tenant_id, medication_id, taken_at) WHERE deleted_at IS NULL
DO UPDATE SET skipped = excluded.skipped, notes = coalesce(excluded.notes, d.notes)
RETURNING d.id, d.medication_id, (SELECT m.name FROM medications m WHERE m.id = d.medication_id) AS name, d.dosage,
          d.taken_at, d.skipped, d.notes, (d.xmax <> 0) AS already_logged,
          (SELECT coalesce(jsonb_agg(to_json(o.taken_at) #>> '{}' ORDER BY o.taken_at), '[]')
             FROM medication_doses o
            WHERE o.medication_id = d.medication_id AND o.deleted_at IS NULL AND NOT o.skipped AND o.id <> d.id
              AND o.taken_at < d.taken_at AND o.taken_at > d.taken_at - interval '4 hours') AS taken_before;
