/*---
description: >-
  Bring back a cancelled trip with everything that belongs to it. list_trips with status cancelled shows them.
examples:
  - Restore the cancelled trip to Morocco
  - Bring back my Iceland trip
  - We're flying to Crete after all, revive that vacation
  - The fair in Milan was called off but now takes place again
  - Undo scrapping the honeymoon, the Maldives are on again
args:
  trip_id: {type: string, format: uuid, required: true, description: "The id of the cancelled trip."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
UPDATE trips t
   SET cancelled_at = NULL, cancel_reason = NULL
 WHERE t.id = :trip_id::uuid AND (SELECT (trip_of(:trip_id::uuid, false)).id IS NOT NULL)
   AND CASE WHEN t.cancelled_at IS NOT NULL
                 AND EXISTS (SELECT FROM trips o WHERE o.cancelled_at IS NULL AND lower(o.name) = lower(t.name)
                                AND o.start_date = t.start_date)
            THEN shared.refuse(format('There is a trip "%s" on those days already. Rename that one with '
                                      'update_itinerary first, or cancel it.', t.name)) ELSE true END
RETURNING t.id, t.name, t.destination, t.start_date, t.end_date, trip_status(t) AS status;
