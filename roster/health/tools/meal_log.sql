/*---
description: >-
  Log one meal or snack, or a drink that counts. Use it whenever the person says what they ate. Returns the stored row
  with its id; already_logged is true if the same meal at the same moment was there before, which is then kept once.
examples:
  - Log my meal, chicken salad with rice
  - "Record a meal: lentil soup and bread for dinner"
  - Had two slices of toast and an egg this morning
  - Just grabbed a banana and a latte between appointments
  - We ordered pepperoni pizza tonight and I finished four pieces
args:
  type: {type: string, enum: [breakfast, lunch, dinner, snack], required: true, description: "Which meal; what is
    between meals, drinks too, is snack."}
  description: {type: string, required: true, description: "What it was, in the person's words, with amounts as far as
    they were said."}
  eaten_at: {type: string, format: date-time, description: "When, RFC 3339 with the offset. Leave it out if it is just
    now."}
  nutrition: {type: object, description: 'What is known of it: {"kcal": 520, "protein_g": 31}, of kcal, protein_g,
    carbs_g, sugar_g, fat_g, saturated_fat_g, fiber_g, salt_g, alcohol_g, caffeine_mg, water_ml. From a label or the
    person; an estimate of yours only if they asked for one, and then say so in notes.'}
  mood_before: {type: integer, minimum: 1, maximum: 10, description: "How they felt before, 1 very low to 10 very good,
    if they said so."}
  satisfaction: {type: integer, minimum: 1, maximum: 10, description: "How content they were with it, if they said so."}
  symptom_notes: {type: string, description: "How it agreed with them: bloated after an hour. A complaint with a
    severity is a symptom_log besides."}
  tags: {type: array, items: {type: string}, description: "Words to find it by: restaurant, gluten, late."}
  notes: {type: string, description: "Anything else, in the person's words."}
returns: row
meta: {reads_private: true, effect: once}
---*/
INSERT INTO meals AS m (type, description, eaten_at, nutrition, mood_before, satisfaction, symptom_notes, tags, notes)
VALUES (:type::text, health_text('description', :description::text, 2000),
        coalesce(health_past('eaten_at', :eaten_at::text), shared.clock()), :nutrition::jsonb, :mood_before::int,
        :satisfaction::int, nullif(health_note('symptom_notes', :symptom_notes::text), ''),
        coalesce(:tags::text[], '{}'), nullif(health_note('notes', :notes::text), ''))
ON CONFLICT (tenant_id, eaten_at, type, md5(lower(description))) WHERE deleted_at IS NULL
DO UPDATE SET nutrition = coalesce(excluded.nutrition, m.nutrition), notes = coalesce(excluded.notes, m.notes),
              mood_before = coalesce(excluded.mood_before, m.mood_before),
              satisfaction = coalesce(excluded.satisfaction, m.satisfaction),
              symptom_notes = coalesce(excluded.symptom_notes, m.symptom_notes),
              tags = CASE WHEN excluded.tags = '{}' THEN m.tags ELSE excluded.tags END
RETURNING m.id, m.type, m.description, m.eaten_at, m.nutrition, m.mood_before, m.satisfaction, m.symptom_notes, m.tags,
          m.notes, (m.xmax <> 0) AS already_logged;
