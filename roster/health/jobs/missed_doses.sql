/*---
description: >-
  Doses that were due two hours ago or a little more and are not on record, each told once. Runs at the hours that
  `hours` divides, so that the spans of two runs meet.
args:
  hours: {type: integer, default: 2, minimum: 1, maximum: 24, description: "How many hours lie between two runs."}
notify:
  head: "Not on record as taken or left out:"
  template: "{name} {dosage}, due {due}"
  priority: medium
---*/
WITH span AS (
    -- On the owner's clock face, so that a change of the hour neither repeats nor loses a span.
    SELECT l.at - make_interval(hours => 2 + l.hours) AS from_at, l.at - interval '2 hours' AS until_at
      FROM (SELECT h.hours, date_trunc('day', shared.clock())::timestamp
                   + make_interval(hours => extract(hour FROM shared.clock())::int / h.hours * h.hours) AS at
              FROM (SELECT coalesce(:hours::int, 2) AS hours) h) l
)
SELECT m.name, m.dosage, to_char(u.slot_at, 'HH24:MI') AS due, u.slot_at::date AS day
  FROM medications m CROSS JOIN span s
  CROSS JOIN LATERAL medication_due(m.id, s.from_at::timestamptz, s.until_at::timestamptz) u
 WHERE m.active AND m.remind_missed AND u.dose_id IS NULL
 ORDER BY u.slot_at, lower(m.name);
