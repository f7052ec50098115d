/*---
description: >-
  Take a condition out of the record that should not be there. Symptoms and notes of research that belong to it stay.
  condition_restore with the same id brings it back. One that is over is condition_update with status resolved instead.
args:
  condition_id: {type: string, format: uuid, required: true, description: "The id that condition_list gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE conditions c
   SET deleted_at = coalesce(c.deleted_at, shared.clock())
 WHERE c.id = :condition_id::uuid AND health_known('condition', :condition_id::uuid, false) IS NOT NULL
RETURNING c.id, c.name, c.status, c.diagnosed_at, c.notes, c.deleted_at;
