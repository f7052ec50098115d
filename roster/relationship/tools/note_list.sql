/*---
description: >-
  The notes about a contact, newest first. If as many rows come back as limit allows there may be more: ask again with
  offset. To find a note by its words take note_search.
examples:
  - List all notes about Annika.
  - Show me the latest notes on my therapist.
  - Read me what I have written down about Georg over the months.
  - What thoughts did I jot down concerning my daughter's teacher?
  - Before the reunion, let me reread my scribbles on Thea.
args:
  contact_id: {type: string, format: uuid, required: true, description: "About whom; from contact_search or
    contact_resolve."}
  limit: {type: integer, default: 20, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
  deleted: {type: boolean, default: false, description: "True lists the deleted ones instead, for note_restore."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT n.id, n.title, n.content, n.emotion, n.created_at
  FROM notes n
 WHERE asks_about(:contact_id::uuid)
   AND n.contact_id = (SELECT contact_there('contact_id', :contact_id::uuid))
   AND (n.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
 ORDER BY n.created_at DESC, n.id
 LIMIT coalesce(:limit::int, 20) OFFSET coalesce(:offset::int, 0);
