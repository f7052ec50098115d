-- Who is called what is kept as every other row is: a transaction that is trusted less than the writer of an entity does not
-- change it, and what it may change carries its label. Until here only strangers were refused.
-- Runs as the owner role with search_path = shared.

-- Changes an entity; null leaves a part as it is. False: there is none.
CREATE OR REPLACE FUNCTION entity_update(which uuid, called text, also text[], more jsonb, into_other uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    IF NOT shared.is_butler() THEN
        RAISE EXCEPTION 'only a butler notes entities' USING ERRCODE = '42501';
    END IF;
    UPDATE entities e SET name = coalesce(called, e.name), aliases = coalesce(also, e.aliases),
        details = CASE WHEN more IS NULL THEN e.details ELSE e.details || more END,
        merged_into = coalesce(into_other, e.merged_into), updated_at = shared.clock()
    WHERE e.id = which AND e.tenant_id = shared.tenant();
    RETURN FOUND;
END $$;

-- Takes a merge back: the entity stands for itself again, and the other one gives up the names that it took over.
CREATE OR REPLACE FUNCTION entity_unmerge(source uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    s entities;
BEGIN
    IF NOT shared.is_butler() THEN
        RAISE EXCEPTION 'only a butler notes entities' USING ERRCODE = '42501';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('shared.entities ' || shared.tenant(), 0));
    SELECT * INTO s FROM entities e WHERE e.id = source AND e.tenant_id = shared.tenant() AND e.merged_into IS NOT NULL;
    IF s.id IS NULL THEN
        RETURN false;
    END IF;
    UPDATE entities t SET updated_at = shared.clock(), details = coalesce(s.details #> '{merged,details}', t.details),
        aliases = ARRAY(SELECT a FROM unnest(t.aliases) a
                        WHERE NOT coalesce(s.details #> '{merged,names}', '[]') ? a)
    WHERE t.id = s.merged_into;
    UPDATE entities e SET merged_into = NULL, details = e.details - 'merged', updated_at = shared.clock()
    WHERE e.id = source;
    RETURN true;
END $$;
