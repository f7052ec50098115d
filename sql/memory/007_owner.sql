-- What only the owner does with memories: purging them, taking them out of the house and bringing them in.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Temporary tables of whoever calls are looked at last.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

-- Refuses whoever is not the owner (BD003).
CREATE FUNCTION memory_owner_only() RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF shared.trust() <> 'owner' THEN
        RAISE EXCEPTION 'only the owner may do this with memories' USING ERRCODE = 'BD003';
    END IF;
END $$;

-- Forgets a memory for good: its words are taken out of it, of what it was before, and of all tables of the household;
-- its hashes stay, so that it is not taken in again. Null: there is no such one. Else what was done: `cleaned` and `kept`
-- of scrub(), `sources` and `derived` (memories that may still tell of it), `running` sessions that may have its words in
-- mind, `looked_for`: whether its words are more than one of the house's own, which stand where they stand.
CREATE FUNCTION memory_purge(kind text, which uuid, by jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := shared.trust();
    held jsonb;
    said text[];
    needles text[];
    event uuid;
    sources jsonb;
    derived jsonb;
    running bigint;
    done record;
BEGIN
    PERFORM memory_owner_only();
    PERFORM memory_lock();
    held := memory_row(kind, which);
    IF held IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(DISTINCT w) FILTER (WHERE w <> '') INTO said FROM (
        SELECT held ->> 'content' UNION ALL SELECT held #>> '{metadata,turned_from}'
        UNION ALL SELECT h.before ->> 'content' FROM memory_history h
        WHERE h.memory_id = which AND h.tenant_id = shared.tenant()) words (w);
    -- Short ones that look like a name, a number or a setting stand for that everywhere else.
    SELECT array_agg(DISTINCT form) INTO needles FROM unnest(said) w CROSS JOIN LATERAL (
        VALUES (w), (btrim(regexp_replace(w, '[\s\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000[:cntrl:]]+', ' ', 'g')))) f (form)
    WHERE NOT (length(form) < 12 AND form ~ '^[a-z0-9_.:/+-]*$') AND form !~ '^[a-z]+([_.][a-z]+)+$';
    SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object('memory_type', 'episode', 'memory_id', e.id)), '[]') INTO sources
    FROM memory_episodes e
    WHERE e.tenant_id = shared.tenant() AND e.forgotten_at IS NULL AND e.id <> which
      AND (e.id = (held ->> 'source_episode_id')::uuid
           OR e.id IN (SELECT l.target_id FROM memory_links l WHERE l.source_id = which AND l.relation IN ('derived_from', 'supports')));
    SELECT coalesce(jsonb_agg(jsonb_build_object('memory_type', d.of, 'memory_id', d.id)), '[]') INTO derived FROM (
        SELECT 'fact' AS of, f.id FROM memory_facts f WHERE f.tenant_id = shared.tenant() AND f.source_episode_id = which
            AND f.forgotten_at IS NULL
        UNION ALL
        SELECT 'fact', f.id FROM memory_facts f WHERE f.tenant_id = shared.tenant() AND f.id = (held ->> 'merged_into')::uuid
            AND f.forgotten_at IS NULL
        UNION ALL
        SELECT 'rule', r.id FROM memory_rules r WHERE r.tenant_id = shared.tenant() AND r.source_episode_id = which
            AND r.forgotten_at IS NULL) d;
    SELECT count(*) INTO running FROM sessions s WHERE s.tenant_id = shared.tenant() AND s.state IN ('queued', 'running');
    event := memory_event(by || jsonb_build_object('event_type', 'purged', 'memory_type', kind, 'memory_id', which));
    -- How it was before is not kept.
    PERFORM set_config('butlerd.memory_event', '', true);
    PERFORM set_config('butlerd.trust', 'system', true);
    DELETE FROM memory_history h WHERE h.memory_id = which AND h.tenant_id = shared.tenant();
    UPDATE memory_events e SET reason = NULL, payload = '{}' WHERE e.memory_id = which AND e.tenant_id = shared.tenant();
    CASE kind
    WHEN 'episode' THEN
        UPDATE memory_episodes m SET content = '', speaker = NULL, metadata = '{}', embedding = NULL, embedding_model = NULL,
            last_error = NULL, consolidation = CASE WHEN m.consolidation IN ('pending', 'failed') THEN 'left_out' ELSE m.consolidation END,
            forgotten_at = coalesce(m.forgotten_at, shared.clock()), purged_at = coalesce(m.purged_at, shared.clock())
        WHERE m.id = which;
    WHEN 'fact' THEN
        UPDATE memory_facts m SET content = '', subject = '', predicate = '', tags = '{}', metadata = '{}', embedding = NULL,
            embedding_model = NULL,
            forgotten_at = coalesce(m.forgotten_at, shared.clock()), purged_at = coalesce(m.purged_at, shared.clock())
        WHERE m.id = which;
    WHEN 'rule' THEN
        UPDATE memory_rules m SET content = '', tags = '{}', metadata = '{}', embedding = NULL, embedding_model = NULL,
            forgotten_at = coalesce(m.forgotten_at, shared.clock()), purged_at = coalesce(m.purged_at, shared.clock())
        WHERE m.id = which;
    END CASE;
    SELECT s.cleaned, s.kept INTO done FROM shared.scrub(coalesce(needles, '{}')) s;
    PERFORM set_config('butlerd.trust', believed, true);
    RETURN jsonb_build_object('event', event, 'cleaned', done.cleaned, 'kept', done.kept, 'sources', sources,
        'derived', derived, 'running', running, 'looked_for', said IS NULL OR needles IS NOT NULL,
        'whole_values_only', coalesce((SELECT bool_or(length(w) < 12) FROM unnest(said) w), false),
        'before', CASE WHEN held ->> 'purged_at' IS NULL THEN 'there' ELSE 'purged' END);
END $$;

-- A memory's row as it leaves the house: what the next one makes anew is left out, and of what was forgotten the text.
CREATE FUNCTION memory_outside(of jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN of ->> 'forgotten_at' IS NULL THEN r ELSE r
        || CASE WHEN r ? 'subject' THEN '{"subject": "", "predicate": ""}' ELSE '{}' END::jsonb
        || CASE WHEN r ? 'tags' THEN '{"tags": []}' ELSE '{}' END::jsonb
        || CASE WHEN r ? 'speaker' THEN '{"speaker": null, "last_error": null}' ELSE '{}' END::jsonb
        || '{"content": "", "metadata": {}}' END
    FROM (SELECT of - '{search,of_owner,embedding,embedding_model,change,seq,tenant_id,claim_id,claimed_by,lease_until,available_at,compare_attempts,compare_error}'::text[]) o (r)
$$;

-- Whether a memory is there and not forgotten.
CREATE FUNCTION memory_lives(which uuid) RETURNS boolean
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT EXISTS (SELECT 1 FROM memory_facts m WHERE m.id = which AND m.tenant_id = shared.tenant() AND m.forgotten_at IS NULL)
        OR EXISTS (SELECT 1 FROM memory_rules m WHERE m.id = which AND m.tenant_id = shared.tenant() AND m.forgotten_at IS NULL)
        OR EXISTS (SELECT 1 FROM memory_episodes m WHERE m.id = which AND m.tenant_id = shared.tenant() AND m.forgotten_at IS NULL)
$$;

-- All that is remembered, from `after` on, at most so many lines, in an order in which they can be brought in.
CREATE FUNCTION memory_export(after text, most integer) RETURNS TABLE (place text, type text, line jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    step integer := coalesce(nullif(split_part(after, ':', 1), '')::integer, 1);
    key text := coalesce(substr(after, strpos(after, ':') + 1), '');
    got integer;
    kinds text[] := ARRAY['policy', 'predicate', 'entity', 'episode', 'fact', 'rule', 'link', 'event', 'history'];
    ways text[] := ARRAY[
        $q$ SELECT m.retention_class AS k, to_jsonb(m) - 'tenant_id' AS r FROM memory_policies m
            WHERE m.tenant_id = shared.tenant() AND m.retention_class COLLATE "C" > $1
            ORDER BY m.retention_class COLLATE "C" $q$,
        $q$ SELECT m.name AS k, to_jsonb(m) - 'tenant_id' AS r FROM memory_predicates m
            WHERE m.tenant_id = shared.tenant() AND m.name COLLATE "C" > $1 ORDER BY m.name COLLATE "C" $q$,
        -- Those that facts speak of, each after the one that it was merged into.
        $q$ WITH RECURSIVE spoken AS (
                SELECT f.entity_id AS id FROM memory_facts f WHERE f.tenant_id = shared.tenant() AND f.entity_id IS NOT NULL
                UNION SELECT f.object_entity_id FROM memory_facts f
                WHERE f.tenant_id = shared.tenant() AND f.object_entity_id IS NOT NULL
                UNION SELECT e.merged_into FROM spoken s JOIN shared.entities e ON e.id = s.id WHERE e.merged_into IS NOT NULL),
            deep AS (
                SELECT e.id, e.merged_into AS next, 0 AS depth FROM shared.entities e JOIN spoken s ON s.id = e.id
                WHERE e.tenant_id = shared.tenant()
                UNION ALL SELECT d.id, e.merged_into, d.depth + 1 FROM deep d JOIN shared.entities e ON e.id = d.next
                WHERE d.depth < 32),
            placed AS (SELECT d.id, lpad(max(d.depth)::text, 2, '0') || d.id AS k FROM deep d GROUP BY d.id)
            SELECT p.k, to_jsonb(e) - 'tenant_id' AS r FROM placed p JOIN shared.entities e ON e.id = p.id
            WHERE p.k COLLATE "C" > $1 ORDER BY p.k COLLATE "C" $q$,
        $q$ SELECT m.seq::text AS k, memory_outside(to_jsonb(m)) AS r FROM memory_episodes m
            WHERE m.tenant_id = shared.tenant() AND m.seq > coalesce(nullif($1, ''), '0')::bigint ORDER BY m.seq $q$,
        $q$ SELECT m.seq::text AS k, memory_outside(to_jsonb(m)) AS r FROM memory_facts m
            WHERE m.tenant_id = shared.tenant() AND m.seq > coalesce(nullif($1, ''), '0')::bigint ORDER BY m.seq $q$,
        $q$ SELECT m.seq::text AS k, memory_outside(to_jsonb(m)) AS r FROM memory_rules m
            WHERE m.tenant_id = shared.tenant() AND m.seq > coalesce(nullif($1, ''), '0')::bigint ORDER BY m.seq $q$,
        $q$ SELECT o.k, o.r FROM (SELECT m.source_id || m.target_id::text || m.relation AS k, to_jsonb(m) - 'tenant_id' AS r
                FROM memory_links m WHERE m.tenant_id = shared.tenant()) o
            WHERE o.k COLLATE "C" > $1 ORDER BY o.k COLLATE "C" $q$,
        -- Why something was done to what is forgotten now may tell of it.
        $q$ SELECT m.seq::text AS k, to_jsonb(m) - '{tenant_id,seq}'::text[]
                || CASE WHEN m.memory_type = 'entity' OR memory_lives(m.memory_id) THEN '{}'
                   ELSE '{"reason": null, "payload": {}}' END::jsonb AS r
            FROM memory_events m
            WHERE m.tenant_id = shared.tenant() AND m.seq > coalesce(nullif($1, ''), '0')::bigint ORDER BY m.seq $q$,
        $q$ SELECT m.change::text AS k,
                jsonb_build_object('event_id', m.event_id, 'memory_type', m.memory_type, 'memory_id', m.memory_id,
                                   'trust', m.trust, 'before', CASE WHEN m.before IS NOT NULL THEN memory_outside(m.before) END) AS r
            FROM memory_history m
            WHERE m.tenant_id = shared.tenant() AND memory_lives(m.memory_id)
              AND m.change > coalesce(nullif($1, ''), '0')::bigint ORDER BY m.change $q$];
BEGIN
    PERFORM memory_owner_only();
    WHILE step <= cardinality(ways) AND most > 0 LOOP
        RETURN QUERY EXECUTE format('SELECT %L || '':'' || q.k, %L, q.r FROM (%s LIMIT $2) q', step, kinds[step], ways[step])
            USING key, most;
        GET DIAGNOSTICS got = ROW_COUNT;
        most := most - got;
        step := step + 1;
        key := '';
    END LOOP;
END $$;

-- The id that something brought in has here: its own, or one made of it where another tenant has that one already.
CREATE FUNCTION memory_id_here(given uuid) RETURNS uuid
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT CASE WHEN EXISTS (SELECT 1 FROM memory_facts m WHERE m.id = given AND m.tenant_id <> shared.tenant())
                  OR EXISTS (SELECT 1 FROM memory_rules m WHERE m.id = given AND m.tenant_id <> shared.tenant())
                  OR EXISTS (SELECT 1 FROM memory_episodes m WHERE m.id = given AND m.tenant_id <> shared.tenant())
                  OR EXISTS (SELECT 1 FROM memory_events m WHERE m.id = given AND m.tenant_id <> shared.tenant())
                  OR EXISTS (SELECT 1 FROM shared.entities m WHERE m.id = given AND m.tenant_id <> shared.tenant())
           THEN md5(shared.tenant() || ':' || given)::uuid ELSE given END
$$;

-- A row with the ids that its things have here; facts speak of the entity that stands for theirs.
CREATE FUNCTION memory_row_here(given jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT given || coalesce(jsonb_object_agg(k, CASE WHEN k IN ('entity_id', 'object_entity_id')
            THEN coalesce(shared.entity_now(memory_id_here((given ->> k)::uuid)), memory_id_here((given ->> k)::uuid))
            ELSE memory_id_here((given ->> k)::uuid) END), '{}')
    FROM unnest(ARRAY['id', 'source_episode_id', 'supersedes_id', 'entity_id', 'object_entity_id', 'source_id', 'target_id',
                      'memory_id', 'undoes', 'event_id', 'merged_into']) k
    WHERE given ->> k IS NOT NULL
$$;

-- Brings in one line of an export. `added`; `there`: it is here already; `forgotten`: the same was forgotten here, and does
-- not come back; `taken`: what it says has another value here, which stays.
CREATE FUNCTION memory_import(type text, given jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := shared.trust();
    into_table text := CASE type WHEN 'policy' THEN 'memory_policies' WHEN 'predicate' THEN 'memory_predicates'
        WHEN 'entity' THEN 'entities' WHEN 'episode' THEN 'memory_episodes' WHEN 'fact' THEN 'memory_facts'
        WHEN 'rule' THEN 'memory_rules' WHEN 'link' THEN 'memory_links' WHEN 'event' THEN 'memory_events'
        WHEN 'history' THEN 'memory_history' END;
    home text := CASE WHEN type = 'entity' THEN 'shared' ELSE current_schema() END;
    here jsonb;
    columns text;
    unknown text;
    n bigint;
    same boolean;
BEGIN
    IF into_table IS NULL THEN
        RAISE EXCEPTION 'there is no type %', coalesce(to_json(type)::text, 'null') USING ERRCODE = '22023';
    END IF;
    IF believed NOT IN ('owner', 'known') THEN
        PERFORM memory_owner_only();
    END IF;
    PERFORM memory_lock();
    here := memory_row_here(given);
    -- As it was believed, but no more than whoever brings it.
    IF NOT coalesce(given ->> 'trust' IN ('owner', 'system', 'known', 'stranger'), false) THEN
        RAISE EXCEPTION 'trust is missing, or none of owner, system, known, stranger' USING ERRCODE = '22023';
    END IF;
    IF believed = 'known' AND given ->> 'trust' IN ('owner', 'system') THEN
        here := here || '{"trust": "known"}';
    END IF;
    IF type IN ('episode', 'fact', 'rule') AND here ->> 'forgotten_at' IS NULL THEN
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I m WHERE m.tenant_id = shared.tenant() AND m.content_hash = $1 AND m.id <> $2
            AND m.forgotten_at IS NOT NULL %s)', into_table,
            CASE type WHEN 'fact' THEN 'AND m.topic_hash = $3' WHEN 'rule' THEN 'AND m.scope = $4' ELSE '' END)
            INTO same USING here ->> 'content_hash', (here ->> 'id')::uuid, here ->> 'topic_hash', here ->> 'scope';
        IF same THEN
            RETURN 'forgotten';
        END IF;
    END IF;
    -- A wording goes the way of its fact.
    IF type = 'fact' AND here ->> 'merged_into' IS NOT NULL AND here ->> 'forgotten_at' IS NULL THEN
        SELECT m.forgotten_at IS NOT NULL INTO same FROM memory_facts m
        WHERE m.id = (here ->> 'merged_into')::uuid AND m.tenant_id = shared.tenant();
        IF same IS DISTINCT FROM false THEN
            RETURN CASE WHEN same THEN 'forgotten' ELSE 'taken' END;
        END IF;
    END IF;
    IF type = 'history' THEN
        -- Of what is gone nothing comes back this way.
        IF NOT memory_lives((here ->> 'memory_id')::uuid) THEN
            RETURN 'there';
        END IF;
        here := here || jsonb_build_object('change', nextval('memory_changes'), 'before',
            CASE WHEN jsonb_typeof(here -> 'before') = 'object' THEN memory_row_here(here -> 'before') END);
    END IF;
    IF type = 'entity' AND here ->> 'merged_into' IS NULL THEN
        -- One that is known here by the same name is the same.
        here := here || coalesce((SELECT jsonb_build_object('merged_into', e.id) FROM shared.entities e
            WHERE e.tenant_id = shared.tenant() AND e.merged_into IS NULL AND e.kind = here ->> 'kind'
              AND lower(e.name) = lower(here ->> 'name') AND e.id <> (here ->> 'id')::uuid ORDER BY e.created_at LIMIT 1), '{}');
    END IF;
    SELECT string_agg(quote_ident(a.attname), ', '), (SELECT min(k) FROM jsonb_object_keys(here) k
               WHERE k NOT IN (SELECT b.attname FROM pg_attribute b WHERE b.attrelid = format('%I.%I', home, into_table)::regclass
                               AND b.attnum > 0 AND b.attgenerated = '' AND b.attidentity = '' AND b.attname <> 'tenant_id'))
    INTO columns, unknown
    FROM pg_attribute a
    WHERE a.attrelid = format('%I.%I', home, into_table)::regclass AND a.attnum > 0 AND NOT a.attisdropped
      AND a.attgenerated = '' AND a.attidentity = '' AND a.attname <> 'tenant_id' AND here ? a.attname;
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'a % has no %', type, to_json(unknown)::text USING ERRCODE = '22023';
    END IF;
    PERFORM set_config('butlerd.memory_event', '', true);
    PERFORM set_config('butlerd.trust', 'system', true);
    EXECUTE format('INSERT INTO %1$I.%2$I (%3$s, tenant_id) SELECT %3$s, shared.tenant()
        FROM jsonb_populate_record(NULL::%1$I.%2$I, $1) ON CONFLICT DO NOTHING', home, into_table, columns) USING here;
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM set_config('butlerd.trust', believed, true);
    IF n > 0 THEN
        RETURN 'added';
    END IF;
    IF type IN ('episode', 'fact', 'rule') THEN
        EXECUTE format('SELECT NOT EXISTS (SELECT 1 FROM %I m WHERE m.id = $1)', into_table)
            INTO same USING (here ->> 'id')::uuid;
        IF same THEN
            RETURN 'taken';
        END IF;
    END IF;
    RETURN 'there';
END $$;

-- Which memories, or events, have an id that begins so.
CREATE FUNCTION memory_named(beginning text) RETURNS TABLE (memory_type text, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT 'fact', m.id FROM memory_facts m WHERE m.tenant_id = shared.tenant() AND starts_with(m.id::text, lower(beginning))
    UNION ALL
    SELECT 'rule', m.id FROM memory_rules m WHERE m.tenant_id = shared.tenant() AND starts_with(m.id::text, lower(beginning))
    UNION ALL
    SELECT 'episode', m.id FROM memory_episodes m WHERE m.tenant_id = shared.tenant() AND starts_with(m.id::text, lower(beginning))
    UNION ALL
    SELECT 'event', m.id FROM memory_events m WHERE m.tenant_id = shared.tenant() AND starts_with(m.id::text, lower(beginning))
    LIMIT 20
$$;
