/*---
description: >-
  Put one item into a collection that is there (collection_create makes one). data is an object with whatever keys
  suit; keep to the keys of the items that are in it. Two keys mean the same everywhere: due, the day or moment by which
  it is to be done, and done, true or false. The same data again gives the item that is there (already_there true).
examples:
  - "Create an item in groceries: two litres of milk."
  - Add a new item to the wine collection, a Barolo 2019.
  - We're out of butter, put it on the shopping list.
  - Jot among my to-dos that I must call the roofer by May.
  - Keep that documentary about the octopus with the other films to watch.
args:
  collection_name: {type: string, required: true, minLength: 1, maxLength: 100, description: "The collection's name."}
  data: {type: object, required: true, description: 'What is kept, such as {"title": "Call the roofer", "due":
    "2026-05-04", "done": false}.'}
  tags: {type: array, items: {type: string}, description: "Words to find it by, besides those in data."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT a.id, a.collection_name, a.data, a.tags, a.created_at, a.already_there
  FROM item_add(:collection_name::text, :data::jsonb, :tags::text[]) a;
