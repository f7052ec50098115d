//! What keeps memory in order: fading, cleaning, counting, and what the owner takes out and brings in.

use base::TenantId;
use memory_index::Kind;
use serde_json::Value;
use store::{AsRows, Lease, StoreError};
use tools::{ToolCall, ToolError};
use uuid::Uuid;

use super::Rows;

store::row! {
    /// What became of a page of memories that nobody confirms.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Faded {
        /// Where the next page begins; none: this was the last.
        pub last: Option<i64>,
        pub checked: i64,
        /// So many are fading now.
        pub fading: i64,
        /// So many expired by this look.
        pub expired: i64,
        /// So many were fading and no longer are.
        pub back: i64,
    }
}

/// Lets fade what nobody confirms, of the memories after this place, at most so many.
pub async fn fade(
    lease: &mut Lease,
    schema: &str,
    kind: Kind,
    after: i64,
    most: i32,
) -> Result<Option<Faded>, StoreError> {
    let sql = format!("SELECT last, checked, fading, expired, back FROM \"{schema}\".memory_fade($1, $2, $3)");
    let row = lease.query_opt(&sql, &[&kind.as_str(), &after, &most]).await;
    Ok(row.map_err(StoreError::query("letting memories fade"))?.as_ref().map(Faded::from))
}

/// Memories whose tenants are looked for.
#[derive(Clone, Copy, Debug)]
pub enum Held {
    /// Facts or rules.
    Believed,
    Episodes,
    /// Facts that were not yet compared with others.
    Uncompared,
}

/// Whose memories there are in a schema, of those of every tenant that the lease sees.
pub async fn tenants(lease: &mut Lease, schema: &str, held: Held) -> Result<Vec<TenantId>, StoreError> {
    let of = |rows: &str| format!("SELECT DISTINCT tenant_id FROM \"{schema}\".{rows}");
    let those = match held {
        Held::Believed => format!("{} UNION {}", of("memory_facts"), of("memory_rules")),
        Held::Episodes => of("memory_episodes"),
        Held::Uncompared => of("memory_facts WHERE compared = 'pending' AND forgotten_at IS NULL"),
    };
    let rows = lease.read(&format!("{those} ORDER BY 1"), &[]).await;
    let rows = rows.map_err(StoreError::query("looking for those who remember"))?;
    Ok(rows.iter().filter_map(|row| TenantId::new(row.get("tenant_id")).ok()).collect())
}

/// Notes that these memories were called to mind, as the call's effect.
pub async fn touch(call: &ToolCall, ids: &[Uuid]) -> Result<(), ToolError> {
    call.effect("SELECT memory_touch($1::uuid[])", &[&ids]).await.map(drop)
}

store::row! {
    /// Which episodes were taken away.
    pub struct Cleaned {
        pub expired: Vec<Uuid>,
        /// Beyond what is kept.
        pub beyond: Vec<Uuid>,
        /// So many of them were never made into facts.
        pub unlearned: i64,
    }
}

/// Takes away old episodes, at most so many at once, until only `capacity` are kept.
pub async fn clean(from: &mut dyn Rows, schema: &str, capacity: u32, most: i32) -> Result<Option<Cleaned>, StoreError> {
    let sql = format!("SELECT expired, beyond, unlearned FROM \"{schema}\".memory_clean($1, $2)");
    Ok(from.rows(&sql, &[&i64::from(capacity), &most]).await?.first().map(Cleaned::from))
}

/// How much is remembered, in which states.
pub async fn stats(from: &mut dyn Rows, scope: Option<&str>) -> Result<Value, StoreError> {
    Ok(from.rows("SELECT memory_stats($1)", &[&scope]).await?.first().map(|r| r.get(0)).unwrap_or_default())
}

/// The predicates that are on record: the name of each, and what is shown of it.
pub async fn predicates(from: &mut dyn Rows) -> Result<Vec<(String, Value)>, StoreError> {
    let sql = "SELECT p.name, to_jsonb(p) - '{tenant_id,trust,created_at}'::text[] AS shown FROM memory_predicates p";
    Ok(from.rows(sql, &[]).await?.iter().map(|row| (row.get("name"), row.get("shown"))).collect())
}

/// How the jobs of these names stand.
pub async fn job_state(from: &mut dyn Rows, jobs: &Value) -> Result<Value, StoreError> {
    Ok(from.rows("SELECT memory_job_state($1)", &[jobs]).await?.first().map(|r| r.get(0)).unwrap_or_default())
}

/// Which memories or events have an id that begins so, each with its kind.
pub async fn named(from: &mut dyn Rows, beginning: Option<&str>) -> Result<Vec<(String, Uuid)>, StoreError> {
    let rows = from.rows("SELECT memory_type, id FROM memory_named($1)", &[&beginning]).await?;
    Ok(rows.iter().map(|r| (r.get("memory_type"), r.get("id"))).collect())
}

/// Lets what consolidation has given up wait for it again: this one, or all. Returns how many that are.
pub async fn retry(tx: &mut dyn Rows, which: Option<Uuid>) -> Result<i64, StoreError> {
    Ok(tx.rows("SELECT memory_retry($1)", &[&which]).await?.first().map_or(0, |row| row.get(0)))
}

/// A line of an export.
pub struct ExportLine {
    /// Where the next page begins after it.
    pub place: String,
    pub kind: String,
    pub row: Value,
}

/// The lines after this place, at most so many.
pub async fn export(lease: &mut Lease, after: Option<&str>, most: i32) -> Result<Vec<ExportLine>, StoreError> {
    let rows = lease.read("SELECT place, type, line FROM memory_export($1, $2)", &[&after, &most]).await;
    let line = |r: &tokio_postgres::Row| ExportLine { place: r.get("place"), kind: r.get("type"), row: r.get("line") };
    Ok(rows.map_err(StoreError::query("exporting"))?.iter().map(line).collect())
}

/// Brings a line in. Returns what became of it.
pub async fn import(tx: &mut dyn Rows, kind: &str, row: &Value) -> Result<String, StoreError> {
    Ok(tx.rows("SELECT memory_import($1, $2)", &[&kind, row]).await.cell(0)?.unwrap_or_default())
}

/// What the owner prefers: of this scope, with predicates of this pattern.
pub async fn preferences(
    from: &mut dyn Rows,
    scope: Option<&str>,
    pattern: Option<&str>,
) -> Result<Vec<Value>, StoreError> {
    let ids = from.rows("SELECT id FROM memory_preferences($1, $2)", &[&scope, &pattern]).await?;
    let ids: Vec<Uuid> = ids.iter().map(|r| r.get("id")).collect();
    let sql = "
        SELECT jsonb_build_object('id', f.id, 'predicate', f.predicate, 'value', f.content, 'permanence', f.permanence,
                   'importance', f.importance, 'scope', f.scope, 'last_confirmed_at', f.last_confirmed_at,
                   'metadata', f.metadata)
        FROM memory_facts f WHERE f.id = ANY($1) ORDER BY array_position($1, f.id)";
    Ok(from.rows(sql, &[&ids]).await?.iter().map(|r| r.get(0)).collect())
}

/// What owners are to be told of episodes that consolidation has given up, those of one try as one, as rows of
/// `tenant_id`, `kind`, `subject`, `happened_at` and `told`. `since` is SQL.
pub fn notices(schema: &str, butler: &str, since: &str) -> String {
    format!(
        "SELECT tenant_id, 'memory_dead_letter' AS kind, '{butler}' AS subject, settled_at AS happened_at,
                '{butler} could not learn from ' || count(*) || CASE count(*) WHEN 1 THEN ' episode' ELSE ' episodes' END
                || ' and has given up: ' || rtrim(coalesce(min(last_error), 'no reason is on record'), '.')
                || '. Try again: butlerd memory retry' AS told
         FROM \"{schema}\".memory_episodes
         WHERE consolidation = 'dead_letter' AND forgotten_at IS NULL AND settled_at > {since}
         GROUP BY tenant_id, settled_at"
    )
}
