/*---
description: >-
  The notes of research about a condition or with some tags, to be summed up: how many there are, their tags with
  counts, and the newest with as much text as fits. You write the summary, naming titles and sources; left_out says how
  many notes are not among the texts. None found: there is no such note.
examples:
  - Summarize my research about migraine
  - Sum up all the research notes tagged diet
  - What does everything I've read about reflux boil down to?
  - Condense my collected articles on menopause into a few paragraphs
  - Draw the key points together from all those papers on back pain
args:
  condition_id: {type: string, format: uuid, description: "Only notes about this condition. Leave it out for all."}
  tags: {type: array, items: {type: string}, description: "Only notes with all of these tags."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
WITH found AS (
    SELECT r.*, c.name AS condition
      FROM research r LEFT JOIN conditions c ON c.id = r.condition_id
     WHERE r.deleted_at IS NULL
       AND (:condition_id::uuid IS NULL OR health_known('condition', :condition_id::uuid, false) IS NOT NULL)
       AND (:condition_id::uuid IS NULL OR r.condition_id = :condition_id::uuid)
       AND (:tags::text[] IS NULL OR r.tags @> health_tags(:tags::text[]))
), shown AS (
    SELECT * FROM found f ORDER BY f.created_at DESC, f.id LIMIT 12
)
SELECT (SELECT count(*)::int FROM found) AS notes,
       (SELECT greatest(count(*) - 12, 0)::int FROM found) AS left_out,
       (SELECT min(f.created_at) FROM found f) AS oldest_at,
       (SELECT coalesce(jsonb_object_agg(t.tag, t.notes), '{}')
          FROM (SELECT u.tag, count(*) AS notes FROM found f, unnest(f.tags) u(tag) GROUP BY u.tag) t) AS tags,
       (SELECT jsonb_agg(jsonb_build_object('id', s.id, 'title', s.title, 'content', left(s.content, 1500),
                                            'cut', length(s.content) > 1500, 'source_url', s.source_url,
                                            'tags', s.tags, 'condition', s.condition, 'created_at', s.created_at)
                         ORDER BY s.created_at DESC, s.id)
          FROM shown s) AS texts
 WHERE EXISTS (SELECT FROM found);
