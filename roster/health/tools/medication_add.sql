/*---
description: >-
  Put a medication on the list of what the person takes: medicines, supplements, inhalers, injections. Use it when they
  say that they take something from now on, not for a single dose (medication_log_dose). With a schedule, missed doses
  and adherence can be told later. Returns the row with its id; already_listed is true if the same medication in the
  same strength was on the list before, which is then kept once. A changed strength or timing of what is on the list is
  medication_update.
examples:
  - Add Metformin 500 mg twice daily to my medications
  - Put a new medication on my list, lisinopril every morning
  - From today I'm on antibiotics three times a day for a week
  - The doctor prescribed an asthma inhaler, two puffs at bedtime
  - I've started taking vitamin D capsules with breakfast
args:
  name: {type: string, required: true, description: "What it is called, as on the box: Metformin."}
  dosage: {type: string, required: true, description: 'How much one dose is, with its unit: "500 mg", "2 puffs". Ask
    if it wasn''t said.'}
  frequency: {type: string, required: true, description: 'How often, in words: "twice daily", "once weekly", "as
    needed".'}
  schedule: {type: array, items: {type: string}, description: 'Times of day in the owner''s zone: ["08:00", "20:00"].
    Leave it out for what is taken as needed, or if the times aren''t known.'}
  weekdays: {type: array, items: {type: string, enum: [mon, tue, wed, thu, fri, sat, sun]}, description: "The days of
    the week on which the times hold. Leave it out for every day."}
  every_days: {type: integer, minimum: 1, maximum: 366, description: "2 is every second day, 7 every week, counted from
    start_date. Leave it out for every day."}
  start_date: {type: string, description: "First day, YYYY-MM-DD; it also is the day from which every_days counts.
    Leave it out for today. Nothing from before today is ever counted as missed."}
  end_date: {type: string, description: "Last day of a course, such as antibiotics. Leave it out if there is none."}
  stock: {type: number, minimum: 0, description: "How many units (tablets, ml, puffs) the person has now, to be told
    before they run out."}
  units_per_dose: {type: number, description: "How many of those units one dose takes; left out, 1."}
  remind_missed: {type: boolean, default: true, description: "False: the person is not told of doses that were due and
    not logged."}
  notes: {type: string, description: "What to mind: with food, not with milk, prescribed by whom and for what."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
INSERT INTO medications AS m (name, dosage, frequency, schedule, weekdays, every_days, start_date, end_date, stock,
                              stock_at, units_per_dose, remind_missed, notes)
VALUES (:name::text, :dosage::text, :frequency::text, coalesce(:schedule::text[], '{}'),
        coalesce(:weekdays::text[], '{}'), coalesce(:every_days::int, 1),
        coalesce(shared.day('start_date', :start_date::text), shared.today()),
        shared.day('end_date', :end_date::text), :stock::numeric,
        CASE WHEN :stock::numeric IS NOT NULL THEN shared.clock() END, coalesce(:units_per_dose::numeric, 1),
        coalesce(:remind_missed::boolean, true), nullif(health_note('notes', :notes::text), ''))
ON CONFLICT (tenant_id, lower(name), lower(dosage)) WHERE active
DO UPDATE SET notes = coalesce(excluded.notes, m.notes)
RETURNING m.id, m.name, m.dosage, m.frequency, m.schedule, m.weekdays, m.every_days, m.start_date, m.end_date, m.stock,
          m.units_per_dose, m.remind_missed, m.notes, m.active, (m.xmax <> 0) AS already_listed;
