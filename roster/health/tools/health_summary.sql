/*---
description: >-
  Where the person stands, in one look: the latest measurement of each kind, the medications with adherence of the last
  days, the active and managed conditions, the symptoms and meals of the last days. Use it to prepare a check-in or a
  visit to the doctor; for how something develops use trend_report or measurement_trend. None found: nothing of what was
  asked for is on record.
examples:
  - Give me a summary of my health this week
  - Show my overall health status at a glance
  - I'm seeing my GP tomorrow, what should I tell her about my body?
  - How am I doing overall, vitals, pills, complaints, food and all?
  - Prepare me an overview for Thursday's check-up with the cardiologist
args:
  days: {type: integer, default: 7, minimum: 1, maximum: 90, description: "How many days, today included, count for
    adherence, symptoms and meals."}
  sections: {type: array, items: {type: string}, description: "Only these, of measurements, medications, conditions,
    symptoms, meals. Leave it out for all."}
returns: row
meta: {reads_private: true, effect: none}
---*/
WITH asked AS (
    SELECT health_sections(:sections::text[]) AS sections,
           (shared.today() - coalesce(:days::int, 7) + 1)::timestamptz AS from_at,
           -- Readings a little ahead of the clock are taken, so they count.
           shared.clock() + interval '1 hour' AS until_at
), told AS (
    SELECT CASE WHEN 'measurements' = ANY (a.sections) THEN
               (SELECT jsonb_agg(to_jsonb(l) ORDER BY l.kind)
                  FROM (SELECT DISTINCT ON (m.kind) m.kind, m.value, m.unit, m.measured_at, m.notes, m.id
                          FROM measurements m WHERE m.deleted_at IS NULL
                         ORDER BY m.kind, m.measured_at DESC, m.created_at DESC) l) END AS measurements,
           CASE WHEN 'medications' = ANY (a.sections) THEN
               (SELECT jsonb_agg(t) FROM jsonb_array_elements(health_taken(a.from_at, a.until_at)) t
                 WHERE (t ->> 'active')::boolean) END AS medications,
           CASE WHEN 'conditions' = ANY (a.sections) THEN
               (SELECT jsonb_agg(jsonb_build_object('id', c.id, 'name', c.name, 'status', c.status,
                                                    'diagnosed_at', c.diagnosed_at) ORDER BY c.status, lower(c.name))
                  FROM conditions c WHERE c.deleted_at IS NULL AND c.status <> 'resolved') END AS conditions,
           CASE WHEN 'symptoms' = ANY (a.sections) THEN
               (SELECT jsonb_agg(to_jsonb(c) ORDER BY c.count DESC, c.name)
                  FROM symptom_counts(a.from_at, a.until_at) c) END AS symptoms,
           CASE WHEN 'meals' = ANY (a.sections) THEN
               (SELECT CASE WHEN count(*) > 0 THEN
                            jsonb_build_object('meals', count(*), 'without_numbers',
                                               count(*) FILTER (WHERE m.nutrition IS NULL),
                                               'totals', meal_totals(a.from_at, a.until_at, NULL)) END
                  FROM meals m
                 WHERE m.deleted_at IS NULL AND m.eaten_at >= a.from_at AND m.eaten_at < a.until_at) END AS meals,
           a.from_at
      FROM asked a
)
SELECT shared.clock() AS as_of, t.from_at AS since, t.measurements, t.medications, t.conditions, t.symptoms, t.meals
  FROM told t
 WHERE num_nonnulls(t.measurements, t.medications, t.conditions, t.symptoms, t.meals) > 0;
