/*---
description: >-
  Measurements, newest first, of one kind or of all, within a span of days. If as many rows come back as limit allows
  there may be more: ask again with offset.
examples:
  - Show the history of my glucose measurements
  - List all measurements taken in March
  - What did my blood sugar readings look like each day last week?
  - Print every pressure value since I changed cuffs, one by one
  - How many hours did I sleep on each night of the holidays?
args:
  kind: {type: string, enum: [weight, blood_pressure, heart_rate, temperature, glucose, steps, sleep],
    description: "What was measured. Leave it out for all kinds."}
  start_date: {type: string, description: "First day, YYYY-MM-DD in the owner's time zone, or a moment in RFC 3339
    with its offset. Leave it out for no lower end."}
  end_date: {type: string, description: "Last day, which counts whole, or a moment, in the same forms. Leave it out
    for no upper end."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
  deleted: {type: boolean, default: false, description: "True lists the deleted measurements instead, for
    measurement_restore."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT m.id, m.kind, m.value, m.unit, m.measured_at, m.notes
  FROM measurements m
 -- Said twice: by itself it is looked at even where there is no row, so that a wrong day is always refused.
 WHERE shared.bound('start_date', :start_date::text, false) < shared.bound('end_date', :end_date::text, true)
   AND (:kind::text IS NULL OR m.kind = :kind::text)
   AND m.measured_at >= shared.bound('start_date', :start_date::text, false)
   AND m.measured_at < shared.bound('end_date', :end_date::text, true)
   AND (m.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
 ORDER BY m.measured_at DESC, m.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
