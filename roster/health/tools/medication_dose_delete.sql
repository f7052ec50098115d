/*---
description: >-
  Take a dose out of the record that was not taken at all, or logged twice. medication_dose_restore with the same id
  brings it back. A dose that was left out on purpose is medication_log_dose with skipped instead.
examples:
  - Delete the medication dose recorded at eight
  - Remove the duplicate dose of ibuprofen medication
  - I told you I swallowed my statin, but it's still in the box
  - You counted tonight's insulin injection twice, drop one
  - Cancel that noon aspirin entry, I never actually took it
args:
  dose_id: {type: string, format: uuid, required: true, description: "The id that medication_log_dose or
    medication_history gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE medication_doses d
   SET deleted_at = coalesce(d.deleted_at, shared.clock())
 WHERE d.id = :dose_id::uuid AND health_known('dose', :dose_id::uuid, false) IS NOT NULL
RETURNING d.id, d.medication_id, d.taken_at, d.skipped, d.dosage, d.notes, d.deleted_at;
