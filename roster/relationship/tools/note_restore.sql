/*---
description: >-
  Bring back a deleted note. note_list with deleted set to true lists them.
args:
  note_id: {type: string, format: uuid, required: true, description: "The id of the deleted note."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT (p.n).id, (p.n).contact_id, (p.n).title, (p.n).content, (p.n).emotion, (p.n).created_at
  FROM note_keep(:note_id::uuid, false) p;
