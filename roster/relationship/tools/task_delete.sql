/*---
description: >-
  Delete a task that is not to be done any more. task_restore with the same id brings it back. One that was done is
  completed with task_complete instead.
examples:
  - Delete the task about the ladder.
  - Remove the task to introduce Yannick to my accountant.
  - Agnes is on a diet, I need not bake her anything any more.
  - Forget that I wanted to help Doris paint, she hired someone.
  - Cross out sending the flowers to Edith, it is pointless now.
args:
  task_id: {type: string, format: uuid, required: true, description: "The id that task_create or task_list gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.title, p.deleted_at FROM task_keep(:task_id::uuid, true) p;
