/*---
description: Who was met, called or written to, newest first.
method: get
path: interactions
args:
  contact_id: {type: string, format: uuid, description: "Only with this person."}
  limit: {type: integer, default: 100, minimum: 1, maximum: 1000, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
---*/
SELECT i.id, i.occurred_at, c.name, i.type, i.direction, i.summary, i.duration_minutes
  FROM interactions i JOIN contacts c ON c.id = i.contact_id
 WHERE i.deleted_at IS NULL AND (:contact_id::uuid IS NULL OR i.contact_id = :contact_id::uuid)
 ORDER BY i.occurred_at DESC, i.id
 LIMIT :limit::int OFFSET :offset::int;
