/*---
description: >-
  Delete a measurement that should not have been logged. It no longer counts anywhere; measurement_restore with the
  same id brings it back. For a wrong number use measurement_update instead.
examples:
  - Delete my last weight measurement
  - Remove that blood pressure measurement, it isn't mine
  - My son stepped on the scale, so drop that reading
  - The cuff was loose, throw away this morning's pressure value
  - Discard the 39 degrees from noon, the thermometer was broken
args:
  measurement_id: {type: string, format: uuid, required: true, description: "The id that measurement_log,
    measurement_latest or measurement_history gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE measurements m
   SET deleted_at = coalesce(m.deleted_at, shared.clock())
 WHERE m.id = :measurement_id::uuid AND health_known('measurement', :measurement_id::uuid, false) IS NOT NULL
RETURNING m.id, m.kind, m.value, m.unit, m.measured_at, m.notes, m.deleted_at;
