/*---
description: >-
  Correct a meal, or add to it what was learned later (its nutrition, how it agreed with them). Give only what changes;
  the rest stays. What it said before comes back as previous and is kept.
examples:
  - Update my lunch meal, it was turkey not ham
  - Correct the calories of that meal to 640
  - The sandwich I told you about was actually eaten at three
  - That stew left me bloated and gassy, note it with yesterday's dinner
  - It was brown rice and a smaller portion of salmon than I said
args:
  meal_id: {type: string, format: uuid, required: true, description: "The id that meal_log or meal_history gave."}
  type: {type: string, enum: [breakfast, lunch, dinner, snack], description: "The right type."}
  description: {type: string, description: "The right description, whole."}
  eaten_at: {type: string, format: date-time, description: "The right moment, RFC 3339 with the offset."}
  nutrition: {type: object, description: "The right numbers, all of them, in the form that meal_log takes; {} removes
    them."}
  mood_before: {type: integer, minimum: 1, maximum: 10, description: "The right number."}
  satisfaction: {type: integer, minimum: 1, maximum: 10, description: "The right number."}
  symptom_notes: {type: string, description: "How it agreed with them, replacing what was there; an empty text removes
    it."}
  tags: {type: array, items: {type: string}, description: "The new tags, all of them."}
  notes: {type: string, description: "The new notes, which replace the old ones; an empty text removes them."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE meals m
   SET type = coalesce(:type::text, m.type),
       description = coalesce(:description::text, m.description),
       eaten_at = coalesce(health_past('eaten_at', :eaten_at::text), m.eaten_at),
       nutrition = coalesce(:nutrition::jsonb, m.nutrition),
       mood_before = coalesce(:mood_before::int, m.mood_before),
       satisfaction = coalesce(:satisfaction::int, m.satisfaction),
       symptom_notes = nullif(coalesce(health_note('symptom_notes', :symptom_notes::text), m.symptom_notes), ''),
       tags = coalesce(:tags::text[], m.tags),
       notes = nullif(coalesce(health_note('notes', :notes::text), m.notes), '')
 WHERE m.id = :meal_id::uuid AND health_known('meal', :meal_id::uuid, true) IS NOT NULL
RETURNING m.id, m.type, m.description, m.eaten_at, m.nutrition, m.mood_before, m.satisfaction, m.symptom_notes, m.tags,
          m.notes, m.revisions -> -1 AS previous;
