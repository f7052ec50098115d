/*---
description: >-
  Bring back a cancelled booking. trip_summary with include_cancelled shows them.
examples:
  - Restore the cancelled hotel booking
  - Bring back the train booking I cancelled
  - The ferry is running after all, put it back in the plan
  - I want the rental car again that you took off the itinerary
  - Undo dropping the apartment in Seville, we are staying there anyway
args:
  booking_id: {type: string, format: uuid, required: true, description: "The id of the cancelled booking."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
UPDATE bookings b
   SET cancelled_at = NULL, cancel_reason = NULL
 WHERE b.id = :booking_id::uuid AND (SELECT (booking_of(:booking_id::uuid)).id IS NOT NULL)
   AND CASE WHEN (trip_of(b.trip_id, true)).id IS NOT NULL AND b.cancelled_at IS NOT NULL
                 AND (booking_twin(b)).id IS NOT NULL
            THEN shared.refuse(format('The same booking was recorded anew, as %s. Nothing changed.',
                                      (booking_twin(b)).id))
            ELSE true END
RETURNING b.id, b.trip_id, booking_label(b) AS booking, b.starts_on, b.confirmation_number, b.pnr;
