-- What a card of an address book says is believed as the settings say of address books, and never more: the names that it
-- brings as well as who writes under its identities. And which version a person chose where both sides had changed one item.
-- Runs as the owner role with search_path = shared.

-- How far address books are believed, as the settings say it now.
ALTER TABLE contact_sources
    ADD COLUMN believed text NOT NULL DEFAULT 'known' CHECK (believed IN ('known', 'stranger'));
-- The address book whose words a name is; null: the house's own, or the owner's.
ALTER TABLE contacts ADD COLUMN named_by uuid;
ALTER TABLE entities ADD COLUMN named_by uuid;

-- What stands here already: a person whom a card brought, and what a card said of how somebody is reached.
UPDATE contacts c SET named_by = k.source, trust = shared.calendar_lower(c.trust, 'known')
FROM contact_links l JOIN contact_cards k ON k.tenant_id = l.tenant_id AND k.id = l.card
WHERE l.contact = c.id AND k.seen ->> 'name' = c.name AND k.created_at <= c.created_at;
UPDATE entities e SET named_by = c.named_by, trust = shared.calendar_lower(e.trust, 'known')
FROM contacts c WHERE c.entity_id = e.id AND c.named_by IS NOT NULL AND e.name = c.name AND e.created_at >= c.created_at;
UPDATE contact_identities i SET trust = shared.calendar_lower(i.trust, i.believed) WHERE i.source IS NOT NULL;

-- How far an address book's words are believed.
CREATE FUNCTION contact_believed(of_source uuid) RETURNS text LANGUAGE sql STABLE SET search_path = shared, pg_temp AS $$
    SELECT coalesce((SELECT s.believed FROM contact_sources s WHERE s.tenant_id = shared.tenant() AND s.id = of_source), 'stranger')
$$;

-- A name that the house or the owner gives is theirs from then on. Only where the row has nothing but the name is it also
-- believed as they are: what else stands beside a name may be the card's still.
CREATE FUNCTION name_given() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.named_by := NULL;
    IF TG_TABLE_NAME = 'contacts' AND shared.trust() IN ('owner', 'system') THEN
        NEW.trust := shared.trust();
    END IF;
    RETURN NEW;
END $$;
DO $do$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['contacts', 'entities'] LOOP
        -- Behind the trigger that keeps labels, by its name.
        EXECUTE format('CREATE TRIGGER name_given BEFORE UPDATE ON shared.%I FOR EACH ROW
                        WHEN (NEW.name IS DISTINCT FROM OLD.name AND OLD.named_by IS NOT NULL AND NOT shared.undoing()
                              AND current_setting(''butlerd.naming'', true) IS DISTINCT FROM ''on'')
                        EXECUTE FUNCTION shared.name_given()', named);
    END LOOP;
END $do$;

-- Makes a contact on the word of an address book; of a person who is new as well, if none is given. A person whom the house
-- knows keeps the house's name.
CREATE FUNCTION contact_make_of(called text, of_entity uuid, of_source uuid) RETURNS uuid
LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    person entities;
    made uuid;
    label text := shared.contact_believed(of_source);
BEGIN
    SELECT e.* INTO person FROM entities e WHERE e.tenant_id = shared.tenant() AND e.id = of_entity;
    IF person.id IS NULL THEN
        INSERT INTO entities (kind, name, named_by, trust) VALUES ('person', called, of_source, label) RETURNING * INTO person;
    END IF;
    INSERT INTO contacts (entity_id, name, named_by, trust) VALUES (person.id, person.name, person.named_by, person.trust)
    RETURNING id INTO made;
    RETURN made;
END $$;

-- Calls a contact otherwise, on the word of its address book: the name is the card's from then on.
CREATE FUNCTION contact_rename_of(which uuid, called text, of_source uuid) RETURNS void
LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
BEGIN
    -- Not with SET, as search_path is: an owner who is no superuser may not say that of a function.
    PERFORM set_config('butlerd.naming', 'on', true);
    UPDATE contacts c SET name = called, named_by = of_source, updated_at = shared.clock(),
        trust = shared.calendar_lower(c.trust, shared.contact_believed(of_source))
    WHERE c.id = which AND c.tenant_id = shared.tenant();
    PERFORM set_config('butlerd.naming', '', true);
END $$;

-- Believes an identity of a contact so far, where an address book noted it. Its words are believed no more than its sender.
CREATE OR REPLACE FUNCTION contact_identity_believe(which uuid, on_channel text, as_identity text, as_believed text)
RETURNS void LANGUAGE sql SET search_path = shared, pg_temp AS $$
    UPDATE contact_identities i SET believed = as_believed, trust = shared.calendar_lower(i.trust, as_believed)
    WHERE i.tenant_id = shared.tenant() AND i.channel = on_channel AND i.identity = as_identity AND i.contact_id = which
      AND i.source IS NOT NULL
      AND (i.believed, i.trust) IS DISTINCT FROM (as_believed, shared.calendar_lower(i.trust, as_believed))
$$;

-- How far address books are believed, as the settings say it now: who writes from an identity, and what is written on cards.
-- Archived people stay strangers, and so does what was believed less before.
CREATE OR REPLACE FUNCTION contacts_believe(as_believed text) RETURNS void LANGUAGE sql SET search_path = shared, pg_temp AS $$
    UPDATE contact_sources s SET believed = as_believed WHERE s.tenant_id = shared.tenant() AND s.believed <> as_believed;
    UPDATE contacts c SET trust = shared.calendar_lower(c.trust, as_believed)
    WHERE c.tenant_id = shared.tenant() AND c.named_by IS NOT NULL AND c.trust <> shared.calendar_lower(c.trust, as_believed);
    UPDATE entities e SET trust = shared.calendar_lower(e.trust, as_believed)
    WHERE e.tenant_id = shared.tenant() AND e.named_by IS NOT NULL AND e.trust <> shared.calendar_lower(e.trust, as_believed);
    UPDATE contact_identities i SET trust = shared.calendar_lower(i.trust, as_believed)
    WHERE i.tenant_id = shared.tenant() AND i.source IS NOT NULL AND i.trust <> shared.calendar_lower(i.trust, as_believed);
    UPDATE contact_identities i SET believed = as_believed FROM contacts c
    WHERE i.tenant_id = shared.tenant() AND i.source IS NOT NULL AND i.believed <> as_believed
      AND c.id = i.contact_id AND (as_believed = 'stranger' OR c.archived_at IS NULL AND EXISTS (
          SELECT 1 FROM contact_links l JOIN contact_cards o ON o.tenant_id = l.tenant_id AND o.id = l.card
          WHERE l.contact = c.id AND o.archived_at IS NULL
            AND o.seen -> 'card' @> jsonb_build_array(jsonb_build_object('channel', i.channel, 'identity', i.identity))))
$$;

REVOKE EXECUTE ON FUNCTION contact_believed(uuid), contact_make_of(text, uuid, uuid), contact_rename_of(uuid, text, uuid),
    name_given() FROM PUBLIC;
DROP FUNCTION contact_rename(uuid, text);

-- A person's word on a proposal. False: there is no such one, or it is decided already. Whom it means a person says, and not
-- that what stands on the card is true: a name that comes from it stays the card's.
CREATE OR REPLACE FUNCTION people_decide(which uuid, yes boolean) RETURNS boolean
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
            whose := contact_make_of(p.says ->> 'name', p.entity, source_of);
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

-- As before, and a person who takes over another's names is believed no more than those names are.
CREATE OR REPLACE FUNCTION people_merge(source uuid, target uuid) RETURNS boolean
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
            updated_at = shared.clock(),
            trust = CASE WHEN names = '{}' AND se.details - 'merged' = '{}' THEN te.trust
                         ELSE shared.calendar_lower(te.trust, se.trust) END
        WHERE e.id = te.id;
        UPDATE entities e SET merged_into = te.id, updated_at = shared.clock(),
            details = se.details || jsonb_build_object('merged', jsonb_build_object('names', names, 'details', te.details))
        WHERE e.id = se.id;
    END IF;
    RETURN true;
END $$;

-- Takes a card out of its contact: it speaks of somebody else, who is made and gets these identities of the card. Whom; null:
-- there is no such card, or it speaks of nobody.
CREATE OR REPLACE FUNCTION people_split(which uuid, called text, ids jsonb) RETURNS uuid
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
    made := contact_make_of(called, NULL, (SELECT k.source FROM contact_cards k
                                           WHERE k.tenant_id = shared.tenant() AND k.id = which));
    UPDATE contact_identities i SET contact_id = made FROM jsonb_to_recordset(ids) AS given (channel text, identity text)
    WHERE i.tenant_id = shared.tenant() AND i.contact_id = before AND i.channel = given.channel AND i.identity = given.identity;
    UPDATE contact_links l SET contact = made WHERE l.tenant_id = shared.tenant() AND l.card = which;
    RETURN made;
END $$;
DROP FUNCTION contact_make(text, uuid);

-- Which version became of an item that both sides had changed, on a person's word; `seen`: it stays as it is. Null: nobody
-- looked at it yet.
ALTER TABLE calendar_conflicts ADD COLUMN taken text CHECK (taken IN ('base', 'ours', 'theirs', 'seen')),
    ADD COLUMN taken_at timestamptz;
ALTER TABLE contact_card_conflicts ADD COLUMN taken text CHECK (taken IN ('base', 'ours', 'theirs', 'seen')),
    ADD COLUMN taken_at timestamptz;

-- Notes a person's choice, in the transaction that makes it: the event is believed no more than that version. False: there
-- is no such conflict.
CREATE FUNCTION calendar_chosen(which uuid, choice text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    c calendar_conflicts;
BEGIN
    UPDATE calendar_conflicts f SET taken = choice, taken_at = shared.clock()
    WHERE f.tenant_id = shared.tenant() AND f.id = which RETURNING f.* INTO c;
    IF c.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM shared.calendar_writer(c.source);
    IF choice <> 'seen' THEN
        UPDATE calendar_events e SET trust = calendar_lower(e.trust, c.trust) WHERE e.tenant_id = c.tenant_id AND e.id = c.event;
        UPDATE calendar_instances i SET trust = calendar_lower(i.trust, c.trust)
        WHERE i.tenant_id = c.tenant_id AND i.event = c.event;
        UPDATE calendar_items i SET trust = calendar_lower(i.trust, c.trust) WHERE i.tenant_id = c.tenant_id AND i.id = c.event;
    END IF;
    RETURN true;
END $$;

-- The same of a card, which becomes that version: its address book and the house's people learn of it at the next sync.
-- False: there is no such conflict, no such version, or no such card any more.
CREATE FUNCTION people_choose(which bigint, choice text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    c contact_card_conflicts;
BEGIN
    PERFORM shared.contacts_deciding();
    UPDATE contact_card_conflicts f SET taken = choice, taken_at = shared.clock()
    WHERE f.tenant_id = shared.tenant() AND f.id = which RETURNING f.* INTO c;
    IF c.id IS NULL THEN
        RETURN false;
    ELSIF choice = 'seen' THEN
        RETURN true;
    END IF;
    UPDATE contact_cards k SET ours = CASE choice WHEN 'base' THEN c.base WHEN 'ours' THEN c.ours ELSE c.theirs END,
        revision = k.revision + 1, updated_at = shared.clock()
    WHERE k.tenant_id = c.tenant_id AND k.id = c.card AND k.archived_at IS NULL
      AND CASE choice WHEN 'base' THEN c.base WHEN 'ours' THEN c.ours ELSE c.theirs END IS NOT NULL;
    RETURN FOUND;
END $$;
