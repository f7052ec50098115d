/*---
description: >-
  Put a stopped medication back on the list, as it was. Its schedule holds again from now on; nothing of the time
  between counts as missed. medication_list with active_only set to false lists the stopped ones.
examples:
  - Restore the medication I stopped in May
  - Put that stopped medication back on my list
  - I'm going back on the antihistamine, pollen season has returned
  - The doctor wants me on my old beta blocker again, exactly as before
  - I quit the iron tablets too early, resume them
args:
  medication_id: {type: string, format: uuid, required: true, description: "The id of the stopped medication."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE medications m
   SET active = true, stopped_at = NULL, stop_reason = NULL
 WHERE m.id = :medication_id::uuid AND medication_known(:medication_id::uuid) IS NOT NULL
RETURNING m.id, m.name, m.dosage, m.frequency, m.schedule, m.active;
