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

-- Gives a table of the current schema its tenant column and its row-level policy.
CREATE FUNCTION tenant_table(table_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Two steps: a default given with the column would be computed at once, when no tenant is set.
    EXECUTE format('ALTER TABLE %I ADD COLUMN IF NOT EXISTS tenant_id text NOT NULL CHECK (tenant_id <> '''')',
                   table_name);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN tenant_id SET DEFAULT current_setting(''butlerd.tenant'')',
                   table_name);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('CREATE POLICY tenant ON %I USING (tenant_id = current_setting(''butlerd.tenant'', true))
                    WITH CHECK (tenant_id = current_setting(''butlerd.tenant'', true))', table_name);
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
SELECT shared.tenant_table('secrets');
ALTER TABLE secrets ADD PRIMARY KEY (tenant_id, name);

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
