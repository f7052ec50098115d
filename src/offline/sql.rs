//! The statements of commands that need no daemon, on what PostgreSQL knows of itself and on tables of the roster.

/// The tables of schemas, but for the one that says which daemons are there just now.
pub(super) const TABLES: &str = "SELECT n.nspname::text AS schema, c.relname::text AS name,
           coalesce(array_agg(a.attname::text ORDER BY a.attnum) FILTER (WHERE a.attname IS NOT NULL), '{}') AS columns,
           coalesce(array_agg(pg_catalog.format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum)
                    FILTER (WHERE a.attname IS NOT NULL), '{}') AS kinds
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_attribute a
      ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    WHERE n.nspname = ANY ($1) AND c.relkind = 'r' AND c.relpersistence <> 't'
      AND (n.nspname, c.relname) <> ('shared', 'nodes')
    GROUP BY 1, 2 ORDER BY 1, 2";

/// The sequences of schemas that have given a number.
pub(super) const SEQUENCES: &str =
    "SELECT schemaname::text AS schema, sequencename::text AS name, last_value FROM pg_catalog.pg_sequences
    WHERE schemaname = ANY ($1) AND last_value IS NOT NULL ORDER BY 1, 2";

/// What switches foreign keys and triggers of schemas off, and what switches them on again.
pub(super) const GUARDS: &str =
    "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::pg_catalog.regclass, k.conname) AS off,
           format('ALTER TABLE %s ADD CONSTRAINT %I %s', k.conrelid::pg_catalog.regclass, k.conname,
                  pg_catalog.pg_get_constraintdef(k.oid)) AS back
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY ($1) AND k.contype = 'f' AND k.conparentid = 0
    UNION ALL
    SELECT format('ALTER TABLE %s DISABLE TRIGGER %I', t.tgrelid::pg_catalog.regclass, t.tgname),
           format('ALTER TABLE %s ENABLE %s TRIGGER %I', t.tgrelid::pg_catalog.regclass,
                  CASE t.tgenabled WHEN 'A' THEN 'ALWAYS' WHEN 'R' THEN 'REPLICA' ELSE '' END, t.tgname)
    FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY ($1) AND NOT t.tgisinternal AND t.tgenabled <> 'D'";

pub(super) const HOUSEHOLD_IS_THERE: &str = "SELECT to_regclass('shared.butler_roles') IS NOT NULL AS found";

/// Whatever this connection does from now on, the server lets it write nothing.
pub(super) const READ_ONLY: &str = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY";

pub(super) const SERVER_VERSION: &str = "SELECT current_setting('server_version_num')::int AS number,
    current_setting('server_version') AS version";

/// One restore at a time, until the end of the transaction.
pub(super) const LOCK_RESTORE: &str = "SELECT pg_advisory_xact_lock(hashtext('butlerd.restore'))";

pub(super) const SCHEMAS_THERE: &str = "SELECT nspname::text FROM pg_namespace WHERE nspname = ANY ($1)";

pub(super) const SET_SEQUENCE: &str = "SELECT setval($1::text::regclass, $2)";

/// Where the rows of a roster's table come in first.
pub(super) const STAGED: &str = "pg_temp.butlerd_staged";
pub(super) const UNSTAGE: &str = "DROP TABLE pg_temp.butlerd_staged";

/// A table of so many texts that `owner` may read.
pub(super) fn stage(columns: usize, owner: &str) -> String {
    let columns: Vec<String> = (0..columns).map(|n| format!("c{n} text")).collect();
    let columns = columns.join(", ");
    format!("CREATE TEMPORARY TABLE butlerd_staged ({columns}); GRANT SELECT ON {STAGED} TO {owner}")
}

/// Fills a table out of the texts.
pub(super) fn from_stage(table: &str, columns: &[String], kinds: &[&str]) -> String {
    let values: Vec<String> = kinds.iter().enumerate().map(|(n, kind)| format!("c{n}::{kind}")).collect();
    format!(
        "INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {STAGED}",
        columns.join(", "),
        values.join(", ")
    )
}

/// What the demo's butler has noted.
pub(super) const MEASUREMENTS: &str = "SELECT kind, value, measured_at FROM health.measurements ORDER BY created_at";

/// A new tool of a butler, with `@names@` to be filled in.
pub(super) const NEW_TOOL: &str = r#"/*---
description: >-
  How many rows of @table@ there are@since_said@. Say here for a model what the tool does, when to use it, what comes
  back, and which tool to use instead.
examples:
  - What people say when they need it, in their words; by these a session is told of it.
args:
  since: {type: string, description: "The first day that counts, YYYY-MM-DD in the person's time zone."}
returns: row
meta: {reads_private: true, effect: none}
---*/
SELECT given.since, count(t.tenant_id) AS found
  FROM (SELECT shared.day('since', :since::text) AS since) given
  LEFT JOIN @table@ t ON @join@
 WHERE given.since IS NULL OR given.since <= shared.today()
    OR shared.refuse(format('since %s is yet to come; today is %s. Name a day that is not over, or leave since out.',
                            given.since, shared.today()))
 GROUP BY given.since;
"#;
