-- What a butler remembers: episodes, facts, rules.
-- Runs as the owner role with search_path = <schema>, shared, public. Read under the butler's own role; written by the
-- functions of 003_writes.sql alone.

-- Numbers every change of a memory. Within a tenant the numbers become visible in their order (memory_step), so that
-- whoever has read up to one of them has missed nothing before it.
CREATE SEQUENCE memory_changes;

-- What happened: a session, a letter, a turn of a conversation. The raw material of facts.
CREATE TABLE memory_episodes (
    id                 uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    change             bigint NOT NULL DEFAULT 0,
    seq                bigint GENERATED ALWAYS AS IDENTITY,
    butler             text NOT NULL,
    -- Episodes of one session stand in the order of seq.
    session_id         uuid,
    request_id         uuid,
    speaker            text,
    content            text NOT NULL,
    -- SHA-256 of the plain text; it stays when the text is purged, so that the same is not taken in again.
    content_hash       text NOT NULL,
    embedding          bytea,
    embedding_model    text,
    importance         real NOT NULL DEFAULT 5 CHECK (importance BETWEEN 0 AND 10),
    retention_class    text NOT NULL DEFAULT 'transient',
    sensitivity        text NOT NULL DEFAULT 'normal' CHECK (sensitivity IN ('normal', 'sensitive', 'secret')),
    metadata           jsonb NOT NULL DEFAULT '{}',
    idempotency_key    text,
    reference_count    integer NOT NULL DEFAULT 0,
    last_referenced_at timestamptz,
    occurred_at        timestamptz NOT NULL DEFAULT shared.clock(),
    created_at         timestamptz NOT NULL DEFAULT shared.clock(),
    expires_at         timestamptz,
    -- Consolidation: claimed under a lease, settled only by the claim that holds it.
    consolidation      text NOT NULL DEFAULT 'pending' CHECK (consolidation IN
                       ('pending', 'consolidated', 'failed', 'dead_letter', 'left_out')),
    attempts           integer NOT NULL DEFAULT 0,
    claim_id           uuid,
    claimed_by         text,
    lease_until        timestamptz,
    available_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error         text,
    -- When it was made into facts, or given up.
    settled_at         timestamptz,
    forgotten_at       timestamptz,
    purged_at          timestamptz,
    search             tsvector GENERATED ALWAYS AS
                       (to_tsvector('english', coalesce(speaker, '') || ' ' || content)) STORED
);
SELECT shared.tenant_table('memory_episodes');
CREATE INDEX memory_episodes_changed ON memory_episodes (tenant_id, change);
CREATE INDEX memory_episodes_of_session ON memory_episodes (session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX memory_episodes_same ON memory_episodes (tenant_id, content_hash);
CREATE INDEX memory_episodes_open ON memory_episodes (available_at) WHERE consolidation IN ('pending', 'failed');
CREATE INDEX memory_episodes_dead ON memory_episodes (settled_at) WHERE consolidation = 'dead_letter';
CREATE INDEX memory_episodes_ending ON memory_episodes (expires_at) WHERE forgotten_at IS NULL;
CREATE INDEX memory_episodes_search ON memory_episodes USING gin (search);
CREATE UNIQUE INDEX memory_episodes_once ON memory_episodes (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- What is so: of a property one value is active, of edges between entities and of things that happened at a time many.
CREATE TABLE memory_facts (
    id                 uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    change             bigint NOT NULL DEFAULT 0,
    seq                bigint GENERATED ALWAYS AS IDENTITY,
    kind               text NOT NULL DEFAULT 'property' CHECK (kind IN ('property', 'many', 'edge', 'temporal')),
    subject            text NOT NULL,
    predicate          text NOT NULL,
    content            text NOT NULL,
    content_hash       text NOT NULL,
    -- SHA-256 of scope, subject and predicate: what a purged fact was about, without saying it.
    topic_hash         text NOT NULL,
    entity_id          uuid,
    object_entity_id   uuid,
    embedding          bytea,
    embedding_model    text,
    importance         real NOT NULL DEFAULT 5 CHECK (importance BETWEEN 0 AND 10),
    confidence         real NOT NULL DEFAULT 1 CHECK (confidence BETWEEN 0 AND 1),
    permanence         text NOT NULL DEFAULT 'standard'
                       CHECK (permanence IN ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
    -- Of confidence, for each day since it was confirmed last.
    decay_rate         real NOT NULL DEFAULT 0.008 CHECK (decay_rate >= 0),
    scope              text NOT NULL DEFAULT 'global',
    validity           text NOT NULL DEFAULT 'active'
                       CHECK (validity IN ('active', 'fading', 'superseded', 'expired', 'retracted', 'merged')),
    -- Of one that is merged: which fact says the same. It is one more wording of that one.
    merged_into        uuid CHECK ((merged_into IS NOT NULL) = (validity = 'merged')),
    -- Whether it was asked if those that are most like it say the same.
    compared           text NOT NULL DEFAULT 'pending' CHECK (compared IN ('pending', 'done', 'given_up')),
    compare_attempts   integer NOT NULL DEFAULT 0,
    compare_error      text,
    tags               text[] NOT NULL DEFAULT '{}',
    metadata           jsonb NOT NULL DEFAULT '{}',
    -- When it was so, and when it was learned.
    valid_from         timestamptz,
    valid_to           timestamptz,
    learned_at         timestamptz NOT NULL DEFAULT shared.clock(),
    last_confirmed_at  timestamptz NOT NULL DEFAULT shared.clock(),
    confirmations      integer NOT NULL DEFAULT 0,
    supersedes_id      uuid,
    source_butler      text NOT NULL,
    source_episode_id  uuid,
    session_id         uuid,
    request_id         uuid,
    retention_class    text NOT NULL DEFAULT 'operational',
    sensitivity        text NOT NULL DEFAULT 'normal' CHECK (sensitivity IN ('normal', 'sensitive', 'secret')),
    idempotency_key    text,
    reference_count    integer NOT NULL DEFAULT 0,
    last_referenced_at timestamptz,
    created_at         timestamptz NOT NULL DEFAULT shared.clock(),
    forgotten_at       timestamptz,
    purged_at          timestamptz,
    -- Whether it says by its subject that it is about the owner. A column, because under row-level security no index
    -- serves an expression.
    of_owner           boolean GENERATED ALWAYS AS (lower(subject) IN
                       ('owner', 'the owner', 'user', 'the user', 'me', 'i', 'self')) STORED,
    search             tsvector GENERATED ALWAYS AS
                       (to_tsvector('english', subject || ' ' || replace(predicate, '_', ' ') || ' ' || content)) STORED
);
SELECT shared.tenant_table('memory_facts');
CREATE INDEX memory_facts_changed ON memory_facts (tenant_id, change);
CREATE INDEX memory_facts_same ON memory_facts (tenant_id, content_hash);
CREATE INDEX memory_facts_topic ON memory_facts (tenant_id, topic_hash);
CREATE INDEX memory_facts_of_owner ON memory_facts (tenant_id, importance DESC, created_at DESC, id)
    WHERE of_owner AND forgotten_at IS NULL;
CREATE INDEX memory_facts_of_entity ON memory_facts (entity_id) WHERE entity_id IS NOT NULL;
CREATE INDEX memory_facts_to_entity ON memory_facts (object_entity_id) WHERE object_entity_id IS NOT NULL;
CREATE INDEX memory_facts_wordings ON memory_facts (merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX memory_facts_uncompared ON memory_facts (seq) WHERE compared = 'pending';
CREATE INDEX memory_facts_of_source ON memory_facts (source_episode_id) WHERE source_episode_id IS NOT NULL;
CREATE INDEX memory_facts_search ON memory_facts USING gin (search);
CREATE UNIQUE INDEX memory_facts_once ON memory_facts (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- One value at a time. A stranger's claim stands beside what the household knows and never in its place.
CREATE UNIQUE INDEX memory_facts_one_value ON memory_facts (tenant_id, topic_hash, (trust = 'stranger'))
    WHERE kind = 'property' AND validity IN ('active', 'fading') AND forgotten_at IS NULL;
CREATE UNIQUE INDEX memory_facts_one_edge ON memory_facts (tenant_id, topic_hash, object_entity_id, (trust = 'stranger'))
    WHERE kind = 'edge' AND validity IN ('active', 'fading') AND forgotten_at IS NULL;

-- What to do: learned ways, tried, and kept or turned down by how they worked.
CREATE TABLE memory_rules (
    id                 uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    change             bigint NOT NULL DEFAULT 0,
    seq                bigint GENERATED ALWAYS AS IDENTITY,
    content            text NOT NULL,
    content_hash       text NOT NULL,
    embedding          bytea,
    embedding_model    text,
    scope              text NOT NULL DEFAULT 'global',
    maturity           text NOT NULL DEFAULT 'candidate'
                       CHECK (maturity IN ('candidate', 'established', 'proven', 'anti_pattern')),
    importance         real NOT NULL DEFAULT 5 CHECK (importance BETWEEN 0 AND 10),
    confidence         real NOT NULL DEFAULT 0.5 CHECK (confidence BETWEEN 0 AND 1),
    permanence         text NOT NULL DEFAULT 'standard'
                       CHECK (permanence IN ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
    decay_rate         real NOT NULL DEFAULT 0.01 CHECK (decay_rate >= 0),
    effectiveness      real NOT NULL DEFAULT 0,
    applied_count      integer NOT NULL DEFAULT 0,
    success_count      integer NOT NULL DEFAULT 0,
    harmful_count      integer NOT NULL DEFAULT 0,
    validity           text NOT NULL DEFAULT 'active' CHECK (validity IN ('active', 'fading', 'expired', 'retracted')),
    tags               text[] NOT NULL DEFAULT '{}',
    metadata           jsonb NOT NULL DEFAULT '{}',
    learned_at         timestamptz NOT NULL DEFAULT shared.clock(),
    last_confirmed_at  timestamptz NOT NULL DEFAULT shared.clock(),
    source_butler      text NOT NULL,
    source_episode_id  uuid,
    session_id         uuid,
    request_id         uuid,
    retention_class    text NOT NULL DEFAULT 'rule',
    sensitivity        text NOT NULL DEFAULT 'normal' CHECK (sensitivity IN ('normal', 'sensitive', 'secret')),
    idempotency_key    text,
    reference_count    integer NOT NULL DEFAULT 0,
    last_referenced_at timestamptz,
    created_at         timestamptz NOT NULL DEFAULT shared.clock(),
    forgotten_at       timestamptz,
    purged_at          timestamptz,
    -- A stranger's words are no rule to go by.
    trust              text NOT NULL CHECK (trust IN ('owner', 'system', 'known')),
    search             tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED
);
SELECT shared.tenant_table('memory_rules');
CREATE INDEX memory_rules_changed ON memory_rules (tenant_id, change);
CREATE INDEX memory_rules_same ON memory_rules (tenant_id, content_hash);
CREATE INDEX memory_rules_search ON memory_rules USING gin (search);
CREATE UNIQUE INDEX memory_rules_once ON memory_rules (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
