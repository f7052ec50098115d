/*---
description: >-
  Bring back a deleted measurement. measurement_history with deleted set to true lists them.
examples:
  - Restore the deleted weight measurement
  - Bring back the heart rate measurement I deleted
  - That sugar reading you threw out was valid, put it back
  - I need the pulse value again that I had you discard on Monday
  - Undo removing my temperature from last night, the thermometer was fine
args:
  measurement_id: {type: string, format: uuid, required: true, description: "The id of the deleted measurement."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE measurements m
   SET deleted_at = NULL
 WHERE m.id = :measurement_id::uuid AND health_known('measurement', :measurement_id::uuid, false) IS NOT NULL
RETURNING m.id, m.kind, m.value, m.unit, m.measured_at, m.notes;
