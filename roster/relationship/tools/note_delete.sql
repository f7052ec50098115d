/*---
description: >-
  Delete a note. note_restore with the same id brings it back.
args:
  note_id: {type: string, format: uuid, required: true, description: "The id that note_create, note_list or note_search
    gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT (p.n).id, (p.n).contact_id, (p.n).title, (p.n).content, (p.n).deleted_at FROM note_keep(:note_id::uuid, true) p;
