/*---
description: >-
  Delete one item. item_restore with the same id brings it back. Something that is done is not deleted: item_update
  with {"done": true}.
examples:
  - Delete the item about the old printer.
  - Remove that item from the reading list.
  - We've decided against a trampoline, take it off the wish list.
  - I put down yoghurt by mistake, strike it out.
  - The Merlot doesn't belong among my wines, throw just that one out.
args:
  item_id: {type: string, format: uuid, required: true, description: "The id that item_search gave."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
UPDATE items i
   SET deleted_at = coalesce(i.deleted_at, shared.clock())
 WHERE i.id = :item_id::uuid AND (SELECT (item_of(:item_id::uuid, true)).id IS NOT NULL)
RETURNING i.id, (SELECT c.name FROM collections c WHERE c.id = i.collection_id) AS collection_name, i.data, i.tags,
          i.deleted_at;
