/*---
description: >-
  One item whole, with the number of its earlier versions and the last of them.
args:
  item_id: {type: string, format: uuid, required: true, description: "The id that item_search or item_create gave."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT i.id, c.name AS collection_name, i.data, i.tags, i.created_at, i.updated_at,
       jsonb_array_length(i.revisions) AS revisions, i.revisions -> -1 AS previous
  FROM items i JOIN collections c ON c.id = i.collection_id
 WHERE i.id = :item_id::uuid AND (SELECT (item_of(:item_id::uuid, false)).id IS NOT NULL);
