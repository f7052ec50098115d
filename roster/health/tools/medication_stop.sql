/*---
description: >-
  The person takes a medication no longer. It leaves the list and nothing of it is due any more; its history stays, and
  medication_restore puts it back. One that was stopped before stays as it was. Never call it on your own judgement.
examples:
  - Stop my cortisone medication
  - I no longer take that medication, end it
  - I've finished the course of penicillin, no more of those
  - The doctor took me off the sleeping pills for good
  - These statins gave me muscle cramps so I quit them
args:
  medication_id: {type: string, format: uuid, required: true, description: "The id that medication_add or
    medication_list gave."}
  reason: {type: string, description: "Why, in the person's words: course finished, side effects, doctor changed it.
    Never stop one on your own judgement."}
  stopped_at: {type: string, description: "When, if not just now: a day or a moment in RFC 3339 with its offset."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE medications m
   SET active = false,
       stopped_at = coalesce(m.stopped_at, health_past('stopped_at', :stopped_at::text), shared.clock()),
       stop_reason = CASE WHEN m.active THEN nullif(health_note('reason', :reason::text), '') ELSE m.stop_reason END
 WHERE m.id = :medication_id::uuid AND medication_known(:medication_id::uuid) IS NOT NULL
RETURNING m.id, m.name, m.dosage, m.frequency, m.active, m.stopped_at, m.stop_reason;
