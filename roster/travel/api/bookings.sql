/*---
description: The bookings of a trip, in their order.
method: get
path: bookings
args:
  trip_id: {type: string, format: uuid, required: true, description: "The id that `trips` shows."}
returns: rows
---*/
SELECT b.id, b.kind, booking_label(b) AS what, b.starts_on, b.starts_at, b.ends_on, b.ends_at, b.confirmation_number,
       b.seat, b.price, b.currency
  FROM bookings b
 WHERE b.trip_id = :trip_id::uuid AND b.cancelled_at IS NULL
 ORDER BY b.starts_on, b.starts_at NULLS LAST, b.id;
