/*---
description: >-
  Bring back a deleted note of research. research_search with deleted set to true lists them.
examples:
  - Restore the deleted research note on migraines
  - Bring back my research about probiotics
  - I'd like that thrown away article on omega three back
  - You binned my notes from the physiotherapist's talk, retrieve them
  - Undo erasing the leaflet about shingles vaccine
args:
  research_id: {type: string, format: uuid, required: true, description: "The id of the deleted note."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE research r
   SET deleted_at = NULL
 WHERE r.id = :research_id::uuid AND health_known('note of research', :research_id::uuid, false) IS NOT NULL
RETURNING r.id, r.title, r.tags, r.source_url, r.condition_id;
