/*---
description: >-
  The tasks for a contact or for all: the open ones, those that are due first at the top. If as many rows come back as
  limit allows there may be more: ask again with offset.
examples:
  - List my open tasks.
  - Which tasks do I have for Marcel?
  - What have I promised people and not yet done?
  - What did I still want to do for my grandmother?
  - I have a spare hour, any chores or favours waiting for friends?
args:
  contact_id: {type: string, format: uuid, description: "For whom. Leave it out for all."}
  include_completed: {type: boolean, default: false, description: "True shows those that are done as well, at the end."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
  deleted: {type: boolean, default: false, description: "True lists the deleted ones instead, for task_restore."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT t.id, t.contact_id, c.name AS contact_name, t.title, t.description, t.due_on,
       t.completed_at IS NULL AND coalesce(t.due_on < shared.today(), false) AS overdue,
       t.completed_at IS NOT NULL AS completed, t.completed_at, t.created_at
  FROM tasks t
  JOIN contacts c ON c.id = t.contact_id
 WHERE asks_about(:contact_id::uuid)
   AND t.contact_id = coalesce((SELECT contact_there('contact_id', :contact_id::uuid)), t.contact_id)
   AND (t.completed_at IS NULL OR coalesce(:include_completed::boolean, false) OR coalesce(:deleted::boolean, false))
   AND (t.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
 ORDER BY t.completed_at DESC NULLS FIRST, t.due_on NULLS LAST, t.created_at, t.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
