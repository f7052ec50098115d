-- What sessions asked for and a person has to allow first. No butler's role may read or write any of it: a session can
-- neither let itself through nor see what others wait for.
-- Runs as the owner role with search_path = shared.

-- Calls that a person allows in advance, within bounds.
CREATE TABLE approval_rules (
    id              uuid PRIMARY KEY,
    butler          text NOT NULL,
    tool_name       text NOT NULL,
    -- By argument: {"type": "exact" | "pattern" | "any", "value": ...}; all of them must hold.
    arg_constraints jsonb NOT NULL,
    description     text NOT NULL,
    created_from    uuid,
    created_by      text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT shared.clock(),
    expires_at      timestamptz,
    max_uses        integer CHECK (max_uses > 0),
    use_count       integer NOT NULL DEFAULT 0,
    active          boolean NOT NULL DEFAULT true,
    CHECK (max_uses IS NULL OR use_count <= max_uses)
);
SELECT shared.tenant_table('approval_rules');
CREATE INDEX approval_rules_of ON approval_rules (butler, tool_name) WHERE active;

CREATE TABLE pending_actions (
    id               uuid PRIMARY KEY,
    seq              bigint GENERATED ALWAYS AS IDENTITY,
    butler           text NOT NULL,
    session_id       uuid NOT NULL,
    tool_name        text NOT NULL,
    -- JSON exactly as it is going to be called with, and the SHA-256 of butler, tool and this text.
    tool_args        text NOT NULL,
    args_sha256      text NOT NULL,
    -- As people may see it: sensitive values hidden.
    args_shown       jsonb NOT NULL,
    -- What would happen, in a sentence of the daemon's.
    agent_summary    text NOT NULL,
    -- The model's own reason, which may be anybody's words.
    why              text,
    -- Why it waits: the tool is gated, or the session stands beside a stranger's words and private data.
    cause            text NOT NULL CHECK (cause IN ('gated', 'exposure')),
    -- Trust and private data of the session at that moment.
    exposure         jsonb NOT NULL,
    -- The RequestContext that the call runs under.
    request          jsonb NOT NULL,
    risk_tier        text NOT NULL CHECK (risk_tier IN ('low', 'medium', 'high', 'critical')),
    status           text NOT NULL DEFAULT 'pending'
                     CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'executed', 'abandoned')),
    requested_at     timestamptz NOT NULL DEFAULT shared.clock(),
    expires_at       timestamptz NOT NULL,
    decided_by       text,
    decided_at       timestamptz,
    decision_reason  text,
    approval_rule_id uuid REFERENCES approval_rules (id),
    claim_id         uuid,
    claimed_by       text,
    lease_until      timestamptz,
    -- {"success", "result", "error", "executed_at"}
    execution_result jsonb,
    executed_at      timestamptz,
    -- When the owner was told that it waits, and when its butler was told how it ended.
    announced_at     timestamptz,
    handed_back_at   timestamptz,
    CHECK ((status = 'executed') = (executed_at IS NOT NULL)),
    CHECK (status IN ('pending', 'expired') OR decided_at IS NOT NULL),
    CHECK (claim_id IS NULL OR status = 'approved')
);
SELECT shared.tenant_table('pending_actions');
CREATE INDEX pending_actions_open ON pending_actions (butler, seq) WHERE status IN ('pending', 'approved');
CREATE INDEX pending_actions_untold ON pending_actions (butler)
    WHERE handed_back_at IS NULL AND status IN ('rejected', 'expired', 'executed', 'abandoned');
CREATE INDEX pending_actions_abandoned ON pending_actions (decided_at) WHERE status = 'abandoned';
CREATE INDEX pending_actions_unannounced ON pending_actions (tenant_id, seq)
    WHERE announced_at IS NULL AND status = 'pending';
-- The same request of the same session waits once, however often its model makes it.
CREATE UNIQUE INDEX pending_actions_once ON pending_actions (session_id, args_sha256) WHERE status = 'pending';

-- What happened to each, in order. Rows are only added.
CREATE TABLE approval_events (
    event_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action_id      uuid,
    rule_id        uuid,
    event_type     text NOT NULL,
    actor          text NOT NULL,
    reason         text,
    event_metadata jsonb NOT NULL DEFAULT '{}',
    occurred_at    timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('approval_events');
CREATE INDEX approval_events_of_action ON approval_events (action_id);

CREATE FUNCTION approval_events_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- But for words that their owner purges everywhere (scrub(), which the household's own role alone may call).
    IF TG_OP = 'UPDATE' AND current_setting('butlerd.scrubbing', true) = 'on'
       AND EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = TG_RELID AND pg_get_userbyid(c.relowner) = current_user) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'what happened to an approval is not changed afterwards' USING ERRCODE = '42501';
END $$;
CREATE TRIGGER stay BEFORE UPDATE OR DELETE OR TRUNCATE ON approval_events EXECUTE FUNCTION approval_events_stay();
