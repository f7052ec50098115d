/*---
description: >-
  Documents that expire in 90, 30 or 7 days, and, 90, 30 and 7 days before a trip that has bookings, documents that
  expire before it ends.
notify:
  template: "{line}"
  priority: medium
---*/
SELECT x.line
  FROM (SELECT document_label(d) || ' expires in ' || (d.expiry_date - shared.today()) || ' days, on '
               || said_day(d.expiry_date) || '.' AS line, d.expiry_date AS day, d.id
          FROM documents d
         WHERE d.deleted_at IS NULL AND d.expiry_date - shared.today() IN (90, 30, 7)
           AND document_lasts(d.type)
           -- A renewed one is no news, nor is one of a trip that was cancelled or is over.
           AND NOT EXISTS (SELECT FROM documents o
                            WHERE o.deleted_at IS NULL AND o.type = d.type AND lower(o.holder) = lower(d.holder)
                              AND (o.trip_id IS NULL OR o.trip_id = d.trip_id) AND o.expiry_date > d.expiry_date)
           AND (d.trip_id IS NULL OR EXISTS (SELECT FROM trips t
                                              WHERE t.id = d.trip_id AND t.cancelled_at IS NULL
                                                AND t.end_date >= shared.today()))
        UNION ALL
        SELECT t.name || ' (begins on ' || said_day(t.start_date) || '): ' || p.message, t.start_date, t.id
          FROM trips t CROSS JOIN LATERAL trip_points(t) p
         WHERE t.cancelled_at IS NULL AND t.start_date - shared.today() IN (90, 30, 7) AND p.kind = 'document_expires'
           AND EXISTS (SELECT FROM bookings b WHERE b.trip_id = t.id AND b.cancelled_at IS NULL)
       ) x
 ORDER BY x.day, x.line, x.id;
