/*---
description: >-
  Trips, the latest first, all or by status or time, with the number of their bookings. Use it to find the id of a
  trip; trip_summary shows one whole, upcoming_travel what comes next. A trip's status follows from its dates.
examples:
  - List all my trips this year
  - Show trips I have completed
  - Where did I go on vacation in 2023?
  - Which journeys have I called off so far?
  - How many times was I away between March and September?
args:
  status: {type: string, enum: [planned, active, completed, cancelled], description: "Only these. Without it all but
    the cancelled ones."}
  from_date: {type: string, description: "Only trips that end on this day or later, YYYY-MM-DD."}
  to_date: {type: string, description: "Only trips that begin on this day or earlier, YYYY-MM-DD."}
  limit: {type: integer, default: 20, minimum: 1, maximum: 500, description: "At most so many. If as many come back
    there may be more."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT t.id, t.name, t.destination, t.start_date, t.end_date, trip_status(t) AS status,
       (SELECT count(*)::int FROM bookings b WHERE b.trip_id = t.id AND b.cancelled_at IS NULL) AS bookings
  FROM trips t
 WHERE (trip_status(t) = :status::text OR :status::text IS NULL AND t.cancelled_at IS NULL)
   AND t.end_date >= coalesce(shared.day('from_date', :from_date::text), '-infinity')
   AND t.start_date <= coalesce(shared.day('to_date', :to_date::text), 'infinity')
   AND (SELECT CASE WHEN shared.day('to_date', :to_date::text) < shared.day('from_date', :from_date::text)
                    THEN shared.refuse('to_date lies before from_date. Swap them, or correct one.') ELSE true END)
 ORDER BY t.start_date DESC, t.id
 LIMIT coalesce(:limit::int, 20) OFFSET coalesce(:offset::int, 0);
