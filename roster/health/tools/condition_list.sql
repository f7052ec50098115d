/*---
description: >-
  The person's conditions by name, with how many symptoms of the last 30 days belong to each and when the last one was.
examples:
  - List all my health conditions
  - Which conditions of mine are currently active?
  - What diagnoses do you have on file for me?
  - A new dentist asks which illnesses and allergies I've got
  - Which chronic problems am I supposed to be dealing with at the moment?
args:
  status: {type: string, enum: [active, managed, resolved], description: "Leave it out for all."}
  name: {type: string, description: "Only those with this text in their name."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
  deleted: {type: boolean, default: false, description: "True lists the deleted conditions instead, for
    condition_restore."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT c.id, c.name, c.status, c.diagnosed_at, c.notes,
       (SELECT count(*)::int FROM symptoms s
         WHERE s.condition_id = c.id AND s.deleted_at IS NULL
           AND s.occurred_at >= shared.clock() - interval '30 days') AS symptoms_30_days,
       (SELECT max(s.occurred_at) FROM symptoms s
         WHERE s.condition_id = c.id AND s.deleted_at IS NULL) AS last_symptom_at
  FROM conditions c
 WHERE (:status::text IS NULL OR c.status = :status::text)
   AND (:name::text IS NULL OR health_text('name', :name::text, 200) > '')
   AND (:name::text IS NULL OR position(lower(btrim(:name::text)) IN lower(c.name)) > 0)
   AND (c.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
 ORDER BY array_position('{active,managed,resolved}'::text[], c.status), lower(c.name), c.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
