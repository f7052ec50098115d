/*---
description: >-
  How one kind of measurement has developed over the last days: count, first, last, min, max, average, change from
  first to last, slope per week of the straight line through the readings, and direction (rising, falling or steady).
  For blood_pressure the numbers are the systolic ones, and diastolic_average stands beside them. A direction is steady
  while the line stays within the scatter of ordinary days. direction is null for a single reading and slope_per_week
  for readings less than three days apart: that is not known then, and should not be claimed.
examples:
  - Show the trend of my weight measurements over three months
  - What is the trend in my blood pressure measurements?
  - Am I getting slimmer or heavier since I started jogging?
  - Has my pulse at rest been going down with the training?
  - Is my sleep getting shorter these past six weeks?
args:
  kind: {type: string, enum: [weight, blood_pressure, heart_rate, temperature, glucose, steps, sleep], required: true,
    description: "What was measured."}
  days: {type: integer, default: 30, minimum: 1, maximum: 3650, description: "How many days back from
    the present. A direction or slope that is null is not known, and not to be claimed."}
returns: row
meta: {reads_private: true, effect: none}
---*/
SELECT c.kind, c.measure, c.unit, coalesce(:days::int, 30) AS days, c.count, c.first, c.first_at, c.last, c.last_at,
       c.min, c.max, c.average, c.change, c.slope_per_week, c.direction, c.diastolic_average
  FROM measurement_course(:kind::text, shared.clock() - make_interval(days => coalesce(:days::int, 30)), 'infinity') c;
