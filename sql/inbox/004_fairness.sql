-- Whose message is whose, and how much strangers may send.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Lanes are made of parts behind their lengths from now on (shared.joined), and a thread is one lane for each of its writers.
-- Messages that wait keep the lanes that they have. Conversations that are open begin a new lane with their next message,
-- because whose an old lane is can't be told; which butler an old one was with is forgotten.
DELETE FROM thread_affinity;

-- The same message is known by channel, endpoint, thread, sender and id. Rows that are here are known so as well: who wrote
-- them counts as proven, because connectors did not say.
UPDATE message_inbox m SET dedupe_key = CASE m.dedupe_by
        WHEN 'idempotency_key' THEN
            shared.joined('idem', m.channel, m.endpoint, m.thread, s.plain, m.envelope #>> '{control,idempotency_key}')
        ELSE shared.joined('event', m.channel, m.provider, m.endpoint, m.thread, s.plain, m.external_event_id) END
FROM (SELECT request_id, lower(btrim(coalesce(substring(sender FROM '<([^<]*)>$'), sender))) AS plain FROM message_inbox) s
WHERE s.request_id = m.request_id AND m.dedupe_by IN ('idempotency_key', 'event');

-- How much a stranger has sent lately. A column of its own: an index on an expression is of no use under row-level security.
ALTER TABLE message_inbox ADD COLUMN sender_key text NOT NULL GENERATED ALWAYS AS (lower(sender)) STORED;
CREATE INDEX message_inbox_strangers ON message_inbox (tenant_id, channel, sender_key, received_at) WHERE trust = 'stranger';

-- Strangers who sent more than they may: what was refused is on record as a number alone.
CREATE TABLE refused_senders (
    channel  text NOT NULL,
    sender   text NOT NULL,
    day      date NOT NULL,
    refused  bigint NOT NULL,
    -- stranger_per_hour, stranger_per_day: which limit it was the last time.
    by_limit text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL
);
SELECT shared.tenant_table('refused_senders', 'channel', 'sender', 'day');
CREATE INDEX refused_senders_newest ON refused_senders (tenant_id, last_at);

-- The same note of the same request is handed over once. A blank in a subject does not read as the begin of the body.
DROP INDEX mail_once;
CREATE UNIQUE INDEX mail_once ON mail (tenant_id, request_id, target_butler, md5(coalesce(subject, '')), md5(body));
