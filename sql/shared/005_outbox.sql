-- What leaves the household and what became of it, and what the owner is told of failures.
-- Runs as the owner role with search_path = shared.

-- The messenger's channels, besides the household's own chat. Of the household as a whole: tenant `owner`.
CREATE TABLE channels (
    name    text PRIMARY KEY,
    -- It carries answers to what came in through a channel of this name.
    answers boolean NOT NULL
);
SELECT shared.tenant_table('channels');

-- One row for each thing that is sent, answered or shown, committed before it is.
CREATE TABLE outbox (
    id              uuid PRIMARY KEY,
    seq             bigint GENERATED ALWAYS AS IDENTITY,
    -- The butler that wants it said, or butlerd.
    origin          text NOT NULL,
    request_id      uuid NOT NULL,
    session_id      uuid,
    kind            text NOT NULL CHECK (kind IN ('message', 'reminder', 'notice')),
    intent          text NOT NULL CHECK (intent IN ('send', 'reply', 'react')),
    channel         text NOT NULL CHECK (channel <> ''),
    -- The household's own end, where an answer goes back through it.
    endpoint        text,
    target          text NOT NULL CHECK (target <> ''),
    thread          text,
    -- One after the other within a lane, lanes side by side.
    lane            text NOT NULL,
    subject         text,
    message         text,
    emoji           text,
    priority        text NOT NULL CHECK (priority IN ('high', 'medium', 'low')),
    urgency         smallint NOT NULL GENERATED ALWAYS AS
                    (CASE priority WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END) STORED,
    idempotency_key text NOT NULL,
    context         jsonb NOT NULL,
    state           text NOT NULL CHECK (state IN
                    ('pending', 'deferred', 'sending', 'sent', 'unknown', 'failed', 'dead')),
    -- Why it is in this state: a stable word, and a sentence.
    reason          text,
    last_error      text,
    -- Not before: by the household's clock for what has its time, by the server's for another try.
    due_at          timestamptz NOT NULL,
    available_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Tries that failed, and all that were begun.
    failures        integer NOT NULL DEFAULT 0,
    attempts        integer NOT NULL DEFAULT 0,
    -- Of the try under way: sent again under the same key it arrives once.
    repeatable      boolean NOT NULL DEFAULT false,
    claim_id        uuid,
    claimed_by      text,
    lease_until     timestamptz,
    receipt         jsonb,
    created_at      timestamptz NOT NULL DEFAULT shared.clock(),
    settled_at      timestamptz,
    -- What follows from its end is done: whoever must know of it knows.
    followed_at     timestamptz,
    -- The switchboard's lane that it belongs to: of an answer the question's, else where an answer to it would come.
    conversation    text,
    -- Of an answer: its number in replies.
    reply_seq       bigint,
    -- Its butler has heard of a bad end, which happens once.
    told_at         timestamptz,
    -- Of the chat: somebody has seen it.
    shown_at        timestamptz,
    -- Of a bad end: a person has said that nothing more is to be done about it. {"at", "by", "reason"}
    discarded       jsonb,
    CHECK ((intent = 'react') = (emoji IS NOT NULL)),
    CHECK ((intent = 'react') = (message IS NULL)),
    CHECK ((claim_id IS NULL) = (claimed_by IS NULL) AND (claim_id IS NULL) = (lease_until IS NULL)),
    CHECK (claim_id IS NULL OR state IN ('pending', 'deferred', 'sending')),
    CHECK (state <> 'sending' OR claim_id IS NOT NULL),
    CHECK ((state IN ('sent', 'unknown', 'failed', 'dead')) = (settled_at IS NOT NULL)),
    CHECK (state NOT IN ('unknown', 'failed', 'dead') OR (reason IS NOT NULL AND last_error IS NOT NULL)),
    CHECK (discarded IS NULL OR state IN ('unknown', 'failed', 'dead'))
);
SELECT shared.tenant_table('outbox');
CREATE UNIQUE INDEX outbox_once ON outbox (tenant_id, idempotency_key);
-- At most one of a lane is in somebody's hands.
CREATE UNIQUE INDEX outbox_in_hand ON outbox (tenant_id, lane) WHERE claim_id IS NOT NULL;
CREATE INDEX outbox_open ON outbox (urgency, seq) WHERE state IN ('pending', 'deferred', 'sending');
CREATE INDEX outbox_lane ON outbox (tenant_id, lane, urgency, seq) WHERE state IN ('pending', 'deferred', 'sending');
CREATE INDEX outbox_ended ON outbox (seq) WHERE settled_at IS NOT NULL AND followed_at IS NULL;
CREATE INDEX outbox_bad ON outbox (settled_at) WHERE state IN ('unknown', 'failed', 'dead');
CREATE INDEX outbox_unshown ON outbox (tenant_id, seq)
    WHERE channel = 'chat' AND intent = 'send' AND state = 'sent' AND shown_at IS NULL;
CREATE INDEX outbox_notices ON outbox (tenant_id, seq) WHERE kind = 'notice';
CREATE INDEX outbox_newest ON outbox (tenant_id, seq);
CREATE INDEX outbox_of_request ON outbox (request_id);

-- Each try, begun before anything leaves.
CREATE TABLE outbox_attempts (
    outbox_id  uuid NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    n          integer NOT NULL,
    lane       text NOT NULL,
    begun_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    -- lost: nobody was there to see its end.
    outcome    text CHECK (outcome IN ('sent', 'not_sent', 'refused', 'unknown', 'lost')),
    detail     text,
    PRIMARY KEY (outbox_id, n),
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
);
SELECT shared.tenant_table('outbox_attempts');
CREATE INDEX outbox_attempts_of_lane ON outbox_attempts (tenant_id, lane, begun_at);

-- Writes a row in somebody's name, once for each key. Of the household's own hands only.
CREATE FUNCTION queue_delivery_as(who text, of_tenant text, wanted jsonb)
RETURNS TABLE (delivery uuid, delivery_state text, fresh boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    key text := who || ':' || (wanted ->> 'idempotency_key');
BEGIN
    INSERT INTO shared.outbox (id, tenant_id, origin, request_id, session_id, kind, intent, channel, endpoint, target,
                               thread, lane, subject, message, emoji, priority, idempotency_key, context, state, reason,
                               due_at, trust, receipt, settled_at, followed_at, conversation, reply_seq)
    VALUES (coalesce((wanted ->> 'id')::uuid, gen_random_uuid()), of_tenant, who, (wanted ->> 'request_id')::uuid,
            (wanted ->> 'session_id')::uuid, coalesce(wanted ->> 'kind', 'message'), wanted ->> 'intent',
            wanted ->> 'channel', wanted ->> 'endpoint', wanted ->> 'target', wanted ->> 'thread',
            (wanted ->> 'channel') || '|' || md5(coalesce(wanted ->> 'thread', wanted ->> 'target')),
            wanted ->> 'subject', wanted ->> 'message', wanted ->> 'emoji', coalesce(wanted ->> 'priority', 'medium'),
            key, coalesce(wanted -> 'context', '{}'), coalesce(wanted ->> 'state', 'pending'), wanted ->> 'reason',
            coalesce((wanted ->> 'due_at')::timestamptz, shared.clock()), coalesce(wanted ->> 'trust', shared.trust()),
            wanted -> 'receipt',
            CASE WHEN wanted ->> 'state' = 'sent' THEN shared.clock() END,
            CASE WHEN wanted ->> 'state' = 'sent' THEN shared.clock() END,
            wanted ->> 'conversation', (wanted ->> 'reply_seq')::bigint)
    ON CONFLICT (tenant_id, idempotency_key) DO NOTHING;
    IF FOUND THEN
        RETURN QUERY SELECT o.id, o.state, true FROM shared.outbox o
                     WHERE o.tenant_id = of_tenant AND o.idempotency_key = key;
    ELSE
        RETURN QUERY SELECT o.id, o.state, false FROM shared.outbox o
                     WHERE o.tenant_id = of_tenant AND o.idempotency_key = key;
    END IF;
END $$;
REVOKE EXECUTE ON FUNCTION queue_delivery_as FROM PUBLIC;

-- What a butler wants said. Which butler it is, its login says. It waits, or waits for its time; nothing else.
CREATE FUNCTION queue_delivery(wanted jsonb) RETURNS TABLE (delivery uuid, delivery_state text, fresh boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text;
BEGIN
    SELECT r.butler INTO who FROM shared.butler_roles r WHERE r.role = session_user;
    IF who IS NULL THEN
        RAISE EXCEPTION 'only a butler sends' USING ERRCODE = '42501';
    END IF;
    IF wanted ->> 'intent' <> 'send' OR coalesce(wanted ->> 'state', 'pending') NOT IN ('pending', 'deferred')
       OR coalesce(wanted ->> 'kind', 'message') NOT IN ('message', 'reminder') THEN
        RAISE EXCEPTION 'a butler sends what waits' USING ERRCODE = '42501';
    END IF;
    RETURN QUERY SELECT * FROM shared.queue_delivery_as(who, shared.tenant(),
                                                        wanted - '{trust,conversation,reply_seq}'::text[]);
END $$;

-- An answer is a delivery like any other. Where the messenger has the channel that the question came through, it goes
-- out there; elsewhere whoever asked reads it from shared.replies, and it is there.
CREATE FUNCTION answer_is_queued() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    by_channel text := coalesce(NEW.context ->> 'source_channel', split_part(NEW.lane, '|', 1));
    goes_out boolean := EXISTS (SELECT 1 FROM shared.channels c WHERE c.name = by_channel AND c.answers);
BEGIN
    PERFORM shared.queue_delivery_as(NEW.butler, NEW.tenant_id, jsonb_strip_nulls(jsonb_build_object(
        'request_id', NEW.request_id, 'session_id', NEW.session_id,
        'intent', CASE NEW.kind WHEN 'react' THEN 'react' ELSE 'reply' END,
        'channel', by_channel,
        'endpoint', coalesce(NEW.context ->> 'source_endpoint_identity', split_part(NEW.lane, '|', 2)),
        'target', coalesce(nullif(NEW.context ->> 'source_sender_identity', ''),
                           nullif(split_part(NEW.lane, '|', 4), ''), nullif(split_part(NEW.lane, '|', 3), ''), '?'),
        'thread', coalesce(NEW.context ->> 'source_thread_identity',
                           CASE WHEN NEW.context IS NULL THEN nullif(split_part(NEW.lane, '|', 3), '') END),
        'message', NEW.message, 'emoji', NEW.emoji, 'priority', 'high', 'idempotency_key', 'answer:' || NEW.seq,
        'conversation', NEW.lane, 'reply_seq', NEW.seq,
        'context', coalesce(NEW.context, '{}'), 'trust', NEW.trust,
        'state', CASE WHEN goes_out THEN 'pending' ELSE 'sent' END,
        'receipt', CASE WHEN goes_out THEN NULL ELSE jsonb_build_object('reply', NEW.seq) END)));
    RETURN NULL;
END $$;
CREATE TRIGGER answer_is_queued AFTER INSERT ON replies FOR EACH ROW EXECUTE FUNCTION answer_is_queued();

-- What a butler may see of it: its own; the messenger all. As the tables' policy does, it says whose words are read.
CREATE FUNCTION deliveries() RETURNS TABLE (
    id uuid, seq bigint, origin text, request_id uuid, session_id uuid, kind text, intent text, channel text, target text,
    thread text, subject text, message text, emoji text, priority text, state text, reason text, last_error text,
    due_at timestamptz, attempts integer, receipt jsonb, created_at timestamptz, settled_at timestamptz, failures integer,
    available_at timestamptz, discarded jsonb)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
    SELECT o.id, o.seq, o.origin, o.request_id, o.session_id, o.kind, o.intent, o.channel, o.target, o.thread, o.subject,
           o.message, o.emoji, o.priority, o.state, o.reason, o.last_error, o.due_at, o.attempts, o.receipt, o.created_at,
           o.settled_at, o.failures, o.available_at, o.discarded
    FROM shared.outbox o JOIN shared.butler_roles r ON r.role = session_user
    WHERE o.tenant_id = shared.tenant() AND (o.origin = r.butler OR r.butler = 'messenger')
      AND (o.trust IN ('owner', 'system') OR shared.saw(o.trust))
$$;
CREATE FUNCTION delivery_attempts() RETURNS TABLE (
    delivery_id uuid, n integer, begun_at timestamptz, ended_at timestamptz, outcome text, detail text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
    SELECT a.outbox_id, a.n, a.begun_at, a.ended_at, a.outcome, a.detail
    FROM shared.outbox_attempts a JOIN shared.outbox o ON o.id = a.outbox_id
         JOIN shared.butler_roles r ON r.role = session_user
    WHERE o.tenant_id = shared.tenant() AND (o.origin = r.butler OR r.butler = 'messenger')
      AND (o.trust IN ('owner', 'system') OR shared.saw(o.trust))
$$;

-- Tells the butler that wanted it said of a bad end, once: a session of its own gets to know. Not where a session
-- wanted it that was begun about such an end itself, or nobody but a person. Called by the daemon.
CREATE FUNCTION tell_origin(delivery uuid) RETURNS boolean LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    o shared.outbox;
    home text;
    begun_by_an_end boolean;
BEGIN
    SELECT * INTO o FROM shared.outbox WHERE id = delivery AND told_at IS NULL AND session_id IS NOT NULL
        AND state IN ('unknown', 'failed', 'dead') AND reason <> 'cancelled' AND intent = 'send' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE shared.outbox SET told_at = shared.clock() WHERE id = delivery;
    SELECT r.schema INTO home FROM shared.butler_roles r WHERE r.butler = o.origin;
    IF home IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I.sessions s JOIN %I.route_inbox r ON r.id = s.route_id
                                   WHERE s.id = $1 AND r.route #> ''{input,context,delivery_id}'' IS NOT NULL)', home, home)
    INTO begun_by_an_end USING o.session_id;
    IF begun_by_an_end THEN
        RETURN false;
    END IF;
    RETURN shared.hand_back(o.origin, jsonb_set(o.context, '{trust}', to_jsonb(o.trust)), false,
        CASE o.state
            WHEN 'unknown' THEN 'It is not known whether a message that you sent has arrived. It is not sent again by '
                || 'itself, and you must not send it again. The owner is told as well. Do what follows from it, if anything.'
            ELSE 'A message that you sent could not be delivered. The owner is told as well. Do what follows from it, if '
                || 'anything.'
        END,
        jsonb_build_object('delivery_id', o.id, 'state', o.state, 'channel', o.channel, 'recipient', o.target,
                           'message', left(o.message, 2000), 'why', o.last_error)) IS NOT NULL;
END $$;
REVOKE EXECUTE ON FUNCTION tell_origin FROM PUBLIC;

-- What went wrong and needs to be known: one row for each thing that did, whoever finds it and however often.
CREATE TABLE notices (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    kind        text NOT NULL CHECK (kind IN ('message_dead', 'work_dead', 'delivery_unknown', 'delivery_failed',
                                              'delivery_dead', 'schedule_failed', 'schedule_missed', 'budget_spent',
                                              'butler_parked', 'approval_abandoned', 'memory_dead_letter')),
    -- The row or butler that it is about, and when that happened.
    subject     text NOT NULL,
    happened_at timestamptz NOT NULL,
    told        text NOT NULL,
    -- The message that carries it to the owner; null: none yet.
    delivery_id uuid REFERENCES outbox (id),
    created_at  timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('notices');
CREATE UNIQUE INDEX notices_once ON notices (tenant_id, kind, subject, happened_at);
CREATE INDEX notices_untold ON notices (tenant_id, seq) WHERE delivery_id IS NULL;
CREATE INDEX notices_of_delivery ON notices (delivery_id) WHERE delivery_id IS NOT NULL;
