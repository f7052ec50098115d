-- Calendars of the household: what is in them, and who sees it.
-- Runs as the owner role with search_path = shared.
--
-- A butler sees the calendars that its settings name, which the daemon notes in calendar_readers. It reads the tables under
-- their policies, which join labels as every table's do, and writes through the functions below, which ask who it is.

-- A calendar, by its name in settings.
CREATE TABLE calendar_sources (
    id         uuid NOT NULL DEFAULT gen_random_uuid(),
    name       text NOT NULL CHECK (name <> '' AND length(name) <= 200),
    provider   text NOT NULL CHECK (provider IN ('local', 'caldav', 'google')),
    time_zone  text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('calendar_sources', 'id');
CREATE UNIQUE INDEX calendar_sources_name ON calendar_sources (tenant_id, name);

CREATE TABLE calendar_readers (
    butler text NOT NULL,
    source uuid NOT NULL,
    -- The order in its settings; new events go into the first.
    place  integer NOT NULL
);
SELECT shared.tenant_table('calendar_readers', 'butler', 'source');
ALTER TABLE calendar_readers ADD FOREIGN KEY (tenant_id, source) REFERENCES calendar_sources (tenant_id, id) ON DELETE CASCADE;

-- What a calendar keeps under one UID, as its bytes; what stands beside them is read out of them.
CREATE TABLE calendar_events (
    id             uuid NOT NULL,
    source         uuid NOT NULL,
    uid            text NOT NULL CHECK (uid <> ''),
    ics            bytea NOT NULL CHECK (octet_length(ics) <= 1048576),
    -- What the provider calls this version; null for one that only this household has.
    etag           text,
    repeats        boolean NOT NULL,
    -- Grows with each change: who changes it says which one was looked at.
    revision       bigint NOT NULL DEFAULT 1,
    created_by     text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at     timestamptz NOT NULL DEFAULT shared.clock(),
    -- For which time its instances are there.
    projected_from timestamptz NOT NULL,
    projected_to   timestamptz NOT NULL
);
SELECT shared.tenant_table('calendar_events', 'id');
ALTER TABLE calendar_events ADD FOREIGN KEY (tenant_id, source) REFERENCES calendar_sources (tenant_id, id);
CREATE UNIQUE INDEX calendar_events_uid ON calendar_events (tenant_id, source, uid);
CREATE INDEX calendar_events_ahead ON calendar_events (tenant_id, projected_to) WHERE repeats;

-- When events take place, so that a month is a read of an index. Each row has its event's label.
CREATE TABLE calendar_instances (
    event     uuid NOT NULL,
    -- The instance's name within its series: where the series has it, as it is shown.
    instance  text NOT NULL,
    source    uuid NOT NULL,
    starts_at timestamptz NOT NULL,
    ends_at   timestamptz NOT NULL,
    -- Whether its time counts as taken, and whether one has to go there.
    busy      boolean NOT NULL,
    away      boolean NOT NULL,
    -- As lists show it.
    shown     jsonb NOT NULL,
    -- Looked for apart from the others, which a month's read finds by their start.
    long      boolean GENERATED ALWAYS AS (ends_at - starts_at > interval '31 days') STORED
);
SELECT shared.tenant_table('calendar_instances', 'event', 'instance');
ALTER TABLE calendar_instances ADD FOREIGN KEY (tenant_id, event) REFERENCES calendar_events (tenant_id, id) ON DELETE CASCADE;
CREATE INDEX calendar_instances_when ON calendar_instances (tenant_id, source, starts_at);
CREATE INDEX calendar_instances_long ON calendar_instances (tenant_id, source, starts_at) WHERE long;

-- How far a calendar of a provider has been read.
CREATE TABLE calendar_cursors (
    source     uuid NOT NULL,
    sync_token text,
    synced_at  timestamptz,
    error      text
);
SELECT shared.tenant_table('calendar_cursors', 'source');
ALTER TABLE calendar_cursors ADD FOREIGN KEY (tenant_id, source) REFERENCES calendar_sources (tenant_id, id) ON DELETE CASCADE;

-- What butlers did, by the caller's key: the same again is answered with the first result.
CREATE TABLE calendar_actions (
    butler  text NOT NULL,
    key     text NOT NULL CHECK (key <> '' AND length(key) <= 200),
    action  text NOT NULL,
    -- Of the arguments, so that a key that comes again for something else is noticed.
    sha256  bytea NOT NULL,
    result  jsonb NOT NULL,
    done_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('calendar_actions', 'butler', 'key');

-- CASE keeps rows that are not shown from lowering anybody's trust.
ALTER POLICY tenant ON calendar_readers
    USING (tenant_id = current_setting('butlerd.tenant', true) AND butler = (SELECT shared.asking_butler()));
ALTER POLICY tenant ON calendar_sources
    USING (tenant_id = current_setting('butlerd.tenant', true)
           AND id IN (SELECT r.source FROM shared.calendar_readers r));
ALTER POLICY tenant ON calendar_cursors
    USING (tenant_id = current_setting('butlerd.tenant', true)
           AND source IN (SELECT r.source FROM shared.calendar_readers r));
ALTER POLICY tenant ON calendar_events
    USING (tenant_id = current_setting('butlerd.tenant', true)
           AND CASE WHEN source IN (SELECT r.source FROM shared.calendar_readers r)
               THEN trust IN ('owner', 'system') AND current_setting('butlerd.audience', true) = '{}'
                    OR shared.saw(trust, audience)
               ELSE false END);
ALTER POLICY tenant ON calendar_instances
    USING (tenant_id = current_setting('butlerd.tenant', true)
           AND CASE WHEN source IN (SELECT r.source FROM shared.calendar_readers r)
               THEN trust IN ('owner', 'system') AND current_setting('butlerd.audience', true) = '{}'
                    OR shared.saw(trust, audience)
               ELSE false END);
ALTER POLICY tenant ON calendar_actions
    USING (tenant_id = current_setting('butlerd.tenant', true)
           AND CASE WHEN butler = (SELECT shared.asking_butler())
               THEN trust IN ('owner', 'system') AND current_setting('butlerd.audience', true) = '{}'
                    OR shared.saw(trust, audience)
               ELSE false END);
GRANT SELECT ON calendar_readers, calendar_sources, calendar_cursors, calendar_events, calendar_instances, calendar_actions
    TO PUBLIC;

-- Puts an event's instances in the place of those that are there, with the event's label.
CREATE FUNCTION calendar_project(which uuid, from_time timestamptz, to_time timestamptz, instances jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
BEGIN
    DELETE FROM calendar_instances i WHERE i.tenant_id = shared.tenant() AND i.event = which;
    INSERT INTO calendar_instances (event, instance, source, starts_at, ends_at, busy, away, shown, tenant_id, trust, audience)
    SELECT e.id, n.instance, e.source, n.starts_at, n.ends_at, n.busy, n.away, n.shown, e.tenant_id, e.trust, e.audience
    FROM calendar_events e,
         jsonb_to_recordset(instances) AS n (instance text, starts_at timestamptz, ends_at timestamptz, busy boolean,
                                             away boolean, shown jsonb)
    WHERE e.tenant_id = shared.tenant() AND e.id = which
    ON CONFLICT DO NOTHING;
    UPDATE calendar_events e SET projected_from = from_time, projected_to = to_time
    WHERE e.tenant_id = shared.tenant() AND e.id = which;
END $$;
REVOKE EXECUTE ON FUNCTION calendar_project(uuid, timestamptz, timestamptz, jsonb) FROM PUBLIC;

-- Who may write into a calendar: a butler whose settings name it.
CREATE FUNCTION calendar_writer(into_source uuid) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = shared, pg_temp AS $$
DECLARE
    who text := shared.asking_butler();
BEGIN
    IF NOT EXISTS (SELECT 1 FROM calendar_readers r WHERE r.tenant_id = shared.tenant() AND r.butler = who
                   AND r.source = into_source) THEN
        RAISE EXCEPTION 'this butler''s settings do not name that calendar' USING ERRCODE = '42501';
    END IF;
    RETURN who;
END $$;

-- Makes an event, or a new version of it. `seen`: the revision that was looked at, null for a new one. The revision that it
-- has now; null: somebody else changed it meanwhile, or one of its UID is there.
CREATE FUNCTION calendar_put(which uuid, into_source uuid, its_uid text, its_ics bytea, does_repeat boolean, seen bigint,
                             from_time timestamptz, to_time timestamptz, instances jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text := shared.calendar_writer(into_source);
    now_revision bigint;
BEGIN
    IF seen IS NULL THEN
        INSERT INTO calendar_events (id, source, uid, ics, repeats, created_by, projected_from, projected_to)
        VALUES (which, into_source, its_uid, its_ics, does_repeat, who, from_time, to_time)
        ON CONFLICT DO NOTHING RETURNING revision INTO now_revision;
    ELSE
        UPDATE calendar_events e SET ics = its_ics, repeats = does_repeat, revision = e.revision + 1,
               updated_at = shared.clock()
        WHERE e.tenant_id = shared.tenant() AND e.id = which AND e.source = into_source AND e.revision = seen
        RETURNING revision INTO now_revision;
    END IF;
    IF now_revision IS NOT NULL THEN
        PERFORM calendar_project(which, from_time, to_time, instances);
    END IF;
    RETURN now_revision;
END $$;

-- Takes an event away, as it was at this revision.
CREATE FUNCTION calendar_drop(which uuid, seen bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    home uuid;
BEGIN
    SELECT e.source INTO home FROM calendar_events e
    WHERE e.tenant_id = shared.tenant() AND e.id = which AND e.revision = seen FOR UPDATE;
    IF home IS NULL THEN
        RETURN false;
    END IF;
    PERFORM shared.calendar_writer(home);
    DELETE FROM calendar_events e WHERE e.tenant_id = shared.tenant() AND e.id = which;
    RETURN true;
END $$;

-- Notes what was done under a key. False: the key is there already.
CREATE FUNCTION calendar_done(its_key text, its_action text, arguments bytea, its_result jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    INSERT INTO calendar_actions (butler, key, action, sha256, result)
    VALUES (shared.asking_butler(), its_key, its_action, arguments, its_result) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;
