/*---
description: >-
  How one kind of measurement has developed over the last days: count, first, last, min, max, average, change from
  first to last, slope per week of the straight line through the readings, and direction (rising, falling or steady).
  For blood_pressure the numbers are the systolic ones, and diastolic_average stands beside them. A direction is steady
  while the line stays within the scatter of ordinary days. direction is null for a single reading and slope_per_week
  for readings less than three days apart: that is not known then, and should not be claimed.
args:
  kind: {type: string, enum: [weight, blood_pressure, heart_rate, temperature, glucose, steps, sleep], required: true,
    description: "What was measured."}
  days: {type: integer, default: 30, minimum: 1, maximum: 3650, description: "How many days back from the present."}
returns: row
meta: {reads_private: true, effect: none}
---*/
WITH asked AS (
    SELECT k.kind, k.field, k.unit, k.notable, coalesce(:days::int, 30) AS days
      FROM measurement_kinds() k
     WHERE k.kind = :kind::text AND k.place = 1
), readings AS (
    SELECT (m.value ->> a.field)::numeric AS n, (m.value ->> 'diastolic')::numeric AS diastolic, m.measured_at,
           extract(epoch FROM m.measured_at) / 604800 AS week
      FROM measurements m, asked a
     WHERE m.kind = :kind::text AND m.deleted_at IS NULL
       AND m.measured_at >= shared.clock() - make_interval(days => coalesce(:days::int, 30))
), summary AS (
    SELECT count(*)::int AS count,
           (array_agg(n ORDER BY measured_at))[1] AS first, min(measured_at) AS first_at,
           (array_agg(n ORDER BY measured_at DESC))[1] AS last, max(measured_at) AS last_at,
           min(n) AS min, max(n) AS max, avg(n) AS average, avg(diastolic) AS diastolic_average,
           regr_slope(n, week) AS slope, max(week) - min(week) AS weeks
      FROM readings
)
SELECT a.kind, a.field AS measure, a.unit, a.days, s.count,
       s.first::float8 AS first, s.first_at, s.last::float8 AS last, s.last_at,
       s.min::float8 AS min, s.max::float8 AS max, round(s.average, 2)::float8 AS average,
       (s.last - s.first)::float8 AS change,
       CASE WHEN s.weeks * 7 >= 3 THEN round(s.slope::numeric, 3)::float8 END AS slope_per_week,
       -- How far the line goes over the span of the readings, against the smallest change that counts for the kind.
       CASE WHEN s.slope IS NULL THEN NULL
            WHEN s.slope * s.weeks >= a.notable THEN 'rising'
            WHEN s.slope * s.weeks <= -a.notable THEN 'falling'
            ELSE 'steady' END AS direction,
       round(s.diastolic_average, 2)::float8 AS diastolic_average
  FROM asked a CROSS JOIN summary s
 WHERE s.count > 0;
