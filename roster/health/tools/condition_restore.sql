/*---
description: >-
  Bring back a deleted condition. condition_list with deleted set to true lists them.
examples:
  - Restore the deleted eczema condition
  - Bring back the thyroid condition I removed yesterday
  - I shouldn't have erased my diabetes diagnosis, put it back please
  - The lactose intolerance you took off my file is real after all, undo that
  - Get my sciatica back on record, removing that diagnosis was wrong
args:
  condition_id: {type: string, format: uuid, required: true, description: "The id of the deleted condition."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE conditions c
   SET deleted_at = NULL
 WHERE c.id = :condition_id::uuid AND health_known('condition', :condition_id::uuid, false) IS NOT NULL
RETURNING c.id, c.name, c.status, c.diagnosed_at, c.notes;
