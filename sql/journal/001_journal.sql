-- The journal: what a butler always knows, what it looks up, what happened each day, and how far what was said is
-- summarized.
-- Runs as the owner role with search_path = <schema>, shared, public. Read by the daemon; written by the functions below
-- alone: they decide by themselves how far what they write is believed (butlerd.house).

-- Temporary tables of whoever calls are looked at last.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

-- Each step from one state of the journal to the next.
CREATE TABLE journal_changes (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('init', 'call', 'sync', 'person', 'rotate', 'check', 'migrate', 'migrate_back')),
    -- A tool, a user of the machine (`uid:1000`), or `butlerd`.
    actor      text NOT NULL,
    session_id uuid,
    at         timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('journal_changes');

-- The parts of its files, in their order: each heading with its text, each line of a day's log. A section never changes; a
-- new text is a new row, and the old one says when it ended. So every earlier state can be read.
CREATE TABLE journal_sections (
    id     uuid PRIMARY KEY,
    file   text NOT NULL,
    place  integer NOT NULL,
    text   text NOT NULL,
    begun  bigint NOT NULL REFERENCES journal_changes (id),
    ended  bigint REFERENCES journal_changes (id)
);
SELECT shared.tenant_table('journal_sections');
CREATE INDEX journal_sections_now ON journal_sections (tenant_id, file, place) WHERE ended IS NULL;

-- How far the conversation log is summarized: one line, without a gap, an overlap or a way back. The numbers are the
-- butler's own of the log.
CREATE TABLE journal_checkpoints (
    id         bigint NOT NULL,
    start_id   bigint NOT NULL,
    end_id     bigint NOT NULL CHECK (end_id >= start_id),
    -- How many conversations that are.
    count      bigint NOT NULL CHECK (count > 0),
    -- Of what the owner and the house said; it is told to sessions.
    summary    text NOT NULL,
    -- Of what others said; it is told to nobody by itself.
    others     text,
    session_id uuid,
    made_at    timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('journal_checkpoints', 'id');
CREATE UNIQUE INDEX journal_checkpoints_end ON journal_checkpoints (tenant_id, end_id);

-- A sync: a range of conversations that is being summarized. One at a time; what it writes waits in its drafts.
CREATE TABLE journal_syncs (
    id          uuid PRIMARY KEY,
    begin_id    bigint NOT NULL,
    end_id      bigint NOT NULL,
    count       bigint NOT NULL,
    -- The daemon's own sessions, or a person with an interactive session.
    by_hand     boolean NOT NULL,
    -- What its session is told: the words of the owner and the house, then those of others.
    pass        text NOT NULL CHECK (pass IN ('own', 'others')),
    -- Whether words of others are in the range, and of the owner and the house.
    has_own     boolean NOT NULL,
    has_others  boolean NOT NULL,
    -- The request of the session that works on it.
    request_id  uuid,
    state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'given_up')),
    -- Of the pass that is over.
    summary     text,
    reason      text,
    begun_at    timestamptz NOT NULL DEFAULT shared.clock(),
    lease_until timestamptz NOT NULL,
    ended_at    timestamptz
);
SELECT shared.tenant_table('journal_syncs');
CREATE UNIQUE INDEX journal_syncs_one ON journal_syncs (tenant_id) WHERE state = 'open';
CREATE INDEX journal_syncs_ended ON journal_syncs (tenant_id, ended_at);

-- What a sync wrote so far, in order. It becomes the journal's with the checkpoint, or is forgotten with the sync.
CREATE TABLE journal_drafts (
    seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sync_id uuid NOT NULL REFERENCES journal_syncs (id) ON DELETE CASCADE,
    pass    text NOT NULL,
    op      jsonb NOT NULL
);
SELECT shared.tenant_table('journal_drafts');
CREATE INDEX journal_drafts_of ON journal_drafts (sync_id, seq);

-- One writer at a time for each tenant: what is read after it stays as it is until the end of the transaction.
CREATE FUNCTION journal_lock() RETURNS void LANGUAGE sql SET search_path FROM CURRENT AS
$$ SELECT pg_advisory_xact_lock(hashtextextended('journal ' || current_schema() || ' ' || shared.tenant(), 0)) $$;

-- How far what is written now is believed: as the transaction; where the daemon itself writes, as it says.
CREATE FUNCTION journal_trust(said text) RETURNS text LANGUAGE sql STABLE SET search_path FROM CURRENT AS
$$ SELECT CASE WHEN shared.is_butler() THEN shared.trust() ELSE coalesce(said, shared.trust()) END $$;

-- Makes a step: `did` has kind, actor, session_id and, of the daemon, trust; each of `changes` has `end` (an id), `move` (an
-- id, with file and place), or `put` (an id, with file, place and text, and of the daemon a trust). Returns its number.
-- What a more trusted hand wrote is not ended on the word of others, and core memory takes no words of others (BD002).
CREATE FUNCTION journal_apply(did jsonb, changes jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := journal_trust(did ->> 'trust');
    step bigint;
    change jsonb;
    held text;
    own text;
    house text := coalesce(current_setting('butlerd.house', true), '');
BEGIN
    PERFORM journal_lock(), set_config('butlerd.house', 'on', true);
    INSERT INTO journal_changes (kind, actor, session_id, trust)
    VALUES (did ->> 'kind', did ->> 'actor', (did ->> 'session_id')::uuid, believed) RETURNING id INTO step;
    FOR change IN SELECT * FROM jsonb_array_elements(changes) LOOP
        IF change ? 'put' THEN
            own := CASE WHEN shared.is_butler() THEN believed ELSE coalesce(change ->> 'trust', believed) END;
            IF change ->> 'file' = 'core.md' AND own IN ('known', 'stranger') THEN
                RAISE EXCEPTION 'core memory takes no words of others' USING ERRCODE = 'BD002';
            END IF;
            INSERT INTO journal_sections (id, file, place, text, begun, trust, audience)
            VALUES ((change ->> 'put')::uuid, change ->> 'file', (change ->> 'place')::integer, change ->> 'text', step, own, '{}');
            CONTINUE;
        END IF;
        SELECT trust INTO held FROM journal_sections
        WHERE id = coalesce(change ->> 'end', change ->> 'move')::uuid AND tenant_id = shared.tenant() AND ended IS NULL;
        IF held IS NULL THEN
            RAISE EXCEPTION 'the journal changed meanwhile' USING ERRCODE = '40001';
        END IF;
        IF change ? 'move' THEN
            IF change ->> 'file' = 'core.md' AND held IN ('known', 'stranger') THEN
                RAISE EXCEPTION 'core memory takes no words of others' USING ERRCODE = 'BD002';
            END IF;
            UPDATE journal_sections SET file = change ->> 'file', place = (change ->> 'place')::integer
            WHERE id = (change ->> 'move')::uuid;
            CONTINUE;
        END IF;
        IF shared.is_butler() AND believed IN ('known', 'stranger')
           AND (held IN ('owner', 'system') OR held = 'known' AND believed = 'stranger') THEN
            RAISE EXCEPTION 'a more trusted hand wrote this section' USING ERRCODE = 'BD002';
        END IF;
        UPDATE journal_sections SET ended = step WHERE id = (change ->> 'end')::uuid;
    END LOOP;
    PERFORM set_config('butlerd.house', house, true);
    RETURN step;
END $$;

-- Ends a pass of an open sync: `summary` is kept until the sync is over. With `next` it goes on with that pass, else the
-- checkpoint is made. Returns its number, or null.
CREATE FUNCTION journal_settle(sync uuid, said text, next text, session uuid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    s journal_syncs;
    reached bigint;
    number bigint;
    house text := coalesce(current_setting('butlerd.house', true), '');
BEGIN
    PERFORM journal_lock(), set_config('butlerd.house', 'on', true);
    SELECT * INTO s FROM journal_syncs WHERE id = sync AND tenant_id = shared.tenant() AND state = 'open' FOR UPDATE;
    IF s.id IS NULL THEN
        RAISE EXCEPTION 'this sync is over' USING ERRCODE = '40001';
    END IF;
    DELETE FROM journal_drafts WHERE sync_id = sync AND pass = s.pass;
    IF next IS NOT NULL THEN
        UPDATE journal_syncs SET pass = next, summary = said, request_id = NULL WHERE id = sync;
        PERFORM set_config('butlerd.house', house, true);
        RETURN NULL;
    END IF;
    SELECT coalesce(max(end_id), 0), coalesce(max(id), 0) + 1 INTO reached, number FROM journal_checkpoints
    WHERE tenant_id = shared.tenant();
    IF s.begin_id <= reached THEN
        RAISE EXCEPTION 'this range is summarized already' USING ERRCODE = '40001';
    END IF;
    INSERT INTO journal_checkpoints (id, start_id, end_id, count, summary, others, session_id, trust, audience)
    VALUES (number, s.begin_id, s.end_id, s.count,
            CASE WHEN s.pass = 'own' THEN said ELSE coalesce(s.summary, 'Others wrote; nothing of the owner.') END,
            CASE WHEN s.pass = 'others' THEN said END, session, 'system', '{}');
    UPDATE journal_syncs SET state = 'done', ended_at = shared.clock() WHERE id = sync;
    DELETE FROM journal_drafts WHERE sync_id = sync;
    PERFORM set_config('butlerd.house', house, true);
    RETURN number;
END $$;
