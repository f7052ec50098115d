/*---
description: >-
  Delete a note. note_restore with the same id brings it back.
examples:
  - Delete the note about Cornelia's quarrel.
  - Remove my last note on Fritz.
  - Erase what I wrote about her marriage troubles, it feels too private.
  - Those lines on Oskar's bad mood at dinner should disappear.
  - Tear up the paragraph where I complained about my boss.
args:
  note_id: {type: string, format: uuid, required: true, description: "The id that note_create, note_list or note_search
    gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.title, p.content, p.deleted_at FROM note_keep(:note_id::uuid, true) p;
