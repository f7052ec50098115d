/*---
description: >-
  Delete a note. note_restore with the same id brings it back.
args:
  note_id: {type: string, format: uuid, required: true, description: "The id that note_create, note_list or note_search
    gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.title, p.content, p.deleted_at FROM note_keep(:note_id::uuid, true) p;
