//! The statements that make butlers' roles and schemas, and make them again what they should be.

/// What makes an empty database a household's.
pub(crate) const GROUND: &str = "
    CREATE SCHEMA IF NOT EXISTS shared;
    REVOKE ALL ON SCHEMA public FROM PUBLIC;
    DO $$ BEGIN EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database()); END $$;";

/// Makes a butler's two roles and its schema, or makes them what they should be. Whatever a role changed about itself
/// is gone afterwards: its password, its settings, and who may act as it. In braces: `role` and its `verifier`, `owner`
/// and its `owner_verifier`, `schema`.
///
/// What a role can't change about itself is only touched where it is wrong, because a server may let nobody but a
/// superuser do that.
pub(crate) const MAKE_ROLES: &str = r#"DO $do$
DECLARE
    who record;
    other record;
BEGIN
    FOR who IN SELECT * FROM (VALUES ('{role}', '{verifier}'), ('{owner}', '{owner_verifier}')) v (name, verifier) LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = who.name) THEN
            EXECUTE format('CREATE ROLE %I', who.name);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN NOINHERIT CONNECTION LIMIT -1 VALID UNTIL %L PASSWORD %L',
                       who.name, 'infinity', who.verifier);
        IF EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = who.name AND
                   (r.rolsuper OR r.rolcreatedb OR r.rolcreaterole OR r.rolreplication OR r.rolbypassrls)) THEN
            EXECUTE format('ALTER ROLE %I NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', who.name);
        END IF;
        FOR other IN SELECT m.roleid::regrole::text AS role, m.member::regrole::text AS member
                     FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles r ON r.oid IN (m.roleid, m.member)
                     WHERE r.rolname = who.name AND m.member <> (SELECT c.oid FROM pg_catalog.pg_roles c WHERE c.rolname = current_user)
        LOOP
            EXECUTE format('REVOKE %s FROM %s', other.role, other.member);
        END LOOP;
        EXECUTE format('ALTER ROLE %I RESET ALL', who.name);
        FOR other IN SELECT d.datname AS database FROM pg_catalog.pg_db_role_setting s
                     JOIN pg_catalog.pg_roles r ON r.oid = s.setrole JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
                     WHERE r.rolname = who.name
        LOOP
            EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET ALL', who.name, other.database);
        END LOOP;
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), who.name);
        EXECUTE format('ALTER ROLE %I SET search_path = "{schema}", shared, public', who.name);
        EXECUTE format('ALTER ROLE %I SET idle_in_transaction_session_timeout = %L', who.name, '60s');
    END LOOP;
    ALTER ROLE "{role}" SET statement_timeout = '60s';
    -- A daemon that is no superuser works on what the files of a roster made as a member of their owner.
    IF NOT (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user) THEN
        EXECUTE format('GRANT "{owner}" TO %I', current_user);
    END IF;
    CREATE SCHEMA IF NOT EXISTS "{schema}";
    REVOKE ALL ON SCHEMA "{schema}" FROM PUBLIC, "{role}";
    GRANT USAGE ON SCHEMA "{schema}", shared TO "{role}", "{owner}";
    GRANT CREATE ON SCHEMA "{schema}" TO "{owner}";
END $do$"#;

/// What a butler's role may do in its schema: rows, not definitions. What the house keeps there it may use as far as it
/// must. In braces: `role`, `owner`, `schema`.
pub(crate) const GRANT: &str = r#"DO $do$
DECLARE
    t record;
    rights text;
BEGIN
    FOR t IN SELECT c.oid, c.relname, c.relkind, o.rolname = '{owner}' AS rosters FROM pg_catalog.pg_class c
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_roles o ON o.oid = c.relowner
             WHERE n.nspname = '{schema}' AND c.relkind IN ('r', 'p', 'v', 'S')
    LOOP
        IF t.relkind = 'S' THEN
            EXECUTE format('GRANT USAGE ON SEQUENCE "{schema}".%I TO "{role}"', t.relname);
            CONTINUE;
        ELSIF NOT t.rosters THEN
            EXECUTE format('REVOKE ALL ON "{schema}".%I FROM "{role}"', t.relname);
        END IF;
        rights := CASE WHEN t.rosters THEN 'SELECT, INSERT, UPDATE, DELETE' ELSE CASE t.relname
            WHEN 'schema_migrations' THEN NULL
            WHEN 'call_undos' THEN NULL
            -- Records only grow.
            WHEN 'tool_calls' THEN 'SELECT, INSERT'
            WHEN 'session_events' THEN 'SELECT, INSERT'
            -- This runs after each file, and a later one adds the column.
            WHEN 'blobs' THEN (SELECT 'SELECT, INSERT' || CASE WHEN count(*) > 0 THEN ', UPDATE (used_at)' ELSE '' END
                FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.oid AND a.attname = 'used_at')
            WHEN 'notes_to_self' THEN 'SELECT, INSERT, UPDATE (dropped_at)'
            WHEN 'system_prompts' THEN 'SELECT'
            -- Written by functions of their own alone.
            WHEN 'journal_changes' THEN NULL
            WHEN 'journal_sections' THEN NULL
            WHEN 'journal_moves' THEN NULL
            WHEN 'journal_checkpoints' THEN NULL
            WHEN 'journal_syncs' THEN NULL
            WHEN 'journal_drafts' THEN 'INSERT'
            WHEN 'session_days' THEN 'SELECT'
            WHEN 'asks' THEN 'SELECT, INSERT, UPDATE (state)'
            WHEN 'route_inbox' THEN 'SELECT, UPDATE (session_id)'
            -- As above.
            WHEN 'schedule_runs' THEN (SELECT 'SELECT, INSERT, UPDATE (state, reason, finished_at'
                || CASE WHEN count(*) > 0 THEN ', marked_at' ELSE '' END || ')'
                FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.oid AND a.attname = 'marked_at')
            -- Whose session it is, what it was asked, and what follows from its end is written once.
            WHEN 'sessions' THEN (SELECT format('SELECT, INSERT, UPDATE (%s)', string_agg(quote_ident(a.attname), ', '))
                FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND a.attname NOT IN ('id', 'request_id', 'parent_session_id', 'trigger_source', 'context', 'prompt',
                    'runtime', 'trace_id', 'retry_of', 'node', 'run_id', 'route_id', 'remember', 'queued_at', 'tenant_id'))
            ELSE 'SELECT, INSERT, UPDATE, DELETE' END END;
        IF rights IS NOT NULL THEN
            EXECUTE format('GRANT %s ON "{schema}".%I TO "{role}"', rights, t.relname);
        END IF;
    END LOOP;
END $do$"#;

/// What a schema has that is not the house's own and does not belong to the owner of what a roster's files make yet,
/// each as the statement that gives it to that role. `$2`: the names that the house's own files make.
pub(crate) const GIVE: &str = "
    SELECT format('ALTER %s %s OWNER TO %I', things.kind, things.name, $3::text) AS statement FROM (
        SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
                              WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END AS kind,
               format('%I.%I', n.nspname, c.relname) AS name, c.relname AS short, c.relowner AS owner
          FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'c')
           AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                           AND c.relkind = 'S' AND d.deptype IN ('a', 'i'))
        UNION ALL
        SELECT CASE p.prokind WHEN 'a' THEN 'AGGREGATE' ELSE 'ROUTINE' END,
               format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)), p.proname, p.proowner
          FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1
        UNION ALL
        SELECT CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, format('%I.%I', n.nspname, t.typname), t.typname,
               t.typowner
          FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
         WHERE n.nspname = $1 AND t.typtype IN ('d', 'e', 'r')) things
    WHERE things.short <> ALL ($2::text[]) AND pg_get_userbyid(things.owner) <> $3";

/// The chains that were applied to a schema.
pub(crate) fn chains_of(schema: &str) -> String {
    format!("SELECT DISTINCT chain FROM \"{schema}\".schema_migrations")
}

/// A file of a roster is about to be applied: what its history will say.
pub(crate) const BEGIN_FILE: &str = "UPDATE shared.butler_roles SET applying = $2::jsonb
    || jsonb_build_object('begun', clock_timestamp()) WHERE schema = $1";

/// After a roster's file: names mean the server's own tables, and what waits for the end of the transaction happens
/// now.
pub(crate) const SERVERS_OWN: &str = "SET CONSTRAINTS ALL IMMEDIATE; SET LOCAL search_path = pg_catalog, pg_temp";

pub(crate) const END_FILE: &str = "SELECT shared.migration_applied()";

/// A schema that is no butler's any more, with an owner of what its roster's files made.
pub(crate) fn forsaken(schema: &str, owner: &str) -> String {
    format!(
        r#"CREATE SCHEMA IF NOT EXISTS "{schema}";
           REVOKE ALL ON SCHEMA "{schema}" FROM PUBLIC;
           DO $do$ BEGIN
               IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = '{owner}') THEN
                   CREATE ROLE "{owner}" NOLOGIN NOINHERIT;
               END IF;
               IF NOT (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user) THEN
                   EXECUTE format('GRANT "{owner}" TO %I', current_user);
               END IF;
           END $do$;
           GRANT USAGE ON SCHEMA "{schema}", shared TO "{owner}";
           GRANT CREATE ON SCHEMA "{schema}" TO "{owner}""#
    )
}

/// The function through which the daemon's role does something as the owner of a roster's tables, inside one
/// transaction.
pub(crate) fn make_hand(schema: &str, owner: &str) -> String {
    format!(
        r#"CREATE FUNCTION "{schema}".butlerd_hand(statements text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $hand$
           DECLARE
               touched bigint;
           BEGIN
               EXECUTE statements;
               GET DIAGNOSTICS touched = ROW_COUNT;
               SET CONSTRAINTS ALL IMMEDIATE;
               RETURN touched;
           END $hand$;
           REVOKE ALL ON FUNCTION "{schema}".butlerd_hand(text) FROM PUBLIC;
           ALTER FUNCTION "{schema}".butlerd_hand(text) OWNER TO "{owner}""#
    )
}

pub(crate) fn use_hand(schema: &str) -> String {
    format!("SELECT \"{schema}\".butlerd_hand($1) AS rows")
}

pub(crate) fn drop_hand(schema: &str) -> String {
    format!("DROP FUNCTION \"{schema}\".butlerd_hand(text)")
}

/// The tables of schemas that are a roster's.
pub(crate) const ROSTER_TABLES: &str =
    "SELECT n.nspname::text AS schema, c.relname::text AS name, o.rolname::text AS owner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_roles o ON o.oid = c.relowner
    WHERE n.nspname = ANY ($1) AND c.relkind = 'r' AND o.rolname LIKE 'roster\\_%'";

/// A table of these schemas with a trigger of its own that can wait for the end of the transaction.
pub(crate) const DEFERRED: &str = "SELECT format('%I.%I', n.nspname, c.relname) AS name
    FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY ($1) AND t.tgdeferrable AND NOT t.tgisinternal LIMIT 1";
