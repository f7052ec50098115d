/*---
description: >-
  Take an interaction that should not have been logged out of the record; the contact's last contact follows.
  interaction_restore with the same id brings it back.
args:
  interaction_id: {type: string, format: uuid, required: true, description: "The id that interaction_log or
    interaction_list gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT (p.i).id, (p.i).contact_id, (p.i).type, (p.i).summary, (p.i).occurred_at, (p.i).deleted_at
  FROM interaction_keep(:interaction_id::uuid, true) p;
