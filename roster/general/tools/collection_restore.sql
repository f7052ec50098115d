/*---
description: >-
  Bring back a deleted collection with its items. collection_list with deleted set to true lists them.
examples:
  - Restore the deleted wine collection.
  - Bring the garden collection back with all its items.
  - I shouldn't have thrown out the whole packing list, retrieve it.
  - My wife still needs those baby names we binned, all of them.
  - Wiping the stamp catalogue was premature, get everything back.
args:
  collection_id: {type: string, format: uuid, required: true, description: "The id of the deleted collection."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE collections c
   SET deleted_at = NULL
 WHERE c.id = :collection_id::uuid AND (SELECT (collection_of(:collection_id::uuid)).id IS NOT NULL)
   AND CASE WHEN c.deleted_at IS NOT NULL
                 AND EXISTS (SELECT FROM collections o WHERE o.deleted_at IS NULL AND lower(o.name) = lower(c.name))
            THEN shared.refuse(format('A new collection "%s" has taken its place. Delete that one first.', c.name))
            ELSE true END
RETURNING c.id, c.name, c.description,
          (SELECT count(*)::int FROM items i WHERE i.collection_id = c.id AND i.deleted_at IS NULL) AS items;
