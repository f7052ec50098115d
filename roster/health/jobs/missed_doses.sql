/*---
description: >-
  Doses that were due two hours ago or a little more and are not on record, each told once; what came due while nobody
  was there is told late.
args:
  hours: {type: integer, default: 2, minimum: 1, maximum: 24, description: "How far back, by hand."}
notify:
  head: "Not on record as taken or left out:"
  template: "{name} {dosage}, due {due}"
  priority: medium
---*/
SELECT m.name, m.dosage, u.slot_at::date AS day,
       to_char(u.slot_at, CASE WHEN u.slot_at < s.until - interval '20 hours' THEN 'YYYY-MM-DD HH24:MI' ELSE 'HH24:MI' END) AS due
  FROM job_span('missed_doses', make_interval(hours => coalesce(:hours::int, 2))) s
 CROSS JOIN medications m
 CROSS JOIN LATERAL medication_due(m.id, s.since - interval '2 hours', s.until - interval '2 hours') u
 WHERE m.active AND m.remind_missed AND u.dose_id IS NULL
 ORDER BY u.slot_at, lower(m.name);
