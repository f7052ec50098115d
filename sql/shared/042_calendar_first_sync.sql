-- A calendar's first sync brings thousands of events. Each was written by seven statements, and each statement made ready anew
-- what the triggers and the generated columns of its table ask for. Now a few statements write all that are new together.
-- Runs as the owner role with search_path = shared.

DROP FUNCTION calendar_take(uuid, uuid, bigint, text, text, text, bytea, bytea, bytea, boolean, text, boolean, timestamptz,
                            timestamptz, jsonb);

-- Writes an item's event as a sync made it. `seen`: the item's revision that was looked at, 0 for one that is new. False: it has
-- another one by now, and nothing was done. An event is believed no more than before, and no more than `its_trust`.
CREATE FUNCTION calendar_take_event(which uuid, its_source uuid, seen bigint, its_uid text, its_etag text, its_ours bytea,
                                    its_trust text, does_repeat boolean, from_time timestamptz, to_time timestamptz,
                                    instances jsonb)
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
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION calendar_take_event(uuid, uuid, bigint, text, text, bytea, text, boolean, timestamptz, timestamptz,
                                               jsonb) FROM PUBLIC;

-- Writes what a sync made of items, and their events with them: each item's at the same place of each list, no item twice.
-- Returns those that have another revision by now, of which nothing was done.
CREATE FUNCTION calendar_take(its_source uuid, ids uuid[], revisions bigint[], uids text[], hrefs text[], etags text[],
                              bases bytea[], events bytea[], sendings bytea[], rereads boolean[], trusts text[],
                              repeatings boolean[], froms timestamptz[], tos timestamptz[], layouts jsonb[])
RETURNS SETOF uuid LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    taken uuid[];
    one record;
BEGIN
    -- Those that are new. One whose UID another event has is none of them.
    WITH made AS (
        INSERT INTO calendar_events (id, source, uid, ics, etag, repeats, created_by, trust, projected_from, projected_to)
        SELECT n.id, its_source, coalesce(nullif(n.uid, ''), n.id::text), n.ics, n.etag, n.repeats, 'sync', n.trust,
               n.from_time, n.to_time
        FROM unnest(ids, revisions, uids, etags, events, trusts, repeatings, froms, tos)
             WITH ORDINALITY AS n (id, revision, uid, etag, ics, trust, repeats, from_time, to_time, place)
        WHERE n.revision = 0 AND n.ics IS NOT NULL
          AND NOT EXISTS (SELECT FROM calendar_items i WHERE i.tenant_id = shared.tenant() AND i.id = n.id)
        -- Of two that have one UID the first keeps it, however they are read.
        ORDER BY n.place
        ON CONFLICT DO NOTHING RETURNING id)
    SELECT coalesce(array_agg(made.id), '{}') INTO taken FROM made;
    INSERT INTO calendar_instances (event, instance, source, starts_at, ends_at, busy, away, shown, tenant_id, trust, audience)
    SELECT e.id, n.instance, e.source, n.starts_at, n.ends_at, n.busy, n.away, n.shown, e.tenant_id, e.trust, e.audience
    FROM unnest(ids, layouts) AS given (id, instances)
    JOIN calendar_events e ON e.tenant_id = shared.tenant() AND e.id = given.id
    CROSS JOIN LATERAL jsonb_to_recordset(given.instances) AS n (instance text, starts_at timestamptz, ends_at timestamptz,
                                                                  busy boolean, away boolean, shown json)
    WHERE given.id = ANY (taken)
    ON CONFLICT DO NOTHING;
    FOR one IN
        SELECT n.* FROM unnest(ids, revisions, uids, etags, events, trusts, repeatings, froms, tos, layouts)
                        AS n (id, revision, uid, etag, ics, trust, repeats, from_time, to_time, instances)
        WHERE n.id <> ALL (taken)
    LOOP
        IF calendar_take_event(one.id, its_source, one.revision, one.uid, one.etag, one.ics, one.trust, one.repeats,
                               one.from_time, one.to_time, one.instances) THEN
            taken := taken || one.id;
        ELSE
            RETURN NEXT one.id;
        END IF;
    END LOOP;
    -- An event's trigger may have made it just now.
    INSERT INTO calendar_items AS i (id, source, uid, href, etag, base, sent, reread, pending, fresh, trust)
    SELECT n.id, its_source, n.uid, n.href, n.etag, n.base, n.sent, n.reread,
           n.ics IS DISTINCT FROM n.base OR n.sent IS NOT NULL OR n.ics IS NULL, false, n.trust
    FROM unnest(ids, uids, hrefs, etags, bases, events, sendings, rereads, trusts)
         AS n (id, uid, href, etag, base, ics, sent, reread, trust)
    WHERE n.id = ANY (taken)
    ON CONFLICT (tenant_id, id) DO UPDATE
    SET uid = excluded.uid, href = excluded.href, etag = excluded.etag, base = excluded.base, sent = excluded.sent,
        reread = excluded.reread, revision = i.revision + 1, pending = excluded.pending, fresh = false,
        trust = calendar_lower(i.trust, excluded.trust);
END $$;
REVOKE EXECUTE ON FUNCTION calendar_take(uuid, uuid[], bigint[], text[], text[], text[], bytea[], bytea[], bytea[], boolean[],
                                         text[], boolean[], timestamptz[], timestamptz[], jsonb[]) FROM PUBLIC;
