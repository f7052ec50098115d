-- Recording a booking and changing an itinerary: what tools do in more than one step.

-- What differs between two states of a row, as it was before; keys that were not there are null.
CREATE FUNCTION before_of(old jsonb, new jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(key, old -> key), '{}')
      FROM (SELECT jsonb_object_keys(old) UNION SELECT jsonb_object_keys(new)) k(key)
     WHERE old -> key IS DISTINCT FROM new -> key
$$;

-- Writes a checked state of a booking over its row, with what it said before.
CREATE FUNCTION booking_put(b bookings, why text) RETURNS jsonb
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    old    bookings;
    before jsonb;
BEGIN
    SELECT * INTO old FROM bookings WHERE id = b.id FOR UPDATE;
    before := before_of(booking_json(old) || jsonb_build_object('trip_id', old.trip_id),
                        booking_json(b) || jsonb_build_object('trip_id', b.trip_id));
    IF before <> '{}' THEN
        UPDATE bookings
           SET (trip_id, provider, name, number, from_place, from_city, to_place, to_city, city, address,
                starts_on, starts_at, starts_local, start_zone, ends_on, ends_at, ends_local, end_zone,
                confirmation_number, pnr, seat, price, currency, notes)
             = (b.trip_id, b.provider, b.name, b.number, b.from_place, b.from_city, b.to_place, b.to_city, b.city,
                b.address, b.starts_on, b.starts_at, b.starts_local, b.start_zone, b.ends_on, b.ends_at, b.ends_local,
                b.end_zone, b.confirmation_number, b.pnr, b.seat, b.price, b.currency, b.notes),
               updated_at = shared.clock(),
               changes = changes || jsonb_build_object('at', shared.clock(), 'reason', why, 'before', before)
         WHERE id = b.id;
    END IF;
    RETURN before;
END
$$;

-- Makes the trip long enough for a booking. A booking far outside is a mistake in its date or in the trip.
CREATE FUNCTION trip_reach(t trips, b bookings) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    last CONSTANT date := booking_last_day(b);
BEGIN
    IF b.starts_on >= t.start_date AND last <= t.end_date THEN
        RETURN false;
    ELSIF b.starts_on > t.end_date + 60 OR last < t.start_date - 60 THEN
        RAISE EXCEPTION 'The booking is on %, the trip "%" is from % to %. Check the date and the trip.',
            b.starts_on, t.name, t.start_date, t.end_date USING ERRCODE = '22023';
    ELSIF EXISTS (SELECT FROM trips o
                   WHERE o.id <> t.id AND o.cancelled_at IS NULL AND lower(o.name) = lower(t.name)
                     AND o.start_date = least(t.start_date, b.starts_on)) THEN
        RAISE EXCEPTION 'Another trip "%" begins on % too. Rename one of the two with update_itinerary, or give the '
            'trip_id that is meant.', t.name, least(t.start_date, b.starts_on) USING ERRCODE = '22023';
    END IF;
    UPDATE trips
       SET start_date = least(t.start_date, b.starts_on), end_date = greatest(t.end_date, last),
           updated_at = shared.clock(),
           changes = changes || jsonb_build_object('at', shared.clock(), 'reason', 'a booking reaches further',
               'before', jsonb_build_object('start_date', t.start_date, 'end_date', t.end_date))
     WHERE id = t.id;
    RETURN true;
END
$$;

CREATE FUNCTION booking_record(payload jsonb) RETURNS jsonb
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    given    CONSTANT jsonb := jsonb_strip_nulls(payload);
    own      CONSTANT text[] := ARRAY['kind', 'trip_id', 'trip_name', 'destination'];
    of_kind  CONSTANT text := given ->> 'kind';
    said     CONSTANT text := nullif(btrim(given ->> 'trip_name'), '');
    at_place text := nullif(btrim(given ->> 'destination'), '');
    b        bookings;
    twin     bookings;
    t        trips;
    before   jsonb;
    made     boolean := false;
    extended boolean;
BEGIN
    IF of_kind IS NULL OR NOT EXISTS (SELECT FROM booking_kinds() k WHERE k.kind = of_kind) THEN
        RAISE EXCEPTION '%',
            format('kind is %s. It must be one of %s.', coalesce('"' || of_kind || '"', 'missing'),
                   (SELECT string_agg(k.kind, ', ') FROM booking_kinds() k)) USING ERRCODE = '22023';
    END IF;
    IF given ? 'trip_id' THEN
        IF given ->> 'trip_id' !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
            RAISE EXCEPTION 'trip_id is "%", which is no id. list_trips shows the ids; leave it out to have the trip '
                'found.', given ->> 'trip_id' USING ERRCODE = '22023';
        END IF;
        t := trip_of((given ->> 'trip_id')::uuid, true);
    END IF;
    b.kind := of_kind;
    b := booking_with(b, given - own);

    -- One at a time: two calls with the same booking must not both find nothing.
    PERFORM pg_advisory_xact_lock(hashtextextended('travel.bookings ' || current_setting('butlerd.tenant'), 0));
    twin := booking_twin(b);
    IF twin.id IS NOT NULL THEN
        IF t.id <> twin.trip_id THEN
            RAISE EXCEPTION 'That booking is on record already, as % of the trip "%". update_itinerary with a trip_id '
                'in its booking moves it.', twin.id, (trip_of(twin.trip_id, false)).name USING ERRCODE = '22023';
        END IF;
        b := booking_with(twin, given - own);
        before := booking_put(b, 'recorded again');
        t := trip_of(twin.trip_id, true);
    ELSE
        IF t.id IS NULL THEN
            t := trip_for(b, said, at_place);
        END IF;
        IF t.id IS NULL THEN
            at_place := coalesce(at_place, b.to_city, b.to_place, b.city, b.from_city);
            IF at_place IS NULL THEN
                RAISE EXCEPTION 'No trip is at that time, and where this one goes to is not known. Give destination, '
                    'or the trip_id of the trip it belongs to (list_trips).' USING ERRCODE = '22023';
            END IF;
            INSERT INTO trips (name, destination, start_date, end_date)
            VALUES (coalesce(said, 'Trip to ' || at_place), at_place, b.starts_on, booking_last_day(b))
            RETURNING * INTO t;
            made := true;
        END IF;
        INSERT INTO bookings (trip_id, kind, provider, name, number, from_place, from_city, to_place, to_city, city,
                              address, starts_on, starts_at, starts_local, start_zone, ends_on, ends_at, ends_local,
                              end_zone, confirmation_number, pnr, seat, price, currency, notes)
        VALUES (t.id, b.kind, b.provider, b.name, b.number, b.from_place, b.from_city, b.to_place, b.to_city, b.city,
                b.address, b.starts_on, b.starts_at, b.starts_local, b.start_zone, b.ends_on, b.ends_at, b.ends_local,
                b.end_zone, b.confirmation_number, b.pnr, b.seat, b.price, b.currency, b.notes)
        RETURNING * INTO b;
    END IF;
    extended := trip_reach(t, b);
    t := trip_of(t.id, true);
    RETURN jsonb_build_object(
        'booking', booking_json(b), 'trip', trip_json(t), 'already_recorded', twin.id IS NOT NULL,
        'previous', coalesce(before, '{}'), 'trip_made', made, 'trip_extended', extended AND NOT made,
        'warnings', (SELECT coalesce(jsonb_agg(p.message ORDER BY p.day), '[]') FROM trip_points(t) p WHERE p.urgent));
END
$$;

CREATE FUNCTION itinerary_update(wanted uuid, patch jsonb, why text) RETURNS jsonb
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    keys   CONSTANT text[] := ARRAY['name', 'destination', 'start_date', 'end_date', 'notes', 'bookings'];
    t      trips := trip_of(wanted, true);
    old    CONSTANT trips := t;
    target trips;
    b      bookings;
    part   jsonb;
    stray  text;
    before jsonb;
    done   jsonb := '[]';
BEGIN
    SELECT string_agg(format('"%s"', key), ', ') INTO stray FROM jsonb_object_keys(patch) key WHERE key <> ALL (keys);
    IF stray IS NOT NULL THEN
        RAISE EXCEPTION 'A trip has no %. The keys of a patch are %. The status follows from the dates; trip_cancel '
            'and booking_cancel cancel.', stray, array_to_string(keys, ', ') USING ERRCODE = '22023';
    ELSIF patch = '{}' THEN
        RAISE EXCEPTION 'The patch is empty. Give what changes: %.', array_to_string(keys, ', ')
            USING ERRCODE = '22023';
    END IF;
    t.name := coalesce(nullif(btrim(patch ->> 'name'), ''), t.name);
    t.destination := coalesce(nullif(btrim(patch ->> 'destination'), ''), t.destination);
    t.start_date := coalesce(shared.day('start_date', patch ->> 'start_date'), t.start_date);
    t.end_date := coalesce(shared.day('end_date', patch ->> 'end_date'), t.end_date);
    IF patch ? 'notes' THEN t.notes := nullif(btrim(patch ->> 'notes'), ''); END IF;
    IF t.end_date < t.start_date THEN
        RAISE EXCEPTION 'end_date (%) lies before start_date (%).', t.end_date, t.start_date USING ERRCODE = '22023';
    ELSIF length(t.name) > 200 OR length(t.destination) > 200 OR length(t.notes) > 4000 THEN
        RAISE EXCEPTION 'name and destination have up to 200 characters, notes up to 4000. Shorten them.'
            USING ERRCODE = '22023';
    ELSIF EXISTS (SELECT FROM trips x WHERE x.id <> t.id AND x.cancelled_at IS NULL AND lower(x.name) = lower(t.name)
                     AND x.start_date = t.start_date) THEN
        RAISE EXCEPTION 'Another trip has the name "%" and the same first day. Take another name.', t.name
            USING ERRCODE = '22023';
    END IF;
    before := before_of(trip_json(old) - 'days_until_departure', trip_json(t) - 'days_until_departure');
    IF before <> '{}' THEN
        UPDATE trips
           SET (name, destination, start_date, end_date, notes, updated_at)
             = (t.name, t.destination, t.start_date, t.end_date, t.notes, shared.clock()),
               changes = changes || jsonb_build_object('at', shared.clock(), 'reason', why, 'before', before)
         WHERE id = t.id;
        done := done || jsonb_build_object('trip_id', t.id, 'previous', before);
    END IF;

    IF jsonb_typeof(coalesce(patch -> 'bookings', '[]')) <> 'array' THEN
        RAISE EXCEPTION 'bookings must be a list of objects, each with a booking_id and what changes.'
            USING ERRCODE = '22023';
    END IF;
    FOR part IN SELECT value FROM jsonb_array_elements(coalesce(patch -> 'bookings', '[]')) LOOP
        SELECT * INTO b FROM bookings x
         WHERE x.id::text = part ->> 'booking_id' AND x.trip_id = t.id AND x.cancelled_at IS NULL;
        IF b.id IS NULL THEN
            RAISE EXCEPTION 'This trip has no booking with the id "%"; trip_summary shows them. A new one is recorded '
                'with record_booking.', coalesce(part ->> 'booking_id', '(none given)') USING ERRCODE = '22023';
        END IF;
        b := booking_with(b, part - ARRAY['booking_id', 'trip_id']);
        target := t;
        IF part ? 'trip_id' THEN
            IF part ->> 'trip_id' !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
                RAISE EXCEPTION 'trip_id is "%", which is no id; list_trips shows the ids.', part ->> 'trip_id'
                    USING ERRCODE = '22023';
            END IF;
            target := trip_of((part ->> 'trip_id')::uuid, true);
            b.trip_id := target.id;
        END IF;
        before := booking_put(b, why);
        IF before <> '{}' THEN
            done := done || jsonb_build_object('booking_id', b.id, 'previous', before);
        END IF;
        -- New days of the trip are checked below, as the person gave them.
        IF target.id <> t.id OR NOT patch ?| ARRAY['start_date', 'end_date'] THEN
            PERFORM trip_reach(target, b);
            t := trip_of(t.id, true);
        END IF;
    END LOOP;
    IF patch ?| ARRAY['start_date', 'end_date'] THEN
        SELECT * INTO b FROM bookings x
         WHERE x.trip_id = t.id AND x.cancelled_at IS NULL
           AND (x.starts_on < t.start_date OR booking_last_day(x) > t.end_date)
         ORDER BY x.starts_on LIMIT 1;
        IF b.id IS NOT NULL THEN
            RAISE EXCEPTION '% (% to %) would lie outside the trip from % to %. Change or cancel that booking first '
                '(id %), or take other dates.', booking_label(b), b.starts_on, booking_last_day(b), t.start_date,
                t.end_date, b.id
                USING ERRCODE = '22023';
        END IF;
    END IF;
    RETURN jsonb_build_object('trip', trip_json(trip_of(t.id, true)), 'changed', done,
        'warnings', (SELECT coalesce(jsonb_agg(p.message ORDER BY p.day), '[]')
                       FROM trip_points(trip_of(t.id, true)) p WHERE p.urgent));
END
$$;
