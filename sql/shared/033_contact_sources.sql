-- Address books as sources of the people whom the household knows. The people stay in entities, contacts and
-- contact_identities; here is which card of which address book speaks of whom.
-- Runs as the owner role with search_path = shared.

-- An address book, by its account and place.
CREATE TABLE contact_sources (
    id          uuid NOT NULL DEFAULT gen_random_uuid(),
    name        text NOT NULL CHECK (name <> '' AND length(name) <= 2000),
    provider    text NOT NULL CHECK (provider IN ('carddav', 'google', 'vcard')),
    -- How far it has been read; null: all of it is listed.
    cursor      text,
    -- `later`: it is tried again by itself; `owner`: its owner has to do something, which `error` says.
    state       text NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'ok', 'later', 'owner')),
    error       text,
    -- What the last run did.
    report      jsonb,
    tried_at    timestamptz,
    synced_at   timestamptz,
    created_at  timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('contact_sources', 'id');
CREATE UNIQUE INDEX contact_sources_name ON contact_sources (tenant_id, provider, name);

-- The butlers whose settings name it.
CREATE TABLE contact_source_readers (
    butler text NOT NULL,
    source uuid NOT NULL
);
SELECT shared.tenant_table('contact_source_readers', 'butler', 'source');
ALTER TABLE contact_source_readers ADD FOREIGN KEY (tenant_id, source)
    REFERENCES contact_sources (tenant_id, id) ON DELETE CASCADE;

-- A card with its bytes on both sides, so that what nobody here knows of it comes back as it went.
CREATE TABLE contact_cards (
    id          uuid NOT NULL,
    source      uuid NOT NULL,
    uid         text,
    href        text,
    etag        text,
    -- What both sides last had in common; what the house has; what was sent and not answered yet.
    base        bytea,
    ours        bytea,
    sent        bytea,
    reread      boolean NOT NULL DEFAULT false,
    -- Grows with each change: who changes it says which one was looked at.
    revision    bigint NOT NULL DEFAULT 1,
    -- The revision that was last compared with the house's people, and what both said then.
    worked      bigint,
    seen        jsonb,
    -- Since when its address book has it no more.
    archived_at timestamptz,
    created_at  timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at  timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('contact_cards', 'id');
ALTER TABLE contact_cards ADD FOREIGN KEY (tenant_id, source) REFERENCES contact_sources (tenant_id, id);
CREATE INDEX contact_cards_href ON contact_cards (tenant_id, source, href) WHERE archived_at IS NULL;
CREATE INDEX contact_cards_uid ON contact_cards (tenant_id, source, uid) WHERE archived_at IS NULL;

-- Both sides changed one card: all versions, so that nothing that anybody wrote is lost.
CREATE TABLE contact_card_conflicts (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source uuid NOT NULL,
    card   uuid NOT NULL,
    kind   text NOT NULL,
    uid    text,
    base   bytea,
    ours   bytea,
    theirs bytea,
    at     timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('contact_card_conflicts');

-- Of whom a card speaks. `waiting`: a person has to say; `apart`: a person said that it is nobody whom the house knew;
-- `left_out`: the house has nothing to do with it. A linked card without a contact: the house forgot the person.
CREATE TABLE contact_links (
    card    uuid NOT NULL,
    state   text NOT NULL CHECK (state IN ('linked', 'waiting', 'apart', 'left_out')),
    contact uuid REFERENCES contacts (id) ON DELETE SET NULL
);
SELECT shared.tenant_table('contact_links', 'card');
ALTER TABLE contact_links ADD FOREIGN KEY (tenant_id, card) REFERENCES contact_cards (tenant_id, id) ON DELETE CASCADE;
CREATE INDEX contact_links_contact ON contact_links (contact);

-- What a card may mean, for a person to say. `name`: it has the name of somebody whom the house knows. `identity`: it has
-- an identity that is somebody else's. `owner`: it says that it is the owner, or that the owner has another identity.
CREATE TABLE contact_proposals (
    id         uuid NOT NULL DEFAULT gen_random_uuid(),
    card       uuid NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('name', 'identity', 'owner')),
    contact    uuid REFERENCES contacts (id) ON DELETE CASCADE,
    entity     uuid REFERENCES entities (id) ON DELETE CASCADE,
    -- The card's name, and the identities that it is about.
    says       jsonb NOT NULL,
    made_at    timestamptz NOT NULL DEFAULT shared.clock(),
    decided_at timestamptz,
    accepted   boolean
);
SELECT shared.tenant_table('contact_proposals', 'id');
ALTER TABLE contact_proposals ADD FOREIGN KEY (tenant_id, card) REFERENCES contact_cards (tenant_id, id) ON DELETE CASCADE;
CREATE INDEX contact_proposals_open ON contact_proposals (tenant_id, card) WHERE decided_at IS NULL;

-- Since when nobody speaks of them any more, or into whom they were merged. They are not listed, and nothing is lost.
ALTER TABLE contacts ADD COLUMN archived_at timestamptz, ADD COLUMN merged_into uuid REFERENCES contacts (id);
-- Which address book noted it; null: the house itself. And how far its sender is believed.
ALTER TABLE contact_identities ADD COLUMN source uuid,
    ADD COLUMN believed text NOT NULL DEFAULT 'known' CHECK (believed IN ('known', 'stranger'));

-- What people decide is kept row by row, so that it can be taken back. What a sync does is not: its source says it again.
DO $do$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT * FROM (VALUES ('entities', 'id'), ('contacts', 'id'), ('contact_identities', 'tenant_id,channel,identity'),
                                   ('contact_links', 'tenant_id,card'), ('contact_proposals', 'tenant_id,id')) v (name, key)
    LOOP
        EXECUTE format('CREATE TRIGGER keep_row AFTER INSERT OR UPDATE OR DELETE ON shared.%I FOR EACH ROW
                        WHEN (current_setting(''butlerd.deciding'', true) = ''on'' OR shared.undoing())
                        EXECUTE FUNCTION shared.keep_row(%s)', t.name,
                       (SELECT string_agg(quote_literal(k), ', ') FROM unnest(string_to_array(t.key, ',')) k));
    END LOOP;
END $do$;

-- The contacts whom a name or a word means, without those who are archived.
CREATE OR REPLACE FUNCTION people_called(called text) RETURNS TABLE (contact_id uuid)
LANGUAGE sql STABLE SET search_path = shared, pg_temp AS $$
    SELECT c.id FROM shared.contacts c LEFT JOIN shared.entities e ON e.id = shared.entity_now(c.entity_id),
        lower(regexp_replace(btrim(called), '^(my|our|the)\s+', '', 'i')) said
    WHERE c.tenant_id = shared.tenant() AND c.archived_at IS NULL
      AND (lower(c.name) IN (said, lower(btrim(called))) OR lower(e.name) = said OR coalesce(e.details -> 'roles', '[]') ? said
           OR EXISTS (SELECT 1 FROM unnest(e.aliases) a WHERE lower(a) = said))
$$;

-- For the house's own work, which is of no use to butlers: their tables they may not even read.

-- What a contact is called and how it is reached, as it is compared.
CREATE FUNCTION contact_face(which uuid) RETURNS jsonb LANGUAGE sql STABLE SET search_path = shared, pg_temp AS $$
    SELECT jsonb_build_object('contact', c.id, 'name', c.name, 'identities',
        coalesce((SELECT jsonb_agg(jsonb_build_object('channel', i.channel, 'identity', i.identity) ORDER BY i.channel, i.identity)
                  FROM contact_identities i WHERE i.contact_id = c.id), '[]'))
    FROM contacts c WHERE c.id = which AND c.tenant_id = shared.tenant()
$$;

-- What the person is called for whom a contact would stand.
CREATE FUNCTION contact_entity_name(which uuid) RETURNS text LANGUAGE sql STABLE SET search_path = shared, pg_temp AS $$
    SELECT e.name FROM entities e WHERE e.id = which AND e.tenant_id = shared.tenant()
$$;

-- The contacts that have one of these identities: a list of objects with channel and identity.
CREATE FUNCTION contacts_by_identity(ids jsonb) RETURNS TABLE (contact_id uuid, channel text, identity text)
LANGUAGE sql STABLE SET search_path = shared, pg_temp AS $$
    SELECT i.contact_id, asked.channel, asked.identity FROM jsonb_to_recordset(ids) AS asked (channel text, identity text)
    JOIN contact_identities i ON i.tenant_id = shared.tenant() AND i.channel = asked.channel AND i.identity = asked.identity
    UNION
    -- People write numbers in many ways.
    SELECT i.contact_id, asked.channel, asked.identity FROM jsonb_to_recordset(ids) AS asked (channel text, identity text)
    JOIN contact_identities i ON i.tenant_id = shared.tenant() AND i.channel = 'phone'
     AND asked.channel = 'phone' AND regexp_replace(i.identity, '[^0-9+]', '', 'g') = asked.identity
$$;

-- Whom a name may mean: contacts that no card of this address book speaks of, and people whom no contact stands for.
CREATE FUNCTION contacts_by_name(called text, but_of uuid) RETURNS TABLE (contact_id uuid, entity_id uuid)
LANGUAGE sql STABLE SET search_path = shared, pg_temp AS $$
    SELECT c.id, c.entity_id FROM contacts c LEFT JOIN entities e ON e.id = shared.entity_now(c.entity_id)
    WHERE c.tenant_id = shared.tenant() AND c.archived_at IS NULL
      AND (lower(c.name) = lower(called) OR lower(e.name) = lower(called)
           OR EXISTS (SELECT 1 FROM unnest(e.aliases) a WHERE lower(a) = lower(called)))
      AND NOT EXISTS (SELECT 1 FROM contact_links l JOIN contact_cards k ON k.tenant_id = l.tenant_id AND k.id = l.card
                      WHERE l.contact = c.id AND k.source = but_of AND k.archived_at IS NULL)
    UNION ALL
    SELECT NULL, e.id FROM entities e
    WHERE e.tenant_id = shared.tenant() AND e.kind = 'person' AND e.merged_into IS NULL
      AND (lower(e.name) = lower(called) OR EXISTS (SELECT 1 FROM unnest(e.aliases) a WHERE lower(a) = lower(called)))
      AND NOT EXISTS (SELECT 1 FROM contacts c WHERE c.tenant_id = e.tenant_id AND shared.entity_now(c.entity_id) = e.id)
    ORDER BY 1, 2 LIMIT 20
$$;

-- Makes a contact; of a person who is new as well, if none is given.
CREATE FUNCTION contact_make(called text, of_entity uuid) RETURNS uuid
LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    person uuid := of_entity;
    made uuid;
BEGIN
    IF person IS NULL THEN
        INSERT INTO entities (kind, name) VALUES ('person', called) RETURNING id INTO person;
    END IF;
    INSERT INTO contacts (entity_id, name) VALUES (person, called) RETURNING id INTO made;
    RETURN made;
END $$;

-- Believes an identity of a contact so far, where an address book noted it.
CREATE FUNCTION contact_identity_believe(which uuid, on_channel text, as_identity text, as_believed text)
RETURNS void LANGUAGE sql SET search_path = shared, pg_temp AS $$
    UPDATE contact_identities i SET believed = as_believed
    WHERE i.tenant_id = shared.tenant() AND i.channel = on_channel AND i.identity = as_identity AND i.contact_id = which
      AND i.source IS NOT NULL AND i.believed <> as_believed
$$;

-- Notes an identity of a contact on the word of an address book. The contact whose it is then.
CREATE FUNCTION contact_identity_sync(which uuid, of_source uuid, on_channel text, as_identity text, as_believed text)
RETURNS uuid LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    whose uuid;
BEGIN
    INSERT INTO contact_identities (contact_id, channel, identity, source, believed)
    VALUES (which, on_channel, as_identity, of_source, as_believed) ON CONFLICT DO NOTHING;
    PERFORM contact_identity_believe(which, on_channel, as_identity, as_believed);
    SELECT i.contact_id INTO whose FROM contact_identities i
    WHERE i.tenant_id = shared.tenant() AND i.channel = on_channel AND i.identity = as_identity;
    RETURN whose;
END $$;

-- Forgets an identity of a contact. `only_of`: if this address book noted it, else whoever did.
CREATE FUNCTION contact_identity_unsync(which uuid, on_channel text, as_identity text, only_of uuid) RETURNS void
LANGUAGE sql SET search_path = shared, pg_temp AS $$
    DELETE FROM contact_identities i WHERE i.tenant_id = shared.tenant() AND i.contact_id = which
       AND i.channel = on_channel AND (i.identity = as_identity
            OR on_channel = 'phone' AND regexp_replace(i.identity, '[^0-9+]', '', 'g') = as_identity) AND (only_of IS NULL OR i.source = only_of)
$$;

-- Calls a contact otherwise, on the word of its address book.
CREATE FUNCTION contact_rename(which uuid, called text) RETURNS void LANGUAGE sql SET search_path = shared, pg_temp AS $$
    UPDATE contacts SET name = called, updated_at = shared.clock() WHERE id = which AND tenant_id = shared.tenant()
$$;

-- An address book speaks of a contact again.
CREATE FUNCTION contact_unarchive(which uuid) RETURNS void LANGUAGE sql SET search_path = shared, pg_temp AS $$
    UPDATE contacts SET archived_at = NULL, updated_at = shared.clock()
    WHERE id = which AND tenant_id = shared.tenant() AND archived_at IS NOT NULL AND merged_into IS NULL
$$;

-- An address book has a card no more. Its contact stays; it is archived where nothing else speaks of it, and what this card
-- alone said of how somebody is reached is believed no longer.
CREATE FUNCTION contact_card_archive(which uuid) RETURNS void LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    k contact_cards;
    whose uuid;
BEGIN
    UPDATE contact_cards c SET archived_at = shared.clock(), updated_at = shared.clock(), revision = c.revision + 1,
        href = NULL, etag = NULL, base = NULL, sent = NULL, reread = false
    WHERE c.tenant_id = shared.tenant() AND c.id = which RETURNING c.* INTO k;
    UPDATE contact_proposals p SET decided_at = shared.clock(), accepted = false
    WHERE p.tenant_id = shared.tenant() AND p.card = which AND p.decided_at IS NULL;
    SELECT l.contact INTO whose FROM contact_links l WHERE l.tenant_id = shared.tenant() AND l.card = which;
    IF whose IS NULL THEN
        RETURN;
    END IF;
    UPDATE contact_identities i SET believed = 'stranger'
    WHERE i.contact_id = whose AND i.source = k.source
      AND NOT EXISTS (SELECT 1 FROM contact_links l JOIN contact_cards o ON o.tenant_id = l.tenant_id AND o.id = l.card
                      WHERE l.contact = whose AND o.archived_at IS NULL
                        AND o.seen -> 'card' @> jsonb_build_array(jsonb_build_object('channel', i.channel, 'identity', i.identity)));
    UPDATE contacts c SET archived_at = shared.clock(), updated_at = shared.clock()
    WHERE c.id = whose AND c.archived_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM contact_identities i WHERE i.contact_id = c.id AND i.source IS NULL)
      AND NOT EXISTS (SELECT 1 FROM contact_links l JOIN contact_cards o ON o.tenant_id = l.tenant_id AND o.id = l.card
                      WHERE l.contact = c.id AND o.archived_at IS NULL);
END $$;

-- How far senders are believed whom address books noted, as the settings say it now. Archived people stay strangers.
CREATE FUNCTION contacts_believe(as_believed text) RETURNS void LANGUAGE sql SET search_path = shared, pg_temp AS $$
    UPDATE contact_identities i SET believed = as_believed FROM contacts c
    WHERE i.tenant_id = shared.tenant() AND i.source IS NOT NULL AND i.believed <> as_believed
      AND c.id = i.contact_id AND (as_believed = 'stranger' OR c.archived_at IS NULL AND EXISTS (
          SELECT 1 FROM contact_links l JOIN contact_cards o ON o.tenant_id = l.tenant_id AND o.id = l.card
          WHERE l.contact = c.id AND o.archived_at IS NULL
            AND o.seen -> 'card' @> jsonb_build_array(jsonb_build_object('channel', i.channel, 'identity', i.identity))))
$$;

-- People whom no address book speaks of, and of whom nobody has still to say whether one does. Those with one of these
-- identities are left out.
CREATE FUNCTION contacts_without_card(but jsonb, most integer) RETURNS TABLE (contact_id uuid, face jsonb)
LANGUAGE sql STABLE SET search_path = shared, pg_temp AS $$
    SELECT c.id, shared.contact_face(c.id) FROM contacts c
    WHERE c.tenant_id = shared.tenant() AND c.archived_at IS NULL
      AND EXISTS (SELECT 1 FROM contact_identities i WHERE i.contact_id = c.id
                  AND i.channel IN ('email', 'phone', 'telegram', 'whatsapp', 'signal', 'matrix'))
      AND NOT EXISTS (SELECT 1 FROM contact_links l WHERE l.contact = c.id)
      AND NOT EXISTS (SELECT 1 FROM contact_proposals p WHERE p.contact = c.id AND p.decided_at IS NULL)
      AND NOT EXISTS (SELECT 1 FROM contacts_by_identity(but) b WHERE b.contact_id = c.id)
    ORDER BY c.created_at, c.id LIMIT most
$$;

REVOKE EXECUTE ON FUNCTION contact_face(uuid), contact_entity_name(uuid), contacts_by_identity(jsonb), contacts_by_name(text, uuid),
    contact_make(text, uuid), contact_identity_believe(uuid, text, text, text),
    contact_identity_sync(uuid, uuid, text, text, text),
    contact_identity_unsync(uuid, text, text, uuid), contact_rename(uuid, text), contact_unarchive(uuid),
    contact_card_archive(uuid), contacts_believe(text), contacts_without_card(jsonb, integer) FROM PUBLIC;

-- What people decide, by the tools of a butler whose settings name an address book. All of it can be taken back.

-- Whether such a butler asks, on the word of the household's own; what it does from here on is kept.
CREATE FUNCTION contacts_deciding() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM contact_source_readers r
                   WHERE r.tenant_id = shared.tenant() AND r.butler = shared.asking_butler()) THEN
        RAISE EXCEPTION 'this butler has no module contacts' USING ERRCODE = '42501';
    ELSIF shared.trust() NOT IN ('owner', 'system') THEN
        RAISE EXCEPTION 'who is who is not decided on the word of others' USING ERRCODE = '42501';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('shared.contacts ' || shared.tenant(), 0));
    PERFORM set_config('butlerd.deciding', 'on', true);
END $$;

-- A person's word on a proposal. False: there is no such one, or it is decided already.
CREATE FUNCTION people_decide(which uuid, yes boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    p contact_proposals;
    l contact_links;
    source_of uuid;
    whose uuid;
BEGIN
    PERFORM shared.contacts_deciding();
    UPDATE contact_proposals o SET decided_at = shared.clock(), accepted = yes
    WHERE o.tenant_id = shared.tenant() AND o.id = which AND o.decided_at IS NULL RETURNING o.* INTO p;
    IF p.id IS NULL THEN
        RETURN false;
    END IF;
    SELECT * INTO l FROM contact_links o WHERE o.tenant_id = shared.tenant() AND o.card = p.card FOR UPDATE;
    SELECT k.source INTO source_of FROM contact_cards k WHERE k.tenant_id = shared.tenant() AND k.id = p.card;
    IF yes THEN
        whose := coalesce(p.contact, l.contact);
        IF whose IS NULL THEN
            whose := contact_make(p.says ->> 'name', p.entity);
        END IF;
        -- An identity that the proposal is about is from now on this contact's: what a person said goes before its source.
        IF p.kind = 'owner' THEN
            PERFORM contact_identity_sync(whose, source_of, i.channel, i.identity, 'known')
            FROM jsonb_to_recordset(p.says -> 'identities') AS i (channel text, identity text);
        END IF;
        UPDATE contact_links o SET state = 'linked', contact = whose WHERE o.tenant_id = shared.tenant() AND o.card = p.card;
        UPDATE contact_proposals o SET decided_at = shared.clock(), accepted = false
        WHERE o.tenant_id = shared.tenant() AND o.card = p.card AND o.decided_at IS NULL;
    ELSIF l.state = 'waiting' AND NOT EXISTS (SELECT 1 FROM contact_proposals o
            WHERE o.tenant_id = shared.tenant() AND o.card = p.card AND o.decided_at IS NULL) THEN
        UPDATE contact_links o SET state = CASE WHEN p.kind = 'owner' THEN 'left_out' ELSE 'apart' END
        WHERE o.tenant_id = shared.tenant() AND o.card = p.card;
    END IF;
    RETURN true;
END $$;

-- Merges a contact into another, which takes over its identities, cards and names; what the house notes of both as people
-- goes together. False: one of them is not there, or was merged already.
CREATE FUNCTION people_merge(source uuid, target uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    s contacts;
    t contacts;
    se entities;
    te entities;
    names text[];
BEGIN
    PERFORM shared.contacts_deciding();
    SELECT * INTO s FROM contacts c WHERE c.id = source AND c.tenant_id = shared.tenant() AND c.merged_into IS NULL FOR UPDATE;
    SELECT * INTO t FROM contacts c WHERE c.id = target AND c.tenant_id = shared.tenant() AND c.merged_into IS NULL FOR UPDATE;
    IF s.id IS NULL OR t.id IS NULL OR s.id = t.id THEN
        RETURN false;
    END IF;
    UPDATE contact_identities i SET contact_id = t.id WHERE i.contact_id = s.id;
    UPDATE contact_links l SET contact = t.id WHERE l.contact = s.id;
    UPDATE contact_proposals p SET contact = t.id WHERE p.contact = s.id AND p.decided_at IS NULL;
    UPDATE contacts c SET merged_into = t.id, archived_at = shared.clock(), updated_at = shared.clock() WHERE c.id = s.id;
    PERFORM pg_advisory_xact_lock(hashtextextended('shared.entities ' || shared.tenant(), 0));
    SELECT * INTO se FROM entities e WHERE e.id = shared.entity_now(s.entity_id);
    SELECT * INTO te FROM entities e WHERE e.id = shared.entity_now(t.entity_id);
    IF se.id IS NOT NULL AND te.id IS NOT NULL AND se.id <> te.id THEN
        SELECT coalesce(array_agg(n), '{}') INTO names FROM unnest(se.name || se.aliases) n
        WHERE lower(n) <> lower(te.name) AND NOT EXISTS (SELECT 1 FROM unnest(te.aliases) a WHERE lower(a) = lower(n));
        UPDATE entities e SET aliases = te.aliases || names, details = se.details - 'merged' || te.details,
            updated_at = shared.clock() WHERE e.id = te.id;
        UPDATE entities e SET merged_into = te.id, updated_at = shared.clock(),
            details = se.details || jsonb_build_object('merged', jsonb_build_object('names', names, 'details', te.details))
        WHERE e.id = se.id;
    END IF;
    RETURN true;
END $$;

-- Takes a card out of its contact: it speaks of somebody else, who is made and gets these identities of the card. Whom; null:
-- there is no such card, or it speaks of nobody.
CREATE FUNCTION people_split(which uuid, called text, ids jsonb) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    before uuid;
    made uuid;
BEGIN
    PERFORM shared.contacts_deciding();
    SELECT l.contact INTO before FROM contact_links l
    WHERE l.tenant_id = shared.tenant() AND l.card = which AND l.state = 'linked' FOR UPDATE;
    IF before IS NULL THEN
        RETURN NULL;
    END IF;
    made := contact_make(called, NULL);
    UPDATE contact_identities i SET contact_id = made FROM jsonb_to_recordset(ids) AS given (channel text, identity text)
    WHERE i.tenant_id = shared.tenant() AND i.contact_id = before AND i.channel = given.channel AND i.identity = given.identity;
    UPDATE contact_links l SET contact = made WHERE l.tenant_id = shared.tenant() AND l.card = which;
    RETURN made;
END $$;
