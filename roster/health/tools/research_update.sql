/*---
description: >-
  Correct a note of research, or add to it. Give only what changes; the rest stays. What it said before comes back as
  previous and is kept.
examples:
  - Update the research note on tinnitus
  - Correct the title of my sleep research
  - Append the second half of the article to what I saved about cholesterol
  - The web link on that vaccine leaflet is wrong, swap it
  - Tag the ginger study with nausea and file it under my pregnancy
args:
  research_id: {type: string, format: uuid, required: true, description: "The id that research_save or research_search
    gave."}
  title: {type: string, description: "The new title."}
  content: {type: string, description: "The new content, whole: read it with research_search first."}
  tags: {type: array, items: {type: string}, description: "The new tags, all of them."}
  source_url: {type: string, description: "The right address; an empty text removes it."}
  condition_id: {type: string, format: uuid, description: "The condition it is about."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
UPDATE research r
   SET title = coalesce(:title::text, r.title),
       content = coalesce(:content::text, r.content),
       tags = coalesce(:tags::text[], r.tags),
       source_url = nullif(coalesce(btrim(:source_url::text), r.source_url), ''),
       condition_id = coalesce(health_known('condition', :condition_id::uuid, true), r.condition_id)
 WHERE r.id = :research_id::uuid AND health_known('note of research', :research_id::uuid, true) IS NOT NULL
RETURNING r.id, r.title, r.tags, r.source_url, r.condition_id, r.updated_at, r.revisions -> -1 AS previous;
