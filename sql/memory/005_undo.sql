-- Taking back what was done to memories.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Temporary tables of whoever calls are looked at last.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

-- Takes an event back: its rows become what they were before, and what it made is forgotten. Empty: done. Else the
-- memories on which something newer stands, or whose rows are gone, and nothing is changed.
CREATE FUNCTION memory_undo(event uuid, by jsonb) RETURNS TABLE (memory_type text, memory_id uuid, why text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    h record;
    e memory_events;
    current_change bigint;
BEGIN
    PERFORM memory_lock();
    SELECT * INTO e FROM memory_events m WHERE m.id = event AND m.tenant_id = shared.tenant();
    IF e.id IS NULL THEN
        RETURN QUERY SELECT NULL::text, NULL::uuid, 'there is no such event'::text;
        RETURN;
    END IF;
    IF e.memory_type = 'entity' AND e.event_type <> 'merged' THEN
        RETURN QUERY SELECT e.memory_type, e.memory_id, 'only the merging of two can be taken back'::text;
        RETURN;
    END IF;
    IF EXISTS (SELECT 1 FROM memory_events m WHERE m.undoes = event) THEN
        RETURN QUERY SELECT e.memory_type, e.memory_id, 'it was taken back already'::text;
        RETURN;
    END IF;
    IF e.memory_type <> 'entity' AND NOT EXISTS (SELECT 1 FROM memory_history m WHERE m.event_id = event) THEN
        RETURN QUERY SELECT e.memory_type, e.memory_id,
            CASE WHEN memory_row(e.memory_type, e.memory_id) ->> 'purged_at' IS NOT NULL
                 THEN 'it was purged, and nothing is kept of it'
                 ELSE 'nothing is kept of what was before it' END;
        RETURN;
    END IF;
    RETURN QUERY
        SELECT k.memory_type, k.memory_id,
               CASE WHEN now_at.purged THEN 'it was purged' ELSE 'something newer was done to it' END
        FROM memory_history k CROSS JOIN LATERAL (
            SELECT f.change, f.purged_at IS NOT NULL AS purged FROM memory_facts f WHERE f.id = k.memory_id
            UNION ALL SELECT r.change, r.purged_at IS NOT NULL FROM memory_rules r WHERE r.id = k.memory_id
            UNION ALL SELECT p.change, p.purged_at IS NOT NULL FROM memory_episodes p WHERE p.id = k.memory_id) now_at
        WHERE k.event_id = event AND (now_at.purged OR (now_at.change <> k.change AND NOT memory_only_touched(k.memory_id, k.change)));
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM memory_event(by || jsonb_build_object('event_type', 'undone', 'memory_type', e.memory_type,
        'memory_id', e.memory_id, 'undoes', event, 'payload', jsonb_build_object('event_type', e.event_type)));
    -- What it made goes first, so that what comes back finds its place.
    FOR h IN SELECT k.memory_type, k.memory_id, k.before FROM memory_history k
             WHERE k.event_id = event ORDER BY k.before IS NOT NULL, k.change DESC LOOP
        PERFORM memory_patch(h.memory_type, h.memory_id,
            coalesce(h.before - 'trust', jsonb_build_object('forgotten_at', shared.clock())));
    END LOOP;
    IF e.memory_type = 'entity' AND e.event_type = 'merged' THEN
        PERFORM shared.entity_unmerge(e.memory_id);
    END IF;
END $$;

-- Whether what an event did still stands: it was not taken back, or the taking back was.
CREATE FUNCTION memory_in_force(event uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN NOT EXISTS (SELECT 1 FROM memory_events u WHERE u.undoes = event AND memory_in_force(u.id));
END $$;

-- Whether a row changed since only by being recalled: no event has touched it after that change but such as were taken back.
CREATE FUNCTION memory_only_touched(which uuid, since bigint) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT NOT EXISTS (
        SELECT 1 FROM memory_history h JOIN memory_events e ON e.id = h.event_id
        WHERE h.memory_id = which AND h.change > since AND e.undoes IS NULL AND memory_in_force(e.id))
$$;
