-- The tables that every butler has in its own schema.
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

-- A butler's key-value memory of its own doing.
CREATE TABLE state (
    key        text NOT NULL,
    value      jsonb NOT NULL,
    version    bigint NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('state');
ALTER TABLE state ADD PRIMARY KEY (tenant_id, key);

-- What a butler does by itself, and when. Its times are cron's, or slots of a period, or one moment.
CREATE TABLE scheduled_tasks (
    id            uuid PRIMARY KEY,
    name          text NOT NULL,
    cron          text,
    every_ms      bigint CHECK (every_ms >= 1000),
    run_at        timestamptz,
    -- The slots of every_ms are counted from here.
    anchor_at     timestamptz,
    prompt        text,
    dispatch_mode text NOT NULL CHECK (dispatch_mode IN ('prompt', 'job')),
    job_name      text,
    job_args      jsonb,
    timezone      text NOT NULL,
    start_at      timestamptz,
    end_at        timestamptz,
    until_at      timestamptz,
    -- Added to each slot: of the house's own schedules alone.
    stagger_s     integer NOT NULL DEFAULT 0,
    priority      smallint NOT NULL DEFAULT 3 CHECK (priority BETWEEN 1 AND 3),
    require_idle  boolean NOT NULL DEFAULT false,
    missed        text NOT NULL DEFAULT 'run_once' CHECK (missed IN ('skip', 'run_once', 'backfill')),
    missed_window_s bigint NOT NULL DEFAULT 604800 CHECK (missed_window_s > 0),
    overlap       text NOT NULL DEFAULT 'skip' CHECK (overlap IN ('skip', 'queue')),
    display_title text,
    calendar_event_id text,
    -- Of butler.toml, of a tool, or the house's own.
    source        text NOT NULL CHECK (source IN ('toml', 'db', 'house')),
    -- Of whoever made it; what it starts is never trusted more.
    trust         text NOT NULL,
    enabled       boolean NOT NULL DEFAULT true,
    -- By a person or a tool; butler.toml does not change it.
    paused_at     timestamptz,
    -- The first time that nothing was decided on yet, and when something was decided last.
    next_run_at   timestamptz,
    decided_at    timestamptz,
    last_run_at   timestamptz,
    last_result   jsonb,
    created_at    timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at    timestamptz NOT NULL DEFAULT shared.clock(),
    CHECK (num_nonnulls(cron, every_ms, run_at) = 1),
    CHECK (every_ms IS NULL OR anchor_at IS NOT NULL),
    CHECK ((dispatch_mode = 'prompt') = (prompt IS NOT NULL)),
    CHECK ((dispatch_mode = 'job') = (job_name IS NOT NULL))
);
SELECT shared.tenant_table('scheduled_tasks');
CREATE UNIQUE INDEX scheduled_tasks_name ON scheduled_tasks (tenant_id, name);
CREATE INDEX scheduled_tasks_due ON scheduled_tasks (next_run_at) WHERE enabled;

-- One row for each time a schedule was due, written before the dispatch; a time fires once. Claimed under a lease,
-- settled only by the claim that holds it.
CREATE TABLE schedule_runs (
    id           uuid PRIMARY KEY,
    task_id      uuid NOT NULL REFERENCES scheduled_tasks (id) ON DELETE CASCADE,
    fire_at      timestamptz NOT NULL,
    -- Of a row that stands for several times: the last of them, and how many; with "more", at least.
    until_at     timestamptz,
    times        integer NOT NULL DEFAULT 1,
    more         boolean NOT NULL DEFAULT false,
    cause        text NOT NULL CHECK (cause IN
                 ('slot', 'late', 'backfill', 'missed', 'rest', 'manual')),
    state        text NOT NULL CHECK (state IN ('due', 'running', 'done', 'failed', 'skipped')),
    reason       text,
    trust        text NOT NULL,
    attempts     integer NOT NULL DEFAULT 0,
    claim_id     uuid,
    claimed_by   text,
    lease_until  timestamptz,
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    session_id   uuid,
    created_at   timestamptz NOT NULL DEFAULT shared.clock(),
    started_at   timestamptz,
    finished_at  timestamptz,
    UNIQUE (task_id, fire_at),
    CHECK ((state = 'running') = (claim_id IS NOT NULL)),
    CHECK ((state IN ('done', 'failed', 'skipped')) = (finished_at IS NOT NULL)),
    CHECK (state NOT IN ('failed', 'skipped') OR reason IS NOT NULL)
);
SELECT shared.tenant_table('schedule_runs');
CREATE INDEX schedule_runs_open ON schedule_runs (available_at) WHERE state IN ('due', 'running');
CREATE INDEX schedule_runs_bad ON schedule_runs (finished_at) WHERE state IN ('failed', 'skipped');

-- Attachments, by the SHA-256 of their content.
CREATE TABLE blobs (
    sha256     text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    media_type text NOT NULL,
    filename   text,
    content    bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('blobs');
ALTER TABLE blobs ADD PRIMARY KEY (tenant_id, sha256);
