-- How a booking is read from what a model gives, found again, and put on its trip.

-- A time at a place: as a moment, by the local clock, and its day. A time has its offset or the zone of its place; with
-- both, they must agree.
CREATE FUNCTION place_time(argument text, given text, zone text, OUT day date, OUT at timestamptz, OUT local timestamp)
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    has_offset CONSTANT boolean := given ~ '\d{2}:\d{2}(:\d{2}(\.\d+)?)? ?([Zz]|[+-]\d{2}(:?\d{2})?)$';
BEGIN
    IF given IS NULL THEN
        RETURN;
    ELSIF given ~ '^\d{4}-\d{2}-\d{2}$' THEN
        day := shared.day(argument, given);
        RETURN;
    ELSIF NOT has_offset AND zone IS NULL THEN
        PERFORM shared.moment(argument, given);
        RAISE EXCEPTION '% is "%" without an offset. Times are local times of their place: add its offset '
            '(2026-05-02T10:15+09:00), or name the zone of the place in the zone key beside it (Asia/Tokyo).',
            argument, given USING ERRCODE = '22023';
    END IF;
    at := shared.moment(argument, given);
    IF NOT has_offset THEN
        local := given::timestamp;
        at := local AT TIME ZONE zone;
    ELSIF zone IS NULL THEN
        local := regexp_replace(given, ' ?([Zz]|[+-]\d{2}(:?\d{2})?)$', '')::timestamp;
    ELSE
        local := at AT TIME ZONE zone;
        IF local <> regexp_replace(given, ' ?([Zz]|[+-]\d{2}(:?\d{2})?)$', '')::timestamp THEN
            RAISE EXCEPTION '% is "%", but by the clock of % that moment is %. One of the two is wrong: give the local '
                'time of the place, with the right offset or with the zone alone.',
                argument, given, zone, to_char(local, 'YYYY-MM-DD HH24:MI') USING ERRCODE = '22023';
        END IF;
    END IF;
    day := local::date;
END
$$;

-- A zone of the tz database, or null.
CREATE FUNCTION known_zone(argument text, given text) RETURNS text
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF given IS NULL OR given = 'UTC' THEN
        RETURN given;
    ELSIF given ~ '^[A-Z][A-Za-z_]+(/[A-Za-z0-9_+-]+)+$' THEN
        PERFORM shared.clock() AT TIME ZONE given;
        RETURN given;
    END IF;
    RAISE invalid_parameter_value;
EXCEPTION WHEN invalid_parameter_value THEN
    RAISE EXCEPTION '% is "%", which is no time zone. Give its name, such as Asia/Tokyo or Europe/Lisbon.',
        argument, given USING ERRCODE = '22023';
END
$$;

-- The keys that a booking of this part takes.
CREATE FUNCTION booking_keys(part text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE part
           WHEN 'leg' THEN ARRAY['number', 'seat', 'departure_airport_station', 'departure_city', 'departure_at',
                                 'departure_zone', 'arrival_airport_station', 'arrival_city', 'arrival_at',
                                 'arrival_zone']
           WHEN 'stay' THEN ARRAY['address', 'city', 'check_in', 'check_out', 'zone']
           ELSE ARRAY['address', 'city', 'starts_at', 'ends_at', 'zone'] END
        || ARRAY['provider', 'name', 'confirmation_number', 'pnr', 'price', 'currency', 'notes']
$$;

-- The booking with what was given laid over it (a null takes a key away), checked as a whole. A new one has only its
-- kind.
CREATE FUNCTION booking_with(b bookings, given jsonb) RETURNS bookings
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    k      record;
    stray  text;
    wrong  text;
    begins text;
    ends   text;
    parts  CONSTANT jsonb := (SELECT jsonb_object_agg(key, nullif(btrim(value), '')) FROM jsonb_each_text(given));
    spot   record;
BEGIN
    SELECT * INTO k FROM booking_kinds() WHERE kind = b.kind;
    SELECT string_agg(format('"%s"', key), ', ') INTO stray FROM jsonb_object_keys(given) key
     WHERE key <> ALL (booking_keys(k.part));
    IF stray IS NOT NULL THEN
        RAISE EXCEPTION 'A % has no %. Its keys are %.', b.kind, stray, array_to_string(booking_keys(k.part), ', ')
            USING ERRCODE = '22023';
    END IF;
    SELECT string_agg(format('"%s"', key), ', ') INTO wrong FROM jsonb_each(given)
     WHERE jsonb_typeof(value) NOT IN ('string', 'null') AND (key <> 'price' OR jsonb_typeof(value) <> 'number');
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '% must be text; only price is a number.', wrong USING ERRCODE = '22023';
    END IF;
    SELECT string_agg(format('"%s"', key), ', ') INTO wrong FROM jsonb_each_text(given)
     WHERE length(value) > CASE key WHEN 'notes' THEN 2000 ELSE 200 END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '% is too long (notes have up to 2000 characters, the rest up to 200). Shorten it.', wrong
            USING ERRCODE = '22023';
    END IF;

    IF given ? 'provider' THEN b.provider := parts ->> 'provider'; END IF;
    IF given ? 'name' THEN b.name := parts ->> 'name'; END IF;
    IF given ? 'address' THEN b.address := parts ->> 'address'; END IF;
    IF given ? 'city' THEN b.city := parts ->> 'city'; END IF;
    IF given ? 'seat' THEN b.seat := parts ->> 'seat'; END IF;
    IF given ? 'notes' THEN b.notes := parts ->> 'notes'; END IF;
    IF given ? 'confirmation_number' THEN b.confirmation_number := parts ->> 'confirmation_number'; END IF;
    IF given ? 'pnr' THEN b.pnr := upper(parts ->> 'pnr'); END IF;
    IF given ? 'number' THEN b.number := parts ->> 'number'; END IF;
    IF given ? 'departure_airport_station' THEN b.from_place := parts ->> 'departure_airport_station'; END IF;
    IF given ? 'departure_city' THEN b.from_city := parts ->> 'departure_city'; END IF;
    IF given ? 'arrival_airport_station' THEN b.to_place := parts ->> 'arrival_airport_station'; END IF;
    IF given ? 'arrival_city' THEN b.to_city := parts ->> 'arrival_city'; END IF;
    IF given ? 'currency' THEN b.currency := shared.currency('currency', parts ->> 'currency'); END IF;
    IF given ? 'price' THEN
        b.price := CASE WHEN parts ->> 'price' ~ '^\d{1,15}(\.\d{1,6})?$' THEN (parts ->> 'price')::numeric END;
        IF b.price IS NULL AND parts ->> 'price' IS NOT NULL THEN
            RAISE EXCEPTION 'price is "%". It must be a plain number such as 129.90, with its currency beside it.',
                parts ->> 'price' USING ERRCODE = '22023';
        END IF;
    END IF;
    IF (b.price IS NULL) <> (b.currency IS NULL) THEN
        RAISE EXCEPTION 'price and currency go together: give both (129.90 and EUR) or neither.'
            USING ERRCODE = '22023';
    END IF;
    b.price := shared.money('price', b.price, b.currency);

    IF b.pnr !~ '^[A-Z0-9]{5,8}$' THEN
        RAISE EXCEPTION 'pnr is "%". A record locator has 5 to 8 letters and digits, such as X7K9QP. Any other number '
            'goes to confirmation_number, exactly as it was written.', b.pnr USING ERRCODE = '22023';
    END IF;
    IF b.kind = 'flight' THEN
        FOR spot IN SELECT * FROM (VALUES ('departure_airport_station', b.from_place, 'departure_city'),
                                          ('arrival_airport_station', b.to_place, 'arrival_city')) s(key, code, city)
                     WHERE s.code !~ '^[A-Za-z]{3}$' LOOP
            RAISE EXCEPTION '% is "%". Of a flight it is the IATA code of the airport, three letters such as FRA; the '
                'name of the city goes to %.', spot.key, spot.code, spot.city USING ERRCODE = '22023';
        END LOOP;
        b.from_place := upper(b.from_place);
        b.to_place := upper(b.to_place);
        b.number := upper(replace(b.number, ' ', ''));
        IF b.number !~ '^([A-Z][A-Z0-9]|[0-9][A-Z])[A-Z]?\d{1,4}[A-Z]?$' THEN
            RAISE EXCEPTION 'number is "%". A flight number is the code of the airline and up to four digits, such as '
                'LH232.', b.number USING ERRCODE = '22023';
        END IF;
    END IF;

    -- Times: the keys are called as a person calls them, the columns are the same for all.
    begins := CASE k.part WHEN 'leg' THEN 'departure_at' WHEN 'stay' THEN 'check_in' ELSE 'starts_at' END;
    ends := CASE k.part WHEN 'leg' THEN 'arrival_at' WHEN 'stay' THEN 'check_out' ELSE 'ends_at' END;
    IF k.part = 'leg' THEN
        IF given ? 'departure_zone' THEN
            b.start_zone := known_zone('departure_zone', parts ->> 'departure_zone');
        END IF;
        IF given ? 'arrival_zone' THEN b.end_zone := known_zone('arrival_zone', parts ->> 'arrival_zone'); END IF;
    ELSIF given ? 'zone' THEN
        b.start_zone := known_zone('zone', parts ->> 'zone');
        b.end_zone := b.start_zone;
    END IF;
    IF given ? begins THEN
        SELECT * INTO b.starts_on, b.starts_at, b.starts_local FROM place_time(begins, parts ->> begins, b.start_zone);
    END IF;
    IF given ? ends THEN
        SELECT * INTO b.ends_on, b.ends_at, b.ends_local FROM place_time(ends, parts ->> ends, b.end_zone);
    END IF;

    IF b.starts_on IS NULL THEN
        RAISE EXCEPTION 'A % needs %.', b.kind, begins USING ERRCODE = '22023';
    ELSIF k.part = 'leg' THEN
        IF b.starts_at IS NULL OR b.ends_on IS NOT NULL AND b.ends_at IS NULL THEN
            RAISE EXCEPTION 'A % needs the hour and minute in departure_at and arrival_at, not only the day. Leave '
                'arrival_at out if it is not known.', b.kind USING ERRCODE = '22023';
        ELSIF coalesce(b.from_place, b.from_city) IS NULL OR coalesce(b.to_place, b.to_city) IS NULL THEN
            RAISE EXCEPTION 'A % needs from where and to where: departure_airport_station or departure_city, and '
                'arrival_airport_station or arrival_city.', b.kind USING ERRCODE = '22023';
        ELSIF lower(b.from_place) = lower(b.to_place) THEN
            RAISE EXCEPTION 'Departure and arrival are both %. Correct one of them.', b.from_place
                USING ERRCODE = '22023';
        ELSIF b.ends_at <= b.starts_at THEN
            RAISE EXCEPTION 'arrival_at (%) is not after departure_at (%). Check the day and the offsets: each time '
                'has the offset of its own place.', local_text(b.ends_on, b.ends_at, b.ends_local),
                local_text(b.starts_on, b.starts_at, b.starts_local) USING ERRCODE = '22023';
        ELSIF b.ends_at - b.starts_at > k.most THEN
            RAISE EXCEPTION 'From departure_at to arrival_at it would be % hours, too long for one %. Check the days; '
                'of several legs record each.', round(extract(epoch FROM b.ends_at - b.starts_at) / 3600), b.kind
                USING ERRCODE = '22023';
        END IF;
    ELSE
        IF coalesce(b.name, b.provider, CASE k.part WHEN 'stay' THEN b.address END) IS NULL THEN
            RAISE EXCEPTION 'A % needs a name: of the house, or of what is reserved.', b.kind USING ERRCODE = '22023';
        ELSIF k.part = 'stay' AND b.ends_on IS NULL THEN
            RAISE EXCEPTION 'A % needs check_out. Ask the person if it was not said.', b.kind USING ERRCODE = '22023';
        ELSIF k.part = 'stay' AND b.ends_on <= b.starts_on THEN
            RAISE EXCEPTION 'check_out (%) must be a later day than check_in (%).', b.ends_on, b.starts_on
                USING ERRCODE = '22023';
        ELSIF b.ends_on < b.starts_on OR b.ends_at < b.starts_at THEN
            RAISE EXCEPTION 'ends_at (%) lies before starts_at (%).', local_text(b.ends_on, b.ends_at, b.ends_local),
                local_text(b.starts_on, b.starts_at, b.starts_local) USING ERRCODE = '22023';
        ELSIF b.ends_on - b.starts_on > 366 THEN
            RAISE EXCEPTION '% to % is longer than a year. Check the years.', b.starts_on, b.ends_on
                USING ERRCODE = '22023';
        END IF;
    END IF;
    RETURN b;
END
$$;

-- The places that a booking is at: airports, stations and cities, in lower case.
CREATE FUNCTION booking_places(b bookings) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_remove(ARRAY[lower(b.from_place), lower(b.from_city), lower(b.to_place), lower(b.to_city),
                              lower(b.city)], NULL)
$$;

CREATE FUNCTION booking_last_day(b bookings) RETURNS date LANGUAGE sql IMMUTABLE AS
$$ SELECT greatest(b.starts_on, b.ends_on) $$;

-- The booking on record that this one is, told again or changed by its provider; null: it is new. What tells bookings
-- apart: the way of a leg or the name of a house; then the same locator within three days, or the same time or number
-- on the same day without a locator that differs.
CREATE FUNCTION booking_twin(b bookings) RETURNS bookings
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT o
      FROM (SELECT x, x.pnr = b.pnr OR lower(x.confirmation_number) = lower(b.confirmation_number) AS same_mark,
                   x.pnr <> b.pnr OR lower(x.confirmation_number) <> lower(b.confirmation_number) AS other_mark
              FROM bookings x JOIN trips t ON t.id = x.trip_id AND t.cancelled_at IS NULL
             WHERE x.kind = b.kind AND x.cancelled_at IS NULL AND x.id IS DISTINCT FROM b.id
               AND x.starts_on BETWEEN b.starts_on - 3 AND b.starts_on + 3
               AND (coalesce(b.from_place, b.from_city) IS NULL
                    OR (lower(x.from_place) = lower(b.from_place) OR lower(x.from_city) = lower(b.from_city))
                       AND (lower(x.to_place) = lower(b.to_place) OR lower(x.to_city) = lower(b.to_city)))
           ) s(o, same_mark, other_mark)
     WHERE CASE WHEN b.from_place IS NOT NULL OR b.from_city IS NOT NULL THEN
                CASE WHEN same_mark THEN (o).number IS NULL OR b.number IS NULL OR (o).number = b.number
                                         OR (o).starts_on = b.starts_on
                     ELSE (o).starts_on = b.starts_on AND other_mark IS NOT TRUE
                          AND ((o).starts_at = b.starts_at OR (o).number = b.number) END
           ELSE CASE WHEN same_mark THEN lower((o).name) = lower(b.name) IS NOT FALSE
                     ELSE (o).starts_on = b.starts_on AND other_mark IS NOT TRUE
                          AND lower(coalesce((o).name, (o).provider)) = lower(coalesce(b.name, b.provider))
                          AND (o).starts_at = b.starts_at IS NOT FALSE END END
     ORDER BY same_mark DESC NULLS LAST, abs((o).starts_on - b.starts_on), (o).created_at
     LIMIT 1
$$;

-- The live trip that a new booking belongs to; null: none. Said by name, by the same locator, by its days, or because a
-- leg goes on from where the trip last arrived. Two that fit equally are refused.
CREATE FUNCTION trip_for(b bookings, said text, at_place text) RETURNS trips
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    last   CONSTANT date := booking_last_day(b);
    places CONSTANT text[] := booking_places(b) || coalesce(ARRAY[lower(at_place)], '{}');
    t      trips;
    n      int;
    listed text;
BEGIN
    IF said IS NOT NULL THEN
        SELECT * INTO t FROM trips x
         WHERE x.cancelled_at IS NULL AND lower(x.name) = lower(said)
           AND x.start_date - 60 <= last AND x.end_date + 60 >= b.starts_on
         ORDER BY abs(x.start_date - b.starts_on) LIMIT 1;
        RETURN t;
    END IF;
    SELECT x.* INTO t
      FROM bookings o JOIN trips x ON x.id = o.trip_id AND x.cancelled_at IS NULL
     WHERE o.cancelled_at IS NULL AND o.starts_on BETWEEN b.starts_on - 90 AND b.starts_on + 90
       AND (o.pnr = b.pnr OR lower(o.confirmation_number) = lower(b.confirmation_number))
     ORDER BY abs(o.starts_on - b.starts_on) LIMIT 1;
    IF t.id IS NOT NULL THEN
        RETURN t;
    END IF;

    WITH near AS (
        SELECT x AS trip, x.start_date <= last AND x.end_date >= b.starts_on AS at_once,
               EXISTS (SELECT FROM unnest(places) p
                        WHERE lower(x.destination) LIKE '%' || p || '%' OR p = lower(x.name))
               OR EXISTS (SELECT FROM bookings o WHERE o.trip_id = x.id AND o.cancelled_at IS NULL
                             AND booking_places(o) && places) AS same_place
          FROM trips x
         WHERE x.cancelled_at IS NULL AND x.start_date - 1 <= last AND x.end_date + 1 >= b.starts_on
    ), best AS (
        SELECT trip, rank() OVER (ORDER BY same_place DESC, at_once DESC) AS r FROM near WHERE at_once OR same_place
    )
    SELECT count(*), (array_agg((trip).id))[1], string_agg(format('"%s" (%s)', (trip).name, (trip).id), ', ')
      INTO n, t.id, listed FROM best WHERE r = 1;
    IF n > 1 THEN
        RAISE EXCEPTION 'More than one trip is at that time: %. Say with trip_id to which it belongs.', listed
            USING ERRCODE = '22023';
    ELSIF n = 1 THEN
        RETURN trip_of(t.id, true);
    END IF;

    IF coalesce(b.from_place, b.from_city) IS NOT NULL THEN
        SELECT x.* INTO t
          FROM trips x
          JOIN LATERAL (SELECT o.* FROM bookings o
                         WHERE o.trip_id = x.id AND o.cancelled_at IS NULL
                           AND coalesce(o.to_place, o.to_city) IS NOT NULL
                         ORDER BY o.starts_at DESC LIMIT 1) o ON true
         WHERE x.cancelled_at IS NULL AND x.end_date < b.starts_on AND x.end_date >= b.starts_on - 45
           AND (lower(o.to_place) = lower(b.from_place) OR lower(o.to_city) = lower(b.from_city))
         ORDER BY x.end_date DESC LIMIT 1;
        RETURN t;
    END IF;
    RETURN NULL;
END
$$;
