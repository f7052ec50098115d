/*---
description: >-
  Bring back a deleted meal. meal_history with deleted set to true lists them.
examples:
  - Restore the meal I deleted
  - Bring back the deleted dinner meal from Friday
  - Oops, I did eat that omelette, put it back in my food diary
  - You dropped my curry from the diary, please undo that
  - The yoghurt I had you erase should count after all
args:
  meal_id: {type: string, format: uuid, required: true, description: "The id of the deleted meal."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE meals m
   SET deleted_at = NULL
 WHERE m.id = :meal_id::uuid AND health_known('meal', :meal_id::uuid, false) IS NOT NULL
RETURNING m.id, m.type, m.description, m.eaten_at, m.nutrition;
