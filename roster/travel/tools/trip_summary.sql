/*---
description: >-
  One trip whole: legs, accommodations and reservations with their numbers and local times, documents, checklist, a
  timeline of everything in order, and open_points, the sentences on what is missing or clashes. Use it to answer
  questions about a trip and before you change one. Times are local times of their place, with its offset.
examples:
  - Give me a summary of the Rome trip
  - Show the whole trip to Scotland with its timeline
  - What time do we land in Dublin and which hotel is it?
  - What's our seat and confirmation code for the train to Prague?
  - Walk me through the Sicily vacation day by day
args:
  trip_id: {type: string, format: uuid, required: true, description: "The id that list_trips or upcoming_travel gave."}
  include_documents: {type: boolean, default: true, description: "False leaves the documents out."}
  include_timeline: {type: boolean, default: true, description: "False leaves the timeline out."}
  include_cancelled: {type: boolean, default: false, description: "True shows cancelled bookings too, with
    cancelled_at, for booking_restore."}
returns: value
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT trip_summary_json(:trip_id::uuid, coalesce(:include_documents::boolean, true),
                         coalesce(:include_timeline::boolean, true), coalesce(:include_cancelled::boolean, false));
