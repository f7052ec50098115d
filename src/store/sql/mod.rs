//! The statements on the house's own ground: which butlers, daemons and schemas there are, and what schemas are made
//! of.

mod aged;
mod places;
mod roles;
mod stored;
mod usage;

pub use aged::{Aged, in_parts};
pub use places::{places_in, places_of, places_with};
pub(super) use roles::{
    BEGIN_FILE, DEFERRED, END_FILE, GIVE, GRANT, GROUND, MAKE_ROLES, ROSTER_TABLES, SERVERS_OWN, chains_of, drop_hand,
    forsaken, make_hand, use_hand,
};
pub(super) use stored::{CATALOG, LOOKED, STORED};
pub use usage::{TableUsage, note_sizes, table_usage};

/// The names of the daemons that are there, for the `IN` of a statement.
pub const NODES: &str = "(SELECT name FROM shared.nodes)";

/// Of all rows that `all` makes of the tenant `$1`, those whose `id` is between two, in the order of it.
pub(super) fn beginning(all: &str) -> String {
    format!("SELECT * FROM ({all}) found WHERE id BETWEEN $2 AND $3 ORDER BY id LIMIT $4")
}

pub(super) const ALL_PLACES: &str = "SELECT butler, schema FROM shared.butler_roles ORDER BY butler";

pub(super) const RECORD_ROLE: &str =
    "INSERT INTO shared.butler_roles (butler, schema, role, key_id, owner, seal) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (butler) DO UPDATE SET schema = $2, role = $3, key_id = $4, owner = $5, seal = $6";

/// When the household's database was made: its first migration.
pub(super) const MADE_AT: &str = "SELECT min(applied_at) FROM shared.schema_migrations";

/// Roles and the database's own rights are rows that all butlers change: one at a time.
pub(super) const LOCK_ROLES: &str = "SELECT pg_advisory_xact_lock(hashtext('butlerd.roles'))";

/// Whether the server takes writes, as far as it says.
pub(super) const MAY_WRITE: &str = "SELECT NOT pg_catalog.pg_is_in_recovery() AND pg_catalog.current_setting('transaction_read_only') = 'off' AS writes";

/// As [`MAY_WRITE`], and makes it commit a transaction of its own to disk, and take some megabytes of memory.
pub(super) const TRY_WRITE: &str =
    "SELECT NOT pg_catalog.pg_is_in_recovery() AND pg_catalog.current_setting('transaction_read_only') = 'off'
        AND pg_catalog.pg_current_xact_id() IS NOT NULL
        AND pg_catalog.octet_length(pg_catalog.repeat('x', 4194304)) > 0 AS writes";

/// How many connections the server accepts of those who are not its superuser.
pub(super) const ACCEPTED: &str = "SELECT current_setting('max_connections')::int4
        - current_setting('superuser_reserved_connections')::int4
        - coalesce(current_setting('reserved_connections', true)::int4, 0) AS accepted";

pub(super) const SHARED_EXISTS: &str = "SELECT 1 FROM pg_namespace WHERE nspname = 'shared'";

pub(super) const DATABASE_EXISTS: &str = "SELECT 1 FROM pg_database WHERE datname = $1";

pub(super) const TABLE_EXISTS: &str = "SELECT to_regclass($1) IS NOT NULL AS found";

/// A connection that has just logged in gets its time zone, and says whether its role was given settings that the
/// daemon gives none (`MAKE_ROLES`).
pub(super) const LOGGED_IN: &str = "SELECT set_config('TimeZone', $1, false), set_config('butlerd.house', 'on', false),
        session_user LIKE 'butler\\_%' AND EXISTS (
        SELECT 1 FROM pg_catalog.pg_db_role_setting s JOIN pg_catalog.pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) c
        WHERE r.rolname = session_user AND (s.setdatabase <> 0 OR split_part(c, '=', 1) NOT IN
              ('search_path', 'statement_timeout', 'idle_in_transaction_session_timeout'))) AS altered";

pub(super) const SET_SCOPE: &str =
    "SELECT set_config('butlerd.tenant', $1, false), set_config('butlerd.now', $2, false),
    set_config('butlerd.trust', $3, false), set_config('butlerd.audience', $4::text[]::text, false),
    set_config('butlerd.house', $5, false), set_config('butlerd.approved', $6, false)";

/// This daemon is there for so many seconds.
pub(super) const RENEW_NODE: &str = "INSERT INTO shared.nodes (name, lease_until, tenant_id)
    VALUES ($1, clock_timestamp() + make_interval(secs => $2), $3)
    ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until";

pub(super) const STRIKE_OUT_NODES: &str =
    "DELETE FROM shared.nodes WHERE lease_until < clock_timestamp() AND name <> $1 RETURNING name";

pub(super) const LEAVE_NODE: &str = "DELETE FROM shared.nodes WHERE name = $1";

pub(super) const LOCK: &str = "SELECT pg_advisory_lock(hashtext($1))";
pub(super) const UNLOCK: &str = "SELECT pg_advisory_unlock(hashtext($1))";

/// All schemas of butlers, and those that have a history of this house: other programs have tables of that name too,
/// but not with this column.
pub(super) const SCHEMAS: &str = "SELECT schema FROM shared.butler_roles UNION
    SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = 'after_shared'
    WHERE c.relname = 'schema_migrations' AND c.relkind = 'r' AND n.nspname <> 'shared' ORDER BY 1";

/// The files of a chain that were applied to a schema, and whether the text that is kept of each is what was applied.
pub(super) fn applied(schema: &str) -> String {
    format!(
        "SELECT version, sha256, sha256 = pg_catalog.sha256(convert_to(sql, 'UTF8')) AS whole FROM \"{schema}\".schema_migrations WHERE chain = $1 ORDER BY version"
    )
}

/// Keeps the text of an applied file again.
pub(super) fn keep_text(schema: &str) -> String {
    format!("UPDATE \"{schema}\".schema_migrations SET sql = $3 WHERE chain = $1 AND version = $2")
}

/// All files that were applied to a schema.
pub(super) fn history(schema: &str) -> String {
    format!(
        "SELECT chain, version, name, sql, ordinal, after_shared FROM \"{schema}\".schema_migrations ORDER BY ordinal"
    )
}

/// A file was applied to a schema.
pub(super) fn record(schema: &str) -> String {
    format!(
        "INSERT INTO \"{schema}\".schema_migrations
             (chain, version, name, sha256, duration_ms, sql, ordinal, after_shared)
         SELECT $1, $2, $3, $4, $5, $6, coalesce(max(ordinal), 0) + 1,
                (SELECT coalesce(max(ordinal), 0) FROM shared.schema_migrations)
         FROM \"{schema}\".schema_migrations"
    )
}

pub(super) const TABLES_OF: &str = "SELECT shared.tables_of($1) AS tables";

/// The rows before each change are kept in all tables of a schema but those that are known.
pub(super) const KEEP_ROWS: &str = "SELECT shared.keep_rows($1, $2)";

/// What would let one tenant see another's rows: a table without its policy, and whatever runs with the owner's rights.
pub(super) const LEAKS: &str = "
    SELECT c.relname::text AS relation, 'has no tenant' AS problem FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT (c.relrowsecurity AND EXISTS (
        SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'tenant')
        AND (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid) = 1)
    UNION ALL
    SELECT c.relname::text, 'is a view with its owner''s rights; add WITH (security_invoker = true)'
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relkind = 'v'
      AND NOT coalesce(c.reloptions, '{}') && ARRAY['security_invoker=true', 'security_invoker=on']
    UNION ALL
    SELECT c.relname::text, 'is a copy of rows that no policy guards; use a table or a view'
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relkind IN ('m', 'f')
";
