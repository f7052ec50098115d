/*---
description: >-
  Change a trip or bookings of it: only what the patch names, the rest stays, null takes a value away. What it said
  before comes back as previous and is kept. Look at trip_summary first. To cancel use trip_cancel or booking_cancel,
  for a new booking record_booking. warnings are clashes that the person should know.
examples:
  - Update the itinerary of my Madrid trip
  - Change the dates in the itinerary to June
  - The airline moved our flight to half past six in the morning
  - We're staying two nights longer in Florence, extend the vacation
  - My seat changed to 14A and the hotel room costs less now
args:
  trip_id: {type: string, format: uuid, required: true, description: "The id that list_trips gave.
    Look at trip_summary first."}
  patch:
    type: object
    required: true
    description: >-
      What changes: name, destination, start_date, end_date, notes of the trip, and bookings, a list of objects, each
      with the booking_id and the keys to change, called as in record_booking. trip_id in a booking moves it to that
      trip.
    properties:
      name: {type: string}
      destination: {type: string}
      start_date: {type: string, description: "YYYY-MM-DD"}
      end_date: {type: string, description: "YYYY-MM-DD"}
      notes: {type: [string, "null"]}
      bookings: {type: array, items: {type: object}}
  reason: {type: string, maxLength: 500, description: "Why, such as: the airline moved the flight."}
returns: value
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
SELECT itinerary_update(:trip_id::uuid, :patch::jsonb, :reason::text);
