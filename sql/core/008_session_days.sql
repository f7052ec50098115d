-- What sessions used on each day, kept when their rows are taken away: by what started them, and by model.
-- Runs as the owner role with search_path = <schema>, shared, public.

CREATE TABLE session_days (
    -- Of the owner, in the time zone of the day on which it was added up.
    day            date NOT NULL,
    cut            text NOT NULL CHECK (cut IN ('source', 'model')),
    -- The trigger_source, or the model; empty where it was not known.
    what           text NOT NULL,
    sessions       bigint NOT NULL,
    succeeded      bigint NOT NULL,
    -- Ended sessions of unknown cost.
    unknown_cost   bigint NOT NULL,
    -- Of those that are known; null: of none.
    input          bigint,
    output         bigint,
    cached_input   bigint,
    cache_creation bigint,
    cost_usd       numeric
);
SELECT shared.tenant_table('session_days', 'day', 'cut', 'what');

-- The session that one stands in for may be gone.
ALTER TABLE sessions DROP CONSTRAINT sessions_retry_of_fkey;
-- Which prompts no session has any more.
CREATE INDEX sessions_of_prompt ON sessions (tenant_id, prompt_sha256);
