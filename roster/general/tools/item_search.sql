/*---
description: >-
  Find items, newest first, in one collection or in all. Conditions go together: query (the item's data contains this
  object exactly), tags (it has all of them), text (all these words occur somewhere in it), due_by (it is due on or
  before that day and not done; then the earliest is first). Begin with text; use query where keys and values are known.
examples:
  - Search the items for anything about plumbing.
  - Find all items tagged birthday.
  - What's still open on my to-do list by Friday?
  - Did I ever write down a red wine from Portugal?
  - Where did I note the size of the curtains?
args:
  collection_name: {type: string, minLength: 1, maxLength: 100, description: "Only in this one."}
  query: {type: object, description: 'What data contains, such as {"done": false} or {"room": {"floor": 2}}.'}
  tags: {type: array, items: {type: string}, description: "Only items with all of these tags."}
  text: {type: string, maxLength: 500, description: "Words, or parts of words, in any order."}
  due_by: {type: string, description: "Only what is open and due by this day, YYYY-MM-DD, overdue ones included."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many."}
  deleted: {type: boolean, default: false, description: "True looks among the deleted ones instead, for item_restore."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT i.id, c.name AS collection_name, i.data, i.tags, i.created_at, i.updated_at
  FROM items i JOIN collections c ON c.id = i.collection_id AND c.deleted_at IS NULL
 WHERE (i.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
   AND (:collection_name::text IS NULL OR i.collection_id = (SELECT (collection_named(:collection_name::text)).id))
   AND (:query::jsonb IS NULL OR i.data @> :query::jsonb)
   AND (:tags::text[] IS NULL OR i.tags @> clean_tags(:tags::text[]))
   AND (:text::text IS NULL
        OR NOT EXISTS (SELECT FROM regexp_split_to_table(lower(:text::text), '\s+') w(word)
                        WHERE strpos(item_words(i.data, i.tags), w.word) = 0))
   AND (:due_by::text IS NULL
        OR item_due(i.data) <= shared.day('due_by', :due_by::text) AND NOT i.data @> '{"done": true}')
   AND (SELECT CASE WHEN :collection_name::text IS NULL THEN true
                    ELSE (collection_named(:collection_name::text)).id IS NOT NULL END)
 ORDER BY CASE WHEN :due_by::text IS NOT NULL THEN item_due(i.data) END, i.created_at DESC, i.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
