/*---
description: >-
  Bring back a deleted dose. medication_history with deleted set to true lists them.
examples:
  - Restore the deleted medication dose from this morning
  - Bring back the dose of my medication I deleted
  - I did swallow that tablet after all, put the erased intake back
  - Undo wiping out last night's two puffs, I really had them
  - The injection you struck from the record did happen, reinstate it
args:
  dose_id: {type: string, format: uuid, required: true, description: "The id of the deleted dose."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE medication_doses d
   SET deleted_at = NULL
 WHERE d.id = :dose_id::uuid AND health_known('dose', :dose_id::uuid, false) IS NOT NULL
RETURNING d.id, d.medication_id, d.taken_at, d.skipped, d.dosage, d.notes;
