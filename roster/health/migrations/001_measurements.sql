-- Measurements of the person's body: weight, blood pressure, heart rate, temperature, glucose, steps, sleep.
--
-- A value is an object whose keys name their unit, {"kg": 81.4}, so that a number never travels without one. What each
-- kind takes is said once, in measurement_kinds(). Adding a kind is a later migration that replaces that function and
-- the check below, and one more word in the `kind` enums of the tools.
--
-- Refusals are raised with SQLSTATE 22023 and written for the model that made the call: what was wrong, what to do
-- instead.

-- What each kind is made of, one row a number. `place` 1 is the number that trends follow. `low` and `high` bound what
-- a living person can have, wide enough for the ill, narrow enough to catch most mistaken units. `notable` is the
-- smallest change that a trend calls rising or falling: below it lies the scatter of ordinary days.
CREATE FUNCTION measurement_kinds()
RETURNS TABLE (kind text, place int, field text, unit text, low numeric, high numeric, whole boolean, example text,
               notable numeric, hint text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    VALUES
        ('weight',         1, 'kg',        'kg',     1,   650,    false, '81.4', 0.5,
         'Pounds are multiplied by 0.4536 first.'),
        ('blood_pressure', 1, 'systolic',  'mmHg',   40,  300,    false, '128',  5,
         'A pulse is logged on its own, as heart_rate.'),
        ('blood_pressure', 2, 'diastolic', 'mmHg',   20,  200,    false, '82',   5,
         'A pulse is logged on its own, as heart_rate.'),
        ('heart_rate',     1, 'bpm',       'bpm',    20,  300,    false, '62',   5,
         'It is counted in beats per minute.'),
        ('temperature',    1, 'celsius',   '°C',     25,  45,     false, '36.8', 0.3,
         'Fahrenheit is converted first: subtract 32, then divide by 1.8.'),
        ('glucose',        1, 'mmol_l',    'mmol/L', 0.5, 40,     false, '5.4',  0.5,
         'A reading in mg/dL is divided by 18.02 first.'),
        ('steps',          1, 'count',     'steps',  0,   200000, true,  '8400', 500,
         'It is the number of steps of one day or one walk.'),
        ('sleep',          1, 'hours',     'h',      0,   24,     false, '7.5',  0.5,
         'Minutes are divided by 60 first.')
$$;

-- Why `given` is no value of `of_kind`, as a sentence to act on; null when it is one.
CREATE FUNCTION measurement_problem(of_kind text, given jsonb)
RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    shape text;
    stray text;
    part  record;
    n     numeric;
BEGIN
    SELECT format('{%s}', string_agg(format('"%s": %s', k.field, k.example), ', ' ORDER BY k.place)) INTO shape
      FROM measurement_kinds() k WHERE k.kind = of_kind HAVING count(*) > 0;
    IF shape IS NULL THEN
        RETURN format('There is no kind of measurement called "%s". The kinds are %s.', of_kind,
                      (SELECT string_agg(k.kind, ', ') FROM measurement_kinds() k WHERE k.place = 1));
    END IF;

    IF given IS NULL OR jsonb_typeof(given) <> 'object' THEN
        RETURN format('A value of kind %s is an object such as %s.', of_kind, shape);
    END IF;

    SELECT string_agg(format('"%s"', g.field), ', ') INTO stray
      FROM jsonb_object_keys(given) g(field)
     WHERE g.field NOT IN (SELECT k.field FROM measurement_kinds() k WHERE k.kind = of_kind);

    FOR part IN SELECT * FROM measurement_kinds() k WHERE k.kind = of_kind ORDER BY k.place LOOP
        IF stray IS NOT NULL THEN
            RETURN format('A value of kind %s is exactly %s (%s), without %s. %s',
                          of_kind, shape, part.unit, stray, part.hint);
        END IF;
        IF NOT given ? part.field THEN
            RETURN format('"%s" is missing. A value of kind %s is exactly %s (%s).',
                          part.field, of_kind, shape, part.unit);
        END IF;
        IF jsonb_typeof(given -> part.field) <> 'number' THEN
            RETURN format('"%s" must be a number, as in %s.', part.field, shape);
        END IF;
        n := (given ->> part.field)::numeric;
        IF n < part.low OR n > part.high THEN
            RETURN format('"%s": %s is not plausible for %s, it lies outside %s to %s %s. %s Ask the person if the '
                          'number itself is in doubt.',
                          part.field, n, of_kind, part.low, part.high, part.unit, part.hint);
        END IF;
        IF part.whole AND n <> trunc(n) THEN
            RETURN format('"%s" must be a whole number.', part.field);
        END IF;
    END LOOP;

    IF of_kind = 'blood_pressure' AND (given ->> 'systolic')::numeric <= (given ->> 'diastolic')::numeric THEN
        RETURN format('The systolic pressure (%s) must be the higher of the two, the diastolic (%s) the lower.',
                      given ->> 'systolic', given ->> 'diastolic');
    END IF;
    RETURN NULL;
END
$$;

CREATE TABLE measurements (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    kind        text NOT NULL
                CHECK (kind IN ('weight', 'blood_pressure', 'heart_rate', 'temperature', 'glucose', 'steps', 'sleep')),
    value       jsonb NOT NULL,
    unit        text NOT NULL,
    measured_at timestamptz NOT NULL,
    notes       text,
    created_at  timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at  timestamptz,
    deleted_at  timestamptz,
    revisions   jsonb NOT NULL DEFAULT '[]'
);
COMMENT ON COLUMN measurements.unit IS 'Unit of the value, derived from the kind by the trigger.';
COMMENT ON COLUMN measurements.deleted_at IS 'Set on removal, so that removal can be undone. Null for rows that count.';
COMMENT ON COLUMN measurements.revisions IS 'What the row said before each correction, oldest first.';

SELECT shared.tenant_table('measurements');

-- A reading is told apart from another by these four, so that logging it twice keeps one row: measurement_log relies on
-- this. The same index, read backwards, serves latest, trend and history of one kind.
CREATE UNIQUE INDEX measurements_one_reading ON measurements (tenant_id, kind, measured_at, value)
    WHERE deleted_at IS NULL;
-- History over all kinds, and the list of what was deleted.
CREATE INDEX measurements_by_time ON measurements (tenant_id, measured_at);

CREATE FUNCTION measurement_before_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    present CONSTANT timestamptz := shared.clock();
    problem text;
    twin    uuid;
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'INSERT'
       OR (NEW.kind, NEW.value, NEW.measured_at, NEW.notes)
          IS DISTINCT FROM (OLD.kind, OLD.value, OLD.measured_at, OLD.notes) THEN
        problem := measurement_problem(NEW.kind, NEW.value);
        -- An hour is left for clocks that differ and for requests that waited.
        IF problem IS NULL AND NEW.measured_at > present + interval '1 hour' THEN
            problem := format('measured_at %s lies in the future (the present is %s). Check the day and the offset, '
                              'or leave measured_at out if it was measured just now.',
                              to_json(date_trunc('second', NEW.measured_at)) #>> '{}',
                              to_json(date_trunc('second', present)) #>> '{}');
        ELSIF problem IS NULL AND NEW.measured_at < '1900-01-01' THEN
            problem := 'measured_at lies before 1900. Check the year.';
        ELSIF problem IS NULL AND length(NEW.notes) > 2000 THEN
            problem := format('The notes have %s characters; at most 2000 are kept. Shorten them.', length(NEW.notes));
        END IF;
        IF problem IS NOT NULL THEN
            RAISE EXCEPTION '%', problem USING ERRCODE = '22023';
        END IF;
        NEW.unit := (SELECT k.unit FROM measurement_kinds() k WHERE k.kind = NEW.kind AND k.place = 1);

        IF TG_OP = 'UPDATE' THEN
            NEW.updated_at := present;
            NEW.revisions := OLD.revisions || jsonb_build_object(
                'kind', OLD.kind, 'value', OLD.value, 'measured_at', OLD.measured_at, 'notes', OLD.notes,
                'until', present);
        END IF;
    END IF;

    -- A correction or a restore that would make two rows of one reading. (An insert meets the unique index instead.)
    IF TG_OP = 'UPDATE' AND NEW.deleted_at IS NULL THEN
        SELECT o.id INTO twin
          FROM measurements o
         WHERE o.tenant_id = NEW.tenant_id AND o.kind = NEW.kind AND o.measured_at = NEW.measured_at
           AND o.value = NEW.value AND o.deleted_at IS NULL AND o.id <> NEW.id
         LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'The same reading at the same moment is there already, as measurement %. Nothing changed.',
                twin USING ERRCODE = '22023';
        END IF;
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON measurements
    FOR EACH ROW EXECUTE FUNCTION measurement_before_write();
