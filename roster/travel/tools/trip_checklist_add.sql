/*---
description: >-
  Put things on a trip's checklist: what is to be packed, arranged or bought before leaving. Each is there once, however
  often it is added; one that was done or dropped stays so. It returns the items with their ids. Bookings and documents
  have tools of their own.
examples:
  - Add sunscreen to my trip checklist
  - Put charger and adapter on the checklist for the trip
  - I mustn't forget to pack swimsuits and flip flops for Mallorca
  - Before flying off I have to exchange money and water the plants
  - Buy mosquito repellent and a neck pillow before we leave for Kenya
args:
  trip_id: {type: string, format: uuid, required: true, description: "The id that list_trips gave."}
  items: {type: array, required: true, items: {type: string, minLength: 1, maxLength: 200}, description: "What is to be
    done, one thing each, such as: pack the charger. At most 50."}
  due_date: {type: string, description: "By when, YYYY-MM-DD, for all of these. Leave it out for before leaving."}
returns: rows
meta: {reads_private: true, effect: idempotent}
---*/
INSERT INTO checklist_items AS c (trip_id, item, due_date)
SELECT DISTINCT ON (lower(btrim(i.item))) t.id, btrim(i.item), shared.day('due_date', :due_date::text)
  FROM trip_of(:trip_id::uuid, true) t, unnest(:items::text[]) i(item)
 WHERE btrim(i.item) <> ''
   AND CASE WHEN cardinality(:items::text[]) > 50 THEN shared.refuse('More than 50 items at once. Add them in parts.')
            WHEN shared.day('due_date', :due_date::text) > t.end_date
            THEN shared.refuse(format('due_date (%s) lies after the trip, which ends on %s.',
                                      shared.day('due_date', :due_date::text), t.end_date))
            ELSE true END
ON CONFLICT (tenant_id, trip_id, lower(item))
DO UPDATE SET due_date = coalesce(excluded.due_date, c.due_date), updated_at = shared.clock()
RETURNING c.id, c.item, c.due_date, c.state, (c.xmax <> 0) AS already_there;
