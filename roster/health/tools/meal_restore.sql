/*---
description: >-
  Bring back a deleted meal. meal_history with deleted set to true lists them.
args:
  meal_id: {type: string, format: uuid, required: true, description: "The id of the deleted meal."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE meals m
   SET deleted_at = NULL
 WHERE m.id = :meal_id::uuid AND health_known('meal', :meal_id::uuid, false) IS NOT NULL
RETURNING m.id, m.type, m.description, m.eaten_at, m.nutrition;
