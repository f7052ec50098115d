/*---
description: >-
  The checklist of a trip: what is open, done and dropped, by due date.
examples:
  - Show the checklist for my Norway trip
  - What is still open on the trip checklist?
  - What do I still have to pack for Tenerife?
  - Which errands remain before we set off to Scotland?
  - Have I put my raincoat and camera into the suitcase yet?
args:
  trip_id: {type: string, format: uuid, required: true, description: "The id that list_trips gave."}
  state: {type: string, enum: [open, done, dropped], description: "Only these. Without it all."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT c.id, c.item, c.due_date, c.state
  FROM checklist_items c
 WHERE c.trip_id = :trip_id::uuid AND (SELECT (trip_of(:trip_id::uuid, false)).id IS NOT NULL)
   AND (:state::text IS NULL OR c.state = :state::text)
 ORDER BY c.due_date NULLS LAST, c.created_at, c.item, c.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
