/*---
description: >-
  Take an interaction that should not have been logged out of the record; the contact's last contact follows.
  interaction_restore with the same id brings it back.
examples:
  - Delete the interaction with Holger from Tuesday.
  - Remove that interaction, the meeting never took place.
  - I did not phone Irene yesterday, erase that call.
  - Our lunch fell through, so strike it from the log.
  - The visit was to another Anna, wipe it from this one.
args:
  interaction_id: {type: string, format: uuid, required: true, description: "The id that interaction_log or
    interaction_list gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.type, p.summary, p.occurred_at, p.deleted_at
  FROM interaction_keep(:interaction_id::uuid, true) p;
