/*---
description: >-
  Correct a symptom that was logged wrongly. Give only what changes; the rest stays. What it said before comes back as
  previous and is kept. A symptom that grew worse later is a new symptom_log.
examples:
  - Update the severity of that symptom to eight
  - Correct the symptom time to yesterday evening
  - The earache I reported was in the left ear, fix that
  - I exaggerated the stomach cramps, make it three rather than seven
  - That wheezing belongs with my asthma, connect the two
args:
  symptom_id: {type: string, format: uuid, required: true, description: "The id that symptom_log, symptom_history or
    symptom_search gave."}
  name: {type: string, description: "The right name."}
  severity: {type: integer, minimum: 1, maximum: 10, description: "The right severity."}
  condition_id: {type: string, format: uuid, description: "The condition it belongs to."}
  no_condition: {type: boolean, default: false, description: "True: it belongs to no condition."}
  notes: {type: string, description: "The new notes, which replace the old ones; an empty text removes them."}
  occurred_at: {type: string, format: date-time, description: "The right moment, RFC 3339 with the offset."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE symptoms s
   SET name = coalesce(:name::text, s.name),
       severity = coalesce(:severity::int, s.severity),
       condition_id = CASE WHEN coalesce(:no_condition::boolean, false) THEN NULL
                           ELSE coalesce(health_known('condition', :condition_id::uuid, true), s.condition_id) END,
       notes = nullif(coalesce(health_note('notes', :notes::text), s.notes), ''),
       occurred_at = coalesce(health_past('occurred_at', :occurred_at::text), s.occurred_at)
 WHERE s.id = :symptom_id::uuid AND health_known('symptom', :symptom_id::uuid, true) IS NOT NULL
RETURNING s.id, s.name, s.severity, s.condition_id, s.occurred_at, s.notes, s.revisions -> -1 AS previous;
