/*---
description: >-
  Tick an item of a checklist off, or with state dropped say that it isn't needed after all, or with state open take
  either back.
examples:
  - Tick off the charger on my trip checklist
  - Mark toothbrush as done on the trip checklist
  - The suitcase is packed with the hiking boots now
  - We don't need the umbrella in Egypt, skip that packing item
  - I've arranged the cat sitter for our vacation, so that's settled
args:
  item_id: {type: string, format: uuid, required: true, description: "The id that trip_checklist_list gave."}
  state: {type: string, enum: [done, dropped, open], default: done, description: "What it is from now on."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE checklist_items c
   SET state = coalesce(:state::text, 'done'), updated_at = shared.clock()
 WHERE c.id = :item_id::uuid AND (SELECT (checklist_item_of(:item_id::uuid)).id IS NOT NULL)
RETURNING c.id, c.trip_id, c.item, c.due_date, c.state,
          (SELECT count(*)::int FROM checklist_items o
            WHERE o.trip_id = c.trip_id AND o.state = 'open' AND o.id <> c.id)
          + (coalesce(:state::text, 'done') = 'open')::int AS still_open;
