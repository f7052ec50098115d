/*---
description: >-
  How a week, month or quarter went against the one before it, over the whole record: each kind of measurement with its
  course, each symptom with count and severity, adherence of each medication, sums of meals. `present` is the period
  that ends now, `before` the same number of days before it. A kind that is missing has no readings there: that is not
  known, not zero. For one kind over other days use measurement_trend. None found: neither period has anything on
  record.
examples:
  - Give me the monthly trend report
  - Show a weekly report of health trends
  - Was this month better for me than the previous one?
  - Compare my last quarter with the one before, everything included
  - What got worse and what improved since last week, body and habits?
args:
  period: {type: string, enum: [week, month, quarter], default: week, description: "7, 30 or 90 days, today
    included. A kind that is missing in the answer is not known, not zero."}
returns: row
meta: {reads_private: true, effect: none}
---*/
WITH length AS (
    SELECT CASE coalesce(:period::text, 'week') WHEN 'week' THEN 7 WHEN 'month' THEN 30 ELSE 90 END AS days
), span AS (
    SELECT 'present' AS which, (shared.today() - days + 1)::timestamptz AS from_at,
           -- Readings a little ahead of the clock are taken, so they count.
           shared.clock() + interval '1 hour' AS until_at
      FROM length
    UNION ALL
    SELECT 'before', (shared.today() - 2 * days + 1)::timestamptz, (shared.today() - days + 1)::timestamptz FROM length
), told AS (
    SELECT s.which, s.from_at, health_measured(s.from_at, s.until_at) AS measurements,
           (SELECT jsonb_agg(to_jsonb(c) ORDER BY c.count DESC, c.name)
              FROM symptom_counts(s.from_at, s.until_at) c) AS symptoms,
           health_taken(s.from_at, s.until_at) AS medications,
           (SELECT CASE WHEN count(*) > 0 THEN
                        jsonb_build_object('meals', count(*), 'without_numbers',
                                           count(*) FILTER (WHERE m.nutrition IS NULL),
                                           'days_with_meals', count(DISTINCT m.eaten_at::date),
                                           'totals', meal_totals(s.from_at, s.until_at, NULL)) END
              FROM meals m
             WHERE m.deleted_at IS NULL AND m.eaten_at >= s.from_at AND m.eaten_at < s.until_at) AS meals
      FROM span s
), report AS (
    SELECT t.which, num_nonnulls(t.measurements, t.symptoms, t.medications, t.meals) > 0 AS says,
           jsonb_build_object('from', t.from_at) || jsonb_strip_nulls(jsonb_build_object(
               'measurements', t.measurements, 'symptoms', t.symptoms, 'medications', t.medications, 'meals', t.meals))
               AS part
      FROM told t
)
SELECT coalesce(:period::text, 'week') AS period, length.days, shared.clock() AS as_of,
       (SELECT r.part FROM report r WHERE r.which = 'present') AS present,
       (SELECT r.part FROM report r WHERE r.which = 'before') AS before
  FROM length
 WHERE EXISTS (SELECT FROM report r WHERE r.says);
