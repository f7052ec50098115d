/*---
description: >-
  Log something that changed in a contact's life: a new job, a wedding, a child, a move, a loss. Use it when the person
  tells of one. It returns the stored row with its id; already_logged is true if the same event was on record, which is
  then kept once. A birthday or an anniversary belongs into date_add, a trait or a taste into fact_set.
examples:
  - "Log a life event: Franziska got married on Saturday."
  - Record as life event that Ken moved to Toronto.
  - Natalie gave birth to a healthy boy this morning.
  - My uncle retired from the railway after forty years.
  - Elias passed his final exams and graduated in medicine.
args:
  contact_id: {type: string, format: uuid, required: true, description: "In whose life; from contact_search or
    contact_resolve."}
  type_name: {type: string, required: true, description: "What kind of event, such as married, had_child, new_job, moved
    or other; life_event_types_list shows all."}
  summary: {type: string, description: "What it was, in one sentence; needed for the type other."}
  description: {type: string, description: "More about it."}
  happened_at: {type: string, description: "The day, YYYY-MM-DD. Leave it out if it is not known."}
  occurred_at: {type: string, description: "In its place a moment, RFC 3339 with the offset; only its day is kept."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT (p.e).id, (p.e).contact_id, c.name AS contact_name, (p.e).type_name, (p.e).summary, (p.e).description,
       (p.e).happened_at, p.already AS already_logged
  FROM life_event_put(:contact_id::uuid, :type_name::text, :summary::text, :description::text, :happened_at::text,
                      :occurred_at::text) p
  JOIN contacts c ON c.id = (p.e).contact_id;
