/*---
description: >-
  Bring back a deleted interaction. interaction_list with deleted set to true lists them.
examples:
  - Restore the deleted interaction with Evelyn.
  - Bring back the interaction from Friday that I deleted.
  - I did have lunch with Gregor after all, put the entry back.
  - That erased phone call really happened, undo it.
  - My skype chat with Aunt Lotte vanished from the log, return it.
args:
  interaction_id: {type: string, format: uuid, required: true, description: "The id of the deleted interaction."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.type, p.direction, p.summary, p.occurred_at
  FROM interaction_keep(:interaction_id::uuid, false) p;
