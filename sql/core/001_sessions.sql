-- The sessions of a butler: each one, what happened in it, and the tools that were called.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- One row for each spawned LLM session, written before the child exists and closed by exactly one outcome.
CREATE TABLE sessions (
    id                    uuid PRIMARY KEY,
    request_id            uuid NOT NULL,
    parent_session_id     uuid,
    trigger_source        text NOT NULL,
    state                 text NOT NULL CHECK (state IN
                          ('queued', 'running', 'succeeded', 'failed', 'timed_out', 'cancelled', 'interrupted')),
    context               jsonb NOT NULL,
    -- Of the least trusted text that it was shown, its request included; falls while it runs.
    trust                 text NOT NULL,
    -- When what it read lowered its trust, and when it was first shown private data.
    exposed_at            timestamptz,
    private_at            timestamptz,
    prompt                text NOT NULL,
    system_prompt         text,
    runtime               text NOT NULL,
    model                 text,
    result                text,
    error_class           text,
    error                 text,
    turns                 integer,
    input_tokens          bigint,
    output_tokens         bigint,
    cached_input_tokens   bigint,
    cache_creation_tokens bigint,
    cost_usd              numeric,
    -- What each model was used for: [{"model", "usd", "input_tokens", ...}].
    usage_by_model        jsonb,
    trace_id              text NOT NULL,
    exit_status           text,
    retry_of              uuid REFERENCES sessions (id),
    -- The daemon that runs it.
    node                  text,
    -- The run of a schedule that the session works on.
    run_id                uuid,
    -- The part of a message that it works on, by its row in route_inbox.
    route_id              uuid,
    pid                   integer,
    pid_started           bigint,
    boot_id               text,
    -- What memory told it before it began, or why it told nothing: {"state", "ids", "tokens", "ms", "why"}.
    memory                jsonb,
    -- Of a session whose end is to be remembered: until an episode tells of it.
    remember              text CHECK (remember IN ('pending', 'stored', 'refused')),
    queued_at             timestamptz NOT NULL,
    started_at            timestamptz,
    completed_at          timestamptz,
    duration_ms           bigint,
    CHECK ((state IN ('queued', 'running')) = (completed_at IS NULL))
);
SELECT shared.tenant_table('sessions');
CREATE INDEX sessions_newest ON sessions (tenant_id, queued_at DESC);
CREATE INDEX sessions_started ON sessions (tenant_id, started_at);
CREATE INDEX sessions_of_trace ON sessions (trace_id);
CREATE INDEX sessions_of_request ON sessions (request_id);
-- What was refused because all was spent.
CREATE INDEX sessions_over_budget ON sessions (queued_at) WHERE error_class = 'budget' AND started_at IS NULL;
CREATE INDEX sessions_of_run ON sessions (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX sessions_of_route ON sessions (route_id) WHERE route_id IS NOT NULL;
CREATE INDEX sessions_to_remember ON sessions (completed_at) WHERE remember = 'pending';
CREATE INDEX sessions_open ON sessions (state) WHERE state IN ('queued', 'running');

-- One row for each tool call. A call with an effect has its row from the effect's own transaction. Without a key of its
-- own: rows are only added, thousands a second, and looked up by their session.
CREATE TABLE tool_calls (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    session_id  uuid,
    request_id  uuid NOT NULL,
    caller      text NOT NULL,
    tool        text NOT NULL,
    arguments   jsonb NOT NULL,
    outcome     text NOT NULL CHECK (outcome IN ('ok', 'refused', 'error', 'cancelled')),
    detail      text,
    effect      text NOT NULL CHECK (effect IN ('none', 'idempotent', 'once')),
    called_at   timestamptz NOT NULL,
    duration_us bigint NOT NULL,
    -- The transaction that wrote this row: of a call with an effect, the one in which it changed what it changed. By
    -- them shared.row_changes has the rows before.
    txid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    tx_at       timestamptz NOT NULL DEFAULT transaction_timestamp()
);
SELECT shared.tenant_table('tool_calls');
-- A call that was let through has its effect once, whoever else believes to hold it.
CREATE UNIQUE INDEX tool_calls_approved ON tool_calls (caller)
    WHERE outcome = 'ok' AND effect <> 'none' AND caller LIKE 'approval %';
CREATE INDEX tool_calls_of_transaction ON tool_calls (tx_at) WHERE effect <> 'none';
CREATE INDEX tool_calls_of_session ON tool_calls (session_id, id) WHERE session_id IS NOT NULL;

-- What happened in a session, in order: written as it comes, of bounded size, without secrets. How the session ended
-- stands in its own row.
CREATE TABLE session_events (
    session_id uuid NOT NULL,
    seq        integer NOT NULL,
    at         timestamptz NOT NULL,
    kind       text NOT NULL,
    body       jsonb NOT NULL,
    PRIMARY KEY (session_id, seq)
);
SELECT shared.tenant_table('session_events');
