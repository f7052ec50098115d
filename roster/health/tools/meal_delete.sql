/*---
description: >-
  Delete a meal that should not have been logged. It no longer counts anywhere; meal_restore with the same id brings it
  back. For a wrong description, time or number use meal_update instead.
args:
  meal_id: {type: string, format: uuid, required: true, description: "The id that meal_log or meal_history gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE meals m
   SET deleted_at = coalesce(m.deleted_at, shared.clock())
 WHERE m.id = :meal_id::uuid AND health_known('meal', :meal_id::uuid, false) IS NOT NULL
RETURNING m.id, m.type, m.description, m.eaten_at, m.deleted_at;
