/*---
description: >-
  Keep a note of what was read or told about health: an article, what the doctor explained, a leaflet. Returns the row
  with its id; already_saved is true if the same note was there before, which is then kept once. Facts about the person
  belong to conditions, medications and memory instead.
examples:
  - Save this research article on vitamin B12
  - Keep a research note about the caffeine study
  - I read that magnesium may ease migraines, write down what the paper says
  - My doctor explained how statins work, hold on to that for later
  - Here's a link about tinnitus therapy, store it with my reading
args:
  title: {type: string, required: true, description: "What it is about, short and unlike the other titles."}
  content: {type: string, required: true, description: "What it says, as the source says it, with its limits: how many
    people, how sure. At most 50000 characters."}
  tags: {type: array, items: {type: string}, description: "Words to find it by: migraine, diet."}
  source_url: {type: string, description: "Where it was read, a whole https address."}
  condition_id: {type: string, format: uuid, description: "The condition it is about (condition_list)."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
INSERT INTO research AS r (title, content, tags, source_url, condition_id)
VALUES (:title::text, :content::text, coalesce(:tags::text[], '{}'), nullif(btrim(:source_url::text), ''),
        health_known('condition', :condition_id::uuid, true))
ON CONFLICT (tenant_id, lower(title)) WHERE deleted_at IS NULL
DO UPDATE SET source_url = coalesce(excluded.source_url, r.source_url),
              condition_id = coalesce(excluded.condition_id, r.condition_id),
              tags = CASE WHEN excluded.tags = '{}' THEN r.tags ELSE excluded.tags END
RETURNING r.id, r.title, r.tags, r.source_url, r.condition_id, r.created_at, (r.xmax <> 0) AS already_saved;
