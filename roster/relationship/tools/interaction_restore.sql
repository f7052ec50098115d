/*---
description: >-
  Bring back a deleted interaction. interaction_list with deleted set to true lists them.
args:
  interaction_id: {type: string, format: uuid, required: true, description: "The id of the deleted interaction."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.type, p.direction, p.summary, p.occurred_at
  FROM interaction_keep(:interaction_id::uuid, false) p;
