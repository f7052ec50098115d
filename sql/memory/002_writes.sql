-- How memories are written: by these functions alone, each for the tenant of its transaction.
-- Runs as the owner role with search_path = <schema>, shared, public.
--
-- They work as the owner, so that a row which is only compared or replaced does not lower the trust of the transaction;
-- what is written has the trust that the transaction has when the function is called.

-- Temporary tables of whoever calls are looked at last.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

-- One writer at a time for each tenant: what it compares with stays as it is, and changes become visible in their order.
CREATE FUNCTION memory_lock() RETURNS void LANGUAGE sql SET search_path FROM CURRENT AS
$$ SELECT pg_advisory_xact_lock(hashtextextended('memory ' || current_schema() || ' ' || shared.tenant(), 0)) $$;

-- Numbers a change, and keeps the row as it was for the event that is under way.
CREATE FUNCTION memory_step() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    event uuid := nullif(current_setting('butlerd.memory_event', true), '')::uuid;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('memory ' || TG_TABLE_SCHEMA || ' ' || NEW.tenant_id, 0));
    NEW.change := nextval('memory_changes');
    IF event IS NOT NULL THEN
        INSERT INTO memory_history (event_id, memory_type, memory_id, change, before, tenant_id)
        VALUES (event, rtrim(replace(TG_TABLE_NAME, 'memory_', ''), 's'), NEW.id, NEW.change,
                CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(OLD)
                    - '{embedding,search,of_owner,change,compared,compare_attempts,compare_error}'::text[] END, NEW.tenant_id)
        ON CONFLICT (event_id, memory_id) DO UPDATE SET change = excluded.change;
    END IF;
    RETURN NEW;
END $$;
-- Not of claims and their ends, which are no change of what is remembered and must not wait for a writer.
CREATE TRIGGER memory_step BEFORE INSERT OR UPDATE OF butler, session_id, request_id, speaker, content, content_hash,
    embedding, embedding_model, importance, retention_class, sensitivity, metadata, idempotency_key, reference_count,
    last_referenced_at, occurred_at, created_at, expires_at, forgotten_at, purged_at, trust
    ON memory_episodes FOR EACH ROW EXECUTE FUNCTION memory_step();
-- Nor of the asking whether facts say the same.
CREATE TRIGGER memory_step BEFORE INSERT OR UPDATE OF kind, subject, predicate, content, content_hash, topic_hash, entity_id,
    object_entity_id, embedding, embedding_model, importance, confidence, permanence, decay_rate, scope, validity,
    merged_into, tags, metadata, valid_from, valid_to, learned_at, last_confirmed_at, confirmations, supersedes_id,
    source_butler, source_episode_id, session_id, request_id, retention_class, sensitivity, idempotency_key,
    reference_count, last_referenced_at, created_at, forgotten_at, purged_at, trust ON memory_facts FOR EACH ROW EXECUTE FUNCTION memory_step();
CREATE TRIGGER memory_step BEFORE INSERT OR UPDATE ON memory_rules FOR EACH ROW EXECUTE FUNCTION memory_step();

-- Begins an event: what the transaction changes from here on belongs to it. `did` has event_type, memory_type, memory_id,
-- actor, and may have session_id, request_id, reason, payload, undoes.
CREATE FUNCTION memory_event(did jsonb) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    id uuid;
BEGIN
    PERFORM memory_lock();
    INSERT INTO memory_events (event_type, memory_type, memory_id, actor, session_id, request_id, reason, payload, undoes)
    VALUES (did ->> 'event_type', did ->> 'memory_type', (did ->> 'memory_id')::uuid, did ->> 'actor',
            (did ->> 'session_id')::uuid, (did ->> 'request_id')::uuid, did ->> 'reason',
            coalesce(did -> 'payload', '{}'), (did ->> 'undoes')::uuid)
    RETURNING memory_events.id INTO id;
    PERFORM set_config('butlerd.memory_event', id::text, true);
    RETURN id;
END $$;

-- Adds a memory: `given` has the columns that are not to be their defaults.
CREATE FUNCTION memory_put(kind text, given jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := shared.trust();
    now timestamptz := shared.clock();
    base jsonb;
BEGIN
    PERFORM memory_lock();
    base := jsonb_build_object('created_at', now, 'importance', 5, 'sensitivity', 'normal', 'metadata', '{}'::jsonb,
                               'reference_count', 0, 'attempts', 0, 'available_at', clock_timestamp());
    CASE kind
    WHEN 'episode' THEN
        INSERT INTO memory_episodes (id, butler, session_id, request_id, speaker, content, content_hash, embedding,
            embedding_model, importance, retention_class, sensitivity, metadata, idempotency_key, reference_count,
            last_referenced_at, occurred_at, created_at, expires_at, consolidation, trust)
        SELECT r.id, r.butler, r.session_id, r.request_id, r.speaker, r.content, r.content_hash, r.embedding,
            r.embedding_model, r.importance, r.retention_class, r.sensitivity, r.metadata, r.idempotency_key,
            r.reference_count, r.last_referenced_at, r.occurred_at, r.created_at, r.expires_at, r.consolidation, believed
        FROM jsonb_populate_record(NULL::memory_episodes, base
            || jsonb_build_object('occurred_at', now, 'retention_class', 'transient', 'consolidation', 'pending')
            || given) r;
    WHEN 'fact' THEN
        INSERT INTO memory_facts (id, kind, subject, predicate, content, content_hash, topic_hash, entity_id,
            object_entity_id, embedding, embedding_model, importance, confidence, permanence, decay_rate, scope, validity,
            tags, metadata, valid_from, valid_to, learned_at, last_confirmed_at, confirmations, supersedes_id,
            source_butler, source_episode_id, session_id, request_id, retention_class, sensitivity, idempotency_key,
            reference_count, last_referenced_at, created_at, trust)
        SELECT r.id, r.kind, r.subject, r.predicate, r.content, r.content_hash, r.topic_hash, r.entity_id,
            r.object_entity_id, r.embedding, r.embedding_model, r.importance, r.confidence, r.permanence, r.decay_rate,
            r.scope, r.validity, r.tags, r.metadata, r.valid_from, r.valid_to, r.learned_at, r.last_confirmed_at,
            r.confirmations, r.supersedes_id, r.source_butler, r.source_episode_id, r.session_id, r.request_id,
            r.retention_class, r.sensitivity, r.idempotency_key, r.reference_count, r.last_referenced_at, r.created_at,
            believed
        FROM jsonb_populate_record(NULL::memory_facts, base
            || jsonb_build_object('kind', 'property', 'confidence', 1, 'permanence', 'standard', 'decay_rate', 0.008,
                   'scope', 'global', 'validity', 'active', 'tags', '[]'::jsonb, 'learned_at', now,
                   'last_confirmed_at', now, 'confirmations', 0, 'retention_class', 'operational')
            || given) r;
    WHEN 'rule' THEN
        INSERT INTO memory_rules (id, content, content_hash, embedding, embedding_model, scope, maturity, importance,
            confidence, permanence, decay_rate, effectiveness, applied_count, success_count, harmful_count, validity,
            tags, metadata, learned_at, last_confirmed_at, source_butler, source_episode_id, session_id, request_id,
            retention_class, sensitivity, idempotency_key, reference_count, last_referenced_at, created_at, trust)
        SELECT r.id, r.content, r.content_hash, r.embedding, r.embedding_model, r.scope, r.maturity, r.importance,
            r.confidence, r.permanence, r.decay_rate, r.effectiveness, r.applied_count, r.success_count, r.harmful_count,
            r.validity, r.tags, r.metadata, r.learned_at, r.last_confirmed_at, r.source_butler, r.source_episode_id,
            r.session_id, r.request_id, r.retention_class, r.sensitivity, r.idempotency_key, r.reference_count,
            r.last_referenced_at, r.created_at, believed
        FROM jsonb_populate_record(NULL::memory_rules, base
            || jsonb_build_object('scope', 'global', 'maturity', 'candidate', 'confidence', 0.5, 'permanence', 'standard',
                   'decay_rate', 0.01, 'effectiveness', 0, 'applied_count', 0, 'success_count', 0, 'harmful_count', 0,
                   'validity', 'active', 'tags', '[]'::jsonb, 'learned_at', now, 'last_confirmed_at', now,
                   'retention_class', 'rule')
            || given) r;
    END CASE;
END $$;

-- Changes columns of a memory. False: there is no such one. What the household knows is not changed on a stranger's word
-- (BD002). The row keeps its trust, unless its text is changed. A new text without its vector has none yet.
CREATE FUNCTION memory_patch(kind text, which uuid, given jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := shared.trust();
    held text;
BEGIN
    PERFORM memory_lock();
    CASE kind
        WHEN 'episode' THEN SELECT trust INTO held FROM memory_episodes WHERE id = which AND tenant_id = shared.tenant();
        WHEN 'fact' THEN SELECT trust INTO held FROM memory_facts WHERE id = which AND tenant_id = shared.tenant();
        WHEN 'rule' THEN SELECT trust INTO held FROM memory_rules WHERE id = which AND tenant_id = shared.tenant();
    END CASE;
    IF held IS NULL THEN
        RETURN false;
    END IF;
    IF believed = 'stranger' AND held <> 'stranger' THEN
        RAISE EXCEPTION 'what the household knows is not changed on the word of a stranger' USING ERRCODE = 'BD002';
    END IF;
    IF given ? 'content' AND (believed = 'known' AND held IN ('owner', 'system')) THEN
        held := believed;
    END IF;
    -- The trust is decided on here, and not by the trigger that lowers it.
    PERFORM set_config('butlerd.trust', 'system', true);
    CASE kind
    WHEN 'episode' THEN
        UPDATE memory_episodes m SET (content, speaker, importance, retention_class, sensitivity, metadata, expires_at,
                embedding, embedding_model, content_hash, consolidation, forgotten_at, trust) =
            (SELECT r.content, r.speaker, r.importance, r.retention_class, r.sensitivity, r.metadata, r.expires_at,
                CASE WHEN given ? 'embedding' OR r.content = m.content THEN r.embedding END, r.embedding_model,
                r.content_hash, r.consolidation, r.forgotten_at, held
             FROM jsonb_populate_record(m, given) r)
        WHERE m.id = which;
    WHEN 'fact' THEN
        UPDATE memory_facts m SET (subject, predicate, content, content_hash, topic_hash, kind, entity_id,
                object_entity_id, embedding, embedding_model, importance, confidence, permanence, decay_rate, scope,
                validity, merged_into, tags, metadata, valid_from, valid_to, last_confirmed_at, confirmations,
                supersedes_id, source_episode_id, retention_class, sensitivity, forgotten_at, trust) =
            (SELECT r.subject, r.predicate, r.content, r.content_hash, r.topic_hash, r.kind, r.entity_id,
                r.object_entity_id,
                CASE WHEN given ? 'embedding' OR r.content = m.content AND r.subject = m.subject THEN r.embedding END,
                r.embedding_model, r.importance, r.confidence, r.permanence, r.decay_rate, r.scope, r.validity,
                r.merged_into, r.tags, r.metadata, r.valid_from, r.valid_to, r.last_confirmed_at, r.confirmations,
                r.supersedes_id, r.source_episode_id, r.retention_class, r.sensitivity, r.forgotten_at, held
             FROM jsonb_populate_record(m, given) r)
        WHERE m.id = which;
    WHEN 'rule' THEN
        UPDATE memory_rules m SET (content, content_hash, embedding, embedding_model, scope, maturity, importance,
                confidence, permanence, decay_rate, effectiveness, applied_count, success_count, harmful_count, validity,
                tags, metadata, last_confirmed_at, source_episode_id, retention_class, sensitivity, forgotten_at, trust) =
            (SELECT r.content, r.content_hash,
                CASE WHEN given ? 'embedding' OR r.content = m.content THEN r.embedding END, r.embedding_model, r.scope,
                r.maturity, r.importance, r.confidence, r.permanence, r.decay_rate, r.effectiveness, r.applied_count, r.success_count,
                r.harmful_count, r.validity, r.tags, r.metadata, r.last_confirmed_at, r.source_episode_id,
                r.retention_class, r.sensitivity, r.forgotten_at, held
             FROM jsonb_populate_record(m, given) r)
        WHERE m.id = which;
    END CASE;
    PERFORM set_config('butlerd.trust', believed, true);
    RETURN true;
END $$;

-- Ties two memories together; once.
CREATE FUNCTION memory_link(from_type text, from_id uuid, to_type text, to_id uuid, how text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    INSERT INTO memory_links (source_type, source_id, target_type, target_id, relation)
    VALUES (from_type, from_id, to_type, to_id, how) ON CONFLICT DO NOTHING
$$;

-- Notes that these memories were recalled just now. Theirs is no event, and their trust stays.
CREATE FUNCTION memory_touch(ids uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := shared.trust();
BEGIN
    PERFORM memory_lock();
    PERFORM set_config('butlerd.trust', 'system', true);
    UPDATE memory_facts SET reference_count = reference_count + 1, last_referenced_at = shared.clock()
    WHERE id = ANY(ids) AND tenant_id = shared.tenant();
    UPDATE memory_rules SET reference_count = reference_count + 1, last_referenced_at = shared.clock()
    WHERE id = ANY(ids) AND tenant_id = shared.tenant();
    UPDATE memory_episodes SET reference_count = reference_count + 1, last_referenced_at = shared.clock()
    WHERE id = ANY(ids) AND tenant_id = shared.tenant();
    PERFORM set_config('butlerd.trust', believed, true);
END $$;

-- Gives a memory the vector of a model. Its text stays, so this is no event.
CREATE FUNCTION memory_vector(kind text, which uuid, vector bytea, model text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := shared.trust();
BEGIN
    PERFORM memory_lock();
    PERFORM set_config('butlerd.trust', 'system', true);
    EXECUTE format('UPDATE memory_%ss SET embedding = $2, embedding_model = $3
                    WHERE id = $1 AND tenant_id = shared.tenant() AND purged_at IS NULL', kind) USING which, vector, model;
    PERFORM set_config('butlerd.trust', believed, true);
END $$;

-- With which facts a new one is to be compared: those of its topic, those of the same words, what was forgotten of the
-- same source, the one with its key, and what its session was told; and each one's other wordings, which come after it with
-- its id in `wording_of`. Forgotten ones count: they are not to come back by themselves.
CREATE FUNCTION memory_fact_rivals(topic text, hash text, source uuid, key text, told uuid[])
RETURNS TABLE (id uuid, wording_of uuid, kind text, subject text, predicate text, scope text, content text, content_hash text,
               topic_hash text, entity_id uuid, object_entity_id uuid, embedding bytea, embedding_model text,
               validity text, valid_from timestamptz, valid_to timestamptz, learned_at timestamptz, trust text,
               source_episode_id uuid, forgotten_at timestamptz, purged_at timestamptz, idempotency_key text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH found AS (
        SELECT coalesce(f.merged_into, f.id) AS id, row_number() OVER (
            -- Of many, those that decide: the same words, the value that holds, and then the newest.
            ORDER BY (f.idempotency_key IS NOT DISTINCT FROM key AND key IS NOT NULL) DESC,
                     (f.topic_hash = topic AND f.content_hash = hash) DESC,
                     (f.topic_hash = topic AND f.kind IN ('property', 'edge') AND f.validity IN ('active', 'fading')) DESC,
                     f.seq DESC) AS place
        FROM memory_facts f
        WHERE f.tenant_id = shared.tenant()
          AND (f.topic_hash = topic OR f.content_hash = hash OR f.idempotency_key = key OR f.id = ANY(told)
               OR source IS NOT NULL AND f.source_episode_id = source AND f.forgotten_at IS NOT NULL)
        ORDER BY place LIMIT 500),
    once AS MATERIALIZED (SELECT o.id, min(o.place) AS place FROM found o GROUP BY o.id),
    rows AS (
        SELECT o.place, f.* FROM once o JOIN memory_facts f ON f.id = o.id
        UNION ALL
        SELECT o.place, f.* FROM once o JOIN memory_facts f ON f.merged_into = o.id)
    SELECT r.id, r.merged_into, r.kind, r.subject, r.predicate, r.scope, r.content, r.content_hash, r.topic_hash, r.entity_id,
           r.object_entity_id, r.embedding, r.embedding_model, r.validity, r.valid_from, r.valid_to, r.learned_at, r.trust,
           r.source_episode_id, r.forgotten_at, r.purged_at, r.idempotency_key
    FROM rows r ORDER BY r.place, r.merged_into IS NOT NULL, r.seq
$$;

-- The other wordings of a fact; `former`: also of what it said before it was edited.
CREATE FUNCTION memory_fact_wordings(which uuid, former boolean) RETURNS TABLE (id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT f.id FROM memory_facts f WHERE f.merged_into = which AND f.tenant_id = shared.tenant()
    UNION
    SELECT f.id FROM memory_links l JOIN memory_facts f ON f.id = l.source_id
    WHERE former AND l.tenant_id = shared.tenant() AND l.target_id = which AND l.relation = 'same_as'
      AND f.validity = 'retracted'
$$;

-- What took a fact's place.
CREATE FUNCTION memory_fact_successors(which uuid) RETURNS TABLE (id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT f.id FROM memory_links l JOIN memory_facts f ON f.id = l.source_id
    WHERE l.tenant_id = shared.tenant() AND l.target_id = which AND l.relation = 'supersedes' AND f.supersedes_id = which
      AND f.merged_into IS NULL
$$;

-- With which rules a new one is to be compared: those of the same words or key, and the newest of the others.
CREATE FUNCTION memory_rule_rivals(hash text, key text)
RETURNS TABLE (id uuid, content text, content_hash text, embedding bytea, embedding_model text, validity text, scope text,
               trust text, forgotten_at timestamptz, idempotency_key text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT r.id, r.content, r.content_hash, r.embedding, r.embedding_model, r.validity, r.scope, r.trust, r.forgotten_at,
           r.idempotency_key
    FROM memory_rules r
    WHERE r.tenant_id = shared.tenant()
    ORDER BY (r.content_hash = hash OR r.idempotency_key IS NOT DISTINCT FROM key AND key IS NOT NULL) DESC,
             r.seq DESC LIMIT 1000
$$;

-- A memory as it is, without its vector; null: there is no such one. For whoever is about to change it: what a session is
-- shown is read from the tables.
CREATE FUNCTION memory_row(of_kind text, which uuid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT to_jsonb(f) - 'search' - 'embedding' FROM memory_facts f
    WHERE of_kind = 'fact' AND f.id = which AND f.tenant_id = shared.tenant()
    UNION ALL
    SELECT to_jsonb(r) - 'search' - 'embedding' FROM memory_rules r
    WHERE of_kind = 'rule' AND r.id = which AND r.tenant_id = shared.tenant()
    UNION ALL
    SELECT to_jsonb(e) - 'search' - 'embedding' FROM memory_episodes e
    WHERE of_kind = 'episode' AND e.id = which AND e.tenant_id = shared.tenant()
$$;

-- The facts that speak of an entity, the oldest first.
CREATE FUNCTION memory_facts_about(which uuid)
RETURNS TABLE (id uuid, kind text, subject text, predicate text, scope text, content_hash text, topic_hash text,
               entity_id uuid, object_entity_id uuid, validity text, trust text, forgotten_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT f.id, f.kind, f.subject, f.predicate, f.scope, f.content_hash, f.topic_hash, f.entity_id, f.object_entity_id,
           f.validity, f.trust, f.forgotten_at
    FROM memory_facts f
    WHERE f.tenant_id = shared.tenant() AND (f.entity_id = which OR f.object_entity_id = which)
    ORDER BY f.seq
$$;

-- What the tenant says about its predicates. No text of a memory is among it.
CREATE FUNCTION memory_predicates_known()
RETURNS TABLE (name text, aliases text[], is_edge boolean, is_temporal boolean, is_many boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT p.name, p.aliases, p.is_edge, p.is_temporal, p.is_many FROM memory_predicates p
    WHERE p.tenant_id = shared.tenant() AND p.status = 'active'
$$;

-- Counts a use of a predicate, which is noted where it is new. Strangers bring in none.
CREATE FUNCTION memory_predicate_used(called text, edge boolean, temporal boolean, many boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := shared.trust();
BEGIN
    IF believed = 'stranger' THEN
        RETURN;
    END IF;
    PERFORM set_config('butlerd.trust', 'system', true);
    INSERT INTO memory_predicates (name, is_edge, is_temporal, is_many, usage_count, trust)
    VALUES (called, edge, temporal, many, 1, 'system')
    ON CONFLICT (tenant_id, name) DO UPDATE SET usage_count = memory_predicates.usage_count + 1;
    PERFORM set_config('butlerd.trust', believed, true);
END $$;

-- Which episodes have these words already, in the same session or under the same key.
CREATE FUNCTION memory_episode_rivals(hash text, key text, of_session uuid)
RETURNS TABLE (id uuid, expires_at timestamptz, forgotten_at timestamptz, idempotency_key text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT e.id, e.expires_at, e.forgotten_at, e.idempotency_key FROM memory_episodes e
    WHERE e.tenant_id = shared.tenant()
      AND (e.idempotency_key = key
           OR e.content_hash = hash AND (e.session_id IS NOT DISTINCT FROM of_session OR e.forgotten_at IS NOT NULL))
$$;

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

-- How many of the facts that hold speak of each of these entities, and in how many of them these words stand.
CREATE FUNCTION memory_facts_count(which uuid[], words text) RETURNS TABLE (entity uuid, facts bigint, hits bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT e, count(f.id), count(f.id) FILTER (WHERE words <> '' AND f.search @@ websearch_to_tsquery('english', words))
    FROM unnest(which) e JOIN memory_facts f ON e IN (f.entity_id, f.object_entity_id)
    WHERE f.tenant_id = shared.tenant() AND f.forgotten_at IS NULL AND f.validity IN ('active', 'fading')
    GROUP BY e
$$;

-- Which of the facts that hold are preferences, the weightiest first.
CREATE FUNCTION memory_preferences(within text, named text) RETURNS TABLE (id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT f.id FROM memory_facts f
    WHERE f.tenant_id = shared.tenant() AND f.forgotten_at IS NULL AND f.validity IN ('active', 'fading')
      AND 'preference' = ANY(f.tags) AND f.trust <> 'stranger'
      AND (within IS NULL OR f.scope IN ('global', within)) AND (named IS NULL OR f.predicate LIKE named)
    ORDER BY f.importance DESC, f.predicate, f.id LIMIT 200
$$;

-- How much is remembered. No text of a memory is among it.
CREATE FUNCTION memory_stats(within text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT jsonb_build_object(
        'episodes', (SELECT jsonb_build_object(
                'total', count(*) FILTER (WHERE forgotten_at IS NULL),
                'unconsolidated', count(*) FILTER (WHERE forgotten_at IS NULL AND consolidation IN ('pending', 'failed')),
                'consolidated', count(*) FILTER (WHERE forgotten_at IS NULL AND consolidation = 'consolidated'),
                'dead_letter', count(*) FILTER (WHERE forgotten_at IS NULL AND consolidation = 'dead_letter'),
                'backlog_age_hours', coalesce(round(extract(epoch FROM shared.clock() - min(created_at)
                    FILTER (WHERE forgotten_at IS NULL AND consolidation IN ('pending', 'failed'))) / 3600, 1), 0),
                'forgotten', count(*) FILTER (WHERE forgotten_at IS NOT NULL))
            FROM memory_episodes WHERE tenant_id = shared.tenant()),
        'facts', (SELECT jsonb_build_object(
                'active', count(*) FILTER (WHERE forgotten_at IS NULL AND validity = 'active'),
                'fading', count(*) FILTER (WHERE forgotten_at IS NULL AND validity = 'fading'),
                'superseded', count(*) FILTER (WHERE forgotten_at IS NULL AND validity = 'superseded'),
                'expired', count(*) FILTER (WHERE forgotten_at IS NULL AND validity = 'expired'),
                'retracted', count(*) FILTER (WHERE forgotten_at IS NULL AND validity = 'retracted'),
                'merged', count(*) FILTER (WHERE forgotten_at IS NULL AND validity = 'merged'),
                'to_compare', count(*) FILTER (WHERE forgotten_at IS NULL AND compared = 'pending'),
                'not_compared', count(*) FILTER (WHERE forgotten_at IS NULL AND compared = 'given_up'),
                'from_strangers', count(*) FILTER (WHERE forgotten_at IS NULL AND trust = 'stranger'
                                                   AND validity IN ('active', 'fading')),
                'forgotten', count(*) FILTER (WHERE forgotten_at IS NOT NULL))
            FROM memory_facts WHERE tenant_id = shared.tenant() AND (within IS NULL OR scope IN ('global', within))),
        'rules', (SELECT jsonb_build_object(
                'candidate', count(*) FILTER (WHERE forgotten_at IS NULL AND maturity = 'candidate'),
                'established', count(*) FILTER (WHERE forgotten_at IS NULL AND maturity = 'established'),
                'proven', count(*) FILTER (WHERE forgotten_at IS NULL AND maturity = 'proven'),
                'anti_pattern', count(*) FILTER (WHERE forgotten_at IS NULL AND maturity = 'anti_pattern'),
                'forgotten', count(*) FILTER (WHERE forgotten_at IS NOT NULL))
            FROM memory_rules WHERE tenant_id = shared.tenant() AND (within IS NULL OR scope IN ('global', within))))
$$;

-- Memories without a vector of this model, the newest first.
CREATE FUNCTION memory_unembedded(kinds text[], model text, most integer)
RETURNS TABLE (kind text, id uuid, about text, predicate text, content text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT a.kind, a.id, a.about, a.predicate, a.content FROM (
        SELECT 'fact' AS kind, f.id, f.subject AS about, f.predicate, f.content, f.change
        FROM memory_facts f
        WHERE f.tenant_id = shared.tenant() AND f.forgotten_at IS NULL
          AND (f.embedding IS NULL OR f.embedding_model IS DISTINCT FROM model)
        UNION ALL
        SELECT 'rule', r.id, NULL, NULL, r.content, r.change FROM memory_rules r
        WHERE r.tenant_id = shared.tenant() AND r.forgotten_at IS NULL
          AND (r.embedding IS NULL OR r.embedding_model IS DISTINCT FROM model)
        UNION ALL
        SELECT 'episode', e.id, e.speaker, NULL, e.content, e.change FROM memory_episodes e
        WHERE e.tenant_id = shared.tenant() AND e.forgotten_at IS NULL
          AND (e.embedding IS NULL OR e.embedding_model IS DISTINCT FROM model)) a
    WHERE a.kind = ANY(kinds) ORDER BY a.change DESC LIMIT most
$$;

-- Publishes what every butler may know: facts of the scope `global` that hold and are not sensitive. What no longer is,
-- leaves its number behind without its text.
CREATE FUNCTION memory_publish() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.change = OLD.change THEN
        RETURN NULL;
    END IF;
    PERFORM shared.memory_publish(TG_TABLE_SCHEMA, NEW.tenant_id, NEW.id, NEW.trust,
        CASE WHEN NEW.scope = 'global' AND NEW.sensitivity = 'normal' AND NEW.forgotten_at IS NULL
                  AND NEW.validity IN ('active', 'fading')
        THEN to_jsonb(NEW) - 'search' END);
    RETURN NULL;
END $$;
CREATE TRIGGER memory_publish AFTER INSERT OR UPDATE ON memory_facts FOR EACH ROW EXECUTE FUNCTION memory_publish();
