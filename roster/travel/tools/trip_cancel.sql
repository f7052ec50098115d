/*---
description: >-
  Cancel a trip: it is no longer listed, warned of or checked. Its bookings stay as they are on record, and nothing is
  cancelled with an airline or a hotel: tell the person which bookings they still have to cancel themselves
  (still_booked). trip_restore takes it back.
examples:
  - Cancel my trip to Iceland
  - Call off the whole Barcelona trip
  - We aren't going to Crete anymore, grandma is in hospital
  - The conference in Berlin fell through, so I'm staying home
  - Forget the honeymoon in Bali, the wedding is postponed
args:
  trip_id: {type: string, format: uuid, required: true, description: "The id that list_trips gave."}
  reason: {type: string, maxLength: 500, description: "Why, in the person's words."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
UPDATE trips t
   SET cancelled_at = coalesce(t.cancelled_at, shared.clock()),
       cancel_reason = coalesce(nullif(btrim(:reason::text), ''), t.cancel_reason)
 WHERE t.id = :trip_id::uuid AND (SELECT (trip_of(:trip_id::uuid, false)).id IS NOT NULL)
RETURNING t.id, t.name, t.start_date, t.end_date, trip_status(t) AS status, t.cancel_reason, t.cancelled_at,
          (SELECT coalesce(jsonb_agg(booking_json(b) ORDER BY b.starts_on, b.id), '[]') FROM bookings b
            WHERE b.trip_id = t.id AND b.cancelled_at IS NULL
              AND booking_last_day(b) >= shared.today()) AS still_booked;
