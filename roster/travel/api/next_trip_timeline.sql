/*---
description: What happens when on the trip that is under way or comes next.
method: get
path: next-trip/timeline
returns: rows
card: {kind: timeline, title: Next trip, at: at, label: what}
---*/
WITH next AS (
    SELECT t.* FROM trips t
     WHERE t.cancelled_at IS NULL AND t.end_date >= shared.today()
     ORDER BY t.start_date, t.id LIMIT 1
)
SELECT e.at, e.what, e.booking_id
  FROM (SELECT coalesce(b.starts_at, b.starts_on::timestamptz) AS at, b.starts_on AS day, 1 AS place,
               CASE k.part WHEN 'stay' THEN 'Check-in: ' ELSE '' END || booking_label(b) AS what, b.id AS booking_id
          FROM next t JOIN bookings b ON b.trip_id = t.id JOIN booking_kinds() k ON k.kind = b.kind
         WHERE b.cancelled_at IS NULL
        UNION ALL
        SELECT coalesce(b.ends_at, b.ends_on::timestamptz), b.ends_on, 2,
               CASE k.part WHEN 'stay' THEN 'Check-out: ' WHEN 'leg' THEN 'Arrival: ' ELSE 'End: ' END
               || booking_label(b), b.id
          FROM next t JOIN bookings b ON b.trip_id = t.id JOIN booking_kinds() k ON k.kind = b.kind
         WHERE b.cancelled_at IS NULL AND b.ends_on IS NOT NULL) e
 ORDER BY e.day, e.at, e.place, e.booking_id;
