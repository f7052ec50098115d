/*---
description: >-
  Note one lasting fact of a contact: favourite_food, allergies, shoe_size, children, how_we_met. It takes the place of
  what was noted under the same key; previous says what that was, changed false that it was the same. Birthdays go to
  date_add, addresses and numbers to address_add and contact_info_add, what happened to life_event_log, and longer
  thoughts to note_create.
examples:
  - Set as a fact that Amelie's favourite flower is the peony.
  - Store the fact that Dirk is left-handed.
  - My brother cannot stand coriander.
  - Judith wears size 38 shoes and takes her tea without milk.
  - The twins are lactose intolerant, keep that in mind for their visits.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  key: {type: string, required: true, description: "What the fact is about, in a word or two. A birthday
    goes to date_add, an address or number to address_add or contact_info_add."}
  value: {type: string, required: true, description: "What is so, in the person's words."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT f.id, f.contact_id, f.key, f.value, f.changed, f.previous
  FROM fact_set(:contact_id::uuid, :key::text, :value::text) f;
