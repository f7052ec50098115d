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
