/*---
description: >-
  Trips that begin in 7 days, tomorrow or today, with what is open, and flights of tomorrow, whose check-in opens today.
notify:
  template: "{line}"
  priority: medium
---*/
SELECT x.line
  FROM (SELECT 1 AS part, t.start_date AS day, trip_line(t) AS line, t.id
          FROM trips t
         WHERE t.cancelled_at IS NULL AND t.start_date - shared.today() IN (0, 1, 7)
        UNION ALL
        SELECT 2, b.starts_on,
               format('Check-in for %s opens 24 hours before it leaves: %s by the clock of the place%s.',
                      booking_label(b), said_time(b.starts_on, b.starts_local - interval '24 hours'),
                      coalesce(' (' || coalesce(b.pnr, b.confirmation_number) || ')', '')),
               b.id
          FROM bookings b JOIN trips t ON t.id = b.trip_id AND t.cancelled_at IS NULL
         WHERE b.kind = 'flight' AND b.cancelled_at IS NULL
           -- By the owner's calendar: each flight is told on one day, the one before.
           AND (b.starts_at AT TIME ZONE current_setting('TimeZone'))::date = shared.today() + 1
       ) x
 ORDER BY x.part, x.day, x.id;
