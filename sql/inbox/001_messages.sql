-- What came in, what became of it, and how it is routed.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- One row for each message that butlerd accepted, committed before it said so.
CREATE TABLE message_inbox (
    request_id        uuid PRIMARY KEY,
    -- The order of acceptance.
    seq               bigint GENERATED ALWAYS AS IDENTITY,
    dedupe_key        text NOT NULL,
    dedupe_by         text NOT NULL CHECK (dedupe_by IN ('idempotency_key', 'event', 'content')),
    state             text NOT NULL DEFAULT 'accepted' CHECK (state IN ('accepted', 'processing', 'done', 'dead')),
    -- 0 high_priority, 1 interactive, 2 default.
    tier              smallint NOT NULL CHECK (tier BETWEEN 0 AND 2),
    -- Messages of one lane are dealt with one after the other.
    lane              text NOT NULL,
    channel           text NOT NULL,
    provider          text NOT NULL,
    endpoint          text NOT NULL,
    sender            text NOT NULL,
    thread            text,
    external_event_id text,
    contact_id        uuid,
    entity_id         uuid,
    trust             text NOT NULL,
    observed_at       timestamptz NOT NULL,
    received_at       timestamptz NOT NULL,
    body              text NOT NULL,
    attachments       jsonb NOT NULL DEFAULT '[]',
    -- The rest of the envelope: raw payload, what is known of the sender, control.
    envelope          jsonb NOT NULL,
    context           jsonb NOT NULL,
    -- What triage said at acceptance: {"action", "butler", "by", "rule_id"}; null: nothing.
    triage            jsonb,
    -- Its parts are on record and on their way.
    classified_at     timestamptz,
    claim_id          uuid,
    claimed_by        text,
    lease_until       timestamptz,
    attempts          integer NOT NULL DEFAULT 0,
    available_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error        text,
    session_id        uuid,
    settled_at        timestamptz,
    CHECK ((state IN ('done', 'dead')) = (settled_at IS NOT NULL))
);
SELECT shared.tenant_table('message_inbox');
CREATE UNIQUE INDEX message_inbox_once ON message_inbox (tenant_id, dedupe_key);
CREATE INDEX message_inbox_lane ON message_inbox (tenant_id, lane, seq);
CREATE INDEX message_inbox_dead ON message_inbox (settled_at) WHERE state = 'dead';
CREATE INDEX message_inbox_open ON message_inbox (tier, seq) WHERE state IN ('accepted', 'processing');
CREATE TRIGGER conversation_accepted AFTER INSERT ON message_inbox REFERENCING NEW TABLE AS accepted FOR EACH STATEMENT
    EXECUTE FUNCTION shared.conversation_accepted();

-- The parts of a message, each for one butler. While the classifying session is at work they are its drafts.
CREATE TABLE route_segments (
    id          uuid PRIMARY KEY,
    request_id  uuid NOT NULL REFERENCES message_inbox (request_id) ON DELETE CASCADE,
    -- Of a draft: the session that made it.
    session_id  uuid,
    n           integer NOT NULL,
    butler      text NOT NULL,
    prompt      text NOT NULL,
    context     jsonb,
    -- rule, affinity, reply, pinned, model, fallback, operator
    chosen_by   text NOT NULL,
    state       text NOT NULL CHECK (state IN ('draft', 'open', 'accepted', 'done', 'dead', 'rerouted')),
    last_error  text,
    created_at  timestamptz NOT NULL DEFAULT shared.clock(),
    settled_at  timestamptz
);
SELECT shared.tenant_table('route_segments');
CREATE INDEX route_segments_of ON route_segments (request_id, n);

-- Ordered rules that decide before any model is asked.
CREATE TABLE triage_rules (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    position   integer NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('sender_address', 'sender_domain', 'header', 'substring', 'chat_id',
                                             'channel', 'mime_type')),
    pattern    text NOT NULL CHECK (pattern <> ''),
    action     text NOT NULL CHECK (action IN ('skip', 'metadata_only', 'low_priority', 'route_to', 'pass')),
    butler     text,
    enabled    boolean NOT NULL DEFAULT true,
    note       text,
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at timestamptz NOT NULL DEFAULT shared.clock(),
    CHECK ((action = 'route_to') = (butler IS NOT NULL))
);
SELECT shared.tenant_table('triage_rules');

-- Which butler a thread's last message went to, for as long as that counts.
CREATE TABLE thread_affinity (
    lane       text NOT NULL,
    butler     text NOT NULL,
    -- thread: it was routed there. notification: that butler wrote first.
    source     text NOT NULL CHECK (source IN ('thread', 'notification')),
    expires_at timestamptz NOT NULL
);
SELECT shared.tenant_table('thread_affinity', 'lane');

-- What people did by hand with a message, in the transaction in which they did it.
CREATE TABLE request_actions (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    request_id uuid NOT NULL,
    action     text NOT NULL CHECK (action IN ('retry', 'reroute', 'cancel', 'abort', 'complete')),
    -- As their token calls them; and who they say they are.
    by_label   text NOT NULL,
    said_by    text,
    reason     text,
    detail     jsonb NOT NULL DEFAULT '{}',
    at         timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('request_actions');
CREATE INDEX request_actions_of ON request_actions (tenant_id, request_id, at);
