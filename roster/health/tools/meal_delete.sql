/*---
description: >-
  Delete a meal that should not have been logged. It no longer counts anywhere; meal_restore with the same id brings it
  back. For a wrong description, time or number use meal_update instead.
examples:
  - Delete the lunch meal I logged today
  - Remove that meal, I entered it twice
  - I ended up not eating the burrito, take it out of my food diary
  - Scrap that kebab from last night, it was my roommate who ate it
  - The second bowl of porridge is a duplicate, throw it out
args:
  meal_id: {type: string, format: uuid, required: true, description: "The id that meal_log or meal_history gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE meals m
   SET deleted_at = coalesce(m.deleted_at, shared.clock())
 WHERE m.id = :meal_id::uuid AND health_known('meal', :meal_id::uuid, false) IS NOT NULL
RETURNING m.id, m.type, m.description, m.eaten_at, m.deleted_at;
