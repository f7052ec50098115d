-- What butlers know in common: published facts, and the people and things that they speak of.
-- Runs as the owner role with search_path = shared.

CREATE SEQUENCE memory_catalog_changes;

-- Facts that butlers have published for all of the household; each is its butler's, and changes with it.
CREATE TABLE memory_catalog (
    memory_id          uuid NOT NULL,
    change             bigint NOT NULL,
    butler             text NOT NULL,
    -- Whether it still holds; of one that does not, only the number is left.
    live               boolean NOT NULL,
    kind               text,
    subject            text,
    predicate          text,
    content            text,
    entity_id          uuid,
    object_entity_id   uuid,
    embedding          bytea,
    embedding_model    text,
    importance         real,
    confidence         real,
    decay_rate         real,
    retention_class    text,
    valid_from         timestamptz,
    valid_to           timestamptz,
    learned_at         timestamptz,
    last_confirmed_at  timestamptz,
    search             tsvector GENERATED ALWAYS AS (to_tsvector('english',
                       coalesce(subject, '') || ' ' || replace(coalesce(predicate, ''), '_', ' ') || ' ' ||
                       coalesce(content, ''))) STORED,
    CHECK (live = (content IS NOT NULL))
);
SELECT shared.tenant_table('memory_catalog');
ALTER TABLE memory_catalog ADD PRIMARY KEY (tenant_id, butler, memory_id);
CREATE INDEX memory_catalog_changed ON memory_catalog (tenant_id, change);
CREATE INDEX memory_catalog_search ON memory_catalog USING gin (search);
GRANT SELECT ON memory_catalog TO PUBLIC;

-- Puts a butler's fact into the catalog as it is now; null: it is not for all of the household, or no longer. Called by the
-- trigger on the butler's facts.
CREATE FUNCTION memory_publish(home text, tenant text, fact uuid, believed text, row_now jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    who text;
    before text := shared.trust();
BEGIN
    SELECT r.butler INTO who FROM shared.butler_roles r WHERE r.schema = home;
    IF row_now IS NULL AND NOT EXISTS (SELECT 1 FROM memory_catalog c
            WHERE c.tenant_id = tenant AND c.butler = who AND c.memory_id = fact AND c.live) THEN
        RETURN;
    END IF;
    -- Numbers become visible in their order.
    PERFORM pg_advisory_xact_lock(hashtextextended('memory_catalog ' || tenant, 0));
    PERFORM set_config('butlerd.trust', 'system', true);
    INSERT INTO memory_catalog (memory_id, change, butler, live, kind, subject, predicate, content, entity_id,
        object_entity_id, embedding, embedding_model, importance, confidence, decay_rate, retention_class, valid_from,
        valid_to, learned_at, last_confirmed_at, tenant_id, trust)
    SELECT fact, nextval('memory_catalog_changes'), who, row_now IS NOT NULL, r.kind, r.subject, r.predicate, r.content,
        r.entity_id, r.object_entity_id, r.embedding, r.embedding_model, r.importance, r.confidence, r.decay_rate,
        r.retention_class, r.valid_from, r.valid_to, r.learned_at, r.last_confirmed_at, tenant, believed
    FROM jsonb_populate_record(NULL::memory_catalog, coalesce(row_now, '{}')) r
    ON CONFLICT (tenant_id, butler, memory_id) DO UPDATE SET
        (change, live, kind, subject, predicate, content, entity_id, object_entity_id, embedding, embedding_model,
         importance, confidence, decay_rate, retention_class, valid_from, valid_to, learned_at, last_confirmed_at, trust) =
        (excluded.change, excluded.live, excluded.kind, excluded.subject, excluded.predicate, excluded.content,
         excluded.entity_id, excluded.object_entity_id, excluded.embedding, excluded.embedding_model, excluded.importance,
         excluded.confidence, excluded.decay_rate, excluded.retention_class, excluded.valid_from, excluded.valid_to,
         excluded.learned_at, excluded.last_confirmed_at, excluded.trust);
    PERFORM set_config('butlerd.trust', before, true);
END $$;
REVOKE EXECUTE ON FUNCTION memory_publish(text, text, uuid, text, jsonb) FROM PUBLIC;

-- Into which other entity an entity was merged.
ALTER TABLE entities ADD COLUMN merged_into uuid REFERENCES entities (id);
CREATE INDEX entities_named ON entities (tenant_id, lower(name)) WHERE merged_into IS NULL;

-- Whether a butler asks.
CREATE FUNCTION is_butler() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS
$$ SELECT EXISTS (SELECT 1 FROM shared.butler_roles r WHERE r.role = session_user) $$;

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

-- A text without these words. Where only the beginning of long words stands, because they were cut off there, it goes as
-- well; short words go only where they are all that there is.
CREATE FUNCTION scrubbed(doc text, needles text[]) RETURNS text LANGUAGE plpgsql IMMUTABLE SET search_path = shared, pg_temp AS $$
DECLARE
    needle text;
    start integer;
    low integer;
    high integer;
    middle integer;
    rest text;
BEGIN
    FOREACH needle IN ARRAY needles LOOP
        CONTINUE WHEN strpos(doc, left(needle, 40)) = 0;
        IF length(needle) < 12 THEN
            IF btrim(doc, E' \t\r\n') = needle THEN
                RETURN '[purged]';
            END IF;
            CONTINUE;
        END IF;
        doc := replace(doc, needle, '[purged]');
        start := 1;
        WHILE length(needle) > 40 LOOP
            low := strpos(substr(doc, start), left(needle, 40));
            EXIT WHEN low = 0;
            start := start + low - 1;
            rest := substr(doc, start, length(needle));
            low := 40;
            high := length(rest);
            WHILE low < high LOOP
                middle := (low + high + 1) / 2;
                IF left(rest, middle) = left(needle, middle) THEN low := middle; ELSE high := middle - 1; END IF;
            END LOOP;
            rest := substr(doc, start + low, 3);
            IF rest = '' OR rest = '...' OR rest LIKE '…%' OR rest LIKE '"%' OR rest LIKE '\\"%' THEN
                doc := left(doc, start - 1) || '[purged]' || substr(doc, start + low);
            END IF;
            start := start + 8;
        END LOOP;
    END LOOP;
    RETURN doc;
END $$;

-- The same for all texts in a document.
CREATE FUNCTION scrubbed_json(doc jsonb, needles text[]) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE
SET search_path = shared, pg_temp AS $$
BEGIN
    RETURN CASE jsonb_typeof(doc)
        WHEN 'string' THEN to_jsonb(shared.scrubbed(doc #>> '{}', needles))
        WHEN 'array' THEN (SELECT coalesce(jsonb_agg(shared.scrubbed_json(a.v, needles) ORDER BY a.n), '[]')
                           FROM jsonb_array_elements(doc) WITH ORDINALITY a (v, n))
        WHEN 'object' THEN (SELECT coalesce(jsonb_object_agg(
                                CASE WHEN length(o.key) < 12 THEN o.key ELSE shared.scrubbed(o.key, needles) END,
                                shared.scrubbed_json(o.value, needles)), '{}') FROM jsonb_each(doc) o)
        ELSE doc END;
END $$;

-- And for all texts in a list.
CREATE FUNCTION scrubbed_list(list text[], needles text[]) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN list IS NULL THEN NULL
           ELSE ARRAY(SELECT shared.scrubbed(a.v, needles) FROM unnest(list) WITH ORDINALITY a (v, n) ORDER BY a.n) END
$$;

-- Takes these words out of every text of the tenant in all tables of the household. Who is who stays (contacts, and the
-- names of entities), as do columns that butlerd itself goes by: what is called so there is another's to change.
-- `cleaned`: of each table how many places; `kept`: where it stands still.
CREATE FUNCTION scrub(needles text[], OUT cleaned jsonb, OUT kept jsonb) LANGUAGE plpgsql
SET search_path = shared, pg_temp AS $$
DECLARE
    believed text := shared.trust();
    -- As they are, and as JSON has them, which may stand in a text, and in JSON again.
    forms text[];
    begins text[];
    col record;
    how text;
    found text;
    spot record;
    n bigint;
    stays bigint;
BEGIN
    cleaned := '{}';
    kept := '{}';
    WITH RECURSIVE form AS (
        SELECT w AS f, 0 AS depth FROM unnest(needles) w WHERE w <> ''
        UNION
        SELECT substr(to_json(f)::text, 2, length(to_json(f)::text) - 2), depth + 1 FROM form WHERE depth < 3)
    SELECT array_agg(f ORDER BY length(f) DESC, f) INTO forms FROM (SELECT DISTINCT f FROM form) all_forms;
    IF forms IS NULL THEN
        RETURN;
    END IF;
    begins := ARRAY(SELECT DISTINCT left(f, 40) FROM unnest(forms) f);
    PERFORM set_config('butlerd.trust', 'system', true);
    PERFORM set_config('butlerd.memory_event', '', true);
    PERFORM set_config('butlerd.scrubbing', 'on', true);
    FOR col IN
        SELECT s.nspname AS home, c.relname AS rel, a.attname AS name, t.typname AS type, c.oid AS id,
               EXISTS (SELECT 1 FROM pg_attribute e WHERE e.attrelid = c.oid AND e.attname = 'embedding'
                       AND NOT e.attisdropped) AS embedded,
               s.nspname = 'shared' AND (c.relname IN ('contacts', 'contact_identities')
                   OR c.relname = 'entities' AND a.attname IN ('name', 'aliases')) AS stays,
               a.attname IN ('trust', 'timezone', 'cron', 'job_name', 'channel', 'endpoint', 'lane', 'model', 'runtime',
                   'tool', 'tool_name', 'butler', 'caller', 'origin', 'kind', 'state', 'node', 'claimed_by') AS own
        FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
        JOIN pg_type t ON t.oid = a.atttypid
        WHERE (s.nspname = 'shared' OR s.nspname IN (SELECT r.schema FROM shared.butler_roles r))
          AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
          AND a.attgenerated = '' AND t.typname IN ('text', 'varchar', 'bpchar', 'jsonb', 'json', '_text', '_varchar')
          AND a.attname <> 'tenant_id' AND (s.nspname, c.relname) <> ('shared', 'secrets')
          AND EXISTS (SELECT 1 FROM pg_attribute e WHERE e.attrelid = c.oid AND e.attname = 'tenant_id')
        ORDER BY 1, 2, a.attnum
    LOOP
        how := CASE WHEN col.type = 'jsonb' THEN format('shared.scrubbed_json(t.%I, $1)', col.name)
                    WHEN col.type = 'json' THEN format('shared.scrubbed_json(t.%I::jsonb, $1)::json', col.name)
                    WHEN col.type IN ('_text', '_varchar') THEN format('shared.scrubbed_list(t.%I::text[], $1)', col.name)
                    ELSE format('shared.scrubbed(t.%I::text, $1)', col.name) END;
        -- Looking is cheap and replacing is not: in this order, which a plain AND does not keep.
        found := format('t.tenant_id = shared.tenant()
            AND CASE WHEN EXISTS (SELECT 1 FROM unnest($2) b WHERE strpos(t.%1$I::text, b) > 0)
                THEN (%2$s)::text IS DISTINCT FROM t.%1$I::text ELSE false END', col.name, how);
        IF col.own THEN
            -- Its whole value is one of butlerd's words, whatever else is called so.
            found := found || format(' AND NOT t.%I::text = ANY($1)', col.name);
        END IF;
        n := 0;
        stays := 0;
        IF col.stays THEN
            EXECUTE format('SELECT count(*) FROM %I.%I t WHERE %s', col.home, col.rel, found) INTO stays USING forms, begins;
        ELSE
            how := format('UPDATE %I.%I t SET %I = %s', col.home, col.rel, col.name, how)
                || CASE WHEN col.embedded THEN ', embedding = NULL' ELSE '' END;
            BEGIN
                EXECUTE how || ' WHERE ' || found USING forms, begins;
                GET DIAGNOSTICS n = ROW_COUNT;
            EXCEPTION WHEN integrity_constraint_violation OR data_exception OR raise_exception OR insufficient_privilege THEN
                -- Row by row, then, so that one that can't be changed keeps back no other.
                FOR spot IN EXECUTE format('SELECT t.ctid AS at FROM %I.%I t WHERE %s', col.home, col.rel, found)
                    USING forms, begins
                LOOP
                    BEGIN
                        EXECUTE how || ' WHERE t.ctid = $3 AND $2 IS NOT NULL' USING forms, begins, spot.at;
                        n := n + 1;
                    EXCEPTION WHEN integrity_constraint_violation OR data_exception OR raise_exception
                                   OR insufficient_privilege THEN
                        stays := stays + 1;
                    END;
                END LOOP;
            END;
        END IF;
        found := col.home || '.' || col.rel;
        IF n > 0 THEN
            cleaned := cleaned || jsonb_build_object(found, coalesce((cleaned ->> found)::bigint, 0) + n);
        END IF;
        IF stays > 0 THEN
            kept := kept || jsonb_build_object(found, coalesce((kept ->> found)::bigint, 0) + stays);
        END IF;
    END LOOP;
    -- A memory of which nothing else is left is gone as well.
    FOR col IN SELECT s.nspname AS home, c.relname AS rel FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
               WHERE s.nspname IN (SELECT r.schema FROM shared.butler_roles r)
                 AND c.relname IN ('memory_episodes', 'memory_facts', 'memory_rules')
    LOOP
        EXECUTE format('UPDATE %I.%I SET forgotten_at = coalesce(forgotten_at, shared.clock()), purged_at = shared.clock()
            WHERE tenant_id = shared.tenant() AND content = ''[purged]'' AND purged_at IS NULL', col.home, col.rel);
    END LOOP;
    PERFORM set_config('butlerd.scrubbing', '', true);
    PERFORM set_config('butlerd.trust', believed, true);
END $$;
REVOKE EXECUTE ON FUNCTION scrub(text[]) FROM PUBLIC;
