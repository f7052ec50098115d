-- What is missing or clashes on a trip, and the sentences that tell it.

-- Documents that count for a trip: its own, and those for every trip; of two of one type and holder the later one.
CREATE FUNCTION trip_documents(t trips) RETURNS SETOF documents
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT DISTINCT ON (d.type, lower(d.holder), CASE WHEN d.expiry_date IS NULL THEN d.id END) d.*
      FROM documents d
     WHERE d.deleted_at IS NULL AND (d.trip_id = t.id OR d.trip_id IS NULL)
     ORDER BY d.type, lower(d.holder), CASE WHEN d.expiry_date IS NULL THEN d.id END, d.expiry_date DESC
$$;

-- Points of a trip, one row each. Urgent ones are mistakes or lie in the way; the rest is to be looked at in good time.
CREATE FUNCTION trip_points(t trips)
RETURNS TABLE (kind text, urgent boolean, day date, booking_id uuid, message text)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH own AS (
        SELECT b.*, k.part, booking_label(b) AS label, lower(coalesce(b.from_place, b.from_city)) AS origin,
               lower(coalesce(b.to_place, b.to_city)) AS goal
          FROM bookings b JOIN booking_kinds() k ON k.kind = b.kind
         WHERE b.trip_id = t.id AND b.cancelled_at IS NULL
    ), legs AS (
        SELECT o.*, lead(o.label) OVER w AS next_label, lead(o.starts_at) OVER w AS next_at,
               lead(o.origin) OVER w AS next_origin, lead(o.from_place) OVER w AS next_airport,
               lead(o.kind) OVER w AS next_kind
          -- Two people on one train, booked apart, are one leg.
          FROM (SELECT DISTINCT ON (starts_at, kind, origin, goal) * FROM own WHERE part = 'leg'
                 ORDER BY starts_at, kind, origin, goal, id) o
        WINDOW w AS (ORDER BY o.starts_at, o.id)
    ), nights AS (
        SELECT n::date AS night,
               (SELECT count(DISTINCT lower(s.label)) FROM own s
                 WHERE s.part = 'stay' AND n >= s.starts_on AND n < s.ends_on) AS beds,
               EXISTS (SELECT FROM own l WHERE l.part = 'leg' AND n >= l.starts_on AND n < l.ends_on) AS on_the_way
          FROM generate_series(t.start_date::timestamp, t.end_date - interval '1 day', interval '1 day') n
         WHERE t.end_date - t.start_date <= 366 AND n >= shared.today()
    ), spans AS (
        SELECT CASE WHEN beds = 0 THEN 'night_without_bed' ELSE 'two_beds' END AS what, min(night) AS night,
               count(*) AS n
          FROM (SELECT *, night - (row_number() OVER (PARTITION BY beds > 0 ORDER BY night))::int AS island
                  FROM nights WHERE beds > 1 OR beds = 0 AND NOT on_the_way) x
         GROUP BY beds = 0, beds > 0, island, 1
    )
    SELECT 'nothing_booked', false, t.start_date, NULL::uuid, 'Nothing is booked yet.'
     WHERE NOT EXISTS (SELECT FROM own)
    UNION ALL
    SELECT what, false, night, NULL,
           CASE what WHEN 'two_beds' THEN 'Two stays' ELSE 'No bed' END || ' for '
           || CASE n WHEN 1 THEN 'the night' ELSE n || ' nights' END || ' from ' || said_day(night) || '.'
      FROM spans WHERE EXISTS (SELECT FROM own)
    UNION ALL
    SELECT CASE WHEN next_at < ends_at THEN 'clash' WHEN next_origin = goal THEN 'short_connection'
                ELSE 'change_of_airport' END, true, ends_on, id,
           CASE WHEN next_at < ends_at
                THEN next_label || ' leaves before ' || label || ' has arrived.'
                WHEN next_origin = goal
                THEN 'Only ' || (extract(epoch FROM next_at - ends_at) / 60)::int || ' minutes between ' || label
                     || ' and ' || next_label || '.'
                ELSE label || ' arrives at ' || to_place || ', but ' || next_label || ' leaves from ' || next_airport
                     || ' ' || (extract(epoch FROM next_at - ends_at) / 60)::int || ' minutes later.' END
      FROM legs
     WHERE next_at > shared.clock()
       AND (next_at < ends_at
            OR kind = 'flight' AND next_kind = 'flight' AND next_airport <> to_place
               AND next_at < ends_at + interval '12 hours'
            OR next_origin = goal AND next_at < ends_at + CASE next_kind WHEN 'flight' THEN interval '60 minutes'
                                                               ELSE interval '10 minutes' END)
    UNION ALL
    SELECT 'clash', true, r.starts_on, r.id, r.label || ' begins while you are under way with ' || l.label || '.'
      FROM own r JOIN own l ON l.part = 'leg' AND r.starts_at > l.starts_at AND r.starts_at < l.ends_at
     WHERE r.part = 'reservation' AND r.kind NOT IN ('car', 'parking') AND r.starts_at > shared.clock()
    UNION ALL
    SELECT 'no_way_back', false, t.end_date, NULL,
           'No way back to ' || coalesce(f.from_place, f.from_city) || ' is on record.'
      FROM (SELECT * FROM legs WHERE kind <> 'transfer' ORDER BY starts_at LIMIT 1) f
     WHERE NOT EXISTS (SELECT FROM legs l WHERE l.starts_at > f.starts_at
                          AND (l.goal = f.origin OR lower(l.to_city) = lower(f.from_city)))
    UNION ALL
    SELECT 'no_number', false, starts_on, id, label || ' has no confirmation number on record.'
      FROM own WHERE kind IN ('flight', 'hotel', 'apartment', 'car') AND pnr IS NULL AND confirmation_number IS NULL
                 AND starts_on >= shared.today()
    UNION ALL
    SELECT 'check_in', true, starts_on, id,
           'Check-in for ' || label
           || CASE WHEN starts_at - interval '24 hours' <= shared.clock() THEN ' should be open since '
                   ELSE ' usually opens ' END
           || said_time(starts_on, starts_local - interval '24 hours') || ', by the clock of the place of departure.'
      FROM own
     WHERE kind = 'flight' AND starts_at > shared.clock() AND starts_at <= shared.clock() + interval '48 hours'
    UNION ALL
    SELECT 'document_expires', true, d.expiry_date, NULL,
           document_label(d) || CASE WHEN d.expiry_date < shared.today() THEN ' expired on ' ELSE ' expires on ' END
           || said_day(d.expiry_date) || ', before the trip ends.'
      FROM trip_documents(t) d
     WHERE d.expiry_date < t.end_date AND document_lasts(d.type)
    UNION ALL
    SELECT 'passport_short', false, d.expiry_date, NULL,
           document_label(d) || ' expires on ' || said_day(d.expiry_date)
           || ', less than six months after the trip. Some countries refuse that: look up the destination''s rule.'
      FROM trip_documents(t) d
     WHERE d.type = 'passport' AND d.expiry_date >= t.end_date AND d.expiry_date < t.end_date + interval '6 months'
    UNION ALL
    SELECT 'checklist', coalesce(c.due_date <= shared.today(), false), coalesce(c.due_date, t.start_date), NULL,
           'To do: ' || c.item || coalesce(' (by ' || said_day(c.due_date) || ')', '') || '.'
      FROM checklist_items c WHERE c.trip_id = t.id AND c.state = 'open'
$$;

-- The trip as one line of a message: when it begins, what is first, what is open.
CREATE FUNCTION trip_line(t trips) RETURNS text
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT t.name || ' (' || said_day(t.start_date)
           || CASE WHEN t.end_date > t.start_date THEN ' to ' || said_day(t.end_date) ELSE '' END || ') begins '
           || CASE t.start_date - shared.today() WHEN 0 THEN 'today' WHEN 1 THEN 'tomorrow'
                   ELSE 'in ' || (t.start_date - shared.today()) || ' days' END || '.'
           || coalesce(' First: ' || (
                  SELECT booking_label(b) || ', ' || said_time(b.starts_on, b.starts_local)
                         || coalesce(', ' || coalesce(b.pnr, b.confirmation_number), '')
                    FROM bookings b WHERE b.trip_id = t.id AND b.cancelled_at IS NULL
                   ORDER BY b.starts_on, b.starts_at NULLS LAST, b.id LIMIT 1) || '.', '')
           || coalesce(' Open points: ' || (
                  SELECT string_agg(p.message, ' ' ORDER BY p.urgent DESC, p.day, p.message)
                    FROM (SELECT * FROM trip_points(t) x WHERE x.kind <> 'check_in'
                           ORDER BY x.urgent DESC, x.day, x.message LIMIT 6) p), '')
$$;

-- The whole trip: its bookings by part, documents, checklist, timeline and open points.
CREATE FUNCTION trip_summary_json(wanted uuid, with_documents boolean, with_timeline boolean, with_cancelled boolean)
RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    t   CONSTANT trips := trip_of(wanted, false);
    got jsonb;
BEGIN
    SELECT trip_json(t) || jsonb_build_object(
               'legs', coalesce(jsonb_agg(booking_json(b) ORDER BY b.starts_on, b.starts_at, b.id)
                                    FILTER (WHERE k.part = 'leg'), '[]'),
               'accommodations', coalesce(jsonb_agg(booking_json(b) ORDER BY b.starts_on, b.starts_at, b.id)
                                              FILTER (WHERE k.part = 'stay'), '[]'),
               'reservations', coalesce(jsonb_agg(booking_json(b) ORDER BY b.starts_on, b.starts_at, b.id)
                                            FILTER (WHERE k.part = 'reservation'), '[]'))
      INTO got
      FROM bookings b JOIN booking_kinds() k ON k.kind = b.kind
     WHERE b.trip_id = t.id AND (b.cancelled_at IS NULL OR with_cancelled);
    IF with_documents THEN
        got := got || jsonb_build_object('documents', (
            SELECT coalesce(jsonb_agg(document_json(d) ORDER BY d.type, d.holder, d.id), '[]')
              FROM trip_documents(t) d));
    END IF;
    IF with_timeline THEN
        got := got || jsonb_build_object('timeline', (
            SELECT coalesce(jsonb_agg(jsonb_build_object('at', e.at, 'what', e.what, 'booking_id', e.id)
                                      ORDER BY e.day, e.moment IS NOT NULL OR e.place = 1, e.moment, e.place,
                                               e.id), '[]')
              FROM (SELECT b.starts_on, b.starts_at, local_text(b.starts_on, b.starts_at, b.starts_local),
                           CASE k.part WHEN 'stay' THEN 'Check-in: ' ELSE '' END || booking_label(b), b.id, 1
                      FROM bookings b JOIN booking_kinds() k ON k.kind = b.kind
                     WHERE b.trip_id = t.id AND b.cancelled_at IS NULL
                    UNION ALL
                    SELECT b.ends_on, b.ends_at, local_text(b.ends_on, b.ends_at, b.ends_local),
                           CASE k.part WHEN 'stay' THEN 'Check-out: ' WHEN 'leg' THEN 'Arrival: ' ELSE 'End: ' END
                           || booking_label(b), b.id, 2
                      FROM bookings b JOIN booking_kinds() k ON k.kind = b.kind
                     WHERE b.trip_id = t.id AND b.cancelled_at IS NULL AND b.ends_on IS NOT NULL
                   ) e(day, moment, at, what, id, place)));
    END IF;
    RETURN got || jsonb_build_object(
        'checklist', (SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', c.id, 'item', c.item,
                                  'state', c.state, 'due_date', c.due_date))
                              ORDER BY c.due_date NULLS LAST, c.created_at, c.id), '[]')
                        FROM checklist_items c WHERE c.trip_id = t.id AND c.state <> 'dropped'),
        'open_points', (SELECT coalesce(jsonb_agg(p.message ORDER BY p.urgent DESC, p.day, p.message), '[]')
                          FROM trip_points(t) p WHERE t.cancelled_at IS NULL AND t.end_date >= shared.today()));
END
$$;

CREATE FUNCTION document_json(d documents) RETURNS jsonb
LANGUAGE sql STABLE
AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('id', d.id, 'trip_id', d.trip_id, 'type', d.type,
        'holder', nullif(d.holder, ''), 'expiry_date', d.expiry_date, 'days_left', d.expiry_date - shared.today(),
        'blob_ref', d.blob_ref, 'metadata', nullif(d.metadata, '{}')))
$$;
