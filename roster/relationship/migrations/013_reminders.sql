-- Reminders about people: once, or again and again. Nothing is written when one comes due: when it comes is worked out
-- from its row, and the job that tells it looks at a span of time.

-- One field of a cron expression as the numbers that it stands for. `names` stand for numbers from `low` on.
CREATE FUNCTION cron_numbers(field text, called text, low integer, high integer, names text[]) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    found integer[] := '{}';
    part text;
    m text[];
    a integer;
    b integer;
BEGIN
    FOREACH part IN ARRAY string_to_array(lower(field), ',') LOOP
        FOR n IN 1..coalesce(cardinality(names), 0) LOOP
            part := regexp_replace(part, '\m' || names[n] || '\M', (low + n - 1)::text, 'g');
        END LOOP;
        m := regexp_match(part, '^(?:(\*)|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?$');
        a := CASE WHEN m[1] = '*' THEN low ELSE m[2]::integer END;
        b := CASE WHEN m[1] = '*' OR m[3] IS NULL AND m[4] IS NOT NULL THEN high ELSE coalesce(m[3], m[2])::integer END;
        IF m IS NULL OR a < low OR b > high OR b < a OR m[4]::integer = 0 THEN
            RAISE EXCEPTION 'cron: "%" is no % (% to %). An expression is minute, hour, day of the month, month, '
                'weekday: "0 9 * * 1" is each Monday at nine.', part, called, low, high USING ERRCODE = '22023';
        END IF;
        found := found || ARRAY(SELECT generate_series(a, b, coalesce(m[4]::integer, 1)));
    END LOOP;
    RETURN ARRAY(SELECT DISTINCT n FROM unnest(found) n ORDER BY n);
END $$;

-- The first moment after `after` that a cron expression names in a time zone; null: none within eight years.
CREATE FUNCTION cron_next(cron text, after timestamptz, zone text) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    f CONSTANT text[] := regexp_split_to_array(btrim(cron), '\s+');
    minutes integer[];
    hours integer[];
    days integer[];
    months integer[];
    weekdays integer[];
    d date;
    at timestamptz;
    hit boolean;
    today boolean := true;
BEGIN
    IF cardinality(f) <> 5 THEN
        RAISE EXCEPTION 'cron is "%". It must have five fields: minute, hour, day of the month, month, weekday, such as '
            '"0 9 * * 1" for each Monday at nine.', left(cron, 60) USING ERRCODE = '22023';
    END IF;
    minutes := cron_numbers(f[1], 'minute', 0, 59, NULL);
    hours := cron_numbers(f[2], 'hour', 0, 23, NULL);
    days := cron_numbers(f[3], 'day of the month', 1, 31, NULL);
    months := cron_numbers(f[4], 'month', 1, 12,
                           '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}');
    weekdays := cron_numbers(f[5], 'weekday', 0, 7, '{sun,mon,tue,wed,thu,fri,sat}');
    d := (after AT TIME ZONE zone)::date;
    FOR n IN 0..2922 LOOP
        IF extract(month FROM d)::integer = ANY (months) THEN
            -- Where both are given either of them will do, as cron has it.
            hit := extract(day FROM d)::integer = ANY (days);
            IF f[3] NOT LIKE '*%' AND f[5] NOT LIKE '*%' THEN
                hit := hit OR extract(dow FROM d)::integer = ANY (weekdays)
                       OR extract(isodow FROM d)::integer = ANY (weekdays);
            ELSE
                hit := hit AND (extract(dow FROM d)::integer = ANY (weekdays)
                                OR extract(isodow FROM d)::integer = ANY (weekdays));
            END IF;
            IF hit THEN
                SELECT min((d + make_time(h, m, 0)) AT TIME ZONE zone) INTO at
                  FROM unnest(hours) h, unnest(minutes) m
                 WHERE NOT today OR (d + make_time(h, m, 0)) AT TIME ZONE zone > after;
                IF at IS NOT NULL THEN
                    RETURN at;
                END IF;
            END IF;
        END IF;
        d := d + 1;
        today := false;
    END LOOP;
    RETURN NULL;
END $$;

CREATE TABLE reminders (
    id                uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_id        uuid REFERENCES contacts (id),
    message           text NOT NULL CHECK (message <> ''),
    label             text,
    type              text NOT NULL CHECK (type IN ('one_time', 'recurring', 'recurring_daily', 'recurring_weekly',
                                                    'recurring_monthly', 'recurring_yearly')),
    cron              text,
    due_at            timestamptz,
    timezone          text NOT NULL,
    until_at          timestamptz,
    calendar_event_id text,
    dismissed_at      timestamptz,
    created_at        timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at        timestamptz,
    CHECK ((type = 'recurring') = (cron IS NOT NULL)),
    CHECK (cron IS NOT NULL OR due_at IS NOT NULL)
);
COMMENT ON COLUMN reminders.due_at IS 'When it comes the first time; of one with a cron expression, not before this.';
COMMENT ON COLUMN reminders.timezone IS 'The zone in which days and hours are meant.';
COMMENT ON COLUMN reminders.until_at IS 'It does not come again after this.';
SELECT shared.tenant_table('reminders');
CREATE INDEX reminders_open ON reminders (tenant_id, due_at) WHERE dismissed_at IS NULL;

-- When a reminder comes next after `after`; null: never again.
CREATE FUNCTION reminder_next(r reminders, after timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    step CONSTANT text := replace(r.type, 'recurring_', '');
    first CONSTANT timestamp := r.due_at AT TIME ZONE r.timezone;
    d date;
    at timestamptz;
BEGIN
    IF r.type = 'one_time' THEN
        at := CASE WHEN r.due_at > after THEN r.due_at END;
    ELSIF r.cron IS NOT NULL THEN
        at := cron_next(r.cron, greatest(after, r.due_at - interval '1 microsecond'), r.timezone);
    ELSE
        -- The hour of the first time, kept where the clocks change.
        d := (after AT TIME ZONE r.timezone)::date - 1;
        LOOP
            d := shared.next_date(first::date, step, d);
            at := (d + first::time) AT TIME ZONE r.timezone;
            EXIT WHEN at > after;
        END LOOP;
    END IF;
    RETURN CASE WHEN at <= coalesce(r.until_at, 'infinity') THEN at END;
END $$;

-- A reminder as it is shown.
CREATE FUNCTION reminder_shown(r reminders) RETURNS TABLE (
    id uuid, contact_id uuid, contact_name text, message text, label text, type text, cron text, due_at timestamptz,
    next_trigger_at timestamptz, due boolean, timezone text, until_at timestamptz, calendar_event_id text,
    dismissed boolean, created_at timestamptz)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT r.id, r.contact_id, (SELECT c.name FROM contacts c WHERE c.id = r.contact_id), r.message, r.label, r.type,
           r.cron, r.due_at, CASE WHEN r.dismissed_at IS NULL THEN reminder_next(r, shared.clock()) END,
           r.dismissed_at IS NULL AND r.type = 'one_time' AND r.due_at <= shared.clock(), r.timezone, r.until_at,
           r.calendar_event_id, r.dismissed_at IS NOT NULL, r.created_at
$$;

-- Makes a reminder; the same one is kept once.
CREATE FUNCTION reminder_put(for_contact uuid, says text, kind text, by_cron text, at text, called text, of_type text,
                             first_at text, in_zone text, last_at text, event_id text, OUT r reminders,
                             OUT already boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    due CONSTANT timestamptz := shared.moment('due_at', at);
    starts CONSTANT timestamptz := shared.moment('next_trigger_at', first_at);
    n reminders;
BEGIN
    n.contact_id := contact_there('contact_id', for_contact);
    n.message := coalesce(short_text('message', says, 1000), short_text('label', called, 200));
    n.label := short_text('label', called, 200);
    n.cron := short_text('cron', by_cron, 200);
    n.due_at := coalesce(due, starts);
    n.timezone := coalesce(short_text('timezone', in_zone, 60), current_setting('TimeZone'));
    IF in_zone IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_timezone_names z WHERE z.name = n.timezone) THEN
        RAISE EXCEPTION 'timezone is "%". It must be the name of a zone such as Europe/Vienna; left out, it is the '
            'owner''s.', n.timezone USING ERRCODE = '22023';
    END IF;
    -- A day counts whole, in the reminder's zone.
    n.until_at := CASE WHEN last_at ~ '^\d{4}-\d{2}-\d{2}$'
                       THEN (shared.day('until_at', last_at) + 1)::timestamp AT TIME ZONE n.timezone - interval '1 microsecond'
                       ELSE shared.moment('until_at', last_at) END;
    n.calendar_event_id := short_text('calendar_event_id', event_id, 200);
    n.type := coalesce(of_type, kind, CASE WHEN n.cron IS NULL THEN 'one_time' ELSE 'recurring' END);

    IF n.message IS NULL THEN
        RAISE EXCEPTION 'A reminder needs a message that says of what.' USING ERRCODE = '22023';
    ELSIF kind <> of_type THEN
        RAISE EXCEPTION 'type is % and reminder_type %; they are two names of the same. Give type alone.', of_type, kind
            USING ERRCODE = '22023';
    ELSIF due <> starts THEN
        RAISE EXCEPTION 'due_at and next_trigger_at are two names of the same moment and differ here. Give due_at alone.'
            USING ERRCODE = '22023';
    ELSIF n.cron IS NOT NULL AND n.type <> 'recurring' THEN
        RAISE EXCEPTION 'A cron expression goes with the type recurring, not with %. Give one of the two.', n.type
            USING ERRCODE = '22023';
    ELSIF n.cron IS NULL AND n.type = 'recurring' THEN
        RAISE EXCEPTION 'How often? Take type recurring_daily, recurring_weekly, recurring_monthly or recurring_yearly '
            'with due_at for the first time, or give cron.' USING ERRCODE = '22023';
    ELSIF n.cron IS NULL AND n.due_at IS NULL THEN
        RAISE EXCEPTION 'When? Give due_at, RFC 3339 with the offset, such as 2026-03-31T09:00:00+02:00.'
            USING ERRCODE = '22023';
    ELSIF n.type = 'one_time' AND n.due_at <= shared.clock() THEN
        RAISE EXCEPTION 'due_at % is over (the present is %). Check the day and the offset.',
            to_json(date_trunc('second', n.due_at)) #>> '{}', to_json(date_trunc('second', shared.clock())) #>> '{}'
            USING ERRCODE = '22023';
    ELSIF n.due_at > shared.clock() + interval '50 years' THEN
        RAISE EXCEPTION 'due_at lies more than fifty years ahead. Check the year.' USING ERRCODE = '22023';
    ELSIF reminder_next(n, shared.clock()) IS NULL THEN
        RAISE EXCEPTION 'This reminder would never come. Check due_at, cron and until_at.' USING ERRCODE = '22023';
    END IF;

    PERFORM pg_advisory_xact_lock(hashtextextended(format('relationship reminders %s', shared.tenant()), 0));
    UPDATE reminders o
       SET until_at = coalesce(n.until_at, o.until_at), label = coalesce(n.label, o.label),
           calendar_event_id = coalesce(n.calendar_event_id, o.calendar_event_id), updated_at = shared.clock()
     WHERE o.id = (SELECT t.id FROM reminders t
                   WHERE t.contact_id IS NOT DISTINCT FROM n.contact_id AND t.type = n.type
                     AND t.cron IS NOT DISTINCT FROM n.cron AND t.due_at IS NOT DISTINCT FROM n.due_at
                     AND t.timezone = n.timezone AND lower(t.message) = lower(n.message) AND t.dismissed_at IS NULL
                   ORDER BY t.created_at, t.id LIMIT 1)
    RETURNING o.* INTO r;
    already := FOUND;
    IF NOT already THEN
        INSERT INTO reminders (contact_id, message, label, type, cron, due_at, timezone, until_at, calendar_event_id)
        VALUES (n.contact_id, n.message, n.label, n.type, n.cron, n.due_at, n.timezone, n.until_at, n.calendar_event_id)
        RETURNING * INTO r;
    END IF;
END $$;

-- Dismisses a reminder (`gone`), with all times that it would still come, or brings it back.
CREATE FUNCTION reminder_keep(which uuid, gone boolean, OUT r reminders) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE reminders o
       SET dismissed_at = CASE WHEN gone THEN coalesce(o.dismissed_at, shared.clock()) END, updated_at = shared.clock()
     WHERE o.id = which RETURNING o.* INTO r;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no reminder with that id; reminder_list shows them%.',
            CASE WHEN gone THEN '' ELSE ', with include_dismissed set to true the dismissed ones too' END
            USING ERRCODE = '22023';
    END IF;
END $$;
