/*---
description: >-
  The person's medications by name: dosage, frequency, schedule, the next dose that is due, and what is left of the
  stock (stock_left, runs_out_on: a past day is since when it is empty; null where none was counted). For what was really taken use medication_history.
examples:
  - List all my current medications
  - Show my medication list with dosages
  - Which pills am I on and when is the next one due?
  - How many antidepressant tablets have I got left in the box?
  - The pharmacist asks what I'm taking these days
args:
  active_only: {type: boolean, default: true, description: "False lists the stopped ones too, for example for
    medication_restore."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
  name: {type: string, description: "Only those with this text in their name."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT m.id, m.name, m.dosage, m.frequency, m.schedule, m.weekdays, m.every_days, m.start_date, m.end_date, m.active,
       m.stopped_at, m.stop_reason, m.notes, m.remind_missed, medication_next(m.id) AS next_dose_at,
       s.stock_left, s.runs_out_on
  FROM medications m LEFT JOIN LATERAL medication_stock(m.id) s ON m.active
 WHERE (m.active OR NOT coalesce(:active_only::boolean, true))
   AND (:name::text IS NULL OR health_text('name', :name::text, 200) > '')
   AND (:name::text IS NULL OR position(lower(btrim(:name::text)) IN lower(m.name)) > 0)
 ORDER BY m.active DESC, lower(m.name), m.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
