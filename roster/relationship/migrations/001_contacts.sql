-- The people in the person's life, each one once: the table that everything else of this butler hangs on.
--
-- Whoever makes a table of things about a contact gives it `contact_id uuid NOT NULL REFERENCES contacts (id)`:
-- contact_merge finds it by that key and moves its rows along. What a tool is given as a contact goes through
-- contact_there(), whose result is the id to write.

-- Letters as they are compared: small, and without their accents.
CREATE FUNCTION folded(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT regexp_replace(normalize(lower(btrim(given)), NFKD), '[\u0300-\u036f]', '', 'g') $$;

CREATE TABLE contacts (
    id                 uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name               text NOT NULL CHECK (name <> ''),
    name_key           text NOT NULL GENERATED ALWAYS AS (folded(name)) STORED,
    first_name         text,
    last_name          text,
    nickname           text,
    company            text,
    job_title          text,
    gender             text,
    pronouns           text,
    avatar_url         text,
    listed             boolean NOT NULL DEFAULT true,
    details            jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(details) = 'object'),
    metadata           jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    is_owner           boolean NOT NULL DEFAULT false,
    entity_id          uuid,
    stay_in_touch_days integer CHECK (stay_in_touch_days BETWEEN 1 AND 3650),
    stay_in_touch_from timestamptz,
    dunbar_tier        integer CHECK (dunbar_tier IN (5, 15, 50, 150, 500, 1500)),
    last_contact_at    timestamptz,
    created_at         timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at         timestamptz,
    archived_at        timestamptz,
    merged_into        uuid REFERENCES contacts (id),
    merged             jsonb,
    revisions          jsonb NOT NULL DEFAULT '[]'
);
COMMENT ON COLUMN contacts.name IS 'How the person calls them; made of first and last name where nothing else is said.';
COMMENT ON COLUMN contacts.name_key IS 'The name as it is compared; a column, so that a look for one name reads no other row.';
COMMENT ON COLUMN contacts.details IS 'Free facts that came with the contact; quick facts have a table of their own.';
COMMENT ON COLUMN contacts.is_owner IS 'The person of the household, whom ties such as "my sister" begin at.';
COMMENT ON COLUMN contacts.entity_id IS 'Who this is for the whole household: shared.entities.';
COMMENT ON COLUMN contacts.last_contact_at IS 'When the person was last in touch with them: kept by the interactions.';
COMMENT ON COLUMN contacts.stay_in_touch_from IS 'From when the days run while there was no contact since.';
COMMENT ON COLUMN contacts.merged_into IS 'The contact that this one turned out to be; it is archived then.';
COMMENT ON COLUMN contacts.merged IS 'What the merge moved, so that contact_restore can move it back.';
COMMENT ON COLUMN contacts.revisions IS 'What the row said before each change, oldest first.';
SELECT shared.tenant_table('contacts');

CREATE INDEX contacts_by_name ON contacts (tenant_id, name_key);
CREATE INDEX contacts_by_entity ON contacts (tenant_id, entity_id);
CREATE UNIQUE INDEX contacts_one_owner ON contacts (tenant_id) WHERE is_owner;

-- The contact that a model named, as the id to go on with: of one that was merged it is the one it was merged into, and an
-- entity's id means the contact that stands for it. Null stays null. It is refused where there is none, or where it is
-- archived.
CREATE FUNCTION contact_there(argument text, which uuid) RETURNS uuid
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    c contacts;
    at uuid := which;
BEGIN
    IF which IS NULL THEN
        RETURN NULL;
    END IF;
    FOR step IN 1..32 LOOP
        SELECT * INTO c FROM contacts o WHERE o.id = at;
        EXIT WHEN c.id IS NULL OR c.merged_into IS NULL;
        at := c.merged_into;
    END LOOP;
    IF c.id IS NULL THEN
        SELECT * INTO c FROM contacts o WHERE o.entity_id = shared.entity_standing(which) AND o.merged_into IS NULL
        ORDER BY o.archived_at IS NOT NULL, o.created_at, o.id LIMIT 1;
    END IF;
    IF c.id IS NULL THEN
        RAISE EXCEPTION 'There is no contact with that % (%). contact_search or contact_resolve gives the id of a contact.',
            argument, which USING ERRCODE = '22023';
    ELSIF c.archived_at IS NOT NULL THEN
        RAISE EXCEPTION 'The contact % is archived. contact_restore with contact_id % brings it back first.', c.name, c.id
            USING ERRCODE = '22023';
    END IF;
    RETURN c.id;
END $$;

-- A text of at most `most` characters without blanks around it; an empty one is null.
CREATE FUNCTION short_text(argument text, given text, most integer) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF length(btrim(given)) > most THEN
        RAISE EXCEPTION '% has % characters; at most % are kept. Shorten it.', argument, length(btrim(given)), most
            USING ERRCODE = '22023';
    END IF;
    RETURN nullif(btrim(given), '');
END $$;

-- Sees to what every contact must be, and keeps what it was.
CREATE FUNCTION contact_before_write() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    was jsonb;
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    NEW.first_name := short_text('first_name', NEW.first_name, 100);
    NEW.last_name := short_text('last_name', NEW.last_name, 100);
    NEW.nickname := short_text('nickname', NEW.nickname, 100);
    NEW.company := short_text('company', NEW.company, 200);
    NEW.job_title := short_text('job_title', NEW.job_title, 200);
    NEW.gender := short_text('gender', NEW.gender, 50);
    NEW.pronouns := short_text('pronouns', NEW.pronouns, 50);
    NEW.avatar_url := short_text('avatar_url', NEW.avatar_url, 2000);
    NEW.name := coalesce(short_text('name', NEW.name, 200),
                         nullif(concat_ws(' ', NEW.first_name, NEW.last_name), ''), NEW.nickname);
    IF NEW.name IS NULL THEN
        RAISE EXCEPTION 'A contact needs a name: give name, or first_name and last_name, or at least a nickname.'
            USING ERRCODE = '22023';
    ELSIF length(NEW.details::text) > 20000 OR length(NEW.metadata::text) > 20000 THEN
        RAISE EXCEPTION 'details and metadata hold at most 20000 characters each; use fact_set for single facts.'
            USING ERRCODE = '22023';
    ELSIF NEW.avatar_url !~* '^https?://' THEN
        RAISE EXCEPTION 'avatar_url is "%". It must be a web address that begins with https://.', NEW.avatar_url
            USING ERRCODE = '22023';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        SELECT jsonb_object_agg(o.key, o.value) INTO was
        FROM jsonb_each(to_jsonb(OLD)) o JOIN jsonb_each(to_jsonb(NEW)) n USING (key)
        WHERE o.value <> n.value
          AND o.key IN ('name', 'first_name', 'last_name', 'nickname', 'company', 'job_title', 'gender', 'pronouns',
                        'avatar_url', 'listed', 'details', 'metadata', 'entity_id', 'stay_in_touch_days', 'dunbar_tier',
                        'archived_at', 'merged_into');
        IF was IS NOT NULL THEN
            NEW.updated_at := shared.clock();
            NEW.revisions := OLD.revisions || (was || jsonb_build_object('until', shared.clock()));
        END IF;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON contacts
    FOR EACH ROW EXECUTE FUNCTION contact_before_write();

-- What a stranger says stands beside what the household knows, never in its place: a stranger may bring new contacts, with
-- what hangs on them, and nothing else is written on their word.
CREATE FUNCTION stranger_guard() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    fine boolean;
BEGIN
    fine := CASE WHEN TG_OP = 'UPDATE' THEN OLD.trust = 'stranger' OR to_jsonb(NEW) - 'name_key' = to_jsonb(OLD) - 'name_key'
                 WHEN TG_TABLE_NAME = 'contacts' THEN NOT (to_jsonb(NEW) -> 'is_owner')::boolean
                 ELSE EXISTS (SELECT 1 FROM contacts c
                              WHERE c.id = (to_jsonb(NEW) ->> 'contact_id')::uuid AND c.trust = 'stranger') END;
    IF fine THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'What the register says is not changed on the word of a stranger. Ask the owner whether it shall be, or '
        'keep what the stranger says with note_create.' USING ERRCODE = '22023';
END $$;

-- Gives a table of the register that guard.
CREATE FUNCTION guarded_table(table_name text) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER a_stranger_guard BEFORE INSERT OR UPDATE ON %I FOR EACH ROW
                    WHEN (current_setting(''butlerd.trust'', true) = ''stranger'' AND NOT shared.undoing())
                    EXECUTE FUNCTION stranger_guard()', table_name);
END $$;
SELECT guarded_table('contacts');
