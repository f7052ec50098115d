-- Whoever takes over somebody's names and details is believed no more than those are, and shown to nobody who may not see
-- those: else a merge would make a stranger's words the owner's. As people_merge has it.
-- Runs as the owner role with search_path = shared.

-- Merges an entity into another, which takes over its names. Returns how many names that are; null: one of them is not
-- there, or was merged already.
CREATE OR REPLACE FUNCTION entity_merge(source uuid, target uuid) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    s entities;
    t entities;
    names text[];
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('shared.entities ' || shared.tenant(), 0));
    SELECT * INTO s FROM entities e WHERE e.id = source AND e.tenant_id = shared.tenant() AND e.merged_into IS NULL;
    SELECT * INTO t FROM entities e WHERE e.id = target AND e.tenant_id = shared.tenant() AND e.merged_into IS NULL;
    IF s.id IS NULL OR t.id IS NULL OR s.id = t.id THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(n), '{}') INTO names FROM unnest(s.name || s.aliases) n
    WHERE lower(n) <> lower(t.name) AND NOT EXISTS (SELECT 1 FROM unnest(t.aliases) a WHERE lower(a) = lower(n));
    PERFORM shared.entity_update(target, NULL, t.aliases || names, s.details - 'merged' || t.details, NULL);
    IF names <> '{}' OR s.details - 'merged' <> '{}' THEN
        UPDATE entities e SET trust = shared.calendar_lower(e.trust, s.trust),
            audience = shared.common_audience(e.audience, s.audience)
        WHERE e.id = target AND e.tenant_id = shared.tenant();
    END IF;
    PERFORM shared.entity_update(source, NULL, NULL,
        jsonb_build_object('merged', jsonb_build_object('names', names, 'details', t.details)), target);
    RETURN cardinality(names);
END $$;
