/*---
description: >-
  Note that a task is done, or with completed set to false that it isn't after all. unchanged is true if it was so
  already.
examples:
  - Complete the task with the photos for Ida.
  - Mark the task of asking about the exam as done.
  - I have sent Ida the wedding pictures, tick it off.
  - The borrowed ladder is back at Norbert's, that is finished.
  - Finally baked the cake for Agnes, check that item.
args:
  task_id: {type: string, format: uuid, required: true, description: "The id that task_create or task_list gave."}
  completed: {type: boolean, default: true, description: "False opens a task again that was completed by mistake."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT (p.t).id, (p.t).contact_id, (p.t).title, (p.t).completed_at IS NOT NULL AS completed, (p.t).completed_at,
       p.already AS unchanged
  FROM task_done(:task_id::uuid, coalesce(:completed::boolean, true)) p;
