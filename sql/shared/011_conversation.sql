-- The conversation log: what was said between people and the household, in and out, on all channels, in one order.
-- Runs as the owner role with search_path = shared.
--
-- An entry is written by the transaction that accepts a message (a trigger on message_inbox) or that delivers one (a trigger
-- on outbox, in which an answer that nobody carries out is delivered as it is written). It has no `id` then: transactions
-- commit in another order than they began, so a number drawn by one of them could appear after a greater one. Writers wait
-- for nobody. Numbers are given to entries that are committed, by conversation_order() and nothing else.
--
-- Whoever has seen an entry numbered n never finds another one of a smaller number later:
--   1. conversation_order() first takes a lock that it holds to the end of its transaction. The server makes the changes of
--      a transaction visible before it lets go of its locks. So the runs stand in a row: when one gets the lock, all that
--      came before it are visible or undone, and none that comes after has drawn a number.
--   2. It draws from a sequence after it got the lock. A sequence never goes back, neither by a rollback nor by a crash
--      that follows a commit. So every number of a run is greater than all numbers of the runs before it.
--   3. The numbers of one run appear together: at its commit.
--   4. An entry is numbered once: a run takes those that have no number, under a snapshot taken after 1.
--   Let somebody see n, which some run R gave. By 3 R is committed, and with it all it gave; by 1 every run before R is
--   visible or undone for good; by 2 every run after R gives greater numbers only. So nothing below n is still to come.
-- None of this depends on clocks, on transaction numbers or on how readers read, so it holds in every isolation level, for
-- plain SELECTs, and after a restore into another cluster: an entry brings its number along, the sequence stands behind the
-- greatest, and entries that had none yet get theirs there. Gaps mean nothing.

CREATE SEQUENCE conversation_ids;

CREATE TABLE conversation (
    -- The request of what came in, the delivery of what went out: each is said once.
    entry       uuid NOT NULL,
    -- Its place in the log; null: it was committed a moment ago.
    id          bigint UNIQUE,
    -- In the order of writing; it says nothing about when an entry appears.
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    direction   text NOT NULL CHECK (direction IN ('in', 'out')),
    kind        text NOT NULL CHECK (kind IN ('message', 'reply', 'react', 'failure', 'reminder', 'notice')),
    channel     text NOT NULL,
    -- The household's own end of the channel.
    endpoint    text,
    -- In which conversation: channel, endpoint and thread, or else the person.
    lane        text NOT NULL,
    thread      text,
    -- Who it came from or went to, as the channel names them; how they call themselves; which contact that is.
    person      text NOT NULL,
    person_name text,
    contact_id  uuid,
    -- Who spoke for the household.
    butler      text,
    -- The butler ended without answering, and its last words were taken for an answer.
    auto        boolean NOT NULL DEFAULT false,
    subject     text,
    text        text,
    emoji       text,
    -- By reference: [{"media_type", "storage_ref", "filename", ...}].
    attachments jsonb NOT NULL DEFAULT '[]',
    request_id  uuid NOT NULL,
    session_id  uuid,
    -- Of an answer: its number in replies.
    reply_seq   bigint,
    said_at     timestamptz NOT NULL,
    PRIMARY KEY (entry, direction),
    CHECK (direction = 'out' OR entry = request_id),
    CHECK ((direction = 'in') = (butler IS NULL)),
    CHECK ((kind = 'react') = (emoji IS NOT NULL))
);
SELECT shared.tenant_table('conversation');
CREATE INDEX conversation_of_lane ON conversation (tenant_id, lane, seq);
CREATE INDEX conversation_of_request ON conversation (request_id) WHERE direction = 'out';

-- Which butlers an entry concerns: those that a message was handed to, and the one that said it. A message becomes a
-- butler's concern later than it was said, so this row has a number of its own, of the same sequence, by which its butler
-- reads on and misses nothing.
CREATE TABLE conversation_readers (
    entry     uuid NOT NULL,
    direction text NOT NULL,
    butler    text NOT NULL,
    id        bigint UNIQUE,
    PRIMARY KEY (entry, direction, butler),
    FOREIGN KEY (entry, direction) REFERENCES conversation ON DELETE CASCADE
);
SELECT shared.tenant_table('conversation_readers');

-- A butler reads what concerns it; the switchboard, which takes everything in, all of it; the messenger what went out.
-- Others read nothing. CASE keeps rows that are not shown from lowering anybody's trust.
ALTER POLICY tenant ON conversation_readers
    USING (tenant_id = current_setting('butlerd.tenant', true) AND butler = (SELECT shared.asking_butler()));
ALTER POLICY tenant ON conversation
    USING (tenant_id = current_setting('butlerd.tenant', true) AND CASE
           WHEN CASE (SELECT shared.asking_butler())
                WHEN 'switchboard' THEN true
                WHEN 'messenger' THEN direction = 'out'
                ELSE EXISTS (SELECT 1 FROM shared.conversation_readers r 
                             WHERE (r.entry, r.direction) = (conversation.entry, conversation.direction)) END
           THEN trust IN ('owner', 'system') OR shared.saw(trust)
           ELSE false END);
GRANT SELECT ON conversation, conversation_readers TO PUBLIC;

-- Gives all committed entries that have no number theirs, and returns how many those were. A transaction of its own, which
-- ends at once: the next run waits for it. Called by the daemon.
CREATE FUNCTION conversation_order() RETURNS bigint LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    entries bigint;
    readers bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'conversation_order() must see what is committed after it got its lock; call it READ COMMITTED'
            USING ERRCODE = '25001';
    END IF;
    IF NOT EXISTS (SELECT 1 FROM conversation WHERE id IS NULL)
       AND NOT EXISTS (SELECT 1 FROM conversation_readers WHERE id IS NULL) THEN
        RETURN 0;
    END IF;
    -- What is seen must survive a crash, whatever the server is set to.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('shared.conversation', 0));
    -- Each statement from here on has a snapshot that is younger than the lock.
    WITH numbered AS MATERIALIZED (
        SELECT waiting.entry, waiting.direction, nextval('conversation_ids') AS id
        FROM (SELECT c.entry, c.direction FROM conversation c WHERE c.id IS NULL ORDER BY c.seq) waiting)
    UPDATE conversation c SET id = n.id FROM numbered n WHERE (c.entry, c.direction) = (n.entry, n.direction);
    GET DIAGNOSTICS entries = ROW_COUNT;
    WITH numbered AS MATERIALIZED (
        SELECT waiting.*, nextval('conversation_ids') AS id
        FROM (SELECT r.entry, r.direction, r.butler FROM conversation_readers r JOIN conversation c USING (entry, direction)
              WHERE r.id IS NULL ORDER BY c.seq, r.butler) waiting)
    UPDATE conversation_readers r SET id = n.id FROM numbered n
    WHERE (r.entry, r.direction, r.butler) = (n.entry, n.direction, n.butler);
    GET DIAGNOSTICS readers = ROW_COUNT;
    RETURN entries + readers;
END $$;
REVOKE EXECUTE ON FUNCTION conversation_order() FROM PUBLIC;

-- What was accepted: after each statement that adds to the switchboard's message_inbox.
CREATE FUNCTION conversation_accepted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = shared, pg_temp AS $$
BEGIN
    INSERT INTO conversation (entry, direction, kind, channel, endpoint, lane, thread, person, person_name, contact_id,
                              text, attachments, request_id, said_at, tenant_id, trust)
    SELECT m.request_id, 'in', 'message', m.channel, m.endpoint, m.lane, m.thread, m.sender,
           coalesce(m.envelope #>> '{sender,display_name}', m.sender), m.contact_id, m.body, m.attachments, m.request_id,
           m.received_at, m.tenant_id, m.trust
    FROM accepted m ORDER BY m.seq;
    RETURN NULL;
END $$;

-- Whose concern it is: after a part of a message is in a butler's route_inbox.
CREATE FUNCTION conversation_handed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = shared, pg_temp AS $$
BEGIN
    INSERT INTO conversation_readers (entry, direction, butler, tenant_id, trust)
    SELECT c.entry, c.direction, r.butler, c.tenant_id, 'system' FROM conversation c, butler_roles r
    WHERE c.entry = NEW.request_id AND c.direction = 'in' AND c.tenant_id = NEW.tenant_id
      AND r.schema = TG_TABLE_SCHEMA
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

-- What was delivered: after a row of the outbox has come to be sent.
CREATE FUNCTION conversation_delivered() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = shared, pg_temp AS $$
DECLARE
    answer replies;
BEGIN
    SELECT * INTO answer FROM replies r WHERE r.request_id = NEW.request_id AND r.seq = NEW.reply_seq;
    INSERT INTO conversation (entry, direction, kind, channel, endpoint, lane, thread, person, contact_id, butler, auto,
                              subject, text, emoji, request_id, session_id, reply_seq, said_at, tenant_id, trust)
    VALUES (NEW.id, 'out', coalesce(answer.kind, CASE WHEN NEW.intent = 'send' THEN NEW.kind ELSE NEW.intent END),
            NEW.channel, NEW.endpoint, coalesce(NEW.conversation, NEW.lane), NEW.thread, NEW.target,
            (SELECT i.contact_id FROM contact_identities i WHERE i.tenant_id = NEW.tenant_id AND i.channel = NEW.channel
             AND i.identity = lower(NEW.target)),
            NEW.origin, coalesce(answer.auto, false), NEW.subject, NEW.message, NEW.emoji, NEW.request_id, NEW.session_id,
            NEW.reply_seq, coalesce(NEW.settled_at, shared.clock()), NEW.tenant_id, NEW.trust)
    ON CONFLICT DO NOTHING;
    INSERT INTO conversation_readers (entry, direction, butler, tenant_id, trust)
    SELECT NEW.id, 'out', r.butler, NEW.tenant_id, 'system' FROM butler_roles r WHERE r.butler = NEW.origin
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER conversation_delivered_at_once AFTER INSERT ON outbox FOR EACH ROW WHEN (NEW.state = 'sent')
    EXECUTE FUNCTION conversation_delivered();
CREATE TRIGGER conversation_delivered AFTER UPDATE OF state ON outbox FOR EACH ROW
    WHEN (NEW.state = 'sent' AND OLD.state <> 'sent') EXECUTE FUNCTION conversation_delivered();
