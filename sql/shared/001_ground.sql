-- What every butler shares: the household's clock, the tenant policy, and the daemon's own tables.
-- Runs as the owner role with search_path = shared.

-- The present, as the daemon's clock has it. Only a moved clock (tests) sets butlerd.now. Of the server's clocks the one
-- that stands still within a statement: with a volatile one the server could not fold this function into its callers,
-- and each call would cost as much as a statement of its own.
CREATE FUNCTION clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(nullif(current_setting('butlerd.now', true), '')::timestamptz, statement_timestamp()) $$;

-- Today's date in the owner's time zone, which the transaction wrapper sets.
CREATE FUNCTION today() RETURNS date LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT (shared.clock() AT TIME ZONE current_setting('TimeZone'))::date $$;

-- The tenant of this connection; null when nobody set one, so that a policy finds nothing.
CREATE FUNCTION tenant() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT nullif(current_setting('butlerd.tenant', true), '') $$;

-- How far the text behind this transaction is believed: 'owner', 'system', 'known' or 'stranger'. The daemon sets it from
-- the request; nobody set it: the house itself writes.
CREATE FUNCTION trust() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(nullif(current_setting('butlerd.trust', true), ''), 'system') $$;

-- Called by the policy of every table for a row that somebody less than the house wrote: from here on the transaction is
-- believed no more than that row, so that what it writes carries on the row's trust. The daemon is told over the
-- connection, at a level that no setting silences, and lowers the session whose call this is.
CREATE FUNCTION saw(row_trust text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    before text := shared.trust();
BEGIN
    IF row_trust = 'known' AND before IN ('known', 'stranger') OR before = 'stranger' THEN
        -- It is as low already, and whoever is to be told knows it: by this row's forerunner, or because it began so.
        RETURN true;
    END IF;
    PERFORM set_config('butlerd.trust', CASE WHEN row_trust = 'known' THEN 'known' ELSE 'stranger' END, true);
    RAISE INFO 'butlerd.saw %', row_trust USING ERRCODE = 'BD001';
    RETURN true;
END $$;

-- A row that a less trusted transaction changes is believed no more than that transaction.
CREATE FUNCTION lower_trust() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.trust <> 'stranger' THEN
        NEW.trust := shared.trust();
    END IF;
    RETURN NEW;
END $$;

-- Gives a table of the current schema its tenant column, the trust of whoever wrote a row, and its row-level policy. With
-- a key, its primary key as well: the tenant and these columns.
CREATE FUNCTION tenant_table(table_name text, VARIADIC key text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Two steps: a default given with the column would be computed at once, when no tenant is set.
    EXECUTE format('ALTER TABLE %I ADD COLUMN IF NOT EXISTS tenant_id text NOT NULL CHECK (tenant_id <> ''''),
                    ADD COLUMN IF NOT EXISTS trust text NOT NULL DEFAULT ''system''
                        CHECK (trust IN (''owner'', ''system'', ''known'', ''stranger''))', table_name);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN tenant_id SET DEFAULT current_setting(''butlerd.tenant''),
                    ALTER COLUMN trust SET DEFAULT coalesce(nullif(current_setting(''butlerd.trust'', true), ''''), ''system'')',
                   table_name);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('CREATE POLICY tenant ON %I
                    USING (tenant_id = current_setting(''butlerd.tenant'', true)
                           AND (trust IN (''owner'', ''system'') OR shared.saw(trust)))
                    WITH CHECK (tenant_id = current_setting(''butlerd.tenant'', true)
                                AND CASE current_setting(''butlerd.trust'', true)
                                    WHEN ''stranger'' THEN trust = ''stranger''
                                    WHEN ''known'' THEN trust IN (''known'', ''stranger'')
                                    ELSE true END)', table_name);
    EXECUTE format('CREATE TRIGGER lower_trust BEFORE UPDATE ON %I FOR EACH ROW
                    WHEN (current_setting(''butlerd.trust'', true) IN (''known'', ''stranger''))
                    EXECUTE FUNCTION shared.lower_trust()', table_name);
    IF cardinality(key) > 0 THEN
        EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (tenant_id, %s)', table_name,
                       (SELECT string_agg(quote_ident(k), ', ' ORDER BY n) FROM unnest(key) WITH ORDINALITY c (k, n)));
    END IF;
END $$;

-- Which role serves which butler, and which master key its password was derived from.
CREATE TABLE butler_roles (
    butler     text PRIMARY KEY,
    schema     text NOT NULL UNIQUE,
    role       text NOT NULL UNIQUE,
    key_id     text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Credentials, encrypted by the daemon before they come here. No butler's role may read them.
CREATE TABLE secrets (
    name       text NOT NULL,
    nonce      bytea NOT NULL,
    ciphertext bytea NOT NULL,
    key_id     text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('secrets', 'name');

-- Operator tokens, by their SHA-256. No butler's role may read them.
CREATE TABLE tokens (
    id         uuid PRIMARY KEY,
    sha256     bytea NOT NULL UNIQUE,
    label      text NOT NULL,
    butler     text,
    scopes     text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    expires_at timestamptz,
    revoked_at timestamptz
);
SELECT shared.tenant_table('tokens');

-- The daemons that work on this database, each for as long as its lease runs. Of the household as a whole: tenant
-- `owner`. No backup has it: who is there is nothing to keep.
CREATE TABLE nodes (
    name        text PRIMARY KEY,
    lease_until timestamptz NOT NULL
);
SELECT shared.tenant_table('nodes');

-- Which butler asks; null: none.
CREATE FUNCTION asking_butler() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS
$$ SELECT r.butler FROM shared.butler_roles r WHERE r.role = session_user $$;

-- Whether a butler asks.
CREATE FUNCTION is_butler() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS
$$ SELECT EXISTS (SELECT 1 FROM shared.butler_roles r WHERE r.role = session_user) $$;
