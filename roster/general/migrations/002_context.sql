-- Context signals: what the person's days are like just now (travelling, ill, on leave), for as long as they said.

CREATE TABLE context_signals (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    signal_type text NOT NULL CHECK (signal_type ~ '^[a-z][a-z0-9_]{1,39}$'),
    value       text,
    set_at      timestamptz NOT NULL DEFAULT shared.clock(),
    expires_at  timestamptz NOT NULL,
    ended_at    timestamptz,
    mutation_id uuid
);
SELECT shared.tenant_table('context_signals');
COMMENT ON COLUMN context_signals.ended_at IS 'When it was cleared or another one of its type took its place.';
CREATE UNIQUE INDEX context_signals_one ON context_signals (tenant_id, signal_type) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX context_signals_mutation ON context_signals (tenant_id, mutation_id);

CREATE FUNCTION context_set(kind text, what text, hours numeric, until text, mutation uuid)
RETURNS TABLE (signal_type text, value text, set_at timestamptz, expires_at timestamptz, replaced jsonb)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    present CONSTANT timestamptz := shared.clock();
    -- A day counts whole.
    ends    CONSTANT timestamptz := CASE
        WHEN until IS NULL THEN present + coalesce(hours, 24) * interval '1 hour'
        WHEN until ~ '^\d{4}-\d{2}-\d{2}$' THEN shared.bound('requested_expires_at', until, true)
        ELSE shared.moment('requested_expires_at', until) END;
    old     context_signals;
BEGIN
    IF hours IS NOT NULL AND until IS NOT NULL THEN
        RAISE EXCEPTION 'Give hours or requested_expires_at, not both.' USING ERRCODE = '22023';
    ELSIF ends <= present THEN
        RAISE EXCEPTION 'The signal would end at %, which is past. Give an end that lies ahead, or leave it out for '
            '24 hours.', to_char(ends, 'YYYY-MM-DD HH24:MI') USING ERRCODE = '22023';
    ELSIF ends > present + interval '91 days' THEN
        RAISE EXCEPTION 'A signal holds for up to 90 days. What is so for longer is a fact: keep it with '
            'memory_store_fact.'
            USING ERRCODE = '22023';
    END IF;
    IF mutation IS NOT NULL AND EXISTS (SELECT FROM context_signals s WHERE s.mutation_id = mutation) THEN
        RETURN QUERY SELECT s.signal_type, s.value, s.set_at, s.expires_at, NULL::jsonb
                       FROM context_signals s WHERE s.mutation_id = mutation;
        RETURN;
    END IF;
    UPDATE context_signals s SET ended_at = present
     WHERE s.signal_type = kind AND s.ended_at IS NULL
    RETURNING s.* INTO old;
    RETURN QUERY
    INSERT INTO context_signals AS s (signal_type, value, expires_at, mutation_id)
    VALUES (kind, nullif(btrim(what), ''), ends, mutation)
    RETURNING s.signal_type, s.value, s.set_at, s.expires_at,
              CASE WHEN old.expires_at > present
                   THEN jsonb_build_object('value', old.value, 'expires_at', old.expires_at) END;
END
$$;

-- Ends a signal that holds now.
CREATE FUNCTION context_clear(kind text) RETURNS TABLE (signal_type text, value text, ended_at timestamptz)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN QUERY
    UPDATE context_signals s SET ended_at = shared.clock()
     WHERE s.signal_type = kind AND s.ended_at IS NULL AND s.expires_at > shared.clock()
    RETURNING s.signal_type, s.value, s.ended_at;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'The signal "%" is not set. %', kind,
            coalesce((SELECT 'Set are: ' || string_agg(s.signal_type, ', ' ORDER BY s.signal_type) || '.'
                        FROM context_signals s WHERE s.ended_at IS NULL AND s.expires_at > shared.clock()), 'None is.')
            USING ERRCODE = '22023';
    END IF;
END
$$;
