-- What all of the record shares: texts with a limit, rows that must be there, what a row said before it was corrected.

-- A text that must say something, without the blanks around it.
CREATE FUNCTION health_text(argument text, given text, most int)
RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF btrim(given, E' \t\r\n') = '' THEN
        RAISE EXCEPTION '% is empty. Say it in the person''s words, or ask.', argument USING ERRCODE = '22023';
    ELSIF length(given) > most THEN
        RAISE EXCEPTION '% has % characters; at most % are kept. Shorten it.', argument, length(given), most
            USING ERRCODE = '22023';
    END IF;
    RETURN btrim(given, E' \t\r\n');
END
$$;

-- A text that may be empty, which then takes the old one away.
CREATE FUNCTION health_note(argument text, given text)
RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path FROM CURRENT
AS $$ SELECT CASE WHEN btrim(given, E' \t\r\n') = '' THEN '' ELSE health_text(argument, given, 2000) END $$;

-- Tags as they are kept: small letters, each once, in order.
CREATE FUNCTION health_tags(given text[])
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    IF cardinality(given) > 20 THEN
        RAISE EXCEPTION 'There are % tags; at most 20 are kept. Choose the ones to find it by.', cardinality(given)
            USING ERRCODE = '22023';
    END IF;
    RETURN CASE WHEN given IS NULL THEN NULL ELSE ARRAY(
        SELECT DISTINCT lower(health_text('tags', t, 50)) FROM unnest(given) t WHERE t IS NOT NULL ORDER BY 1) END;
END
$$;

-- A moment at which something was: named, or the present; not to come, and of a living person's time.
CREATE FUNCTION health_past(argument text, given text)
RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    present CONSTANT timestamptz := shared.clock();
    at CONSTANT timestamptz := shared.moment(argument, given);
BEGIN
    -- An hour is left for clocks that differ and for requests that waited.
    IF at > present + interval '1 hour' THEN
        RAISE EXCEPTION '% % lies in the future (the present is %). Check the day and the offset, or leave % out if it '
                        'is just now.', argument, to_json(date_trunc('second', at)) #>> '{}',
                        to_json(date_trunc('second', present)) #>> '{}', argument USING ERRCODE = '22023';
    ELSIF at < '1900-01-01' THEN
        RAISE EXCEPTION '% lies before 1900. Check the year.', argument USING ERRCODE = '22023';
    END IF;
    RETURN at;
END
$$;

-- Whether a span has its ends in order; refused when it has not.
CREATE FUNCTION health_span(start_date text, end_date text)
RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF shared.bound('start_date', start_date, false) >= shared.bound('end_date', end_date, true) THEN
        RAISE EXCEPTION 'start_date % lies after end_date %. Exchange them, or correct one.', start_date, end_date
            USING ERRCODE = '22023';
    END IF;
    RETURN true;
END
$$;

-- The id that a tool names, if such a row is on record; any other is refused, and with `live` a deleted one too. A tool
-- asks it beside its comparison with the id, where it is looked at even if the table is empty.
CREATE FUNCTION health_known(what text, given uuid, live boolean)
RETURNS uuid
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    held record;
    gone timestamptz;
BEGIN
    SELECT * INTO held FROM (VALUES
        ('measurement', 'measurements',     'measurement_history', 'measurement_restore'),
        ('condition',   'conditions',       'condition_list',      'condition_restore'),
        ('symptom',     'symptoms',         'symptom_history',     'symptom_restore'),
        ('meal',        'meals',            'meal_history',        'meal_restore'),
        ('dose',        'medication_doses', 'medication_history',  'medication_dose_restore'),
        ('note of research', 'research',    'research_search',     'research_restore')
    ) v(kind, in_table, shown_by, restored_by) WHERE v.kind = what;
    IF given IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT coalesce(deleted_at, ''-infinity'') FROM %I WHERE id = $1', held.in_table)
       INTO gone USING given;
    IF gone IS NULL THEN
        RAISE EXCEPTION 'There is no % with that id; % shows them.', what, held.shown_by USING ERRCODE = '22023';
    ELSIF live AND gone > '-infinity' THEN
        RAISE EXCEPTION 'That % was deleted. % with the same id brings it back first.', what, held.restored_by
            USING ERRCODE = '22023';
    END IF;
    RETURN given;
END
$$;

-- Keeps what a row said before a correction, oldest first, in `revisions`: only what changed, and until when it stood.
CREATE FUNCTION health_keep_revision()
RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    kept CONSTANT text[] := ARRAY['id', 'tenant_id', 'trust', 'created_at', 'updated_at', 'deleted_at', 'revisions',
                                  'stopped_at', 'stop_reason'];
    said CONSTANT jsonb := to_jsonb(OLD) - kept;
    says CONSTANT jsonb := to_jsonb(NEW) - kept;
BEGIN
    IF shared.undoing() OR said = says THEN
        RETURN NEW;
    END IF;
    NEW.updated_at := shared.clock();
    NEW.revisions := OLD.revisions
        || ((SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(said) o WHERE o.value <> says -> o.key)
            || jsonb_build_object('until', NEW.updated_at));
    RETURN NEW;
END
$$;
