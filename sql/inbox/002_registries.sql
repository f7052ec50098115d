-- Who is there: butlers that messages go to, connectors that hand them in, old messages that these shall bring.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- The butlers that can be routed to. Of the household as a whole: tenant `owner`.
CREATE TABLE butler_registry (
    name               text PRIMARY KEY,
    endpoint_url       text NOT NULL,
    description        text NOT NULL,
    modules            text[] NOT NULL,
    route_contract_min integer NOT NULL,
    route_contract_max integer NOT NULL,
    liveness_ttl_s     integer NOT NULL,
    -- As the last look at it found: what counts is last_seen_at and the clock.
    state              text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'stale', 'quarantined')),
    registered_at      timestamptz NOT NULL DEFAULT shared.clock(),
    last_seen_at       timestamptz NOT NULL
);
SELECT shared.tenant_table('butler_registry');
CREATE TABLE butler_registry_eligibility_log (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL,
    from_state text,
    to_state   text NOT NULL,
    reason     text NOT NULL,
    at         timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('butler_registry_eligibility_log');

-- The connectors that hand messages in.
CREATE TABLE connector_registry (
    connector_type    text NOT NULL,
    endpoint_identity text NOT NULL,
    instance_id       text NOT NULL,
    version           text,
    state             text NOT NULL CHECK (state IN ('healthy', 'degraded', 'error')),
    error_message     text,
    uptime_s          bigint NOT NULL,
    counters          jsonb NOT NULL,
    checkpoint        jsonb,
    capabilities      jsonb,
    first_seen_at     timestamptz NOT NULL DEFAULT shared.clock(),
    last_seen_at      timestamptz NOT NULL,
    disconnected_at   timestamptz
);
SELECT shared.tenant_table('connector_registry', 'connector_type', 'endpoint_identity');

-- Old messages that a connector shall bring in.
CREATE TABLE backfill_jobs (
    id                    uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    connector_type        text NOT NULL,
    endpoint_identity     text NOT NULL,
    target_categories     text[] NOT NULL,
    date_from             date NOT NULL,
    date_to               date NOT NULL,
    rate_limit_per_hour   integer NOT NULL CHECK (rate_limit_per_hour > 0),
    daily_cost_cap_cents  integer NOT NULL CHECK (daily_cost_cap_cents >= 0),
    status                text NOT NULL DEFAULT 'pending' CHECK (status IN
                          ('pending', 'active', 'paused', 'completed', 'cancelled', 'error', 'cost_capped')),
    cursor                jsonb,
    rows_processed        bigint NOT NULL DEFAULT 0,
    rows_skipped          bigint NOT NULL DEFAULT 0,
    cost_spent_cents      bigint NOT NULL DEFAULT 0,
    -- What of it counts against the limits: the rows of the hour and the cents of the day in which the last came.
    hour                  timestamptz,
    hour_rows             bigint NOT NULL DEFAULT 0,
    day                   date,
    day_cents             bigint NOT NULL DEFAULT 0,
    error                 text,
    created_at            timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at            timestamptz NOT NULL DEFAULT shared.clock(),
    CHECK (date_from <= date_to)
);
SELECT shared.tenant_table('backfill_jobs');
