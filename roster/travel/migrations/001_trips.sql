-- Trips, and what belongs to them: bookings, documents, things to do before leaving.
--
-- A booking is at a place, and its times are local times of that place. Each is kept as the moment (to compare) and as
-- the local time (to show): nobody should work out from another zone when a train leaves.

-- The kinds of bookings and which part of a trip each is: a leg of the way, a stay for the night, or a reservation.
-- Adding a kind is a later migration that replaces this function and the check on bookings.
CREATE FUNCTION booking_kinds() RETURNS TABLE (kind text, part text, label text, most interval)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    VALUES
        ('flight',     'leg',         'Flight',     interval '24 hours'),
        ('train',      'leg',         'Train',      interval '72 hours'),
        ('bus',        'leg',         'Bus',        interval '72 hours'),
        ('ferry',      'leg',         'Ferry',      interval '240 hours'),
        ('transfer',   'leg',         'Transfer',   interval '24 hours'),
        ('hotel',      'stay',        'Hotel',      NULL),
        ('apartment',  'stay',        'Apartment',  NULL),
        ('hostel',     'stay',        'Hostel',     NULL),
        ('campsite',   'stay',        'Campsite',   NULL),
        ('car',        'reservation', 'Rental car', NULL),
        ('restaurant', 'reservation', 'Restaurant', NULL),
        ('activity',   'reservation', 'Activity',   NULL),
        ('event',      'reservation', 'Event',      NULL),
        ('parking',    'reservation', 'Parking',    NULL),
        ('other',      'reservation', 'Booking',    NULL)
$$;

CREATE TABLE trips (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name          text NOT NULL CHECK (name <> ''),
    destination   text NOT NULL CHECK (destination <> ''),
    start_date    date NOT NULL,
    end_date      date NOT NULL,
    notes         text,
    changes       jsonb NOT NULL DEFAULT '[]',
    created_at    timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at    timestamptz,
    cancelled_at  timestamptz,
    cancel_reason text,
    CHECK (end_date >= start_date)
);
SELECT shared.tenant_table('trips');
COMMENT ON COLUMN trips.changes IS 'What it said before each change: {at, reason, before}, oldest first.';
-- trip_create relies on this: the same trip told twice is one.
CREATE UNIQUE INDEX trips_one ON trips (tenant_id, lower(name), start_date) WHERE cancelled_at IS NULL;
CREATE INDEX trips_by_day ON trips (tenant_id, start_date);

CREATE TABLE bookings (
    id                  uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    trip_id             uuid NOT NULL REFERENCES trips (id),
    kind                text NOT NULL
                        CHECK (kind IN ('flight', 'train', 'bus', 'ferry', 'transfer', 'hotel', 'apartment', 'hostel',
                                        'campsite', 'car', 'restaurant', 'activity', 'event', 'parking', 'other')),
    provider            text,
    name                text,
    number              text,
    from_place          text,
    from_city           text,
    to_place            text,
    to_city             text,
    city                text,
    address             text,
    starts_on           date NOT NULL,
    starts_at           timestamptz,
    starts_local        timestamp,
    start_zone          text,
    ends_on             date,
    ends_at             timestamptz,
    ends_local          timestamp,
    end_zone            text,
    confirmation_number text,
    pnr                 text,
    seat                text,
    price               numeric,
    currency            text,
    notes               text,
    changes             jsonb NOT NULL DEFAULT '[]',
    created_at          timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at          timestamptz,
    cancelled_at        timestamptz,
    cancel_reason       text
);
SELECT shared.tenant_table('bookings');
COMMENT ON COLUMN bookings.starts_on IS 'Day of departure, check-in or beginning, at the place.';
COMMENT ON COLUMN bookings.starts_at IS 'The moment; null where only the day is known.';
COMMENT ON COLUMN bookings.starts_local IS 'The same moment by the clock of the place.';
COMMENT ON COLUMN bookings.changes IS 'What it said before each change: {at, reason, before}, oldest first.';
CREATE INDEX bookings_of_trip ON bookings (tenant_id, trip_id, starts_on);
CREATE INDEX bookings_by_day ON bookings (tenant_id, starts_on);

CREATE TABLE documents (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    trip_id     uuid REFERENCES trips (id),
    type        text NOT NULL
                CHECK (type IN ('passport', 'id_card', 'visa', 'driving_licence', 'insurance', 'vaccination',
                                'boarding_pass', 'ticket', 'booking', 'other')),
    holder      text NOT NULL DEFAULT '',
    blob_ref    text,
    expiry_date date,
    metadata    jsonb NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at  timestamptz,
    deleted_at  timestamptz
);
SELECT shared.tenant_table('documents');
COMMENT ON COLUMN documents.trip_id IS 'Null for one that is good for every trip, such as a passport.';
COMMENT ON COLUMN documents.holder IS 'Whose it is; empty for the owner.';
-- add_document relies on this: the same document told twice is one.
CREATE UNIQUE INDEX documents_one ON documents (tenant_id, type, lower(holder), trip_id, expiry_date, blob_ref)
    NULLS NOT DISTINCT WHERE deleted_at IS NULL;
CREATE INDEX documents_by_expiry ON documents (tenant_id, expiry_date);

CREATE TABLE checklist_items (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    trip_id    uuid NOT NULL REFERENCES trips (id),
    item       text NOT NULL CHECK (item <> ''),
    due_date   date,
    state      text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'dropped')),
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at timestamptz
);
SELECT shared.tenant_table('checklist_items');
-- trip_checklist_add relies on this: the same item told twice is one.
CREATE UNIQUE INDEX checklist_items_one ON checklist_items (tenant_id, trip_id, lower(item));

-- The trip with this id. A missing one is refused, and a cancelled one too where it must be live.
CREATE FUNCTION trip_of(wanted uuid, must_be_live boolean) RETURNS trips
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    t trips;
BEGIN
    SELECT * INTO t FROM trips WHERE id = wanted;
    IF t.id IS NULL THEN
        RAISE EXCEPTION 'There is no trip with that id; list_trips shows them.' USING ERRCODE = '22023';
    ELSIF must_be_live AND t.cancelled_at IS NOT NULL THEN
        RAISE EXCEPTION 'The trip "%" was cancelled. trip_restore brings it back first.', t.name
            USING ERRCODE = '22023';
    END IF;
    RETURN t;
END
$$;

-- The same for what belongs to trips.
CREATE FUNCTION booking_of(wanted uuid) RETURNS bookings
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    b bookings;
BEGIN
    SELECT * INTO b FROM bookings WHERE id = wanted;
    IF b.id IS NULL THEN
        RAISE EXCEPTION 'There is no booking with that id; trip_summary shows the bookings of a trip.'
            USING ERRCODE = '22023';
    END IF;
    RETURN b;
END
$$;

CREATE FUNCTION document_of(wanted uuid) RETURNS documents
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    d documents;
BEGIN
    SELECT * INTO d FROM documents WHERE id = wanted;
    IF d.id IS NULL THEN
        RAISE EXCEPTION 'There is no document with that id; document_list shows them.' USING ERRCODE = '22023';
    END IF;
    RETURN d;
END
$$;

CREATE FUNCTION checklist_item_of(wanted uuid) RETURNS checklist_items
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    c checklist_items;
BEGIN
    SELECT * INTO c FROM checklist_items WHERE id = wanted;
    IF c.id IS NULL THEN
        RAISE EXCEPTION 'There is no checklist item with that id; trip_checklist_list shows them.'
            USING ERRCODE = '22023';
    ELSIF (trip_of(c.trip_id, true)).id IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN c;
END
$$;

CREATE FUNCTION trip_status(t trips) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT CASE WHEN t.cancelled_at IS NOT NULL THEN 'cancelled'
                WHEN shared.today() < t.start_date THEN 'planned'
                WHEN shared.today() > t.end_date THEN 'completed'
                ELSE 'active' END
$$;

CREATE FUNCTION trip_json(t trips) RETURNS jsonb
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'id', t.id, 'name', t.name, 'destination', t.destination, 'start_date', t.start_date, 'end_date', t.end_date,
        'status', trip_status(t),
        'days_until_departure', CASE WHEN t.start_date >= shared.today() THEN t.start_date - shared.today() END,
        'notes', t.notes, 'cancel_reason', t.cancel_reason))
$$;

-- A time at a place as a person there reads it, with its offset; a day where no time is known.
CREATE FUNCTION local_text(day date, at timestamptz, local timestamp) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
    SELECT CASE WHEN at IS NULL THEN day::text
                ELSE to_char(local, 'YYYY-MM-DD"T"HH24:MI') || (
                    SELECT CASE WHEN m < 0 THEN '-' ELSE '+' END || to_char(abs(m) / 60, 'FM00') || ':'
                           || to_char(abs(m) % 60, 'FM00')
                      FROM (SELECT (extract(epoch FROM local - (at AT TIME ZONE 'UTC')) / 60)::int AS m) o) END
$$;

-- A day, or a day with its time, for a sentence.
CREATE FUNCTION said_day(day date) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT to_char(day, 'FMDy FMDD Mon YYYY') $$;
CREATE FUNCTION said_time(day date, local timestamp) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(to_char(local, 'FMDy FMDD Mon YYYY, HH24:MI'), to_char(day, 'FMDy FMDD Mon YYYY')) $$;

-- A booking with the same keys as record_booking takes.
CREATE FUNCTION booking_json(b bookings) RETURNS jsonb
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('id', b.id, 'kind', b.kind, 'provider', b.provider, 'name', b.name)
        || CASE k.part
           WHEN 'leg' THEN jsonb_build_object(
               'number', b.number, 'seat', b.seat,
               'departure_airport_station', b.from_place, 'departure_city', b.from_city,
               'departure_at', local_text(b.starts_on, b.starts_at, b.starts_local), 'departure_zone', b.start_zone,
               'arrival_airport_station', b.to_place, 'arrival_city', b.to_city,
               'arrival_at', local_text(b.ends_on, b.ends_at, b.ends_local), 'arrival_zone', b.end_zone)
           WHEN 'stay' THEN jsonb_build_object(
               'address', b.address, 'city', b.city, 'zone', b.start_zone,
               'check_in', local_text(b.starts_on, b.starts_at, b.starts_local),
               'check_out', local_text(b.ends_on, b.ends_at, b.ends_local), 'nights', b.ends_on - b.starts_on)
           ELSE jsonb_build_object(
               'address', b.address, 'city', b.city, 'zone', b.start_zone,
               'starts_at', local_text(b.starts_on, b.starts_at, b.starts_local),
               'ends_at', local_text(b.ends_on, b.ends_at, b.ends_local)) END
        || jsonb_build_object('confirmation_number', b.confirmation_number, 'pnr', b.pnr, 'price', b.price,
               'currency', b.currency, 'notes', b.notes, 'cancelled_at', b.cancelled_at,
               'cancel_reason', b.cancel_reason))
      FROM booking_kinds() k WHERE k.kind = b.kind
$$;

-- A booking in a few words: "Flight LH232, FRA to FCO", "Hotel Roma".
CREATE FUNCTION booking_label(b bookings) RETURNS text
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT CASE k.part
           WHEN 'leg' THEN concat_ws(', ', concat_ws(' ', k.label, coalesce(b.number, b.provider)),
                                     coalesce(b.from_place, b.from_city) || ' to ' || coalesce(b.to_place, b.to_city))
           ELSE CASE WHEN coalesce(b.name, b.provider) ILIKE k.label || '%' THEN '' ELSE k.label || ' ' END
                || coalesce(b.name, b.provider, b.address) END
      FROM booking_kinds() k WHERE k.kind = b.kind
$$;

-- Documents whose end matters: without them nobody travels, drives or is insured.
CREATE FUNCTION document_lasts(type text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT type IN ('passport', 'id_card', 'visa', 'driving_licence', 'insurance', 'vaccination') $$;

CREATE FUNCTION document_label(d documents) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT initcap(replace(d.type, '_', ' ')) || CASE WHEN d.holder = '' THEN '' ELSE ' of ' || d.holder END $$;
