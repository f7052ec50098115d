/*---
description: >-
  What changed in the lives of the contacts, of one or of all, newest first; events without a day come last. If as many
  rows come back as limit allows there may be more: ask again with offset.
examples:
  - List the life events of my cousin Astrid.
  - Which life events happened among my friends this year?
  - What big changes has Jonathan gone through, jobs, moves, children?
  - Who of my people got married or had babies lately?
  - Tell me the milestones in the career and family of Mr. Tanaka.
args:
  contact_id: {type: string, format: uuid, description: "In whose life. Leave it out for all."}
  type_name: {type: string, description: "Only of this type; life_event_types_list shows the types."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
  deleted: {type: boolean, default: false, description: "True lists the deleted ones instead, for life_event_restore."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT e.id, e.contact_id, c.name AS contact_name, e.type_name, k.category, k.label, e.summary, e.description,
       e.happened_at
  FROM life_events e
  JOIN contacts c ON c.id = e.contact_id
  LEFT JOIN life_event_kinds() k ON k.name = e.type_name
 WHERE asks_about(:contact_id::uuid)
   AND (:type_name::text IS NULL OR life_event_type('type_name', :type_name::text) IS NOT NULL)
   AND e.contact_id = coalesce((SELECT contact_there('contact_id', :contact_id::uuid)), e.contact_id)
   AND e.type_name = coalesce((SELECT life_event_type('type_name', :type_name::text)), e.type_name)
   AND (e.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
 ORDER BY e.happened_at DESC NULLS LAST, e.created_at DESC, e.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
