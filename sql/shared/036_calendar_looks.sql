-- What a calendar of thousands of events costs: its lists, and its first sync.
-- Runs as the owner role with search_path = shared.

-- A row that lowers nobody is found so without a call of saw, which costs more than all else of reading it: a month of a
-- calendar at a server is hundreds of rows of strangers. Where the transaction is believed no more than the row already, and
-- nobody outside may learn what it was shown, saw would change nothing.
DO $do$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['calendar_events', 'calendar_instances'] LOOP
        EXECUTE format('ALTER POLICY tenant ON %I
            USING (tenant_id = current_setting(''butlerd.tenant'', true)
                   AND CASE WHEN source IN (SELECT r.source FROM shared.calendar_readers r)
                       THEN (trust IN (''owner'', ''system'') OR current_setting(''butlerd.trust'', true) IN (''stranger'', trust))
                            AND current_setting(''butlerd.audience'', true) = ''{}''
                            OR shared.saw(trust, audience)
                       ELSE false END)', named);
    END LOOP;
END $do$;

-- Which series are to be laid out further, looked for before each list, is a read of two indexes.
CREATE INDEX calendar_events_behind ON calendar_events (tenant_id, projected_from) WHERE repeats;

-- Lays an event out. What is so already is not written again.
CREATE OR REPLACE FUNCTION calendar_project(which uuid, from_time timestamptz, to_time timestamptz, instances jsonb)
RETURNS void LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    event calendar_events;
BEGIN
    SELECT * INTO event FROM calendar_events e WHERE e.tenant_id = shared.tenant() AND e.id = which;
    IF event.id IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM calendar_instances i WHERE i.tenant_id = event.tenant_id AND i.event = which;
    INSERT INTO calendar_instances (event, instance, source, starts_at, ends_at, busy, away, shown, tenant_id, trust, audience)
    SELECT which, n.instance, event.source, n.starts_at, n.ends_at, n.busy, n.away, n.shown, event.tenant_id, event.trust,
           event.audience
    FROM jsonb_to_recordset(instances) AS n (instance text, starts_at timestamptz, ends_at timestamptz, busy boolean,
                                             away boolean, shown json)
    ON CONFLICT DO NOTHING;
    IF (event.projected_from, event.projected_to) IS DISTINCT FROM (from_time, to_time) THEN
        UPDATE calendar_events e SET projected_from = from_time, projected_to = to_time
        WHERE e.tenant_id = event.tenant_id AND e.id = which;
    END IF;
END $$;

-- Lists show it as it is, and nothing is ever looked for in it.
ALTER TABLE calendar_instances ALTER COLUMN shown TYPE json USING shown::json;
