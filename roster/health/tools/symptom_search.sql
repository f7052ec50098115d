/*---
description: >-
  Symptoms that match everything that is given, newest first: by name, severity, condition, days. Use it for "how often
  did I have headaches above 6 since June" and to find how a symptom was called before.
examples:
  - Search my symptoms for nausea above six
  - Find every back pain symptom since June
  - How many times did I have migraines this spring?
  - Which of my really bad cramps were related to endometriosis?
  - Has my chest ever felt tight before, and when?
args:
  name: {type: string, description: "Text within the name: head finds headache."}
  min_severity: {type: integer, minimum: 1, maximum: 10, description: "At least so severe."}
  max_severity: {type: integer, minimum: 1, maximum: 10, description: "At most so severe."}
  condition_id: {type: string, format: uuid, description: "Only those that belong to this condition."}
  start_date: {type: string, description: "First day, YYYY-MM-DD in the owner's time zone, or a moment in RFC 3339
    with its offset."}
  end_date: {type: string, description: "Last day, which counts whole, or a moment, in the same forms."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT s.id, s.name, s.severity, s.occurred_at, s.notes, s.condition_id, c.name AS condition
  FROM symptoms s LEFT JOIN conditions c ON c.id = s.condition_id
 WHERE health_span(:start_date::text, :end_date::text)
   AND (:min_severity::int IS NULL OR :max_severity::int IS NULL OR :min_severity::int <= :max_severity::int
        OR shared.refuse('min_severity is above max_severity, which nothing can match. Exchange them.'))
   AND (:name::text IS NULL OR health_text('name', :name::text, 200) > '')
   AND (:name::text IS NULL OR position(lower(btrim(:name::text)) IN lower(s.name)) > 0)
   AND s.severity BETWEEN coalesce(:min_severity::int, 1) AND coalesce(:max_severity::int, 10)
   AND (:condition_id::uuid IS NULL OR health_known('condition', :condition_id::uuid, false) IS NOT NULL)
   AND (:condition_id::uuid IS NULL OR s.condition_id = :condition_id::uuid)
   AND s.occurred_at >= shared.bound('start_date', :start_date::text, false)
   AND s.occurred_at < shared.bound('end_date', :end_date::text, true)
   AND s.deleted_at IS NULL
 ORDER BY s.occurred_at DESC, s.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
