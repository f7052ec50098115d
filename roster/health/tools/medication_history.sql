/*---
description: >-
  What became of one medication in a span of days: the doses on record, newest first, and adherence. By a schedule,
  adherence counts what was due: taken, skipped on purpose, missed (due more than two hours ago and not logged), percent
  of what was due. Without one (basis logged) it only tells taken from skipped, and due and missed are null: not known,
  and not to be claimed. If as many doses come back as limit allows there may be more: ask again with offset.
examples:
  - Show the medication history for my blood thinner
  - How was my adherence to the thyroid medication last month?
  - How often did I forget my evening pill in April?
  - When did I take paracetamol over the past few days?
  - Have I been good about using my nasal spray regularly?
args:
  medication_id: {type: string, format: uuid, required: true, description: "The id that medication_list gave."}
  start_date: {type: string, description: "First day, YYYY-MM-DD in the owner's time zone, or a moment in RFC 3339
    with its offset. Leave it out for the last 30 days."}
  end_date: {type: string, description: "Last day, which counts whole, or a moment. Leave it out for the present."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many doses."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest doses."}
  deleted: {type: boolean, default: false, description: "True lists the deleted doses instead, for
    medication_dose_restore."}
returns: row
meta: {reads_private: true, effect: none}
---*/
WITH span AS (
    SELECT CASE WHEN :start_date::text IS NULL THEN (shared.today() - 29)::timestamptz
                ELSE shared.bound('start_date', :start_date::text, false) END AS from_at,
           shared.bound('end_date', :end_date::text, true) AS until_at
     WHERE health_span(:start_date::text, :end_date::text)
)
SELECT m.id AS medication_id, m.name, m.dosage, m.frequency, m.schedule, m.active, s.from_at,
       medication_adherence(m.id, s.from_at, s.until_at) AS adherence,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('id', p.id, 'taken_at', p.taken_at, 'skipped', p.skipped,
                                                     'dosage', p.dosage, 'notes', p.notes)
                                  ORDER BY p.taken_at DESC, p.id), '[]')
          FROM (SELECT * FROM medication_doses d
                 WHERE d.medication_id = m.id AND d.taken_at >= s.from_at AND d.taken_at < s.until_at
                   AND (d.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
                 ORDER BY d.taken_at DESC, d.id
                 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0)) p) AS doses,
       (SELECT coalesce(jsonb_agg(u.slot_at ORDER BY u.slot_at DESC), '[]')
          FROM (SELECT u.slot_at FROM medication_due(m.id, s.from_at, s.until_at) u
                 WHERE u.status = 'missed' ORDER BY u.slot_at DESC LIMIT 50) u) AS missed_at
  FROM medications m CROSS JOIN span s
 WHERE m.id = :medication_id::uuid AND medication_known(:medication_id::uuid) IS NOT NULL;
