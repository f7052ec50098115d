/*---
description: >-
  Bring back a deleted note. note_list with deleted set to true lists them.
args:
  note_id: {type: string, format: uuid, required: true, description: "The id of the deleted note."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.title, p.content, p.emotion, p.created_at
  FROM note_keep(:note_id::uuid, false) p;
