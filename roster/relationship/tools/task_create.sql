/*---
description: >-
  Note something that the person wants to do for or about a contact, without a fixed hour: send the photos, ask about the
  exam. With a moment at which to be told, take reminder_create. already_there is true if a task of that title was open
  for the contact, which is then kept once.
examples:
  - Create a task to send Ida the photos.
  - "Add a task: ask Marcel about his exam."
  - I ought to return the ladder to Norbert sometime.
  - I promised Agnes to bake her a cake.
  - At some point I want to introduce Yannick to my accountant.
args:
  contact_id: {type: string, format: uuid, required: true, description: "For whom; from contact_search or
    contact_resolve."}
  title: {type: string, required: true, description: "What is to be done, in a few words."}
  description: {type: string, description: "More about it."}
  due_on: {type: string, description: "By which day, YYYY-MM-DD. Nobody is told then; it only orders the list."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT (p.t).id, (p.t).contact_id, c.name AS contact_name, (p.t).title, (p.t).description, (p.t).due_on,
       false AS completed, p.already AS already_there
  FROM task_put(:contact_id::uuid, :title::text, :description::text, :due_on::text) p
  JOIN contacts c ON c.id = (p.t).contact_id;
