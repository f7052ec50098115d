/*---
description: >-
  Take a contact out of the register, when the person says that it should go. Nothing of it is lost, it only stops
  being found and counted; contact_restore brings it back. For one who is on record twice take contact_merge.
examples:
  - Archive the contact of my former landlord.
  - Take this contact out of the register please, I no longer need him.
  - I never want to see the plumber who cheated us among my people again.
  - The estate agent has served his purpose, hide him from the register.
  - Our old dentist retired abroad, she can vanish from my people.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
returns: value
meta: {reads_private: true, effect: idempotent}
---*/
SELECT contact_archive(:contact_id::uuid);
