-- A delivery is `sent` when a channel took it. One for a channel that this household does not have waits, for as long as it
-- takes, and the owner is told once of each such channel.
-- Runs as the owner role with search_path = shared.

ALTER TABLE outbox DROP CONSTRAINT outbox_state_check;
-- waiting: for a channel. The messenger sends it once it has one.
ALTER TABLE outbox ADD CONSTRAINT outbox_state_check CHECK (state IN
    ('pending', 'deferred', 'waiting', 'sending', 'sent', 'unknown', 'failed', 'dead'));
ALTER TABLE outbox ADD CHECK (state <> 'waiting' OR (reason IS NOT NULL AND last_error IS NOT NULL));
CREATE INDEX outbox_waiting ON outbox (channel) WHERE state = 'waiting';

ALTER TABLE notices DROP CONSTRAINT notices_kind_check;
ALTER TABLE notices ADD CONSTRAINT notices_kind_check
    CHECK (kind IN ('message_dead', 'work_dead', 'delivery_unknown', 'delivery_failed', 'delivery_dead', 'schedule_failed',
                    'schedule_missed', 'budget_spent', 'butler_parked', 'approval_abandoned', 'memory_dead_letter',
                    'machine', 'backup_missing', 'channel_missing'));
-- Of a channel once, however much comes to wait for it. The row goes when the channel comes.
CREATE UNIQUE INDEX notices_of_channel ON notices (tenant_id, subject) WHERE kind = 'channel_missing';

-- Why it waits, in a sentence.
CREATE FUNCTION no_channel(channel text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$ SELECT 'waiting for a channel: no module of the messenger sends over ' || channel $$;

-- What is to wait says why, whoever writes it.
CREATE FUNCTION outbox_says_why() RETURNS trigger LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
BEGIN
    NEW.reason := 'no_channel';
    NEW.last_error := shared.no_channel(NEW.channel);
    RETURN NEW;
END $$;
CREATE TRIGGER outbox_says_why BEFORE INSERT OR UPDATE OF state ON outbox FOR EACH ROW WHEN (NEW.state = 'waiting')
    EXECUTE FUNCTION outbox_says_why();

-- An answer is a delivery like any other. Where the messenger has the channel that the question came through, it goes out
-- there; the chat reads it from shared.replies, and so it is there. Else it waits for the channel, or for the program that
-- handed the question in and comes to read the answer.
CREATE OR REPLACE FUNCTION answer_is_queued() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = shared, pg_temp AS $$
DECLARE
    -- Without a context the lane alone tells the channel: its second part, behind that part's length.
    by_channel text := coalesce(NEW.context ->> 'source_channel',
        CASE WHEN NEW.lane ~ '^[0-9]+:[a-z]+4:chat' THEN 'chat' ELSE split_part(NEW.lane, '|', 1) END);
    first_state text := CASE WHEN by_channel = 'chat' THEN 'sent'
                             WHEN EXISTS (SELECT 1 FROM shared.channels c WHERE c.name = by_channel AND c.answers) THEN 'pending'
                             ELSE 'waiting' END;
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
        'state', first_state,
        'receipt', CASE WHEN first_state = 'sent' THEN jsonb_build_object('reply', NEW.seq) END)));
    RETURN NULL;
END $$;
