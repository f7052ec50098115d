-- Medications, the plan by which each is taken, the doses that were taken or left out, and what is left in the box.
--
-- A medication with times of day has a plan, and then it is decidable which dose was due when, which was missed, and
-- when the box is empty. A plan is never changed, only closed and followed by a new one, so that what was due last
-- month stays what it was. One without times is taken as needed: its doses are counted, none is missed.

CREATE TABLE medications (
    id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name           text NOT NULL,
    dosage         text NOT NULL,
    frequency      text NOT NULL,
    schedule       text[] NOT NULL DEFAULT '{}',
    weekdays       text[] NOT NULL DEFAULT '{}',
    every_days     int NOT NULL DEFAULT 1,
    start_date     date NOT NULL,
    end_date       date,
    stock          numeric,
    stock_at       timestamptz,
    units_per_dose numeric NOT NULL DEFAULT 1,
    remind_missed  boolean NOT NULL DEFAULT true,
    active         boolean NOT NULL DEFAULT true,
    stopped_at     timestamptz,
    stop_reason    text,
    notes          text,
    created_at     timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at     timestamptz,
    revisions      jsonb NOT NULL DEFAULT '[]'
);
COMMENT ON COLUMN medications.schedule IS 'Times of day in the owner''s zone, HH:MM; none: taken as needed.';
COMMENT ON COLUMN medications.weekdays IS 'The days of the week on which the times hold; none: all.';
COMMENT ON COLUMN medications.every_days IS 'The times hold on every so many-th day, counted from start_date.';
COMMENT ON COLUMN medications.end_date IS 'The last day of a course.';
COMMENT ON COLUMN medications.stock IS 'Units (tablets, ml, puffs) that there were at stock_at.';

SELECT shared.tenant_table('medications');

-- What is taken now is there once in each strength: medication_add relies on this.
CREATE UNIQUE INDEX medications_one_each ON medications (tenant_id, lower(name), lower(dosage)) WHERE active;

CREATE TABLE medication_plans (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    medication_id uuid NOT NULL REFERENCES medications (id),
    times         time[] NOT NULL,
    weekdays      int[] NOT NULL,
    every_days    int NOT NULL,
    start_date    date NOT NULL,
    end_date      date,
    from_at       timestamptz NOT NULL,
    until_at      timestamptz NOT NULL DEFAULT 'infinity'
);
COMMENT ON COLUMN medication_plans.weekdays IS '1 is Monday; none: all days.';
COMMENT ON COLUMN medication_plans.from_at IS 'Nothing was due by this plan before.';

SELECT shared.tenant_table('medication_plans');

CREATE INDEX medication_plans_by_medication ON medication_plans (tenant_id, medication_id, from_at);

CREATE TABLE medication_doses (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    medication_id uuid NOT NULL REFERENCES medications (id),
    taken_at      timestamptz NOT NULL,
    skipped       boolean NOT NULL DEFAULT false,
    dosage        text NOT NULL,
    notes         text,
    created_at    timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at    timestamptz,
    deleted_at    timestamptz,
    revisions     jsonb NOT NULL DEFAULT '[]'
);
COMMENT ON COLUMN medication_doses.taken_at IS 'When it was taken, or when it was left out.';
COMMENT ON COLUMN medication_doses.dosage IS 'The dosage of the medication at that time, which may change later.';

SELECT shared.tenant_table('medication_doses');

CREATE UNIQUE INDEX medication_doses_one_each ON medication_doses (tenant_id, medication_id, taken_at)
    WHERE deleted_at IS NULL;

-- The id of a medication that is on record, stopped or not; any other is refused.
CREATE FUNCTION medication_known(given uuid)
RETURNS uuid
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM FROM medications m WHERE m.id = given;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no medication with that id; medication_list shows them.' USING ERRCODE = '22023';
    END IF;
    RETURN given;
END
$$;

-- Times of day as they are kept: HH:MM, each once, in order.
CREATE FUNCTION medication_times(given text[])
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    wrong text;
BEGIN
    SELECT t INTO wrong FROM unnest(given) t WHERE t IS NULL OR t !~ '^([01]?[0-9]|2[0-3]):[0-5][0-9]$' LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'schedule: "%" is no time of day. Give each time in 24 hours of the owner''s zone, such as '
                        '"08:00"; what has no fixed time has no schedule.', wrong USING ERRCODE = '22023';
    ELSIF cardinality(given) > 24 THEN
        RAISE EXCEPTION 'schedule has % times; at most 24 a day.', cardinality(given) USING ERRCODE = '22023';
    END IF;
    RETURN CASE WHEN given IS NULL THEN NULL
                ELSE ARRAY(SELECT DISTINCT lpad(t, 5, '0') FROM unnest(given) t ORDER BY 1) END;
END
$$;

-- Why a medication's plan can't be as it says; null when it can.
CREATE FUNCTION medication_problem(m medications)
RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    times CONSTANT int := cardinality(m.schedule);
    said CONSTANT text := lower(m.frequency);
    often text := (regexp_match(
        said, '^(once|twice|three times|four times|[1-9] ?(?:x|times)) (?:daily|a day|per day)$'))[1];
BEGIN
    often := CASE often WHEN 'once' THEN '1' WHEN 'twice' THEN '2' WHEN 'three times' THEN '3'
                        WHEN 'four times' THEN '4' ELSE left(often, 1) END;
    RETURN CASE
        WHEN m.every_days < 1 OR m.every_days > 366 THEN 'every_days must be between 1 (each day) and 366.'
        WHEN m.units_per_dose <= 0 OR m.units_per_dose > 1000 THEN
            'units_per_dose must be above 0: how many units of the stock one dose takes.'
        WHEN m.stock < 0 OR m.stock > 100000 THEN 'stock must be the number of units that are left, 0 or more.'
        WHEN m.end_date < m.start_date THEN
            format('end_date %s lies before start_date %s. Correct one of them.', m.end_date, m.start_date)
        WHEN times = 0 AND (cardinality(m.weekdays) > 0 OR m.every_days > 1) THEN
            'weekdays and every_days need a schedule: the times of day at which it is taken on those days.'
        WHEN cardinality(m.weekdays) > 0 AND m.every_days > 1 THEN
            'Give weekdays or every_days, not both.'
        WHEN times > 0 AND said ~ '(as needed|when needed|if needed|on demand|\mprn\M)' THEN
            format('frequency is "%s", and what is taken as needed has no schedule. Leave the schedule out.',
                   m.frequency)
        WHEN times > 0 AND cardinality(m.weekdays) = 0 AND m.every_days = 1
             AND said ~ '(week|month|every other|every second)' AND said !~ '(daily|a day|per day)' THEN
            format('frequency is "%s", but the schedule would hold every day. Give weekdays (["mon"]) or every_days.',
                   m.frequency)
        WHEN times > 0 AND often::int <> times THEN
            format('frequency is "%s", but the schedule has %s: %s. Correct one of them.', m.frequency,
                   CASE times WHEN 1 THEN '1 time' ELSE times || ' times' END, array_to_string(m.schedule, ', '))
    END;
END
$$;

CREATE FUNCTION medication_before_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    problem text;
    twin    medications;
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    NEW.name := health_text('name', NEW.name, 200);
    NEW.dosage := health_text('dosage', NEW.dosage, 200);
    NEW.frequency := health_text('frequency', NEW.frequency, 200);
    NEW.schedule := medication_times(NEW.schedule);
    problem := medication_problem(NEW);
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = '22023';
    END IF;

    SELECT * INTO twin
      FROM medications o
     WHERE o.tenant_id = NEW.tenant_id AND lower(o.name) = lower(NEW.name) AND lower(o.dosage) = lower(NEW.dosage)
       AND o.active AND o.id <> NEW.id;
    IF NOT FOUND OR NOT NEW.active THEN
        RETURN NEW;
    ELSIF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION '% % is on the list already, as medication %. Nothing changed.', twin.name, twin.dosage, twin.id
            USING ERRCODE = '22023';
    ELSIF lower(NEW.frequency) <> lower(twin.frequency)
          OR cardinality(NEW.schedule) > 0
             AND (NEW.schedule, NEW.weekdays, NEW.every_days) <> (twin.schedule, twin.weekdays, twin.every_days)
          OR NEW.stock <> coalesce(twin.stock, -1) OR NEW.end_date <> coalesce(twin.end_date, 'infinity') THEN
        RAISE EXCEPTION '% % is on the list already, % (medication %). medication_update changes '
                        'how it is taken, for how long, and the stock.',
            twin.name, twin.dosage, concat_ws(' at ', twin.frequency, nullif(array_to_string(twin.schedule, ', '), '')),
            twin.id USING ERRCODE = '22023';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON medications
    FOR EACH ROW EXECUTE FUNCTION medication_before_write();
CREATE TRIGGER keep_revision BEFORE UPDATE ON medications
    FOR EACH ROW EXECUTE FUNCTION health_keep_revision();

-- Closes the plan that held, and opens the one that holds from now on.
CREATE FUNCTION medication_plan()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    present CONSTANT timestamptz := shared.clock();
BEGIN
    IF shared.undoing() OR TG_OP = 'UPDATE'
       AND (NEW.active, NEW.schedule, NEW.weekdays, NEW.every_days, NEW.start_date)
           IS NOT DISTINCT FROM (OLD.active, OLD.schedule, OLD.weekdays, OLD.every_days, OLD.start_date)
       AND NEW.end_date IS NOT DISTINCT FROM OLD.end_date THEN
        RETURN NULL;
    END IF;
    UPDATE medication_plans p
       SET until_at = greatest(p.from_at, CASE WHEN NEW.active THEN present ELSE coalesce(NEW.stopped_at, present) END)
     WHERE p.medication_id = NEW.id AND p.until_at = 'infinity';
    IF NEW.active AND cardinality(NEW.schedule) > 0 THEN
        INSERT INTO medication_plans (medication_id, times, weekdays, every_days, start_date, end_date, from_at)
        VALUES (NEW.id, NEW.schedule::time[],
                ARRAY(SELECT array_position('{mon,tue,wed,thu,fri,sat,sun}'::text[], d) FROM unnest(NEW.weekdays) d),
                NEW.every_days, NEW.start_date, NEW.end_date, present);
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER plan AFTER INSERT OR UPDATE ON medications
    FOR EACH ROW EXECUTE FUNCTION medication_plan();

CREATE FUNCTION medication_dose_before_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    taken medications;
    twin  uuid;
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    SELECT * INTO taken FROM medications m WHERE m.id = NEW.medication_id;
    IF TG_OP = 'INSERT' AND NOT taken.active AND NEW.taken_at > taken.stopped_at THEN
        RAISE EXCEPTION '% was stopped at %. If it is taken again, medication_restore first; a dose from before needs '
                        'its taken_at.', taken.name, to_json(date_trunc('second', taken.stopped_at)) #>> '{}'
            USING ERRCODE = '22023';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.deleted_at IS NULL THEN
        SELECT o.id INTO twin
          FROM medication_doses o
         WHERE o.tenant_id = NEW.tenant_id AND o.medication_id = NEW.medication_id AND o.taken_at = NEW.taken_at
           AND o.deleted_at IS NULL AND o.id <> NEW.id;
        IF FOUND THEN
            RAISE EXCEPTION 'A dose at that moment is on record already, as dose %. Nothing changed.', twin
                USING ERRCODE = '22023';
        END IF;
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON medication_doses
    FOR EACH ROW EXECUTE FUNCTION medication_dose_before_write();
CREATE TRIGGER keep_revision BEFORE UPDATE ON medication_doses
    FOR EACH ROW EXECUTE FUNCTION health_keep_revision();
