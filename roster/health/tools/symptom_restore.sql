/*---
description: >-
  Bring back a deleted symptom. symptom_history with deleted set to true lists them.
examples:
  - Restore the symptom I deleted
  - Bring back the deleted cough symptom from Tuesday
  - My heartburn entry shouldn't have been erased, put it back
  - I was feverish that night after all, recover the chills you removed
  - Undo taking out my knee pain from Sunday
args:
  symptom_id: {type: string, format: uuid, required: true, description: "The id of the deleted symptom."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE symptoms s
   SET deleted_at = NULL
 WHERE s.id = :symptom_id::uuid AND health_known('symptom', :symptom_id::uuid, false) IS NOT NULL
RETURNING s.id, s.name, s.severity, s.condition_id, s.occurred_at, s.notes;
