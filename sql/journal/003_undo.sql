-- A step can be taken back by a later one, and how far a person's edits are believed is known beyond a sync's end.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Temporary tables of whoever calls are looked at last.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

ALTER TABLE journal_changes DROP CONSTRAINT journal_changes_kind_check;
ALTER TABLE journal_changes ADD CONSTRAINT journal_changes_kind_check
    CHECK (kind IN ('init', 'call', 'sync', 'person', 'rotate', 'check', 'migrate', 'migrate_back', 'undo'));
-- The step that this one takes back; none is taken back twice.
ALTER TABLE journal_changes ADD COLUMN undoes bigint REFERENCES journal_changes (id);
CREATE UNIQUE INDEX journal_changes_undoes ON journal_changes (undoes) WHERE undoes IS NOT NULL;

-- The first section of which this one is another beginning: what a step ended begins again when the step is taken back.
ALTER TABLE journal_sections ADD COLUMN restores uuid;
CREATE INDEX journal_sections_restores ON journal_sections (restores) WHERE restores IS NOT NULL;
CREATE INDEX journal_sections_begun ON journal_sections (begun);
CREATE INDEX journal_sections_ended ON journal_sections (ended) WHERE ended IS NOT NULL;

-- Sections that a step put into another file, such as an archive, with where they stood before.
CREATE TABLE journal_moves (
    step       bigint NOT NULL REFERENCES journal_changes (id),
    section_id uuid NOT NULL REFERENCES journal_sections (id),
    file       text NOT NULL,
    place      integer NOT NULL,
    moved_to   text NOT NULL,
    PRIMARY KEY (step, section_id)
);
SELECT shared.tenant_table('journal_moves');

-- The least trusted words that a sync by hand was shown, and when a person looked at what was edited since: until then
-- edits may be made of those words.
ALTER TABLE journal_syncs ADD COLUMN least text CHECK (least IN ('known', 'stranger'));
ALTER TABLE journal_syncs ADD COLUMN looked_at timestamptz;

-- The words of others are worked in by portions: up to which conversation that is done, and up to which the session goes that
-- works on them; null: to the end.
ALTER TABLE journal_syncs ADD COLUMN reached bigint NOT NULL DEFAULT 0;
ALTER TABLE journal_syncs ADD COLUMN portion bigint;

-- As before. `did` may also have `undoes` (a step) and `restores` (an object: of a new section's id the one of which it is
-- another beginning); both are the daemon's to say.
CREATE OR REPLACE FUNCTION journal_apply(did jsonb, changes jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    believed text := journal_trust(did ->> 'trust');
    step bigint;
    change jsonb;
    held text;
    own text;
    house text := coalesce(current_setting('butlerd.house', true), '');
BEGIN
    IF shared.is_butler() THEN
        did := did - 'undoes' - 'restores';
    END IF;
    PERFORM journal_lock(), set_config('butlerd.house', 'on', true);
    INSERT INTO journal_changes (kind, actor, session_id, trust, undoes)
    VALUES (did ->> 'kind', did ->> 'actor', (did ->> 'session_id')::uuid, believed, (did ->> 'undoes')::bigint)
    RETURNING id INTO step;
    FOR change IN SELECT * FROM jsonb_array_elements(changes) LOOP
        IF change ? 'put' THEN
            own := CASE WHEN shared.is_butler() THEN believed ELSE coalesce(change ->> 'trust', believed) END;
            IF change ->> 'file' = 'core.md' AND own IN ('known', 'stranger') THEN
                RAISE EXCEPTION 'core memory takes no words of others' USING ERRCODE = 'BD002';
            END IF;
            INSERT INTO journal_sections (id, file, place, text, begun, restores, trust, audience)
            VALUES ((change ->> 'put')::uuid, change ->> 'file', (change ->> 'place')::integer, change ->> 'text', step,
                    (did -> 'restores' ->> (change ->> 'put'))::uuid, own, '{}');
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
            INSERT INTO journal_moves (step, section_id, file, place, moved_to)
            SELECT step, s.id, s.file, s.place, change ->> 'file' FROM journal_sections s
            WHERE s.id = (change ->> 'move')::uuid AND s.file <> change ->> 'file';
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

-- As before; and a sync that goes on with further words of others has done its portion.
CREATE OR REPLACE FUNCTION journal_settle(sync uuid, said text, next text, session uuid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    s journal_syncs;
    reached_before bigint;
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
        UPDATE journal_syncs SET pass = next, request_id = NULL, portion = NULL, tries = 0,
            summary = CASE WHEN s.pass = 'own' THEN said ELSE s.summary END,
            reached = CASE WHEN s.pass = 'own' THEN s.reached ELSE coalesce(s.portion, s.end_id) END
        WHERE id = sync;
        PERFORM set_config('butlerd.house', house, true);
        RETURN NULL;
    END IF;
    SELECT coalesce(max(end_id), 0), coalesce(max(id), 0) + 1 INTO reached_before, number FROM journal_checkpoints
    WHERE tenant_id = shared.tenant();
    IF s.begin_id <= reached_before THEN
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
