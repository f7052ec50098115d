/*---
description: >-
  Record one booking: a leg (flight, train, bus, ferry, transfer), a stay (hotel, apartment, hostel, campsite) or a
  reservation (car, restaurant, activity, event, parking, other). Use it for every booking that the person or a mail
  names; of a journey with several legs record each. It finds the trip that the booking belongs to, or makes one
  (trip_made), and makes the trip longer where needed. The same booking told again is kept once (already_recorded); what
  its provider changed is taken over, and previous says what it was. warnings are clashes to tell the person. It books
  nothing.
examples:
  - Record this hotel booking in Vienna
  - Record my flight booking LH232 to Rome
  - I've reserved a table at the harbour bistro on Saturday evening
  - We got seats on the night train to Zurich, leaving at nine
  - The campsite by the lake confirmed our pitch from Friday until Monday
args:
  payload:
    type: object
    required: true
    description: >-
      The booking. Copy numbers exactly; leave out what is not known. A leg needs departure_at and from and to where; a
      stay check_in, check_out and its name; a reservation starts_at and its name. Times are local times of their place
      and carry its offset (2026-05-02T10:15+09:00), or come without offset beside a zone (Asia/Tokyo). check_in and
      check_out, starts_at and ends_at may be days. It is put on record, and nothing is booked.
    properties:
      kind: {type: string, description: "flight, train, bus, ferry, transfer, hotel, apartment, hostel, campsite, car,
        restaurant, activity, event, parking or other"}
      trip_id: {type: string, description: "The trip, where the person named it; otherwise it is found."}
      trip_name: {type: string, description: "What a new trip is to be called."}
      destination: {type: string, description: "Where the trip goes, where the booking does not tell."}
      provider: {type: string, description: "Airline, railway, portal or company."}
      name: {type: string, description: "Of the hotel, restaurant or activity."}
      number: {type: string, description: "Of the flight or train, such as LH232."}
      departure_airport_station: {type: string, description: "IATA code of the airport (FRA), or the station."}
      departure_city: {type: string}
      departure_at: {type: string}
      departure_zone: {type: string}
      arrival_airport_station: {type: string, description: "IATA code of the airport (FCO), or the station."}
      arrival_city: {type: string}
      arrival_at: {type: string}
      arrival_zone: {type: string}
      check_in: {type: string}
      check_out: {type: string}
      starts_at: {type: string, description: "Of a reservation; of a car its pick-up."}
      ends_at: {type: string}
      zone: {type: string, description: "Of a stay or reservation."}
      address: {type: string}
      city: {type: string}
      confirmation_number: {type: string}
      pnr: {type: string, description: "Record locator of an airline or railway, 5 to 8 letters and digits."}
      seat: {type: string}
      price: {type: number, description: "The whole price, with its currency."}
      currency: {type: string, description: "ISO 4217, such as EUR."}
      notes: {type: string}
returns: value
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
SELECT booking_record(:payload::jsonb);
