-- Who writes to the household and is written to, and under which identities: by the switchboard, which takes messages in,
-- and by the relationship butler, which keeps the register of people.
-- Runs as the owner role with search_path = shared.

-- Somebody who can write to the household or be written to.
CREATE TABLE contacts (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    entity_id  uuid REFERENCES entities (id),
    name       text NOT NULL CHECK (name <> ''),
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('contacts');

-- Under which identity a contact writes on a channel: an address, a number, a chat's id. Lower case where the channel
-- knows no case.
CREATE TABLE contact_identities (
    contact_id uuid NOT NULL REFERENCES contacts (id) ON DELETE CASCADE,
    channel    text NOT NULL CHECK (channel <> ''),
    identity   text NOT NULL CHECK (identity <> ''),
    created_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('contact_identities', 'channel', 'identity');
CREATE INDEX contact_identities_of ON contact_identities (contact_id);

-- Every butler may know who is who; what a policy shows depends on the tenant.
GRANT SELECT ON contacts, contact_identities TO PUBLIC;

-- Whether the switchboard asks, which keeps the list of who is who for the household.
CREATE FUNCTION keeps_people() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS
$$ SELECT EXISTS (SELECT 1 FROM shared.butler_roles r WHERE r.role = session_user AND r.butler = 'switchboard') $$;

-- Notes that a person writes under this identity; the person is made where none has the name. Returns whose it is: an
-- identity that is another person's already stays theirs.
CREATE FUNCTION contact_identity_add(person text, on_channel text, as_identity text)
RETURNS TABLE (contact_id uuid, name text) LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
#variable_conflict use_column
DECLARE
    whose uuid;
    entity uuid;
BEGIN
    IF NOT shared.keeps_people() THEN
        RAISE EXCEPTION 'only the switchboard notes who is who' USING ERRCODE = '42501';
    END IF;
    -- Two that add the same name at once make one person.
    PERFORM pg_advisory_xact_lock(hashtextextended('shared.contacts ' || shared.tenant(), 0));
    SELECT i.contact_id INTO whose FROM contact_identities i
    WHERE i.tenant_id = shared.tenant() AND i.channel = on_channel AND i.identity = as_identity;
    IF whose IS NULL THEN
        SELECT c.id INTO whose FROM contacts c
        WHERE c.tenant_id = shared.tenant() AND lower(c.name) = lower(person) ORDER BY c.created_at LIMIT 1;
        IF whose IS NULL THEN
            -- A person whom the household knows already under the name is that person.
            SELECT e.id INTO entity FROM entities e
            WHERE e.tenant_id = shared.tenant() AND e.kind = 'person' AND lower(e.name) = lower(person)
              AND e.merged_into IS NULL
            ORDER BY e.created_at LIMIT 1;
            IF entity IS NULL THEN
                INSERT INTO entities (kind, name) VALUES ('person', person) RETURNING id INTO entity;
            END IF;
            INSERT INTO contacts (entity_id, name) VALUES (entity, person) RETURNING id INTO whose;
        END IF;
        INSERT INTO contact_identities (contact_id, channel, identity) VALUES (whose, on_channel, as_identity);
    END IF;
    RETURN QUERY SELECT c.id, c.name FROM contacts c WHERE c.id = whose;
END $$;

-- Forgets that somebody writes under this identity; a contact without any goes with its last one. Returns whose it was.
CREATE FUNCTION contact_identity_remove(on_channel text, as_identity text)
RETURNS TABLE (contact_id uuid, name text) LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
#variable_conflict use_column
DECLARE
    whose uuid;
BEGIN
    IF NOT shared.keeps_people() THEN
        RAISE EXCEPTION 'only the switchboard notes who is who' USING ERRCODE = '42501';
    END IF;
    DELETE FROM contact_identities i
    WHERE i.tenant_id = shared.tenant() AND i.channel = on_channel AND i.identity = as_identity
    RETURNING i.contact_id INTO whose;
    RETURN QUERY SELECT c.id, c.name FROM contacts c WHERE c.id = whose;
    DELETE FROM contacts c WHERE c.id = whose
       AND NOT EXISTS (SELECT 1 FROM contact_identities i WHERE i.contact_id = c.id);
END $$;

-- Whether the butler asks that keeps the register.
CREATE FUNCTION keeps_register() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS
$$ SELECT EXISTS (SELECT 1 FROM shared.butler_roles r WHERE r.role = session_user AND r.butler = 'relationship') $$;

-- Notes that the person for whom an entity stands writes and is reached under this identity. False: it is another's
-- already, there is no such entity, or somebody less than the household's own says so: whose messages are believed is
-- not decided by those who send them.
CREATE FUNCTION person_reach(which uuid, called text, on_channel text, as_identity text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    entity entities;
    whose contacts;
BEGIN
    IF NOT shared.keeps_register() THEN
        RAISE EXCEPTION 'only the relationship butler notes how people are reached' USING ERRCODE = '42501';
    ELSIF shared.trust() NOT IN ('owner', 'system') THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('shared.contacts ' || shared.tenant(), 0));
    SELECT * INTO entity FROM entities e WHERE e.id = shared.entity_standing(which);
    IF entity.id IS NULL THEN
        RETURN false;
    END IF;
    SELECT c.* INTO whose FROM contact_identities i JOIN contacts c ON c.id = i.contact_id
    WHERE i.tenant_id = shared.tenant() AND i.channel = on_channel AND i.identity = lower(btrim(as_identity));
    IF whose.id IS NOT NULL THEN
        IF lower(whose.name) = lower(called) AND whose.entity_id IS DISTINCT FROM entity.id THEN
            UPDATE contacts c SET entity_id = entity.id, updated_at = shared.clock() WHERE c.id = whose.id;
            RETURN true;
        END IF;
        RETURN shared.entity_now(whose.entity_id) = entity.id;
    END IF;
    -- Theirs is the contact of this entity; one that has only the name is theirs where no second person has it.
    SELECT c.* INTO whose FROM contacts c
    WHERE c.tenant_id = shared.tenant() AND (shared.entity_now(c.entity_id) = entity.id
          OR lower(c.name) = lower(called) AND lower(entity.name) = lower(called))
    ORDER BY shared.entity_now(c.entity_id) = entity.id DESC NULLS LAST, c.created_at LIMIT 1;
    IF whose.id IS NULL THEN
        INSERT INTO contacts AS c (entity_id, name) VALUES (entity.id, called) RETURNING c.* INTO whose;
    ELSIF shared.entity_now(whose.entity_id) IS DISTINCT FROM entity.id THEN
        UPDATE contacts c SET entity_id = entity.id, updated_at = shared.clock() WHERE c.id = whose.id;
    END IF;
    INSERT INTO contact_identities (contact_id, channel, identity) VALUES (whose.id, on_channel, lower(btrim(as_identity)));
    RETURN true;
END $$;

-- Forgets an identity of the person for whom an entity stands; a contact without any goes with its last one.
CREATE FUNCTION person_unreach(which uuid, on_channel text, as_identity text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    whose uuid;
BEGIN
    IF NOT shared.keeps_register() THEN
        RAISE EXCEPTION 'only the relationship butler notes how people are reached' USING ERRCODE = '42501';
    ELSIF shared.trust() NOT IN ('owner', 'system') THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('shared.contacts ' || shared.tenant(), 0));
    DELETE FROM contact_identities i USING contacts c
    WHERE i.tenant_id = shared.tenant() AND i.channel = on_channel AND i.identity = lower(btrim(as_identity))
      AND c.id = i.contact_id AND shared.entity_now(c.entity_id) = shared.entity_standing(which)
    RETURNING i.contact_id INTO whose;
    DELETE FROM contacts c WHERE c.id = whose
       AND NOT EXISTS (SELECT 1 FROM contact_identities i WHERE i.contact_id = c.id);
    RETURN whose IS NOT NULL;
END $$;

-- Calls the person for whom an entity stands by a new name, also where messages go.
CREATE FUNCTION person_renamed(which uuid, called text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    IF NOT shared.keeps_register() THEN
        RAISE EXCEPTION 'only the relationship butler notes what people are called' USING ERRCODE = '42501';
    ELSIF shared.trust() IN ('owner', 'system') THEN
        UPDATE contacts c SET name = called, updated_at = shared.clock()
        WHERE c.tenant_id = shared.tenant() AND shared.entity_now(c.entity_id) = shared.entity_standing(which);
    END IF;
END $$;

-- The contacts whom a name or a word means: their name, another name, or what they are to the owner ("my sister").
CREATE FUNCTION people_called(called text) RETURNS TABLE (contact_id uuid) LANGUAGE sql STABLE SET search_path = shared, pg_temp AS $$
    SELECT c.id FROM shared.contacts c LEFT JOIN shared.entities e ON e.id = shared.entity_now(c.entity_id),
        lower(regexp_replace(btrim(called), '^(my|our|the)\s+', '', 'i')) said
    WHERE c.tenant_id = shared.tenant()
      AND (lower(c.name) IN (said, lower(btrim(called))) OR lower(e.name) = said OR coalesce(e.details -> 'roles', '[]') ? said
           OR EXISTS (SELECT 1 FROM unnest(e.aliases) a WHERE lower(a) = said))
$$;
