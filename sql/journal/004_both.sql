-- What a checkpoint says of a range in which the owner wrote and others did.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Temporary tables of whoever calls are looked at last.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

-- As before; but a checkpoint by hand that covers the words of both does not say that the owner said nothing.
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
            CASE WHEN s.pass = 'own' THEN said ELSE coalesce(s.summary, CASE
                WHEN s.has_own THEN 'Summarized along with what others wrote; what was made of that is told to no session.'
                ELSE 'Others wrote; nothing of the owner.' END) END,
            CASE WHEN s.pass = 'others' THEN said END, session, 'system', '{}');
    UPDATE journal_syncs SET state = 'done', ended_at = shared.clock() WHERE id = sync;
    DELETE FROM journal_drafts WHERE sync_id = sync;
    PERFORM set_config('butlerd.house', house, true);
    RETURN number;
END $$;
