/*---
description: >-
  Log one symptom of the person: a complaint, how severe, when. Call it once for each symptom. Returns the stored row
  with its id; already_logged is true if the same symptom at the same moment was there before, which is then kept once.
examples:
  - Log a symptom, headache severity six
  - Record the symptom dizziness, moderate, since noon
  - My throat is scratchy and swallowing hurts quite badly
  - I've had a pounding pain behind my eyes since lunch
  - Woke up with a stiff neck, about four out of ten
args:
  name: {type: string, required: true, description: "What it is, short, and the same words each time: headache. Look
    with symptom_search how it was called before."}
  severity: {type: integer, minimum: 1, maximum: 10, required: true, description: "1 barely felt, 10 the worst they can
    imagine. Ask if the person gave neither a number nor a word; light is 2, moderate 5, strong 7, unbearable 10."}
  condition_id: {type: string, format: uuid, description: "The condition it belongs to, if the person said so
    (condition_list)."}
  notes: {type: string, description: "Where, how long, what it came with or after, in the person's words."}
  occurred_at: {type: string, format: date-time, description: "When it began, RFC 3339 with the offset. Leave it out if
    it is just now."}
returns: row
meta: {reads_private: true, effect: once}
---*/
INSERT INTO symptoms AS s (name, severity, condition_id, notes, occurred_at)
VALUES (:name::text, :severity::int, health_known('condition', :condition_id::uuid, true),
        nullif(health_note('notes', :notes::text), ''),
        coalesce(health_past('occurred_at', :occurred_at::text), shared.clock()))
ON CONFLICT (tenant_id, lower(name), occurred_at) WHERE deleted_at IS NULL
DO UPDATE SET notes = coalesce(excluded.notes, s.notes), condition_id = coalesce(excluded.condition_id, s.condition_id)
RETURNING s.id, s.name, s.severity, s.condition_id, s.occurred_at, s.notes, (s.xmax <> 0) AS already_logged;
