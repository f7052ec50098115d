/*---
description: >-
  Change how a medication is taken, or correct what is on record about it. Give only what changes; the rest stays. A new
  schedule holds from now on; what was due before stays as it was. What the row said before comes back as previous and
  is kept. To end a medication use medication_stop.
examples:
  - Update my medication dosage to 1000 mg
  - Change the schedule of my blood pressure medication to evenings
  - My doctor doubled the thyroid tablets starting tomorrow
  - I bought another box, so there are sixty capsules now
  - Quit nagging me when I forget the magnesium, no more reminders for it
args:
  medication_id: {type: string, format: uuid, required: true, description: "The id that medication_add or
    medication_list gave."}
  name: {type: string, description: "The right name."}
  dosage: {type: string, description: "The new dose with its unit."}
  frequency: {type: string, description: "The new frequency in words; give the schedule with it if there is one."}
  schedule: {type: array, items: {type: string}, description: 'The new times of day, all of them; [] takes the times
    away: as needed.'}
  weekdays: {type: array, items: {type: string, enum: [mon, tue, wed, thu, fri, sat, sun]}, description: "The new days
    of the week; [] is every day."}
  every_days: {type: integer, minimum: 1, maximum: 366, description: "Every so many days from start_date; 1 is every
    day."}
  start_date: {type: string, description: "The right first day, YYYY-MM-DD."}
  end_date: {type: string, description: "The new last day of the course; an empty text takes it away."}
  stock: {type: number, minimum: 0, description: "How many units there are now, counted anew or after buying more."}
  units_per_dose: {type: number, description: "How many units one dose takes."}
  remind_missed: {type: boolean, description: "Whether the person is told of doses that were due and not logged."}
  notes: {type: string, description: "The new notes, which replace the old ones; an empty text removes them."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE medications m
   SET name = coalesce(:name::text, m.name),
       dosage = coalesce(:dosage::text, m.dosage),
       frequency = coalesce(:frequency::text, m.frequency),
       schedule = coalesce(:schedule::text[], m.schedule),
       weekdays = coalesce(:weekdays::text[], CASE WHEN :schedule::text[] = '{}' THEN '{}' ELSE m.weekdays END),
       every_days = coalesce(:every_days::int, CASE WHEN :schedule::text[] = '{}' THEN 1 ELSE m.every_days END),
       start_date = coalesce(shared.day('start_date', :start_date::text), m.start_date),
       end_date = CASE WHEN :end_date::text = '' THEN NULL
                       ELSE coalesce(shared.day('end_date', nullif(:end_date::text, '')), m.end_date) END,
       stock = coalesce(:stock::numeric, m.stock),
       stock_at = CASE WHEN :stock::numeric IS NULL THEN m.stock_at ELSE shared.clock() END,
       units_per_dose = coalesce(:units_per_dose::numeric, m.units_per_dose),
       remind_missed = coalesce(:remind_missed::boolean, m.remind_missed),
       notes = nullif(coalesce(health_note('notes', :notes::text), m.notes), '')
 WHERE m.id = :medication_id::uuid AND medication_known(:medication_id::uuid) IS NOT NULL
RETURNING m.id, m.name, m.dosage, m.frequency, m.schedule, m.weekdays, m.every_days, m.start_date, m.end_date, m.stock,
          m.units_per_dose, m.remind_missed, m.notes, m.active, m.revisions -> -1 AS previous;
