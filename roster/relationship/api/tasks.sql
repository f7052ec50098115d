/*---
description: What is still to be done for people, the earliest due first.
method: get
path: tasks
returns: rows
card: {kind: table, title: To do for people, columns: [name, title, due_on]}
---*/
SELECT t.id, c.name, t.title, t.due_on
  FROM tasks t JOIN contacts c ON c.id = t.contact_id
 WHERE t.deleted_at IS NULL AND t.completed_at IS NULL AND c.archived_at IS NULL
 ORDER BY t.due_on NULLS LAST, t.created_at, t.id;
