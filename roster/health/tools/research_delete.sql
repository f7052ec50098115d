/*---
description: >-
  Delete a note of research. It is no longer found; research_restore with the same id brings it back.
examples:
  - Delete the research note about keto diets
  - Remove my research on herbal tea
  - That saved article on detox juices is quackery, get rid of it
  - I don't need the leaflet about knee surgery in my notes any longer
  - Throw out what you kept about fasting and longevity
args:
  research_id: {type: string, format: uuid, required: true, description: "The id that research_save or research_search
    gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE research r
   SET deleted_at = coalesce(r.deleted_at, shared.clock())
 WHERE r.id = :research_id::uuid AND health_known('note of research', :research_id::uuid, false) IS NOT NULL
RETURNING r.id, r.title, r.deleted_at;
