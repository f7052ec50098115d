-- What the memory's jobs do in the database, each for the tenant of its transaction.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Temporary tables of whoever calls are looked at last.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

-- The episodes that a claim still holds, of those given: what was forgotten meanwhile is left out. They stay as they are
-- until the transaction ends.
CREATE FUNCTION memory_claimed(claim uuid, ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- In the order in which writers take them.
    PERFORM memory_lock();
    RETURN QUERY SELECT e.id FROM memory_episodes e
        WHERE e.tenant_id = shared.tenant() AND e.claim_id = claim AND e.id = ANY(ids) AND e.forgotten_at IS NULL
        ORDER BY e.seq FOR UPDATE;
END $$;

-- Ends the claim on episodes that were made into facts. Their trust stays.
CREATE FUNCTION memory_consolidated(claim uuid, ids uuid[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := shared.trust();
    n bigint;
BEGIN
    PERFORM set_config('butlerd.trust', 'system', true);
    UPDATE memory_episodes SET consolidation = 'consolidated', claim_id = NULL, claimed_by = NULL, lease_until = NULL,
        last_error = NULL, settled_at = shared.clock()
    WHERE tenant_id = shared.tenant() AND claim_id = claim AND id = ANY(ids);
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM set_config('butlerd.trust', believed, true);
    RETURN n;
END $$;

-- Notes that it was asked whether these facts say the same as others; with an error, that it could not be asked, and after
-- so many tries is not asked any more. Their trust stays. Returns how many are given up.
CREATE FUNCTION memory_compared(ids uuid[], error text, tries integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := shared.trust();
    n bigint;
BEGIN
    PERFORM memory_lock();
    PERFORM set_config('butlerd.trust', 'system', true);
    WITH asked AS (
        UPDATE memory_facts SET compare_error = left(error, 500),
            compare_attempts = compare_attempts + CASE WHEN error IS NULL THEN 0 ELSE 1 END,
            compared = CASE WHEN error IS NULL THEN 'done' WHEN compare_attempts + 1 >= tries THEN 'given_up' ELSE 'pending' END
        WHERE tenant_id = shared.tenant() AND id = ANY(ids) AND compared = 'pending'
        RETURNING compared)
    SELECT count(*) INTO n FROM asked WHERE compared = 'given_up';
    PERFORM set_config('butlerd.trust', believed, true);
    RETURN n;
END $$;

-- Looks at the next facts or rules (`kind`) after one of the number `after`, and lets those fade that nobody has confirmed
-- for long: below what their retention class is recalled at they are `fading`, below a quarter of it `expired`, above it
-- `active` again. Only what changes is written, with an event that says how little it is believed by now; undoing what was
-- done before is not kept from by that. `last`: up to which number it looked; null: there was nothing.
CREATE FUNCTION memory_fade(kind text, after bigint, most integer, OUT last bigint, OUT checked bigint, OUT fading bigint,
                            OUT expired bigint, OUT back bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    it text := CASE kind WHEN 'fact' THEN 'memory_facts' WHEN 'rule' THEN 'memory_rules' END;
    believed text := shared.trust();
BEGIN
    PERFORM memory_lock();
    PERFORM set_config('butlerd.trust', 'system', true);
    EXECUTE format($sql$
        WITH page AS MATERIALIZED (
            SELECT m.id, m.seq, m.validity, m.retention_class,
                   m.confidence * exp(-m.decay_rate * greatest(
                       extract(epoch FROM shared.clock() - m.last_confirmed_at) / 86400.0, 0)) AS strength
            FROM %1$I m
            WHERE m.tenant_id = shared.tenant() AND m.seq > $1 AND m.validity IN ('active', 'fading')
              AND m.forgotten_at IS NULL
            ORDER BY m.seq LIMIT $2),
        classes AS MATERIALIZED (
            SELECT c.retention_class, coalesce((memory_policy(c.retention_class)).min_retrieval_confidence, 0.2) AS least
            FROM (SELECT DISTINCT retention_class FROM page) c),
        judged AS (
            SELECT p.id, p.validity AS before, p.strength,
                   CASE WHEN p.strength < c.least / 4 THEN 'expired' WHEN p.strength < c.least THEN 'fading'
                        ELSE 'active' END AS after
            FROM page p JOIN classes c USING (retention_class)),
        changed AS (
            UPDATE %1$I m SET validity = j.after FROM judged j
            WHERE m.id = j.id AND j.after <> j.before RETURNING m.id),
        told AS (
            INSERT INTO memory_events (event_type, memory_type, memory_id, actor, reason, payload, tenant_id)
            SELECT CASE j.after WHEN 'active' THEN 'revived' WHEN 'fading' THEN 'faded' ELSE 'expired' END, $3, j.id,
                   'butlerd', CASE j.after WHEN 'active' THEN 'it was confirmed' ELSE 'nobody has confirmed it for long' END,
                   jsonb_build_object('from', j.before, 'to', j.after, 'confidence', round(j.strength::numeric, 4)),
                   shared.tenant()
            FROM judged j JOIN changed c USING (id))
        SELECT (SELECT max(seq) FROM page), count(*), count(*) FILTER (WHERE j.after = 'fading'),
               count(*) FILTER (WHERE j.after = 'expired'), count(*) FILTER (WHERE j.after = 'active' AND j.before = 'fading')
        FROM judged j $sql$, it)
    INTO last, checked, fading, expired, back USING after, most, kind;
    PERFORM set_config('butlerd.trust', believed, true);
END $$;

-- Takes episodes away for good, at most `most`: those past their time, which for one that waits for consolidation is a week
-- more, then the oldest consolidated ones beyond `capacity`. What was forgotten leaves its mark. `unlearned`: so many of
-- them were never made into facts.
CREATE FUNCTION memory_clean(capacity bigint, most integer, OUT expired uuid[], OUT beyond uuid[], OUT unlearned bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    kept bigint;
BEGIN
    IF shared.trust() = 'stranger' THEN
        RAISE EXCEPTION 'what the household knows is not changed on the word of a stranger' USING ERRCODE = 'BD002';
    END IF;
    PERFORM memory_lock();
    SELECT coalesce(array_agg(o.id), '{}'), count(*) FILTER (WHERE o.consolidation NOT IN ('consolidated', 'left_out'))
    INTO expired, unlearned FROM (
        SELECT e.id, e.consolidation FROM memory_episodes e
        WHERE e.tenant_id = shared.tenant() AND e.forgotten_at IS NULL AND e.purged_at IS NULL
          AND (e.lease_until IS NULL OR e.lease_until < clock_timestamp())
          AND e.expires_at < shared.clock()
              - CASE WHEN e.consolidation IN ('pending', 'failed') THEN interval '7 days' ELSE interval '0' END
        ORDER BY e.expires_at LIMIT most) o;
    SELECT count(*) - cardinality(expired) INTO kept FROM memory_episodes e
    WHERE e.tenant_id = shared.tenant() AND e.forgotten_at IS NULL AND e.purged_at IS NULL;
    SELECT coalesce(array_agg(o.id), '{}') INTO beyond FROM (
        SELECT e.id FROM memory_episodes e
        WHERE e.tenant_id = shared.tenant() AND e.forgotten_at IS NULL AND e.purged_at IS NULL
          AND e.consolidation IN ('consolidated', 'left_out') AND e.id <> ALL(expired)
          AND e.retention_class NOT IN (
              SELECT c.name FROM (SELECT DISTINCT retention_class AS name FROM memory_episodes
                                  WHERE tenant_id = shared.tenant()) c
              WHERE (memory_policy(c.name)).archive_before_delete)
        ORDER BY e.seq LIMIT least(greatest(kept - capacity, 0), greatest(most - cardinality(expired), 0))) o;
    DELETE FROM memory_history h WHERE h.tenant_id = shared.tenant() AND h.memory_id = ANY(expired || beyond);
    DELETE FROM memory_episodes e WHERE e.tenant_id = shared.tenant() AND e.id = ANY(expired || beyond);
END $$;

-- How the jobs stand: when each ran last and will run next, what waits, what it cost in the last 30 days. `names`: under
-- which names each may be scheduled. Numbers and the house's own words only, so that asking lowers nobody's trust.
CREATE FUNCTION memory_job_state(names jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH jobs AS (
        SELECT j.key AS job, t.id, t.name, t.tenant_id, t.enabled AND t.paused_at IS NULL AS live, t.next_run_at
        FROM jsonb_each(names) j LEFT JOIN scheduled_tasks t
          ON t.job_name IN (SELECT jsonb_array_elements_text(j.value)) AND t.tenant_id IN (shared.tenant(), 'owner')),
    runs AS (
        SELECT DISTINCT ON (j.job) j.job, r.state, r.cause, r.fire_at, r.started_at, r.finished_at,
               -- What it says counts the rows of all tenants.
               CASE WHEN j.tenant_id = shared.tenant() THEN r.reason END AS said
        FROM jobs j JOIN schedule_runs r ON r.task_id = j.id
        WHERE r.state <> 'due' ORDER BY j.job, r.created_at DESC, r.fire_at DESC),
    waits AS (
        SELECT count(*) FILTER (WHERE e.consolidation = 'pending') AS pending,
               count(*) FILTER (WHERE e.consolidation = 'failed') AS failed,
               count(*) FILTER (WHERE e.consolidation = 'dead_letter') AS dead,
               count(*) FILTER (WHERE e.claim_id IS NOT NULL AND e.lease_until >= clock_timestamp()) AS claimed,
               min(e.created_at) FILTER (WHERE e.consolidation IN ('pending', 'failed')) AS oldest
        FROM memory_episodes e
        WHERE e.tenant_id = shared.tenant() AND e.forgotten_at IS NULL
          AND e.consolidation IN ('pending', 'failed', 'dead_letter')),
    last_error AS (
        SELECT e.last_error FROM memory_episodes e
        WHERE e.tenant_id = shared.tenant() AND e.consolidation IN ('failed', 'dead_letter') AND e.forgotten_at IS NULL
        ORDER BY e.settled_at DESC NULLS LAST, e.available_at DESC LIMIT 1),
    costs AS (
        SELECT count(*) AS sessions, sum(s.cost_usd) AS usd, count(*) FILTER (WHERE s.cost_usd IS NULL) AS unpriced,
               sum(s.input_tokens) AS tokens_in, sum(s.output_tokens) AS tokens_out
        FROM sessions s
        WHERE s.tenant_id = shared.tenant() AND s.queued_at > shared.clock() - interval '30 days'
          AND s.started_at IS NOT NULL
          AND s.trigger_source IN (SELECT 'schedule:' || j.name FROM jobs j WHERE j.job = 'memory_consolidation'))
    SELECT jsonb_object_agg(n.job, jsonb_build_object(
        'scheduled', EXISTS (SELECT 1 FROM jobs j WHERE j.job = n.job AND j.live),
        'next_run_at', (SELECT min(j.next_run_at) FROM jobs j WHERE j.job = n.job AND j.live),
        'last_run', (SELECT to_jsonb(r) - 'job' FROM runs r WHERE r.job = n.job))
        || CASE WHEN n.job = 'memory_consolidation' THEN jsonb_build_object(
            'backlog', (SELECT jsonb_build_object('pending', w.pending, 'failed', w.failed, 'dead_letter', w.dead,
                'claimed', w.claimed, 'age_hours',
                round((extract(epoch FROM shared.clock() - w.oldest) / 3600)::numeric, 1)) FROM waits w),
            'last_error', (SELECT l.last_error FROM last_error l),
            'cost', (SELECT jsonb_build_object('days', 30, 'sessions', c.sessions, 'cost_usd', c.usd::text,
                'unpriced_sessions', c.unpriced, 'input_tokens', c.tokens_in, 'output_tokens', c.tokens_out)
                FROM costs c)) ELSE '{}' END)
    FROM jsonb_object_keys(names) AS n(job)
$$;

-- Lets episodes that were given up wait for consolidation again, and facts wait to be compared, as if it had never been
-- tried: all of them, or this one. How many there are.
CREATE FUNCTION memory_retry(which uuid) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := shared.trust();
    again bigint;
    facts bigint;
BEGIN
    IF believed <> 'owner' THEN
        RAISE EXCEPTION 'only the owner may do this with memories' USING ERRCODE = 'BD003';
    END IF;
    PERFORM memory_lock();
    PERFORM set_config('butlerd.trust', 'system', true);
    UPDATE memory_episodes e SET consolidation = 'pending', attempts = 0, last_error = NULL, settled_at = NULL,
        available_at = clock_timestamp()
    WHERE e.tenant_id = shared.tenant() AND e.consolidation = 'dead_letter' AND e.forgotten_at IS NULL
      AND (which IS NULL OR e.id = which);
    GET DIAGNOSTICS again = ROW_COUNT;
    UPDATE memory_facts f SET compared = 'pending', compare_attempts = 0, compare_error = NULL
    WHERE f.tenant_id = shared.tenant() AND f.compared = 'given_up' AND f.forgotten_at IS NULL
      AND (which IS NULL OR f.id = which);
    GET DIAGNOSTICS facts = ROW_COUNT;
    PERFORM set_config('butlerd.trust', believed, true);
    RETURN again + facts;
END $$;
