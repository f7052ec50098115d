/*---
description: >-
  Take a condition out of the record that should not be there. Symptoms and notes of research that belong to it stay.
  condition_restore with the same id brings it back. One that is over is condition_update with status resolved instead.
examples:
  - Delete the gout entry from my conditions
  - Remove that hay fever condition, I never had it
  - They misread my scan, so osteoporosis shouldn't be in my file at all
  - That celiac diagnosis belongs to my brother, take it off me
  - Wipe scoliosis from my record, you noted it by mistake
args:
  condition_id: {type: string, format: uuid, required: true, description: "The id that condition_list gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE conditions c
   SET deleted_at = coalesce(c.deleted_at, shared.clock())
 WHERE c.id = :condition_id::uuid AND health_known('condition', :condition_id::uuid, false) IS NOT NULL
RETURNING c.id, c.name, c.status, c.diagnosed_at, c.notes, c.deleted_at;
