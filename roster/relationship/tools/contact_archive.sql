/*---
description: >-
  Take a contact out of the register, when the person says that it should go. Nothing of it is lost, it only stops
  being found and counted; contact_restore brings it back. For one who is on record twice take contact_merge.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
returns: value
meta: {reads_private: true, effect: idempotent}
---*/
SELECT contact_archive(:contact_id::uuid);
