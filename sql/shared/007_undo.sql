-- The rows before: what each statement of a roster's tools changed, kept so that a call can be taken back.
-- Runs as the owner role with search_path = shared.

-- A row as it was before and after one statement. Which call made it, says the transaction: the call's row in
-- <schema>.tool_calls has the same two. No butler's role may read this.
CREATE TABLE row_changes (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    txid       xid8 NOT NULL DEFAULT pg_current_xact_id(),
    tx_at      timestamptz NOT NULL DEFAULT transaction_timestamp(),
    schema     text NOT NULL,
    table_name text NOT NULL,
    -- The columns of the primary key with their values; null: the table has none.
    key        jsonb,
    -- Null: there was no such row; there is none any more.
    before     jsonb,
    after      jsonb
);
SELECT shared.tenant_table('row_changes');
CREATE INDEX row_changes_of_transaction ON row_changes (tx_at, txid);
CREATE INDEX row_changes_of_row ON row_changes (schema, table_name, key, id);

-- Of each row that changes. Its arguments are the columns of the table's primary key.
CREATE FUNCTION keep_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    is_now jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
    key jsonb;
BEGIN
    IF was = is_now THEN
        RETURN NULL;
    END IF;
    IF TG_NARGS > 0 THEN
        SELECT jsonb_object_agg(name, coalesce(was, is_now) -> name) INTO key FROM unnest(TG_ARGV) name;
    END IF;
    INSERT INTO row_changes (schema, table_name, key, before, after, tenant_id)
    VALUES (TG_TABLE_SCHEMA, TG_TABLE_NAME, key, was, is_now, coalesce(is_now, was) ->> 'tenant_id');
    RETURN NULL;
END $$;

-- Keeps the rows of all tables that `files` of a schema made: those that are not there yet. Called after each migration of
-- a roster.
CREATE FUNCTION keep_rows(of_schema text, known oid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t record;
BEGIN
    FOR t IN
        SELECT c.oid, c.relname,
               (SELECT string_agg(quote_literal(a.attname), ', ' ORDER BY a.attnum)
                  FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
                 WHERE i.indrelid = c.oid AND i.indisprimary) AS key
          FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = of_schema AND c.relkind IN ('r', 'p') AND c.oid <> ALL (known)
           AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND g.tgname = 'keep_row')
    LOOP
        EXECUTE format('CREATE TRIGGER keep_row AFTER INSERT OR UPDATE OR DELETE ON %I.%I FOR EACH ROW
                        EXECUTE FUNCTION shared.keep_row(%s)', of_schema, t.relname, coalesce(t.key, ''));
    END LOOP;
END $$;

-- The tables of a schema, for keep_rows.
CREATE FUNCTION tables_of(of_schema text) RETURNS oid[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(c.oid), '{}') FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = of_schema AND c.relkind IN ('r', 'p')
$$;

-- Puts the rows of this tenant back as they were before a transaction. Each must be as the transaction left it: one that
-- something newer stands on stays, and with it all the others. Returns how many rows were put back. A refusal has
-- SQLSTATE 22023, a sentence, and in its detail the table and the number of the newer change, as JSON.
CREATE FUNCTION undo(of_txid xid8, of_tx_at timestamptz) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    c shared.row_changes;
    place text;
    which text;
    columns text;
    present jsonb;
    newer bigint;
    done integer := 0;
BEGIN
    PERFORM set_config('butlerd.undoing', 'on', true);
    FOR c IN SELECT * FROM shared.row_changes r
             WHERE r.txid = of_txid AND r.tx_at = of_tx_at AND r.tenant_id = shared.tenant() ORDER BY r.id DESC
    LOOP
        place := format('%I.%I', c.schema, c.table_name);
        -- Where the table's own triggers and checks look for what they call.
        PERFORM set_config('search_path', format('%I, shared, public', c.schema), true);
        IF to_regclass(place) IS NULL THEN
            RAISE EXCEPTION 'The table % is gone.', place USING ERRCODE = '22023';
        END IF;
        SELECT string_agg(format('to_jsonb(t.%I) IS NOT DISTINCT FROM %L::jsonb', k.name, k.value), ' AND ') INTO which
          FROM jsonb_each(coalesce(c.key, c.after, c.before)) k (name, value);
        -- By the key's own type, so that its index serves.
        IF c.key IS NOT NULL THEN
            SELECT string_agg(format('t.%I = %L', k.name, k.value), ' AND ') INTO which
              FROM jsonb_each_text(c.key) k (name, value);
        END IF;
        EXECUTE format('SELECT to_jsonb(t) FROM %s t WHERE %s FOR UPDATE', place, which) INTO present;
        -- Columns that were added since say nothing of this row.
        IF (SELECT jsonb_object_agg(k, present -> k) FROM jsonb_object_keys(c.after) k) IS DISTINCT FROM c.after THEN
            SELECT max(r.id) INTO newer FROM shared.row_changes r
             WHERE r.schema = c.schema AND r.table_name = c.table_name AND r.key = c.key AND r.id > c.id
               AND r.tenant_id = c.tenant_id AND (r.txid, r.tx_at) <> (of_txid, of_tx_at);
            RAISE EXCEPTION 'A row of % was changed since.', place
                USING ERRCODE = '22023', DETAIL = jsonb_build_object('table', place, 'change', newer);
        END IF;
        IF c.before IS NULL THEN
            EXECUTE format('DELETE FROM %s t WHERE %s', place, which);
        ELSE
            SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
              FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = to_regclass(place) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
               AND c.before ? a.attname
               -- A number that the server gives can't be changed, so it is as it was.
               AND (c.after IS NULL OR a.attidentity <> 'a');
            IF c.after IS NULL THEN
                EXECUTE format('INSERT INTO %1$s (%2$s) OVERRIDING SYSTEM VALUE
                                SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, $1)', place, columns) USING c.before;
            ELSE
                EXECUTE format('UPDATE %1$s t SET (%2$s) = (SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, $1)) WHERE %3$s',
                               place, columns, which) USING c.before;
            END IF;
        END IF;
        done := done + 1;
    END LOOP;
    RETURN done;
END $$;
-- Defined with the rights of whoever calls, and of use to the owner role alone.
REVOKE ALL ON FUNCTION undo(xid8, timestamptz), keep_rows(text, oid[]), tables_of(text) FROM PUBLIC;

-- Whether rows are being put back as they were before a call. Triggers that stamp or refuse let such rows through.
CREATE FUNCTION undoing() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(current_setting('butlerd.undoing', true), '') = 'on' $$;
