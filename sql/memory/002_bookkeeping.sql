-- How memories hang together and came to be, the words that facts are put in, and how long what is kept.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- How memories hang together.
CREATE TABLE memory_links (
    source_type text NOT NULL CHECK (source_type IN ('episode', 'fact', 'rule')),
    source_id   uuid NOT NULL,
    target_type text NOT NULL CHECK (target_type IN ('episode', 'fact', 'rule')),
    target_id   uuid NOT NULL,
    relation    text NOT NULL CHECK (relation IN ('derived_from', 'supports', 'contradicts', 'supersedes', 'related_to', 'same_as')),
    created_at  timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('memory_links', 'source_id', 'target_id', 'relation');
CREATE INDEX memory_links_back ON memory_links (tenant_id, target_id);

-- What was done to memories, in order. Only added to; it holds no text of a memory.
CREATE TABLE memory_events (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    event_type  text NOT NULL,
    memory_type text NOT NULL CHECK (memory_type IN ('episode', 'fact', 'rule', 'entity')),
    memory_id   uuid NOT NULL,
    actor       text NOT NULL,
    session_id  uuid,
    request_id  uuid,
    reason      text,
    payload     jsonb NOT NULL DEFAULT '{}',
    undoes      uuid REFERENCES memory_events (id),
    at          timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('memory_events');
CREATE INDEX memory_events_of ON memory_events (memory_id, seq);
CREATE INDEX memory_events_newest ON memory_events (tenant_id, seq DESC);
CREATE UNIQUE INDEX memory_events_undone_once ON memory_events (undoes) WHERE undoes IS NOT NULL;

-- The rows as they were before an event, without vectors. Purging a memory takes its rows away here as well.
CREATE TABLE memory_history (
    event_id    uuid NOT NULL REFERENCES memory_events (id),
    memory_type text NOT NULL,
    memory_id   uuid NOT NULL,
    -- Of the row after the event: while it has that number still, nothing newer stands on it.
    change      bigint NOT NULL,
    -- Null: the event made it.
    before      jsonb,
    PRIMARY KEY (event_id, memory_id)
);
SELECT shared.tenant_table('memory_history');
CREATE INDEX memory_history_of ON memory_history (memory_id);

-- The words in which facts are put. `many`: it has several values at once; `temporal`: it happens at a time.
CREATE TABLE memory_predicates (
    name                  text NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]*$'),
    expected_subject_type text,
    expected_object_type  text,
    is_edge               boolean NOT NULL DEFAULT false,
    is_temporal           boolean NOT NULL DEFAULT false,
    is_many               boolean NOT NULL DEFAULT false,
    is_symmetric          boolean NOT NULL DEFAULT false,
    inverse_of            text,
    aliases               text[] NOT NULL DEFAULT '{}',
    description           text,
    status                text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'retired')),
    usage_count           integer NOT NULL DEFAULT 0,
    created_at            timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('memory_predicates', 'name');

-- Where a tenant wants it otherwise than memory_policy() has it.
CREATE TABLE memory_policies (
    retention_class          text NOT NULL,
    ttl_days                 integer CHECK (ttl_days > 0),
    decay_rate               real NOT NULL CHECK (decay_rate >= 0),
    min_retrieval_confidence real NOT NULL CHECK (min_retrieval_confidence BETWEEN 0 AND 1),
    archive_before_delete    boolean NOT NULL DEFAULT false,
    allow_summarization      boolean NOT NULL DEFAULT true
);
SELECT shared.tenant_table('memory_policies', 'retention_class');

-- The policy of a retention class: how long an episode of it is kept, how fast it fades, from where on it is not recalled.
CREATE FUNCTION memory_policy(class text, OUT ttl_days integer, OUT decay_rate real, OUT min_retrieval_confidence real,
                              OUT archive_before_delete boolean, OUT allow_summarization boolean)
LANGUAGE sql STABLE AS $$
    SELECT p.ttl_days, p.decay_rate, p.min_retrieval_confidence, p.archive_before_delete, p.allow_summarization FROM (
        SELECT 1 AS place, m.ttl_days, m.decay_rate, m.min_retrieval_confidence, m.archive_before_delete,
               m.allow_summarization
        FROM memory_policies m WHERE m.tenant_id = shared.tenant() AND m.retention_class = class
        UNION ALL
        SELECT 2, v.ttl, v.decay::real, v.least::real, v.archive, v.summarize
        FROM (VALUES ('transient', 7, 0.1, 0.1, false, true),
                     ('episodic', 30, 0.03, 0.15, false, true),
                     ('operational', NULL, 0.008, 0.2, false, true),
                     ('personal_profile', NULL, 0, 0, true, false),
                     ('health_log', NULL, 0.002, 0.1, true, false),
                     ('financial_log', NULL, 0.002, 0.1, true, false),
                     ('rule', NULL, 0.01, 0.2, false, true),
                     ('anti_pattern', NULL, 0, 0, false, true))
             AS v (name, ttl, decay, least, archive, summarize)
        WHERE v.name = class
    ) p ORDER BY p.place LIMIT 1
$$;
