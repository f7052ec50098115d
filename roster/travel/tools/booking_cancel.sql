/*---
description: >-
  Take one booking out of its trip because it was cancelled or recorded by mistake. Nothing is cancelled with the
  provider. booking_restore takes it back. The dates of the trip stay; update_itinerary changes them.
examples:
  - Cancel the hotel booking in Lisbon
  - Remove the car booking from my trip
  - We won't be dining at that restaurant in Porto, take it out
  - The airline scrapped our return flight, it's no longer happening
  - I gave back the museum tickets, drop them from the Paris plan
args:
  booking_id: {type: string, format: uuid, required: true, description: "The id that trip_summary gave."}
  reason: {type: string, maxLength: 500, description: "Why, in the person's words."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
UPDATE bookings b
   SET cancelled_at = coalesce(b.cancelled_at, shared.clock()),
       cancel_reason = coalesce(nullif(btrim(:reason::text), ''), b.cancel_reason)
 WHERE b.id = :booking_id::uuid AND (SELECT (booking_of(:booking_id::uuid)).id IS NOT NULL)
RETURNING b.id, b.trip_id, booking_label(b) AS booking, b.starts_on, b.confirmation_number, b.pnr, b.cancelled_at,
          b.cancel_reason;
