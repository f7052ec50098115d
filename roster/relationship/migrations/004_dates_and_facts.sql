-- Days that come again each year, and single facts about somebody.

CREATE TABLE important_dates (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_id uuid NOT NULL REFERENCES contacts (id),
    label      text NOT NULL CHECK (label <> ''),
    month      integer NOT NULL CHECK (month BETWEEN 1 AND 12),
    day        integer NOT NULL CHECK (day BETWEEN 1 AND 31),
    year       integer CHECK (year BETWEEN 1 AND 9999),
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    deleted_at timestamptz
);
COMMENT ON COLUMN important_dates.year IS 'The year it began, where it is known: of a birth, a wedding.';
SELECT shared.tenant_table('important_dates');
SELECT guarded_table('important_dates');
CREATE UNIQUE INDEX important_dates_once ON important_dates (tenant_id, contact_id, lower(label), month, day)
    WHERE deleted_at IS NULL;
CREATE INDEX important_dates_by_day ON important_dates (tenant_id, month, day) WHERE deleted_at IS NULL;

-- Whether a day stands in the calendar, and lies behind us where it has a year.
CREATE FUNCTION important_date_day(of_month integer, of_day integer, of_year integer) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    given date;
BEGIN
    BEGIN
        -- 2024 had a 29 February.
        given := make_date(coalesce(of_year, 2024), of_month, of_day);
    EXCEPTION WHEN datetime_field_overflow THEN
        RAISE EXCEPTION 'There is no day % in month %. Correct day, month or year.', of_day,
            concat_ws(' of ', of_month, of_year) USING ERRCODE = '22023';
    END;
    IF of_year IS NOT NULL AND given > shared.today() THEN
        RAISE EXCEPTION '% lies in the future. year is when it began, such as the year of birth; leave it out if it is not '
            'known. A thing to come has its place in reminder_create.', given USING ERRCODE = '22023';
    ELSIF of_year < 1800 THEN
        RAISE EXCEPTION 'year is %. Give the four digits of a year from 1800 on, or leave it out.', of_year
            USING ERRCODE = '22023';
    END IF;
END $$;

-- Notes a day. The same once more may bring its year; a person is born, and dies, on one day.
CREATE FUNCTION date_add(which uuid, named text, of_month integer, of_day integer, of_year integer)
RETURNS TABLE (id uuid, contact_id uuid, label text, month integer, day integer, year integer, already_there boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    d important_dates;
    label_now CONSTANT text := lower(coalesce(short_text('label', named, 100), ''));
    there boolean;
BEGIN
    which := contact_there('contact_id', which);
    IF label_now = '' THEN
        RAISE EXCEPTION 'label is empty: say what day it is, such as birthday or anniversary.' USING ERRCODE = '22023';
    END IF;
    PERFORM important_date_day(of_month, of_day, of_year);
    PERFORM pg_advisory_xact_lock(hashtextextended('relationship.important_dates ' || which::text, 0));
    SELECT * INTO d FROM important_dates o
    WHERE o.contact_id = which AND lower(o.label) = label_now AND o.deleted_at IS NULL
      AND (o.month = of_month AND o.day = of_day OR label_now IN ('birthday', 'death'))
    ORDER BY o.created_at LIMIT 1;
    there := d.id IS NOT NULL;
    IF there AND ((d.month, d.day) <> (of_month, of_day) OR d.year <> of_year) THEN
        RAISE EXCEPTION 'The % is on record as day % of month %, as date %. If that is wrong, date_remove it, then add the '
            'right one.', d.label, d.day, concat_ws(' of ', d.month, d.year), d.id USING ERRCODE = '22023';
    ELSIF there THEN
        UPDATE important_dates o SET year = coalesce(o.year, of_year) WHERE o.id = d.id RETURNING o.* INTO d;
    ELSE
        INSERT INTO important_dates AS n (contact_id, label, month, day, year)
        VALUES (which, label_now, of_month, of_day, of_year) RETURNING n.* INTO d;
    END IF;
    RETURN QUERY SELECT d.id, d.contact_id, d.label, d.month, d.day, d.year, there;
END $$;

-- Takes a day away, or brings it back.
CREATE FUNCTION date_set_deleted(which uuid, gone boolean)
RETURNS TABLE (id uuid, contact_id uuid, label text, month integer, day integer, year integer, deleted_at timestamptz)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    d important_dates;
BEGIN
    SELECT * INTO d FROM important_dates o WHERE o.id = which FOR UPDATE;
    IF d.id IS NULL THEN
        RAISE EXCEPTION 'There is no date with that id; date_list shows them, with deleted = true the removed ones.'
            USING ERRCODE = '22023';
    END IF;
    IF NOT gone AND d.deleted_at IS NOT NULL THEN
        PERFORM contact_there('contact_id', d.contact_id);
        IF EXISTS (SELECT 1 FROM important_dates o WHERE o.contact_id = d.contact_id AND o.deleted_at IS NULL
                   AND lower(o.label) = lower(d.label)
                   AND (o.month = d.month AND o.day = d.day OR lower(d.label) IN ('birthday', 'death'))) THEN
            RAISE EXCEPTION 'Another % is on record since; date_remove that one first.', d.label USING ERRCODE = '22023';
        END IF;
    END IF;
    IF (d.deleted_at IS NOT NULL) <> gone THEN
        UPDATE important_dates o SET deleted_at = CASE WHEN gone THEN shared.clock() END WHERE o.id = which
        RETURNING o.* INTO d;
    END IF;
    RETURN QUERY SELECT d.id, d.contact_id, d.label, d.month, d.day, d.year, d.deleted_at;
END $$;

-- The days that come within `ahead` days from today on, of those who are not archived; the next first. `turns`: how many
-- years it will be then.
CREATE FUNCTION dates_ahead(ahead integer)
RETURNS TABLE (date date, days_until integer, contact_id uuid, name text, label text, turns integer, date_id uuid)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF ahead NOT BETWEEN 0 AND 366 THEN
        RAISE EXCEPTION 'days_ahead is %. A date comes again each year: give 0 to 366.', ahead USING ERRCODE = '22023';
    END IF;
    RETURN QUERY
    SELECT n.next, n.next - shared.today(), c.id, c.name, d.label,
           nullif(extract(year FROM n.next)::int - d.year, 0), d.id
    FROM important_dates d JOIN contacts c ON c.id = d.contact_id
    CROSS JOIN LATERAL (SELECT shared.next_anniversary(d.month, d.day, shared.today()) AS next) n
    WHERE d.deleted_at IS NULL AND c.archived_at IS NULL AND n.next - shared.today() <= ahead
    ORDER BY n.next, c.name_key, d.label, d.id;
END $$;

CREATE TABLE quick_facts (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_id uuid NOT NULL REFERENCES contacts (id),
    key        text NOT NULL CHECK (key <> ''),
    value      text NOT NULL CHECK (value <> ''),
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at timestamptz,
    deleted_at timestamptz,
    revisions  jsonb NOT NULL DEFAULT '[]'
);
COMMENT ON COLUMN quick_facts.key IS 'Small letters, words joined by _: favourite_food.';
COMMENT ON COLUMN quick_facts.revisions IS 'What the value was before, oldest first.';
SELECT shared.tenant_table('quick_facts');
SELECT guarded_table('quick_facts');
CREATE UNIQUE INDEX quick_facts_one_value ON quick_facts (tenant_id, contact_id, key) WHERE deleted_at IS NULL;

-- A key as it is kept: "Favourite food" and "favourite-food" are one.
CREATE FUNCTION fact_key(given text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    key CONSTANT text := btrim(regexp_replace(lower(btrim(given)), '[^[:alnum:]]+', '_', 'g'), '_');
BEGIN
    IF key = '' OR length(key) > 100 THEN
        RAISE EXCEPTION 'key is "%". Name the fact in a word or two of at most 100 characters, such as favourite_food.',
            given USING ERRCODE = '22023';
    ELSIF key IN ('birthday', 'birth_date', 'date_of_birth', 'anniversary', 'wedding_anniversary', 'wedding_day') THEN
        RAISE EXCEPTION '% is a day that comes again: use date_add, so that upcoming_dates knows it.', key
            USING ERRCODE = '22023';
    ELSIF key IN ('email', 'e_mail', 'phone', 'phone_number', 'mobile', 'telephone', 'telegram', 'whatsapp', 'website') THEN
        RAISE EXCEPTION '% is a way to reach somebody: use contact_info_add, so that contact_search_by_info finds it.', key
            USING ERRCODE = '22023';
    ELSIF key IN ('address', 'home_address', 'work_address') THEN
        RAISE EXCEPTION '% is where somebody lives or works: use address_add.', key USING ERRCODE = '22023';
    END IF;
    RETURN key;
END $$;

-- Notes a fact in the place of what was noted under its key.
CREATE FUNCTION fact_set(which uuid, named text, given text)
RETURNS TABLE (id uuid, contact_id uuid, key text, value text, changed boolean, previous text)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    k CONSTANT text := fact_key(named);
    v CONSTANT text := short_text('value', given, 4000);
    was quick_facts;
    f quick_facts;
BEGIN
    which := contact_there('contact_id', which);
    IF v IS NULL THEN
        RAISE EXCEPTION 'value is empty. Give what is so; fact_remove takes a fact away.' USING ERRCODE = '22023';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('relationship.quick_facts ' || which::text, 0));
    SELECT * INTO was FROM quick_facts o WHERE o.contact_id = which AND o.key = k AND o.deleted_at IS NULL;
    IF was.id IS NULL THEN
        INSERT INTO quick_facts AS n (contact_id, key, value) VALUES (which, k, v) RETURNING n.* INTO f;
    ELSIF was.value = v THEN
        f := was;
    ELSE
        UPDATE quick_facts o SET value = v, updated_at = shared.clock(),
            revisions = o.revisions || jsonb_build_object('value', o.value, 'until', shared.clock())
        WHERE o.id = was.id RETURNING o.* INTO f;
    END IF;
    RETURN QUERY SELECT f.id, f.contact_id, f.key, f.value, was.value IS DISTINCT FROM v, nullif(was.value, v);
END $$;

-- Takes away what is noted under a key, or brings back what was taken away last.
CREATE FUNCTION fact_set_deleted(which uuid, named text, gone boolean)
RETURNS TABLE (id uuid, contact_id uuid, key text, value text, deleted_at timestamptz)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    k CONSTANT text := btrim(regexp_replace(lower(btrim(named)), '[^[:alnum:]]+', '_', 'g'), '_');
    f quick_facts;
BEGIN
    which := contact_there('contact_id', which);
    SELECT * INTO f FROM quick_facts o WHERE o.contact_id = which AND o.key = k
    ORDER BY o.deleted_at IS NULL DESC, o.deleted_at DESC, o.id LIMIT 1 FOR UPDATE;
    IF f.id IS NULL THEN
        RAISE EXCEPTION 'There is no fact "%" of this contact; fact_list shows them, with deleted = true the removed ones.',
            k USING ERRCODE = '22023';
    ELSIF gone AND f.deleted_at IS NULL THEN
        UPDATE quick_facts o SET deleted_at = shared.clock() WHERE o.id = f.id RETURNING o.* INTO f;
    ELSIF NOT gone AND f.deleted_at IS NOT NULL THEN
        UPDATE quick_facts o SET deleted_at = NULL WHERE o.id = f.id RETURNING o.* INTO f;
    END IF;
    RETURN QUERY SELECT f.id, f.contact_id, f.key, f.value, f.deleted_at;
END $$;
