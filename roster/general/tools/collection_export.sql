/*---
description: >-
  All items of one collection as they are, oldest first: to show a whole list, or to hand it on. item_search finds
  single ones.
examples:
  - Export my book collection.
  - Give me the whole collection of recipes to hand on.
  - Read out everything on the shopping list.
  - I want to send my brother the full inventory of our tools.
  - Print all my cheese tasting notes from first to last.
args:
  collection_name: {type: string, required: true, minLength: 1, maxLength: 100, description: "Its name."}
  limit: {type: integer, default: 500, minimum: 1, maximum: 500, description: "At most so many rows. As many as that
    came back: ask again with offset."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the oldest."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT i.id, i.data, i.tags, i.created_at, i.updated_at
  FROM items i
 WHERE i.collection_id = (SELECT (collection_named(:collection_name::text)).id) AND i.deleted_at IS NULL
   AND (SELECT (collection_named(:collection_name::text)).id IS NOT NULL)
 ORDER BY i.created_at, i.id
 LIMIT coalesce(:limit::int, 500) OFFSET coalesce(:offset::int, 0);
