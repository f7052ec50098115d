-- How a calendar follows a provider: what both sides last had in common of each item, what is under way, and what became of
-- changes that both sides made.
-- Runs as the owner role with search_path = shared.

-- Whose calendar it is at the provider, as an account without its secret, and where it is there. Null: the household's own.
ALTER TABLE calendar_sources
    ADD COLUMN account text,
    ADD COLUMN place text,
    ADD COLUMN read_only boolean NOT NULL DEFAULT false;
CREATE UNIQUE INDEX calendar_sources_place ON calendar_sources (tenant_id, account, place) WHERE place IS NOT NULL;

-- One sync of a calendar runs at a time, whichever butler's or daemon's: under a claim, with a lease by the server's clock.
ALTER TABLE calendar_cursors
    ADD COLUMN due_at timestamptz NOT NULL DEFAULT shared.clock(),
    -- Somebody asks for it now.
    ADD COLUMN asked boolean NOT NULL DEFAULT false,
    -- A person said that most events were deleted on purpose.
    ADD COLUMN accept_deletions boolean NOT NULL DEFAULT false,
    ADD COLUMN failures integer NOT NULL DEFAULT 0,
    ADD COLUMN tried_at timestamptz,
    ADD COLUMN node text,
    ADD COLUMN run uuid,
    ADD COLUMN claim uuid,
    ADD COLUMN lease_until timestamptz;

-- An item of a provider's calendar, by the id of its event, which it outlives until the provider knows that it is gone. What
-- the household has of it is calendar_events.ics. No butler's role reads this table.
CREATE TABLE calendar_items (
    id       uuid NOT NULL,
    source   uuid NOT NULL,
    uid      text,
    href     text,
    etag     text,
    -- What both sides last had in common, and what was sent while nobody knows whether it arrived.
    base     bytea,
    sent     bytea,
    reread   boolean NOT NULL DEFAULT false,
    -- Grows with each change, whoever makes it.
    revision bigint NOT NULL DEFAULT 1,
    -- Whether the provider is to learn something of it, and whether that is news for the sync.
    pending  boolean NOT NULL DEFAULT true,
    fresh    boolean NOT NULL DEFAULT true,
    made_at  timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('calendar_items', 'id');
ALTER TABLE calendar_items ADD FOREIGN KEY (tenant_id, source) REFERENCES calendar_sources (tenant_id, id) ON DELETE CASCADE;
CREATE INDEX calendar_items_href ON calendar_items (tenant_id, source, href);
CREATE INDEX calendar_items_uid ON calendar_items (tenant_id, source, uid);
CREATE INDEX calendar_items_pending ON calendar_items (tenant_id, source, made_at) WHERE pending;
CREATE INDEX calendar_items_fresh ON calendar_items (tenant_id, source) WHERE fresh;

-- Both sides changed one item: all versions, and which became of it, so that a person can choose another.
CREATE TABLE calendar_conflicts (
    id       uuid NOT NULL DEFAULT gen_random_uuid(),
    source   uuid NOT NULL,
    event    uuid NOT NULL,
    kind     text NOT NULL CHECK (kind IN ('merged', 'both_edited', 'both_created', 'deleted_there', 'deleted_here',
                                           'rewritten')),
    uid      text,
    base     bytea,
    ours     bytea,
    theirs   bytea,
    found_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('calendar_conflicts', 'id');
ALTER TABLE calendar_conflicts ADD FOREIGN KEY (tenant_id, source) REFERENCES calendar_sources (tenant_id, id) ON DELETE CASCADE;
CREATE INDEX calendar_conflicts_source ON calendar_conflicts (tenant_id, source, found_at);

-- The less trusted of two.
CREATE FUNCTION calendar_lower(one text, other text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN 'stranger' IN (one, other) THEN 'stranger' WHEN 'known' IN (one, other) THEN 'known'
                WHEN 'owner' IN (one, other) THEN 'owner' ELSE 'system' END
$$;

-- Whatever changes an event of a provider's calendar, in that very transaction: the provider is to learn of it.
CREATE FUNCTION calendar_noted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE calendar_items i SET revision = i.revision + 1, pending = true, fresh = true
        WHERE i.tenant_id = OLD.tenant_id AND i.id = OLD.id;
        RETURN NULL;
    END IF;
    INSERT INTO calendar_items AS i (id, source, uid, tenant_id, trust, audience)
    SELECT NEW.id, NEW.source, NEW.uid, NEW.tenant_id, NEW.trust, NEW.audience FROM calendar_sources s
    WHERE s.tenant_id = NEW.tenant_id AND s.id = NEW.source AND s.provider <> 'local'
    ON CONFLICT (tenant_id, id) DO UPDATE
    SET revision = i.revision + 1, pending = true, fresh = true, trust = calendar_lower(i.trust, excluded.trust);
    RETURN NULL;
END $$;
CREATE TRIGGER calendar_noted AFTER INSERT OR DELETE ON calendar_events FOR EACH ROW EXECUTE FUNCTION calendar_noted();
CREATE TRIGGER calendar_noted_change AFTER UPDATE ON calendar_events FOR EACH ROW
    WHEN (OLD.ics IS DISTINCT FROM NEW.ics) EXECUTE FUNCTION calendar_noted();

-- Writes what a sync made of an item, and its event with it. `seen`: the revision that was looked at, 0 for one that is new.
-- False: it has another one by now, and nothing was done. An event is believed no more than before, and no more than
-- `its_trust`.
CREATE FUNCTION calendar_take(which uuid, its_source uuid, seen bigint, its_uid text, its_href text, its_etag text,
                              its_base bytea, its_ours bytea, its_sent bytea, read_again boolean, its_trust text,
                              does_repeat boolean, from_time timestamptz, to_time timestamptz, instances jsonb)
RETURNS boolean LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    event calendar_events;
    item calendar_items;
    name text := coalesce(nullif(its_uid, ''), which::text);
BEGIN
    -- In the order in which tools lock them.
    SELECT * INTO event FROM calendar_events e WHERE e.tenant_id = shared.tenant() AND e.id = which FOR UPDATE;
    SELECT * INTO item FROM calendar_items i WHERE i.tenant_id = shared.tenant() AND i.id = which FOR UPDATE;
    IF coalesce(item.revision, 0) <> seen THEN
        RETURN false;
    END IF;
    IF its_ours IS NULL THEN
        DELETE FROM calendar_events e WHERE e.tenant_id = shared.tenant() AND e.id = which;
    ELSIF event.id IS NULL THEN
        FOR n IN 1..2 LOOP
            INSERT INTO calendar_events (id, source, uid, ics, etag, repeats, created_by, trust, projected_from, projected_to)
            VALUES (which, its_source, name, its_ours, its_etag, does_repeat, 'sync',
                    calendar_lower(its_trust, coalesce(item.trust, 'system')), from_time, to_time)
            ON CONFLICT (tenant_id, source, uid) DO NOTHING;
            EXIT WHEN FOUND;
            -- The provider has one UID twice, for the moment in which an item moves.
            name := name || ' ' || which;
        END LOOP;
        PERFORM calendar_project(which, from_time, to_time, instances);
    ELSIF event.ics IS DISTINCT FROM its_ours THEN
        UPDATE calendar_events e SET ics = its_ours, etag = its_etag, repeats = does_repeat, revision = e.revision + 1,
               trust = calendar_lower(e.trust, its_trust), updated_at = shared.clock()
        WHERE e.tenant_id = shared.tenant() AND e.id = which;
        PERFORM calendar_project(which, from_time, to_time, instances);
    ELSE
        UPDATE calendar_events e SET etag = its_etag WHERE e.tenant_id = shared.tenant() AND e.id = which;
    END IF;
    -- An event's trigger may have made it just now.
    INSERT INTO calendar_items AS i (id, source, uid, href, etag, base, sent, reread, pending, fresh, trust)
    VALUES (which, its_source, its_uid, its_href, its_etag, its_base, its_sent, read_again,
            its_ours IS DISTINCT FROM its_base OR its_sent IS NOT NULL OR its_ours IS NULL, false, its_trust)
    ON CONFLICT (tenant_id, id) DO UPDATE
    SET uid = excluded.uid, href = excluded.href, etag = excluded.etag, base = excluded.base, sent = excluded.sent,
        reread = excluded.reread, revision = i.revision + 1, pending = excluded.pending, fresh = false,
        trust = calendar_lower(i.trust, excluded.trust);
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION calendar_take(uuid, uuid, bigint, text, text, text, bytea, bytea, bytea, boolean, text, boolean,
                                         timestamptz, timestamptz, jsonb) FROM PUBLIC;

-- Takes an item away that is at neither side any more. False: it has another revision by now.
CREATE FUNCTION calendar_forget(which uuid, seen bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    now_revision bigint;
BEGIN
    PERFORM 1 FROM calendar_events e WHERE e.tenant_id = shared.tenant() AND e.id = which FOR UPDATE;
    SELECT i.revision INTO now_revision FROM calendar_items i
    WHERE i.tenant_id = shared.tenant() AND i.id = which FOR UPDATE;
    IF coalesce(now_revision, 0) <> seen THEN
        RETURN false;
    END IF;
    DELETE FROM calendar_events e WHERE e.tenant_id = shared.tenant() AND e.id = which;
    DELETE FROM calendar_items i WHERE i.tenant_id = shared.tenant() AND i.id = which;
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION calendar_forget(uuid, bigint) FROM PUBLIC;
