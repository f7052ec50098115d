-- What answers a question while its index is not there.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Temporary tables of whoever calls are looked at last.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

-- The best by words, with what a row tells of itself, weighed as the index would. It shows which ones and how good, and
-- nothing of what they say: that is read under the reader's own policies. As the owner it finds the words in their index,
-- which no policy lets a butler's role do.
CREATE FUNCTION memory_full_text(
    question text, kinds text[], scopes text[], butlers text[], own text, classes text[], with_predicate text,
    of_entity uuid, to_object uuid, time_from timestamptz, time_to timestamptz, so_at timestamptz,
    most_sensitive int, least_trust int, least_confidence float8, present timestamptz,
    relevance_weight float8, importance_weight float8, recency_weight float8, confidence_weight float8, most bigint)
RETURNS TABLE (id uuid, kind text, score float8, relevance float8)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH q AS (SELECT replace(plainto_tsquery('english', question)::text, '&', '|')::tsquery AS q), all_of_them AS (
        (SELECT id, 'episode' AS kind, ts_rank(search, q)::float8 AS r, importance, 1::float8 AS confidence, last_referenced_at AS used_at, occurred_at AS at, seq
         FROM memory_episodes, q WHERE tenant_id = shared.tenant() AND search @@ q AND 'episode' = ANY(kinds)
           AND forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > shared.clock())
           AND with_predicate IS NULL AND of_entity IS NULL AND to_object IS NULL
           AND (cardinality(butlers) = 0 OR own = ANY(butlers)) AND (cardinality(classes) = 0 OR retention_class = ANY(classes))
           AND occurred_at >= coalesce(time_from, '-infinity') AND occurred_at <= coalesce(time_to, 'infinity')
           AND array_position(ARRAY['normal', 'sensitive', 'secret'], sensitivity) <= most_sensitive + 1
           AND array_position(ARRAY['stranger', 'known', 'system', 'owner'], trust) > least_trust
         ORDER BY r DESC LIMIT 200)
        UNION ALL
        (SELECT id, 'fact', ts_rank(search, q)::float8 AS r, importance,
                confidence * exp(-decay_rate * extract(epoch FROM present - last_confirmed_at)::float8 / 86400),
                last_referenced_at, coalesce(valid_from, learned_at), seq
         FROM memory_facts, q WHERE tenant_id = shared.tenant() AND search @@ q AND 'fact' = ANY(kinds)
           AND forgotten_at IS NULL AND validity IN ('active', 'fading') AND (cardinality(scopes) = 0 OR scope = ANY(scopes))
           AND (cardinality(butlers) = 0 OR own = ANY(butlers)) AND (cardinality(classes) = 0 OR retention_class = ANY(classes))
           AND (with_predicate IS NULL OR predicate = with_predicate) AND (of_entity IS NULL OR entity_id = of_entity) AND (to_object IS NULL OR object_entity_id = to_object)
           AND coalesce(valid_from, learned_at) >= coalesce(time_from, '-infinity') AND coalesce(valid_from, learned_at) <= coalesce(time_to, 'infinity')
           AND (so_at IS NULL OR valid_to IS NULL OR valid_to > so_at)
           AND array_position(ARRAY['normal', 'sensitive', 'secret'], sensitivity) <= most_sensitive + 1
           AND array_position(ARRAY['stranger', 'known', 'system', 'owner'], trust) > least_trust
         ORDER BY r DESC LIMIT 200)
        UNION ALL
        (SELECT memory_id, 'fact', ts_rank(search, q)::float8 AS r, importance,
                confidence * exp(-decay_rate * extract(epoch FROM present - last_confirmed_at)::float8 / 86400),
                NULL, coalesce(valid_from, learned_at), change
         FROM shared.memory_catalog, q WHERE tenant_id = shared.tenant() AND search @@ q AND live AND 'fact' = ANY(kinds) AND butler <> own
           AND (cardinality(scopes) = 0 OR 'global' = ANY(scopes)) AND (cardinality(butlers) = 0 OR butler = ANY(butlers))
           AND (cardinality(classes) = 0 OR retention_class = ANY(classes))
           AND (with_predicate IS NULL OR predicate = with_predicate) AND (of_entity IS NULL OR entity_id = of_entity) AND (to_object IS NULL OR object_entity_id = to_object)
           AND coalesce(valid_from, learned_at) >= coalesce(time_from, '-infinity') AND coalesce(valid_from, learned_at) <= coalesce(time_to, 'infinity')
           AND (so_at IS NULL OR valid_to IS NULL OR valid_to > so_at)
           AND array_position(ARRAY['stranger', 'known', 'system', 'owner'], trust) > least_trust
         ORDER BY r DESC LIMIT 200)
        UNION ALL
        (SELECT id, 'rule', ts_rank(search, q)::float8 AS r, importance,
                confidence * exp(-decay_rate * extract(epoch FROM present - last_confirmed_at)::float8 / 86400),
                last_referenced_at, learned_at, seq
         FROM memory_rules, q WHERE tenant_id = shared.tenant() AND search @@ q AND 'rule' = ANY(kinds)
           AND forgotten_at IS NULL AND validity IN ('active', 'fading') AND (cardinality(scopes) = 0 OR scope = ANY(scopes))
           AND (cardinality(butlers) = 0 OR own = ANY(butlers)) AND (cardinality(classes) = 0 OR retention_class = ANY(classes))
           AND with_predicate IS NULL AND of_entity IS NULL AND to_object IS NULL
           AND learned_at >= coalesce(time_from, '-infinity') AND learned_at <= coalesce(time_to, 'infinity')
           AND array_position(ARRAY['normal', 'sensitive', 'secret'], sensitivity) <= most_sensitive + 1
           AND array_position(ARRAY['stranger', 'known', 'system', 'owner'], trust) > least_trust
         ORDER BY r DESC LIMIT 200)
    ), weighed AS (
        SELECT id, kind, r / nullif(max(r) OVER (), 0) AS relevance, importance, confidence, used_at, at, seq
        FROM all_of_them WHERE kind = 'episode' OR confidence >= least_confidence
    )
    SELECT id, kind,
           relevance_weight * coalesce(relevance, 0) + importance_weight * importance / 10
               + recency_weight * coalesce(exp(-ln(2) / 7 * extract(epoch FROM present - used_at)::float8 / 86400), 0)
               + confidence_weight * confidence AS score,
           coalesce(relevance, 0)
    FROM weighed ORDER BY score DESC, at DESC, id LIMIT most;
END $$;
