/*---
description: >-
  Notes of research that match everything that is given, newest first, with the beginning of each. With research_id:
  that one note, whole. What a note says is its source's word, not established and not about this person.
examples:
  - Search my research notes for turmeric
  - Find the research I saved about insomnia
  - Where was that article I read about gluten and joint pain?
  - Which clinical studies on acupuncture have I kept?
  - Pull up the leaflet on cortisone side effects I filed away
args:
  query: {type: string, description: "Words that all occur in title, content or tags; beginnings of words find more.
    What a note says is its source's word, and not about this person."}
  tags: {type: array, items: {type: string}, description: "Only notes with all of these tags."}
  condition_id: {type: string, format: uuid, description: "Only notes about this condition."}
  research_id: {type: string, format: uuid, description: "This note, with its whole content."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
  deleted: {type: boolean, default: false, description: "True searches the deleted notes instead, for
    research_restore."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT r.id, r.title,
       CASE WHEN :research_id::uuid IS NULL THEN left(r.content, 400) ELSE r.content END AS content,
       :research_id::uuid IS NULL AND length(r.content) > 400 AS cut,
       r.tags, r.source_url, r.condition_id, c.name AS condition, r.created_at, r.updated_at
  FROM research r LEFT JOIN conditions c ON c.id = r.condition_id
 WHERE (:research_id::uuid IS NULL OR health_known('note of research', :research_id::uuid, false) IS NOT NULL)
   AND (:research_id::uuid IS NULL OR r.id = :research_id::uuid)
   AND (:query::text IS NULL OR health_text('query', :query::text, 500) > '')
   AND (:query::text IS NULL OR NOT EXISTS (
            SELECT FROM regexp_split_to_table(lower(btrim(:query::text)), '\s+') w(word)
             WHERE position(w.word IN lower(r.title || ' ' || r.content || ' ' || array_to_string(r.tags, ' '))) = 0))
   AND (:tags::text[] IS NULL OR r.tags @> health_tags(:tags::text[]))
   AND (:condition_id::uuid IS NULL OR health_known('condition', :condition_id::uuid, false) IS NOT NULL)
   AND (:condition_id::uuid IS NULL OR r.condition_id = :condition_id::uuid)
   AND (r.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
 ORDER BY r.created_at DESC, r.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
