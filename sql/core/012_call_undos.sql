-- What would take a call of somebody else's tool back, and how far that has come.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- A row for each call that changes something and whose tool has a way back, written with the call's own row in tool_calls:
-- the same transaction, by which the two are found together. No butler's role may read or write it: a person who takes a call
-- back has the daemon call what stands here.
CREATE TABLE call_undos (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    txid      xid8 NOT NULL DEFAULT pg_current_xact_id(),
    tx_at     timestamptz NOT NULL DEFAULT transaction_timestamp(),
    -- The butler's tool that takes the call back, and its arguments as far as they are known.
    tool      text NOT NULL,
    arguments jsonb,
    -- called: the call's answer is not on record; ready: it can be taken back; lacking: no way back is known; undoing: the other
    -- tool was called, and its answer is not on record; undone: it answered.
    state     text NOT NULL DEFAULT 'called' CHECK (state IN ('called', 'ready', 'lacking', 'undoing', 'undone')),
    -- Why there is no way back, or what came of the last try.
    why       text,
    -- When it came to be so.
    at        timestamptz NOT NULL DEFAULT shared.clock(),
    CHECK (state NOT IN ('ready', 'undoing', 'undone') OR arguments IS NOT NULL)
);
SELECT shared.tenant_table('call_undos');
CREATE INDEX call_undos_of_transaction ON call_undos (tx_at);

-- Temporary tables of whoever calls are looked at last.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

-- Puts down which tool would take the call of this transaction back. For the daemon alone, as the seal shows.
CREATE FUNCTION call_undo_begun(by_tool text, seal text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
DECLARE
    number bigint;
BEGIN
    PERFORM shared.by_daemon(seal);
    INSERT INTO call_undos (tool, tenant_id) VALUES (by_tool, shared.tenant()) RETURNING id INTO number;
    RETURN number;
END $$;

-- The call has its answer: what that tool is to be given, or why it can't be known. `believed`: whose words the answer has.
CREATE FUNCTION call_undo_known(number bigint, given jsonb, because text, believed text, seal text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    house text := current_setting('butlerd.house', true);
BEGIN
    PERFORM shared.by_daemon(seal);
    PERFORM set_config('butlerd.house', 'on', true);
    UPDATE call_undos SET state = CASE WHEN given IS NULL THEN 'lacking' ELSE 'ready' END, arguments = given, why = because,
        at = shared.clock(), trust = shared.least_trust(trust, believed), audience = '{}'
    WHERE id = number AND state = 'called' AND tenant_id = shared.tenant();
    PERFORM set_config('butlerd.house', coalesce(house, ''), true);
END $$;
