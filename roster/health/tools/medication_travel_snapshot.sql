/*---
description: >-
  What to carry on a journey and to show a doctor abroad: every medication taken now with dosage, times and notes, the
  active and managed conditions, and, for a span of days, how many doses and units fall into it and whether the stock is
  enough (enough is null where the stock or the schedule isn't known). Times of day are those of the owner's zone at
  home. None found: nothing is taken and no condition is on record.
examples:
  - Make a medication snapshot for my travel to Spain
  - Prepare a travel list of my medications for doctors abroad
  - How many tablets must I pack for ten days in Greece?
  - Customs may ask about my syringes, give me a sheet of what I take
  - Will my inhaler last through three weeks of backpacking?
args:
  start_date: {type: string, description: "First day away, YYYY-MM-DD. Leave it out, with end_date, for a list without
    amounts."}
  end_date: {type: string, description: "Last day away."}
returns: row
meta: {reads_private: true, effect: none}
---*/
WITH trip AS (
    SELECT shared.day('start_date', :start_date::text) AS from_on, shared.day('end_date', :end_date::text) AS to_on
     WHERE health_span(:start_date::text, :end_date::text)
       AND ((:start_date::text IS NULL) = (:end_date::text IS NULL)
            OR shared.refuse('Give both start_date and end_date, or neither.'))
       AND (shared.day('end_date', :end_date::text) - shared.today() BETWEEN 0 AND 365 OR :end_date::text IS NULL
            OR shared.refuse('end_date must be today or a day of the next 365: the amounts are for a journey to come.'))
)
SELECT shared.clock() AS as_of, current_setting('TimeZone') AS time_zone, t.from_on AS start_date, t.to_on AS end_date,
       k.medications, c.conditions
  FROM trip t
  CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                            'id', m.id, 'name', m.name, 'dosage', m.dosage, 'frequency', m.frequency,
                            'schedule', m.schedule, 'weekdays', m.weekdays, 'every_days', m.every_days,
                            'end_date', m.end_date, 'notes', m.notes, 'stock_left', s.stock_left,
                            'runs_out_on', s.runs_out_on, 'doses_away', n.doses,
                            'units_away', trim_scale(n.doses * m.units_per_dose),
                            'enough', CASE WHEN s.stock_left IS NOT NULL AND n.doses IS NOT NULL
                                           THEN s.runs_out_on IS NULL OR s.runs_out_on > t.to_on END)
                        ORDER BY lower(m.name), m.id), '[]') AS medications
          FROM medications m
          LEFT JOIN LATERAL medication_stock(m.id) s ON true
          LEFT JOIN LATERAL (
                SELECT count(*) AS doses
                  FROM medication_slots(m.id, greatest(t.from_on::timestamptz, shared.clock()),
                                        (t.to_on + 1)::timestamptz)) n
                 ON t.to_on IS NOT NULL AND cardinality(m.schedule) > 0
         WHERE m.active) k
  CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_agg(jsonb_build_object('name', c.name, 'status', c.status, 'notes', c.notes)
                                  ORDER BY lower(c.name)), '[]') AS conditions
          FROM conditions c
         WHERE c.deleted_at IS NULL AND c.status <> 'resolved') c
 WHERE k.medications <> '[]' OR c.conditions <> '[]';
