/*---
description: >-
  Bring back a deleted item. item_search with deleted set to true finds them.
examples:
  - Restore the item I deleted this morning.
  - Bring back the deleted item about the lawnmower.
  - I struck off cheese too early, undo that on the shopping list.
  - That pancake recipe I tossed out, I'd like it returned.
  - Oops, the tent entry should not have been removed, recover it.
args:
  item_id: {type: string, format: uuid, required: true, description: "The id of the deleted item."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
UPDATE items i
   SET deleted_at = NULL
 WHERE i.id = :item_id::uuid AND (SELECT (item_of(:item_id::uuid, true)).id IS NOT NULL)
   AND CASE WHEN i.deleted_at IS NOT NULL
                 AND EXISTS (SELECT FROM items o WHERE o.collection_id = i.collection_id AND o.deleted_at IS NULL
                                AND o.data = i.data)
            THEN shared.refuse('An item that says the same was made since. Nothing changed.') ELSE true END
RETURNING i.id, (SELECT c.name FROM collections c WHERE c.id = i.collection_id) AS collection_name, i.data, i.tags;
