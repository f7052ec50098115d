/*---
description: >-
  Delete a collection with all items in it. If the person did not name it exactly, or it has items they may not think
  of, ask first. collection_restore with the same id brings everything back. To delete one item use item_delete.
examples:
  - Delete the collection of board games.
  - Throw away the whole wedding collection with everything in it.
  - The renovation is over, the entire list of paint ideas can go.
  - I've sold my vinyl records, wipe out that complete catalogue.
  - We don't need the baby names any more, bin them all.
args:
  collection_id: {type: string, format: uuid, required: true, description: "The id that collection_list gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE collections c
   SET deleted_at = coalesce(c.deleted_at, shared.clock())
 WHERE c.id = :collection_id::uuid AND (SELECT (collection_of(:collection_id::uuid)).id IS NOT NULL)
RETURNING c.id, c.name, c.deleted_at,
          (SELECT count(*)::int FROM items i WHERE i.collection_id = c.id AND i.deleted_at IS NULL) AS items;
