/*---
description: >-
  The trips that are under way or begin within the next days, soonest first: dates, days until departure, the next
  booking, and pretrip_actions, the sentences on what is missing, clashes or is to be done before leaving. Use it for
  "what is coming up"; trip_summary shows one trip whole. An empty list: nothing is planned in that time.
examples:
  - What upcoming travel do I have?
  - Show my upcoming travel in the next two weeks
  - Am I going anywhere this month?
  - When is my next departure and what's missing for it?
  - How many days until we're off on holiday?
args:
  within_days: {type: integer, default: 14, minimum: 0, description: "How many days ahead a trip may begin, up to
    two years."}
  include_pretrip_actions: {type: boolean, default: true, description: "False leaves pretrip_actions out."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT t.id, t.name, t.destination, t.start_date, t.end_date, trip_status(t) AS status,
       greatest(t.start_date - shared.today(), 0) AS days_until_departure,
       (SELECT booking_json(b) FROM bookings b
         WHERE b.trip_id = t.id AND b.cancelled_at IS NULL
           AND coalesce(b.starts_at >= shared.clock(), b.starts_on >= shared.today())
         ORDER BY b.starts_on, b.starts_at NULLS LAST, b.id LIMIT 1) AS next_booking,
       CASE WHEN :include_pretrip_actions::boolean IS NOT FALSE THEN
           (SELECT coalesce(jsonb_agg(p.message ORDER BY p.urgent DESC, p.day, p.message), '[]') FROM trip_points(t) p)
       END AS pretrip_actions
  FROM trips t
 WHERE t.cancelled_at IS NULL AND t.end_date >= shared.today()
   AND t.start_date <= shared.today() + coalesce(:within_days::int, 14)
   AND (SELECT CASE WHEN :within_days::int > 731
                    THEN shared.refuse('within_days is at most two years (731 days); list_trips shows all trips.')
                    ELSE true END)
 ORDER BY t.start_date, t.id
 LIMIT 100;
