-- What is asked of memories before one is written or changed, and how much there is. As the owner, so that a row which is
-- only compared lowers nobody's trust.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Temporary tables of whoever calls are looked at last.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

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

-- Which episodes have these words already, in the same session or under the same key.
CREATE FUNCTION memory_episode_rivals(hash text, key text, of_session uuid)
RETURNS TABLE (id uuid, expires_at timestamptz, forgotten_at timestamptz, idempotency_key text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT e.id, e.expires_at, e.forgotten_at, e.idempotency_key FROM memory_episodes e
    WHERE e.tenant_id = shared.tenant()
      AND (e.idempotency_key = key
           OR e.content_hash = hash AND (e.session_id IS NOT DISTINCT FROM of_session OR e.forgotten_at IS NOT NULL))
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
