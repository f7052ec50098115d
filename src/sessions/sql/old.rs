//! Sessions that go because they are old, and what stays of them: sums by day.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use base::TenantId;
use store::{Aged, Database, StoreError, in_parts};

use crate::budget::{MODELS, SCHEMAS, SCHEMAS_OF_MODEL};

/// Lines of transcripts.
pub const EVENTS: Aged = Aged { table: "session_events", old: "at < $1" };

/// So many sessions go in one statement.
const AT_ONCE: i64 = 1000;

/// What of a session is added up, and under which name it is kept.
const SUMS: [(&str, &str); 4] = [
    ("input_tokens", "input"),
    ("output_tokens", "output"),
    ("cached_input_tokens", "cached_input"),
    ("cache_creation_tokens", "cache_creation"),
];

/// Deletes the sessions that ended before a moment, of one tenant; of all, if it is the owner. What they used is added to
/// `session_days` in the same statement, by the days of `zone`, so that no sum ever changes. Returns how many.
pub async fn delete_before(
    db: &Database,
    (schema, tenant): (&str, &TenantId),
    before: Timestamp,
    zone: &TimeZone,
) -> Result<u64, StoreError> {
    let sql = statement(schema);
    let zone = zone.iana_name().unwrap_or("UTC");
    in_parts(db, &sql, &[&before, &tenant.as_str(), &AT_ONCE, &zone], "deleting old sessions").await
}

fn statement(schema: &str) -> String {
    let list = |each: &dyn Fn(&str, &str) -> String| SUMS.map(|(from, to)| each(from, to)).join(", ");
    let (whole, split) = (list(&|from, _| format!("s.{from}")), list(&|from, _| format!("u.{from}")));
    let (kept, sums) = (list(&|_, to| to.to_owned()), list(&|from, _| format!("sum({from})::bigint")));
    // Sums of what is known stay unknown where nothing is.
    let added =
        |column: &str| format!("{column} = coalesce(d.{column} + excluded.{column}, d.{column}, excluded.{column})");
    let (tokens, usd, schemas) = (list(&|_, to| added(to)), added("cost_usd"), added("schema_tokens"));
    format!(
        "WITH gone AS (
             DELETE FROM \"{schema}\".sessions WHERE ctid = ANY(ARRAY(
                 SELECT ctid FROM \"{schema}\".sessions
                 WHERE completed_at < $1 AND remember IS DISTINCT FROM 'pending' AND ($2 = 'owner' OR tenant_id = $2)
                 LIMIT $3))
             RETURNING *),
         part AS (
             SELECT g.*, (coalesce(g.started_at, g.queued_at) AT TIME ZONE $4)::date AS day FROM gone g),
         cuts AS (
             SELECT s.tenant_id, s.day, 'source' AS cut, s.trigger_source AS what, s.state, s.cost_usd,
                    {SCHEMAS} AS schema_tokens, {whole} FROM part s
             UNION ALL
             SELECT s.tenant_id, s.day, 'model', coalesce(u.model, ''), s.state, u.usd, {SCHEMAS_OF_MODEL}, {split}
             FROM part s, LATERAL {MODELS}),
         kept AS (
             INSERT INTO \"{schema}\".session_days AS d
                 (tenant_id, day, cut, what, sessions, succeeded, unknown_cost, cost_usd, schema_tokens, {kept}, trust, audience)
             SELECT tenant_id, day, cut, what, count(*), count(*) FILTER (WHERE state = 'succeeded'),
                    count(*) FILTER (WHERE cost_usd IS NULL), sum(cost_usd),
                    sum(schema_tokens)::bigint, {sums}, 'system', '{{}}'
             FROM cuts GROUP BY tenant_id, day, cut, what
             ON CONFLICT (tenant_id, day, cut, what) DO UPDATE SET sessions = d.sessions + excluded.sessions,
                 succeeded = d.succeeded + excluded.succeeded, unknown_cost = d.unknown_cost + excluded.unknown_cost,
                 {tokens}, {usd}, {schemas})
         SELECT FROM gone"
    )
}

/// Deletes the system prompts from before a moment that no session has. Returns how many.
pub async fn delete_unused_prompts(db: &Database, schema: &str, before: Timestamp) -> Result<u64, StoreError> {
    let sql = format!(
        "DELETE FROM \"{schema}\".system_prompts p WHERE p.created_at < $1 AND NOT EXISTS (
             SELECT FROM \"{schema}\".sessions s WHERE s.tenant_id = p.tenant_id AND s.prompt_sha256 = p.sha256)"
    );
    let mut lease = db.every_tenant().await?;
    lease.execute(&sql, &[&before]).await.map_err(StoreError::query("deleting old system prompts"))
}
