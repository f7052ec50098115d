/*---
description: >-
  Bring back a deleted note. note_list with deleted set to true lists them.
examples:
  - Restore the note about Cornelia.
  - Bring back the note on Fritz that I deleted.
  - I want those lines about Oskar's mood back that I tore up.
  - The text on her childhood was too precious to erase, undo that.
  - I regret discarding what I wrote on my late father, recover it.
args:
  note_id: {type: string, format: uuid, required: true, description: "The id of the deleted note."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.title, p.content, p.emotion, p.created_at
  FROM note_keep(:note_id::uuid, false) p;
