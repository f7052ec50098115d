/*---
description: >-
  Notes in which every word of the query stands, in any order, in their title, text or emotion, newest first; parts of
  words count too. Without contact_id it looks through the notes about everybody. If nothing comes back, try fewer or
  other words before you say that there is none.
examples:
  - Search my notes for the word sailing.
  - Find the note where somebody mentioned a violin.
  - Did I ever write down something about a burnout, whoever it was?
  - Look through what I jotted for anything on the Norway trip.
  - Somebody told me of a cheap kitchen builder, where did I write that?
args:
  query: {type: string, required: true, minLength: 1, description: "One or a few words."}
  contact_id: {type: string, format: uuid, description: "Only the notes about this contact."}
  limit: {type: integer, default: 20, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT n.id, n.contact_id, c.name AS contact_name, n.title, n.content, n.emotion, n.created_at
  FROM notes n
  JOIN contacts c ON c.id = n.contact_id
 WHERE asks_about(:contact_id::uuid)
   AND search_words(:query::text) IS NOT NULL
   AND n.contact_id = coalesce((SELECT contact_there('contact_id', :contact_id::uuid)), n.contact_id)
   AND n.deleted_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM unnest((SELECT search_words(:query::text))) w
                   WHERE strpos(folded(concat_ws(' ', n.title, n.content, n.emotion)), w) = 0)
 ORDER BY n.created_at DESC, n.id
 LIMIT coalesce(:limit::int, 20) OFFSET coalesce(:offset::int, 0);
