/*---
description: >-
  One item whole, with the number of its earlier versions and the last of them.
examples:
  - Get the item on the Barolo with all its details.
  - Show that one item whole, with its earlier version.
  - What did my note about the boiler say before I changed it?
  - Open the lasagne recipe completely, ingredients, steps and all.
  - Tell me everything you stored on that blue sofa.
args:
  item_id: {type: string, format: uuid, required: true, description: "The id that item_search or item_create gave."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT i.id, c.name AS collection_name, i.data, i.tags, i.created_at, i.updated_at,
       jsonb_array_length(i.revisions) AS revisions, i.revisions -> -1 AS previous
  FROM items i JOIN collections c ON c.id = i.collection_id
 WHERE i.id = :item_id::uuid AND (SELECT (item_of(:item_id::uuid, false)).id IS NOT NULL);
