/*---
description: >-
  All symptoms, newest first, within a span of days. By name or severity use symptom_search. If as many rows come back
  as limit allows there may be more: ask again with offset.
examples:
  - Show my symptom history for the past month
  - List all symptoms since the first of June
  - What ailments have I complained about lately?
  - Run through everything that hurt or itched during our holiday
  - How did I feel day by day last week, every ache included?
args:
  start_date: {type: string, description: "First day, YYYY-MM-DD in the owner's time zone, or a moment in RFC 3339
    with its offset. Leave it out for no lower end."}
  end_date: {type: string, description: "Last day, which counts whole, or a moment, in the same forms. Leave it out
    for no upper end."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
  deleted: {type: boolean, default: false, description: "True lists the deleted symptoms instead, for
    symptom_restore."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT s.id, s.name, s.severity, s.occurred_at, s.notes, s.condition_id, c.name AS condition
  FROM symptoms s LEFT JOIN conditions c ON c.id = s.condition_id
 WHERE health_span(:start_date::text, :end_date::text)
   AND s.occurred_at >= shared.bound('start_date', :start_date::text, false)
   AND s.occurred_at < shared.bound('end_date', :end_date::text, true)
   AND (s.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
 ORDER BY s.occurred_at DESC, s.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
