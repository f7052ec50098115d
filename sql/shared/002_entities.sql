-- The people, organisations and things that the household speaks of, each known once.
-- Runs as the owner role with search_path = shared.

-- A person, an organisation or a thing that butlers speak of; each is known once.
CREATE TABLE entities (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    kind       text NOT NULL DEFAULT 'person' CHECK (kind IN ('person', 'organisation', 'place', 'other')),
    name       text NOT NULL CHECK (name <> ''),
    aliases    text[] NOT NULL DEFAULT '{}',
    details    jsonb NOT NULL DEFAULT '{}',
    -- Into which other entity it was merged.
    merged_into uuid REFERENCES entities (id),
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('entities');
CREATE INDEX entities_named ON entities (tenant_id, lower(name)) WHERE merged_into IS NULL;
-- Every butler may know who is who; what a policy shows depends on the tenant.
GRANT SELECT ON entities TO PUBLIC;

-- The entity that stands for this one now.
CREATE FUNCTION entity_now(which uuid) RETURNS uuid LANGUAGE sql STABLE AS $$
    WITH RECURSIVE way AS (
        SELECT e.id, e.merged_into, 0 AS steps FROM shared.entities e WHERE e.id = which
        UNION ALL
        SELECT e.id, e.merged_into, way.steps + 1 FROM way JOIN shared.entities e ON e.id = way.merged_into
        WHERE way.steps < 32)
    SELECT id FROM way ORDER BY steps DESC LIMIT 1
$$;

-- Makes an entity. Null: there is one of this kind and name already.
CREATE FUNCTION entity_create(of_kind text, called text, also text[], more jsonb) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    made uuid;
BEGIN
    IF NOT shared.is_butler() THEN
        RAISE EXCEPTION 'only a butler notes entities' USING ERRCODE = '42501';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('shared.entities ' || shared.tenant(), 0));
    IF EXISTS (SELECT 1 FROM entities e WHERE e.tenant_id = shared.tenant() AND e.kind = of_kind
               AND lower(e.name) = lower(called) AND e.merged_into IS NULL) THEN
        RETURN NULL;
    END IF;
    INSERT INTO entities (kind, name, aliases, details) VALUES (of_kind, called, also, more) RETURNING id INTO made;
    RETURN made;
END $$;

-- Changes an entity; null leaves a part as it is. False: there is none. A stranger's word changes none that others made.
CREATE FUNCTION entity_update(which uuid, called text, also text[], more jsonb, into_other uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    held text;
    before text := shared.trust();
BEGIN
    IF NOT shared.is_butler() THEN
        RAISE EXCEPTION 'only a butler notes entities' USING ERRCODE = '42501';
    END IF;
    SELECT e.trust INTO held FROM entities e WHERE e.id = which AND e.tenant_id = shared.tenant() FOR UPDATE;
    IF held IS NULL THEN
        RETURN false;
    END IF;
    IF before = 'stranger' AND held <> 'stranger' THEN
        RAISE EXCEPTION 'what the household knows is not changed on the word of a stranger' USING ERRCODE = 'BD002';
    END IF;
    PERFORM set_config('butlerd.trust', 'system', true);
    UPDATE entities e SET name = coalesce(called, e.name), aliases = coalesce(also, e.aliases),
        details = CASE WHEN more IS NULL THEN e.details ELSE e.details || more END,
        merged_into = coalesce(into_other, e.merged_into), updated_at = shared.clock()
    WHERE e.id = which;
    PERFORM set_config('butlerd.trust', before, true);
    RETURN true;
END $$;

-- The id of the entity that stands for this one now; null: there is none. It tells nothing of what it looks at, so that
-- naming an entity that a stranger brought in lowers nobody.
CREATE FUNCTION entity_standing(which uuid) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
    SELECT e.id FROM entities e WHERE e.id = shared.entity_now(which) AND e.tenant_id = shared.tenant()
$$;

-- Merges an entity into another, which takes over its names. Returns how many names that are; null: one of them is not
-- there, or was merged already.
CREATE FUNCTION entity_merge(source uuid, target uuid) RETURNS integer
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
    PERFORM shared.entity_update(source, NULL, NULL,
        jsonb_build_object('merged', jsonb_build_object('names', names, 'details', t.details)), target);
    RETURN cardinality(names);
END $$;

-- Takes a merge back: the entity stands for itself again, and the other one gives up the names that it took over.
CREATE FUNCTION entity_unmerge(source uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    s entities;
    before text := shared.trust();
BEGIN
    IF NOT shared.is_butler() THEN
        RAISE EXCEPTION 'only a butler notes entities' USING ERRCODE = '42501';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('shared.entities ' || shared.tenant(), 0));
    SELECT * INTO s FROM entities e WHERE e.id = source AND e.tenant_id = shared.tenant() AND e.merged_into IS NOT NULL;
    IF s.id IS NULL THEN
        RETURN false;
    END IF;
    IF before = 'stranger' AND s.trust <> 'stranger' THEN
        RAISE EXCEPTION 'what the household knows is not changed on the word of a stranger' USING ERRCODE = 'BD002';
    END IF;
    PERFORM set_config('butlerd.trust', 'system', true);
    UPDATE entities t SET updated_at = shared.clock(), details = coalesce(s.details #> '{merged,details}', t.details),
        aliases = ARRAY(SELECT a FROM unnest(t.aliases) a
                        WHERE NOT coalesce(s.details #> '{merged,names}', '[]') ? a)
    WHERE t.id = s.merged_into;
    UPDATE entities e SET merged_into = NULL, details = e.details - 'merged', updated_at = shared.clock()
    WHERE e.id = source;
    PERFORM set_config('butlerd.trust', before, true);
    RETURN true;
END $$;

-- The names of all entities that stand for themselves: for whoever looks for one and shows only what was found.
CREATE FUNCTION entity_names() RETURNS TABLE (id uuid, kind text, name text, aliases text[], roles jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
    SELECT e.id, e.kind, e.name, e.aliases, coalesce(e.details -> 'roles', '[]') FROM entities e
    WHERE e.tenant_id = shared.tenant() AND e.merged_into IS NULL AND shared.is_butler() LIMIT 20000
$$;
