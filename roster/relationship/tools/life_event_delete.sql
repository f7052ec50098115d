/*---
description: >-
  Take a life event that should not have been logged out of the record; life_event_restore with the same id brings it
  back.
args:
  life_event_id: {type: string, format: uuid, required: true, description: "The id that life_event_log or life_event_list
    gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT (p.e).id, (p.e).contact_id, (p.e).type_name, (p.e).summary, (p.e).happened_at, (p.e).deleted_at
  FROM life_event_keep(:life_event_id::uuid, true) p;
