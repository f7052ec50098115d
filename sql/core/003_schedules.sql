-- What a butler does by itself: its schedules and their runs.
-- Runs as the owner role with search_path = <schema>, shared, public.

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

-- The span of time that a run of a job answers for, so that each moment is answered for once: from the last run that was
-- done to the one that is at work. Where no schedule runs the job it is the last `step`. What a run could not tell the
-- next one does, up to a week back; what passed while the schedule was paused nobody wants to be told.
CREATE FUNCTION job_span(job text, step interval, OUT since timestamptz, OUT until timestamptz)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    SELECT r.fire_at, (SELECT max(CASE d.state WHEN 'done' THEN d.fire_at ELSE coalesce(d.until_at, d.fire_at) END)
                       FROM schedule_runs d
                       WHERE d.task_id = t.id AND d.fire_at < r.fire_at AND (d.state = 'done' OR d.cause = 'rest'))
      INTO until, since
      FROM scheduled_tasks t JOIN schedule_runs r ON r.task_id = t.id
     WHERE t.job_name = job AND r.state = 'running'
     ORDER BY r.started_at DESC LIMIT 1;
    until := coalesce(until, shared.clock());
    since := CASE WHEN FOUND THEN greatest(since, until - interval '7 days') ELSE until - step END;
END $$;
