/*---
description: >-
  Change an item. data is laid over what is there: objects are merged key by key, a null takes a key away, lists and
  plain values replace the old ones (so give a list whole). What it said before comes back as previous and is kept.
  To tick something off: {"done": true}.
examples:
  - "Update the item: three bottles instead of two."
  - Change the due date of the roofer item to Thursday.
  - I've finished painting the fence, tick it off.
  - The milk is bought, so that one's done.
  - The cake needs two eggs rather than one, amend the recipe.
args:
  item_id: {type: string, format: uuid, required: true, description: "The id that item_search or item_create gave."}
  data: {type: object, required: true, description: 'Only what changes, such as {"amount": 3}; {} to change the tags
    alone.'}
  tags: {type: array, items: {type: string}, description: "The new tags, all of them. Without it they stay; an empty
    list takes them away."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
SELECT x.id, x.collection_name, x.data, x.tags, x.updated_at, x.previous
  FROM item_change(:item_id::uuid, :data::jsonb, :tags::text[]) x;
