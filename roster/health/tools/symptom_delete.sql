/*---
description: >-
  Delete a symptom that should not have been logged. It no longer counts anywhere; symptom_restore with the same id
  brings it back. For a wrong severity or time use symptom_update instead.
examples:
  - Delete the headache symptom from this morning
  - Remove that symptom, I logged it by mistake
  - I wasn't really nauseous on Monday, strike that from the record
  - The rash was just lipstick, forget I complained about it
  - You put down my toothache twice, take one away
args:
  symptom_id: {type: string, format: uuid, required: true, description: "The id that symptom_log, symptom_history or
    symptom_search gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE symptoms s
   SET deleted_at = coalesce(s.deleted_at, shared.clock())
 WHERE s.id = :symptom_id::uuid AND health_known('symptom', :symptom_id::uuid, false) IS NOT NULL
RETURNING s.id, s.name, s.severity, s.condition_id, s.occurred_at, s.notes, s.deleted_at;
