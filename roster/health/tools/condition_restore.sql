/*---
description: >-
  Bring back a deleted condition. condition_list with deleted set to true lists them.
args:
  condition_id: {type: string, format: uuid, required: true, description: "The id of the deleted condition."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE conditions c
   SET deleted_at = NULL
 WHERE c.id = :condition_id::uuid AND health_known('condition', :condition_id::uuid, false) IS NOT NULL
RETURNING c.id, c.name, c.status, c.diagnosed_at, c.notes;
