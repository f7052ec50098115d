/*---
description: >-
  Bring back the fact that was removed last under a key. fact_list with deleted true lists them.
examples:
  - Restore the fact about Iris being allergic to cats.
  - Bring back the removed fact on his shoe size.
  - She eats no meat again, return the diet entry I wiped.
  - We shouldn't have erased how we met, put it back.
  - Sven's clothing size was correct after all, undo that removal.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  key: {type: string, required: true, description: "The key, as fact_list shows it."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT f.id, f.contact_id, f.key, f.value, f.deleted_at
  FROM fact_set_deleted(:contact_id::uuid, :key::text, false) f;
