/*---
description: >-
  Take a life event that should not have been logged out of the record; life_event_restore with the same id brings it
  back.
examples:
  - Delete the life event about Sonja's new job.
  - Remove the wedding from Moritz's life events.
  - The rumour was false, Diana never got engaged, erase it.
  - Cancel the entry that Bernd relocated to Spain, he stayed here.
  - It was a misunderstanding, she is not pregnant, wipe that milestone.
args:
  life_event_id: {type: string, format: uuid, required: true, description: "The id that life_event_log or life_event_list
    gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.type_name, p.summary, p.happened_at, p.deleted_at
  FROM life_event_keep(:life_event_id::uuid, true) p;
