/*---
description: >-
  Meals, newest first, of one type or all, within a span of days. For sums and averages use nutrition_summary. If as
  many rows come back as limit allows there may be more: ask again with offset.
examples:
  - Show my meal history for last week
  - List every meal with pasta this month
  - What did I have for supper on Tuesday?
  - When was the last time I ate sushi?
  - Which breakfasts have I eaten since Sunday?
args:
  type: {type: string, enum: [breakfast, lunch, dinner, snack], description: "Leave it out for all."}
  start_date: {type: string, description: "First day, YYYY-MM-DD in the owner's time zone, or a moment in RFC 3339
    with its offset. Leave it out for no lower end."}
  end_date: {type: string, description: "Last day, which counts whole, or a moment, in the same forms. Leave it out
    for no upper end."}
  tags: {type: array, items: {type: string}, description: "Only meals with all of these tags."}
  query: {type: string, description: "Only meals with this text in their description: pasta."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
  deleted: {type: boolean, default: false, description: "True lists the deleted meals instead, for meal_restore."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT m.id, m.type, m.description, m.eaten_at, m.nutrition, m.mood_before, m.satisfaction, m.symptom_notes, m.tags,
       m.notes
  FROM meals m
 WHERE health_span(:start_date::text, :end_date::text)
   AND (:type::text IS NULL OR m.type = :type::text)
   AND (:tags::text[] IS NULL OR m.tags @> health_tags(:tags::text[]))
   AND (:query::text IS NULL OR health_text('query', :query::text, 200) > '')
   AND (:query::text IS NULL OR position(lower(btrim(:query::text)) IN lower(m.description)) > 0)
   AND m.eaten_at >= shared.bound('start_date', :start_date::text, false)
   AND m.eaten_at < shared.bound('end_date', :end_date::text, true)
   AND (m.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
 ORDER BY m.eaten_at DESC, m.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
