/*---
description: >-
  Note a trip before anything is booked for it. Not needed for a booking: record_booking makes or finds its trip. It
  returns the trip; already_there is true if one of that name and first day was on record, which is then kept.
examples:
  - Create a trip to Japan in April
  - Note a new trip called Rome in May
  - We're planning a week in Croatia in July, nothing reserved yet
  - I'll be visiting my cousin in Toronto from the third to the tenth
  - Pencil in a long weekend in Amsterdam for our anniversary
args:
  name: {type: string, required: true, minLength: 1, maxLength: 200, description: "What the person calls it, such as
    Rome in May."}
  destination: {type: string, required: true, minLength: 1, maxLength: 200, description: "The city or country it goes
    to."}
  start_date: {type: string, required: true, description: "First day, YYYY-MM-DD."}
  end_date: {type: string, required: true, description: "Last day, YYYY-MM-DD."}
  notes: {type: string, maxLength: 4000, description: "What else is to be kept, in the person's words."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
INSERT INTO trips AS t (name, destination, start_date, end_date, notes)
SELECT btrim(:name::text), btrim(:destination::text), d.first, d.last, nullif(btrim(:notes::text), '')
  FROM (SELECT shared.day('start_date', :start_date::text) AS first, shared.day('end_date', :end_date::text) AS last) d
 WHERE CASE WHEN d.last < d.first
            THEN shared.refuse(format('end_date (%s) lies before start_date (%s).', d.last, d.first))
            WHEN d.last > d.first + 1100 THEN shared.refuse('A trip of more than three years is none. Check the years.')
            WHEN btrim(:name::text) = '' OR btrim(:destination::text) = ''
            THEN shared.refuse('name and destination must not be empty.')
            ELSE true END
ON CONFLICT (tenant_id, lower(name), start_date) WHERE cancelled_at IS NULL
DO UPDATE SET notes = coalesce(excluded.notes, t.notes)
RETURNING t.id, t.name, t.destination, t.start_date, t.end_date, trip_status(t) AS status, t.notes,
          (t.xmax <> 0) AS already_there;
