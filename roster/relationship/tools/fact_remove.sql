/*---
description: >-
  Take away a fact that is wrong or no longer so and has no new value. fact_restore brings it back.
examples:
  - Remove the fact that Greta is vegan.
  - Delete the fact about his favourite band.
  - Nora outgrew her peanut allergy, so wipe that entry.
  - Erase what you stored as Tobias's coffee order, it is false.
  - Her dog Bello died, so pet name should be blank again.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  key: {type: string, required: true, description: "The key, as fact_list shows it."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT f.id, f.contact_id, f.key, f.value, f.deleted_at
  FROM fact_set_deleted(:contact_id::uuid, :key::text, true) f;
