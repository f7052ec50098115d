-- Taking words out of the whole household, for good.
-- Runs as the owner role with search_path = shared.

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
                   'tool', 'tool_name', 'butler', 'caller', 'origin', 'kind', 'direction', 'state', 'node', 'claimed_by') AS own
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
