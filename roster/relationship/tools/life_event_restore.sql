/*---
description: >-
  Bring back a deleted life event. life_event_list with deleted set to true lists them.
examples:
  - Restore the deleted life event of Ramona's graduation.
  - Bring back the life event with Joel's move.
  - The engagement was real after all, put it back for Diana.
  - I erased that Hans had surgery, but it was true, undo.
  - His promotion did go through, so return the milestone we wiped.
args:
  life_event_id: {type: string, format: uuid, required: true, description: "The id of the deleted life event."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.type_name, p.summary, p.happened_at
  FROM life_event_keep(:life_event_id::uuid, false) p;
