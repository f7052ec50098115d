-- Who is who for the whole household, and what was answered to whom.
-- Runs as the owner role with search_path = shared.

-- A person, an organisation or a thing that butlers speak of; each is known once.
CREATE TABLE entities (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    kind       text NOT NULL DEFAULT 'person' CHECK (kind IN ('person', 'organisation', 'place', 'other')),
    name       text NOT NULL CHECK (name <> ''),
    aliases    text[] NOT NULL DEFAULT '{}',
    details    jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('entities');

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
SELECT shared.tenant_table('contact_identities');
ALTER TABLE contact_identities ADD PRIMARY KEY (tenant_id, channel, identity);
CREATE INDEX contact_identities_of ON contact_identities (contact_id);

-- Every butler may know who is who; what a policy shows depends on the tenant.
GRANT SELECT ON entities, contacts, contact_identities TO PUBLIC;

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

-- What was answered to a message, in order. Butlers write through say() alone, and read nothing here.
CREATE TABLE replies (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    request_id uuid NOT NULL,
    -- The part of the message that it answers; null: the daemon answers for the whole of it.
    segment_id uuid,
    -- Where the conversation goes on: channel, endpoint and thread.
    lane       text NOT NULL,
    butler     text NOT NULL,
    session_id uuid,
    kind       text NOT NULL CHECK (kind IN ('reply', 'react', 'failure')),
    message    text,
    emoji      text,
    -- The butler ended without answering, and its last words were taken for an answer.
    auto       boolean NOT NULL DEFAULT false,
    trust      text NOT NULL,
    -- Whom it answers, on which channel: the request's context. Null: only the lane is known.
    context    jsonb,
    at         timestamptz NOT NULL DEFAULT shared.clock(),
    CHECK ((kind = 'react') = (emoji IS NOT NULL)),
    CHECK ((kind = 'react') = (message IS NULL))
);
SELECT shared.tenant_table('replies');
CREATE INDEX replies_of_request ON replies (request_id, seq);
CREATE INDEX replies_of_lane ON replies (tenant_id, lane, seq);
-- The daemon answers a part once, whatever dies meanwhile.
CREATE UNIQUE INDEX replies_auto_once ON replies (segment_id) WHERE auto OR kind = 'failure';
-- A session's answer is said once, however often its model says the same.
CREATE UNIQUE INDEX replies_said_once ON replies (session_id, request_id, kind, md5(coalesce(message, emoji)))
    WHERE NOT auto AND kind <> 'failure';

-- A butler's answer. Which butler it is, its login says. The same of one session is one: its number comes again.
CREATE FUNCTION say(request uuid, segment uuid, lane text, session uuid, kind text, message text, emoji text, trust text,
                    context jsonb)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text;
    number bigint;
BEGIN
    SELECT r.butler INTO who FROM shared.butler_roles r WHERE r.role = session_user;
    IF who IS NULL THEN
        RAISE EXCEPTION 'only a butler answers' USING ERRCODE = '42501';
    END IF;
    INSERT INTO shared.replies (request_id, segment_id, lane, butler, session_id, kind, message, emoji, trust,
                                context)
    VALUES (request, segment, lane, who, session, kind, message, emoji, trust, context)
    ON CONFLICT DO NOTHING RETURNING seq INTO number;
    IF number IS NULL THEN
        SELECT r.seq INTO number FROM shared.replies r
        WHERE r.session_id = say.session AND r.request_id = say.request AND r.kind = say.kind AND NOT r.auto
          AND coalesce(r.message, r.emoji) = coalesce(say.message, say.emoji);
    END IF;
    RETURN number;
END $$;

-- Gives a butler a new session about how something ended that one of its sessions had begun. Called by the daemon, in the
-- transaction that writes down the end. `request` is the RequestContext that the session had then; `waits`: somebody in
-- its conversation waits for what comes of it. Returns the row's id in the butler's route inbox; null: it has none.
CREATE FUNCTION hand_back(to_butler text, request jsonb, waits boolean, prompt text, data jsonb) RETURNS uuid
LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    home text;
    id uuid := gen_random_uuid();
    route jsonb;
BEGIN
    SELECT r.schema INTO home FROM shared.butler_roles r WHERE r.butler = to_butler;
    IF home IS NULL THEN
        RETURN NULL;
    END IF;
    route := jsonb_build_object(
        'schema_version', 'route.v1', 'request_context', request, 'kind', 'answer', 'interactive', waits,
        'input', jsonb_build_object('prompt', prompt, 'context', data),
        'subrequest', jsonb_build_object('segment_id', id),
        'target', jsonb_build_object('butler', to_butler, 'tool', 'route.execute'));
    EXECUTE format('INSERT INTO %I.route_inbox (tenant_id, id, request_id, kind, route, trust)
                    VALUES ($1, $2, $3, ''answer'', $4, $5)', home)
    USING request ->> 'tenant_id', id, (request ->> 'request_id')::uuid, route, coalesce(request ->> 'trust', 'stranger');
    RETURN id;
END $$;
REVOKE EXECUTE ON FUNCTION hand_back FROM PUBLIC;
