-- How people are reached: addresses of e-mail, numbers, accounts, and where they live.

CREATE TABLE contact_info (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_id uuid NOT NULL REFERENCES contacts (id),
    type       text NOT NULL CHECK (type IN ('email', 'phone', 'telegram', 'whatsapp', 'signal', 'matrix', 'linkedin',
                                             'instagram', 'facebook', 'website', 'other')),
    value      text NOT NULL CHECK (value <> ''),
    plain      text NOT NULL,
    label      text,
    is_primary boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    deleted_at timestamptz
);
COMMENT ON COLUMN contact_info.plain IS 'The value as it is compared: small letters, a number without its blanks.';
SELECT shared.tenant_table('contact_info');
SELECT guarded_table('contact_info');
-- One value of one person stands once: contact_info_add relies on it.
CREATE UNIQUE INDEX contact_info_once ON contact_info (tenant_id, contact_id, type, plain) WHERE deleted_at IS NULL;
CREATE INDEX contact_info_by_value ON contact_info (tenant_id, plain) WHERE deleted_at IS NULL;

-- A value as it is compared. What can't be one of its type is refused.
CREATE FUNCTION info_plain(of_type text, given text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    value CONSTANT text := btrim(given);
    digits text;
BEGIN
    IF value = '' OR length(value) > 500 THEN
        RAISE EXCEPTION 'value must have 1 to 500 characters.' USING ERRCODE = '22023';
    ELSIF of_type = 'email' THEN
        IF value !~ '^[^@\s<>,;]+@[^@\s<>,;]+\.[^@\s<>,;.]{2,}$' THEN
            RAISE EXCEPTION 'value is "%", which is no e-mail address. It looks like name@example.org, without the name of '
                'the person and without brackets.', value USING ERRCODE = '22023';
        END IF;
    ELSIF of_type IN ('phone', 'whatsapp', 'signal') THEN
        digits := regexp_replace(regexp_replace(value, '\(0\)|[\s().\/-]', '', 'g'), '^00', '+');
        IF digits !~ '^\+?\d{5,15}$' THEN
            RAISE EXCEPTION 'value is "%", which is no telephone number. Give 5 to 15 digits, best with the country code: '
                '+41 79 123 45 67.', value USING ERRCODE = '22023';
        END IF;
        RETURN digits;
    ELSIF of_type = 'website' AND value !~* '^https?://\S+\.\S+$' THEN
        RAISE EXCEPTION 'value is "%". A website is given whole: https://example.org', value USING ERRCODE = '22023';
    END IF;
    RETURN lower(value);
END $$;

-- Notes a way to reach somebody; of the same value once more, the label and the rank are taken over.
CREATE FUNCTION contact_info_add(which uuid, of_type text, given text, named text, first boolean)
RETURNS TABLE (id uuid, contact_id uuid, type text, value text, label text, is_primary boolean, already_there boolean,
               messages_reach boolean, also_of jsonb)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    norm CONSTANT text := info_plain(of_type, given);
    i contact_info;
    found_there boolean;
    reached boolean;
    others jsonb;
BEGIN
    which := contact_there('contact_id', which);
    -- One primary value of a type at a time, whoever writes.
    PERFORM pg_advisory_xact_lock(hashtextextended('relationship.contact_info ' || which::text, 0));
    SELECT EXISTS (SELECT 1 FROM contact_info o WHERE o.contact_id = which AND o.type = of_type AND o.plain = norm
                   AND o.deleted_at IS NULL) INTO found_there;
    IF first THEN
        UPDATE contact_info o SET is_primary = false
        WHERE o.contact_id = which AND o.type = of_type AND o.is_primary AND o.plain <> norm;
    END IF;
    INSERT INTO contact_info AS n (contact_id, type, value, plain, label, is_primary)
    VALUES (which, of_type, btrim(given), norm, short_text('label', named, 100), coalesce(first, false))
    ON CONFLICT (tenant_id, contact_id, type, plain) WHERE deleted_at IS NULL
    DO UPDATE SET label = coalesce(excluded.label, n.label), is_primary = n.is_primary OR excluded.is_primary
    RETURNING n.* INTO i;
    reached := contact_reach(which, of_type, norm);
    SELECT jsonb_agg(jsonb_build_object('contact_id', c.id, 'name', c.name) ORDER BY c.name, c.id) INTO others
    FROM contact_info o JOIN contacts c ON c.id = o.contact_id
    WHERE o.plain = norm AND o.type = of_type AND o.deleted_at IS NULL AND c.id <> which AND c.archived_at IS NULL;
    RETURN QUERY SELECT i.id, i.contact_id, i.type, i.value, i.label, i.is_primary, found_there,
                        reached, coalesce(others, '[]');
END $$;

-- Takes a way to reach somebody away, or brings it back.
CREATE FUNCTION contact_info_set_deleted(which uuid, gone boolean)
RETURNS TABLE (id uuid, contact_id uuid, type text, value text, label text, is_primary boolean, deleted_at timestamptz)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    i contact_info;
BEGIN
    SELECT * INTO i FROM contact_info o WHERE o.id = which FOR UPDATE;
    IF i.id IS NULL THEN
        RAISE EXCEPTION 'There is no contact info with that id; contact_info_list shows them, with deleted = true the '
            'removed ones.' USING ERRCODE = '22023';
    ELSIF NOT gone AND i.deleted_at IS NOT NULL THEN
        PERFORM contact_there('contact_id', i.contact_id);
        IF EXISTS (SELECT 1 FROM contact_info o WHERE o.contact_id = i.contact_id AND o.type = i.type
                   AND o.plain = i.plain AND o.deleted_at IS NULL) THEN
            RAISE EXCEPTION 'The same % is noted again since; nothing was brought back.', i.type USING ERRCODE = '22023';
        END IF;
    END IF;
    IF (i.deleted_at IS NOT NULL) <> gone THEN
        UPDATE contact_info o SET deleted_at = CASE WHEN gone THEN shared.clock() END,
            is_primary = o.is_primary AND (gone OR NOT EXISTS (SELECT 1 FROM contact_info p
                WHERE p.contact_id = i.contact_id AND p.type = i.type AND p.is_primary AND p.deleted_at IS NULL))
        WHERE o.id = which RETURNING o.* INTO i;
        IF gone THEN
            PERFORM contact_unreach(i.contact_id, i.type, i.plain);
        ELSE
            PERFORM contact_reach(i.contact_id, i.type, i.plain);
        END IF;
    END IF;
    RETURN QUERY SELECT i.id, i.contact_id, i.type, i.value, i.label, i.is_primary, i.deleted_at;
END $$;

-- Whose a value is: the very same first, of a number also by its last digits, then where it is a part.
CREATE FUNCTION contacts_by_info(given text, of_type text, most integer, skip integer)
RETURNS TABLE (contact_id uuid, name text, contact_info_id uuid, type text, value text, label text, match text)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    wanted CONSTANT text := lower(btrim(given));
    digits CONSTANT text := regexp_replace(wanted, '\(0\)|\D', '', 'g');
BEGIN
    IF wanted !~ '[[:alnum:]]' OR length(wanted) < 3 THEN
        RAISE EXCEPTION 'value is "%". Give an address, a number or an account, at least 3 characters of it; '
            'contact_search looks for names.', given USING ERRCODE = '22023';
    END IF;
    RETURN QUERY
    SELECT c.id, c.name, i.id, i.type, i.value, i.label, m.how
    FROM contact_info i JOIN contacts c ON c.id = i.contact_id
    CROSS JOIN LATERAL (SELECT CASE
        WHEN i.plain = wanted OR lower(i.value) = wanted THEN 'exact'
        WHEN i.type IN ('phone', 'whatsapp', 'signal') AND wanted !~ '[a-z@]' AND length(digits) >= 7
             AND (right(i.plain, 9) = right(digits, 9) OR right(i.plain, length(ltrim(digits, '0'))) = ltrim(digits, '0'))
             THEN 'number'
        WHEN strpos(i.plain, wanted) > 0 OR strpos(lower(i.value), wanted) > 0 THEN 'part' END AS how) m
    WHERE i.deleted_at IS NULL AND c.archived_at IS NULL AND (of_type IS NULL OR i.type = of_type) AND m.how IS NOT NULL
    ORDER BY array_position(ARRAY['exact', 'number', 'part'], m.how), c.name_key, i.created_at, i.id
    LIMIT most OFFSET skip;
END $$;

CREATE TABLE addresses (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_id  uuid NOT NULL REFERENCES contacts (id),
    label       text NOT NULL DEFAULT 'Home',
    line_1      text NOT NULL CHECK (line_1 <> ''),
    line_2      text,
    city        text,
    province    text,
    postal_code text,
    country     text,
    is_current  boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at  timestamptz,
    deleted_at  timestamptz,
    revisions   jsonb NOT NULL DEFAULT '[]'
);
COMMENT ON COLUMN addresses.country IS 'ISO 3166-1, two letters.';
SELECT shared.tenant_table('addresses');
SELECT guarded_table('addresses');
CREATE INDEX addresses_of ON addresses (tenant_id, contact_id) WHERE deleted_at IS NULL;

CREATE FUNCTION address_shown(a addresses) RETURNS jsonb LANGUAGE sql STABLE SET search_path FROM CURRENT AS
$$ SELECT jsonb_strip_nulls(to_jsonb(a) - '{tenant_id,trust,revisions,created_at,updated_at}'::text[]) $$;

CREATE FUNCTION address_before_write() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    was jsonb;
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    NEW.label := coalesce(short_text('label', NEW.label, 100), 'Home');
    NEW.line_1 := short_text('line_1', NEW.line_1, 300);
    NEW.line_2 := short_text('line_2', NEW.line_2, 300);
    NEW.city := short_text('city', NEW.city, 200);
    NEW.province := short_text('province', NEW.province, 200);
    NEW.postal_code := short_text('postal_code', NEW.postal_code, 20);
    NEW.country := upper(short_text('country', NEW.country, 100));
    IF NEW.line_1 IS NULL THEN
        RAISE EXCEPTION 'line_1 is empty: street and number, or what stands in their place.' USING ERRCODE = '22023';
    ELSIF NEW.country !~ '^[A-Z]{2}$' THEN
        RAISE EXCEPTION 'country is "%". It must be the two letters of a country by ISO 3166, such as CH, DE or US.',
            NEW.country USING ERRCODE = '22023';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        SELECT jsonb_object_agg(o.key, o.value) INTO was
        FROM jsonb_each(to_jsonb(OLD)) o JOIN jsonb_each(to_jsonb(NEW)) n USING (key)
        WHERE o.value <> n.value
          AND o.key IN ('label', 'line_1', 'line_2', 'city', 'province', 'postal_code', 'country', 'is_current');
        IF was IS NOT NULL THEN
            NEW.updated_at := shared.clock();
            NEW.revisions := OLD.revisions || (was || jsonb_build_object('until', shared.clock()));
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON addresses FOR EACH ROW EXECUTE FUNCTION address_before_write();

-- The address of an id, for a tool that works on it.
CREATE FUNCTION address_there(which uuid, gone boolean) RETURNS uuid
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    a addresses;
BEGIN
    SELECT * INTO a FROM addresses o WHERE o.id = which;
    IF a.id IS NULL THEN
        RAISE EXCEPTION 'There is no address with that id; address_list shows them, with deleted = true the removed ones.'
            USING ERRCODE = '22023';
    ELSIF a.deleted_at IS NOT NULL AND NOT gone THEN
        RAISE EXCEPTION 'This address was removed; address_restore brings it back first.' USING ERRCODE = '22023';
    END IF;
    PERFORM contact_there('contact_id', a.contact_id);
    RETURN a.id;
END $$;

-- Notes where somebody lives or works. The same lines of the same person are one address.
CREATE FUNCTION address_add(which uuid, given jsonb) RETURNS jsonb LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    a addresses;
    fresh addresses := jsonb_populate_record(NULL::addresses, only_given(given));
    there boolean;
BEGIN
    which := contact_there('contact_id', which);
    PERFORM pg_advisory_xact_lock(hashtextextended('relationship.addresses ' || which::text, 0));
    SELECT * INTO a FROM addresses o WHERE o.contact_id = which AND o.deleted_at IS NULL
        AND (folded(o.line_1), folded(coalesce(o.postal_code, '')), folded(coalesce(o.city, ''))) =
            (folded(fresh.line_1), folded(coalesce(fresh.postal_code, '')), folded(coalesce(fresh.city, '')))
    ORDER BY o.created_at, o.id LIMIT 1;
    there := a.id IS NOT NULL;
    IF there THEN
        UPDATE addresses n SET line_2 = coalesce(nullif(fresh.line_2, ''), n.line_2),
            label = coalesce(nullif(fresh.label, 'Home'), n.label),
            province = coalesce(nullif(fresh.province, ''), n.province),
            country = coalesce(nullif(fresh.country, ''), n.country),
            is_current = n.is_current OR coalesce(fresh.is_current, false)
        WHERE n.id = a.id RETURNING n.* INTO a;
    ELSE
        INSERT INTO addresses AS n (contact_id, label, line_1, line_2, city, province, postal_code, country, is_current)
        VALUES (which, fresh.label, coalesce(fresh.line_1, ''), fresh.line_2, fresh.city, fresh.province, fresh.postal_code,
                fresh.country, coalesce(fresh.is_current, false))
        RETURNING n.* INTO a;
    END IF;
    PERFORM address_one_current(a);
    RETURN address_shown(a) || jsonb_build_object('already_there', there);
END $$;

-- Of the addresses with one label, one is where somebody is now.
CREATE FUNCTION address_one_current(a addresses) RETURNS void LANGUAGE sql SET search_path FROM CURRENT AS $$
    UPDATE addresses o SET is_current = false
    WHERE a.is_current AND o.contact_id = a.contact_id AND o.id <> a.id AND o.is_current AND o.deleted_at IS NULL
      AND lower(o.label) = lower(a.label)
$$;

-- Changes what is given of an address; an empty text takes a value away.
CREATE FUNCTION address_update(which uuid, given jsonb) RETURNS jsonb LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    was addresses;
    a addresses;
BEGIN
    which := address_there(which, false);
    given := only_given(given);
    IF given = '{}' THEN
        RAISE EXCEPTION 'Nothing to change was given: name what changes, such as line_1 or is_current.'
            USING ERRCODE = '22023';
    END IF;
    SELECT * INTO was FROM addresses o WHERE o.id = which FOR UPDATE;
    a := jsonb_populate_record(was, given);
    UPDATE addresses n SET label = a.label, line_1 = a.line_1, line_2 = a.line_2, city = a.city, province = a.province,
        postal_code = a.postal_code, country = a.country, is_current = a.is_current
    WHERE n.id = which RETURNING n.* INTO a;
    PERFORM address_one_current(a);
    RETURN address_shown(a) || CASE WHEN jsonb_array_length(a.revisions) > jsonb_array_length(was.revisions)
                                    THEN jsonb_build_object('previous', a.revisions -> -1) ELSE '{"changed": false}' END;
END $$;
