/*---
description: >-
  When and how the person was in touch with a contact, newest first. If as many rows come back as limit allows there may
  be more: ask again with offset. For everything about a contact in one row of time take feed_get.
examples:
  - List my recent interactions with Magdalena.
  - Show all interactions of the type call with my father.
  - When did I last speak to Sebastian?
  - How often did we meet up with the Grubers this summer?
  - Has Nils written me any emails since Easter?
args:
  contact_id: {type: string, format: uuid, required: true, description: "With whom; from contact_search or
    contact_resolve."}
  type: {type: string, description: "Only of this type, such as call."}
  direction: {type: string, enum: [incoming, outgoing, mutual], description: "Only these."}
  start_date: {type: string, description: "First day, YYYY-MM-DD in the owner's time zone, or a moment in RFC 3339."}
  end_date: {type: string, description: "Last day, which counts whole, or a moment."}
  limit: {type: integer, default: 20, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
  deleted: {type: boolean, default: false, description: "True lists the deleted ones instead, for interaction_restore."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT i.id, i.type, i.direction, i.summary, i.occurred_at, i.duration_minutes, i.metadata, i.group_id,
       (SELECT g.name FROM groups g WHERE g.id = i.group_id) AS group_name
  FROM interactions i
 WHERE asks_about(:contact_id::uuid)
   AND shared.bound('start_date', :start_date::text, false) < shared.bound('end_date', :end_date::text, true)
   AND i.contact_id = (SELECT contact_there('contact_id', :contact_id::uuid))
   AND i.type = coalesce((SELECT as_word('type', :type::text)), i.type)
   AND (:direction::text IS NULL OR i.direction = :direction::text)
   AND i.occurred_at >= shared.bound('start_date', :start_date::text, false)
   AND i.occurred_at < shared.bound('end_date', :end_date::text, true)
   AND (i.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
 ORDER BY i.occurred_at DESC, i.id
 LIMIT coalesce(:limit::int, 20) OFFSET coalesce(:offset::int, 0);
