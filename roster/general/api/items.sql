/*---
description: Items, newest first, of one collection or of all.
method: get
path: items
args:
  collection_id: {type: string, format: uuid, description: "Only of this one, from `collections`."}
  limit: {type: integer, default: 100, minimum: 1, maximum: 1000, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
---*/
SELECT i.id, c.name AS collection, i.data, i.tags, i.created_at, i.updated_at
  FROM items i JOIN collections c ON c.id = i.collection_id AND c.deleted_at IS NULL
 WHERE i.deleted_at IS NULL AND (:collection_id::uuid IS NULL OR i.collection_id = :collection_id::uuid)
 ORDER BY i.created_at DESC, i.id
 LIMIT :limit::int OFFSET :offset::int;
