/*---
description: >-
  What the meals of a span of days come to: totals, the average of the days that have numbers, totals by type of meal
  and by day. meals_without_numbers says how many meals the sums leave out: say so whenever it isn't 0. None found: no
  meal was logged then.
examples:
  - Give me a nutrition summary for this week
  - Summarize my nutrition from Monday to Friday
  - How many calories did I eat in total yesterday?
  - Am I getting enough protein and fiber on an average day?
  - How much sugar and salt did my food add up to last month?
args:
  start_date: {type: string, required: true, description: "First day, YYYY-MM-DD in the owner's time zone."}
  end_date: {type: string, required: true, description: "Last day, which counts whole. At most 366 days."}
returns: row
meta: {reads_private: true, effect: none}
---*/
WITH span AS (
    SELECT shared.day('start_date', :start_date::text) AS from_on, shared.day('end_date', :end_date::text) AS to_on
     WHERE health_span(:start_date::text, :end_date::text)
       AND (shared.day('end_date', :end_date::text) - shared.day('start_date', :start_date::text) < 366
            OR shared.refuse('The span has more than 366 days. Ask for a shorter one.'))
), eaten AS (
    SELECT m.eaten_at::date AS day, m.type
      FROM meals m, span s
     WHERE m.deleted_at IS NULL AND m.eaten_at >= s.from_on::timestamptz AND m.eaten_at < (s.to_on + 1)::timestamptz
), days AS (
    SELECT e.day, count(*)::int AS meals,
           meal_totals(e.day::timestamptz, (e.day + 1)::timestamptz, NULL) AS totals
      FROM eaten e GROUP BY e.day
)
SELECT s.from_on AS start_date, s.to_on AS end_date, s.to_on - s.from_on + 1 AS days,
       e.meals, e.meals_without_numbers, (SELECT count(*)::int FROM days) AS days_with_meals,
       e.totals,
       -- Over the days on which a nutrient was told at all: a day without numbers is not a day of fasting.
       (SELECT jsonb_object_agg(n.nutrient, n.average)
          FROM (SELECT d.nutrient, trim_scale(round(avg(d.total::numeric), 1)) AS average
                  FROM days, jsonb_each_text(days.totals) d(nutrient, total) GROUP BY d.nutrient) n) AS average_per_day,
       (SELECT jsonb_object_agg(k.type, jsonb_build_object('meals', k.meals, 'totals',
                   meal_totals(s.from_on::timestamptz, (s.to_on + 1)::timestamptz, k.type)))
          FROM (SELECT e.type, count(*) AS meals FROM eaten e GROUP BY e.type) k) AS by_type,
       (SELECT jsonb_agg(jsonb_build_object('day', d.day, 'meals', d.meals, 'totals', d.totals) ORDER BY d.day)
          FROM days d) AS by_day
  FROM span s
  CROSS JOIN LATERAL (
        SELECT count(*)::int AS meals, count(*) FILTER (WHERE m.nutrition IS NULL)::int AS meals_without_numbers,
               meal_totals(s.from_on::timestamptz, (s.to_on + 1)::timestamptz, NULL) AS totals
          FROM meals m
         WHERE m.deleted_at IS NULL AND m.eaten_at >= s.from_on::timestamptz
           AND m.eaten_at < (s.to_on + 1)::timestamptz) e
 WHERE e.meals > 0;
