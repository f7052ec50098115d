//! Facts of one scope as a list: what a project has, whatever it is asked.

use jiff::Timestamp;
use serde_json::Value;
use store::{AsRows, StoreError};
use uuid::Uuid;

use super::Rows;

store::row! {
    /// A fact with what programs ask of it.
    #[derive(Clone, Debug)]
    pub struct Experience {
        pub id: Uuid,
        pub predicate: String,
        pub content: String,
        pub tags: Vec<String>,
        pub metadata: Value,
        /// 0 to 10.
        pub importance: f32,
        pub reference_count: i32,
        pub created_at: Timestamp,
        pub last_referenced_at: Option<Timestamp>,
    }
}

const COLUMNS: &str =
    "id, predicate, content, tags, metadata, importance, reference_count, created_at, last_referenced_at";
const HOLDS: &str =
    "tenant_id = shared.tenant() AND scope = $1 AND forgotten_at IS NULL AND validity IN ('active', 'fading')";

/// Which facts of a scope, the newest first.
#[derive(Clone, Debug, Default)]
pub struct Which {
    pub predicate: Option<String>,
    /// One of these tags; empty: any.
    pub tags: Vec<String>,
    pub since: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// How the id begins, in lower case.
    pub beginning: Option<String>,
    pub limit: Option<i64>,
}

/// The facts of a scope that hold, the newest first.
pub async fn list(rows: &mut dyn Rows, scope: &str, which: &Which) -> Result<Vec<Experience>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM memory_facts
         WHERE {HOLDS} AND ($2::text IS NULL OR predicate = $2) AND (cardinality($3::text[]) = 0 OR tags && $3)
           AND ($4::timestamptz IS NULL OR created_at >= $4) AND ($5::timestamptz IS NULL OR created_at < $5)
           AND ($6::text IS NULL OR starts_with(id::text, $6))
         ORDER BY created_at DESC, seq DESC LIMIT $7"
    );
    let Which { predicate, tags, since, until, beginning, limit } = which;
    rows.rows(&sql, &[&scope, predicate, tags, since, until, beginning, limit]).await.typed()
}

/// Those of these facts that hold, in the order of the ids.
pub async fn of(rows: &mut dyn Rows, scope: &str, ids: &[Uuid]) -> Result<Vec<Experience>, StoreError> {
    let sql =
        format!("SELECT {COLUMNS} FROM memory_facts WHERE {HOLDS} AND id = ANY($2) ORDER BY array_position($2, id)");
    Ok(rows.rows(&sql, &[&scope, &ids]).await?.iter().map(Experience::from).collect())
}

/// How many facts of a scope hold.
pub async fn count(rows: &mut dyn Rows, scope: &str) -> Result<i64, StoreError> {
    let sql = format!("SELECT count(*) AS n FROM memory_facts WHERE {HOLDS}");
    Ok(rows.rows(&sql, &[&scope]).await?.first().map(|row| row.get("n")).unwrap_or_default())
}

/// Facts of a scope that were forgotten on purpose: whoever has them elsewhere lets them go.
pub async fn gone(rows: &mut dyn Rows, scope: &str) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT id FROM memory_facts WHERE tenant_id = shared.tenant() AND scope = $1 AND forgotten_at IS NOT NULL ORDER BY id";
    Ok(rows.rows(sql, &[&scope]).await?.iter().map(|row| row.get("id")).collect())
}

/// Facts of a scope that became wordings of another.
pub async fn merged(rows: &mut dyn Rows, scope: &str) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT id FROM memory_facts WHERE tenant_id = shared.tenant() AND scope = $1 AND validity = 'merged'
                 AND forgotten_at IS NULL ORDER BY id";
    Ok(rows.rows(sql, &[&scope]).await?.iter().map(|row| row.get("id")).collect())
}

/// Which of these ids a scope's facts have, in whatever state.
pub async fn known(rows: &mut dyn Rows, scope: &str, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT id FROM memory_facts WHERE tenant_id = shared.tenant() AND scope = $1 AND id = ANY($2)";
    Ok(rows.rows(sql, &[&scope, &ids]).await?.iter().map(|row| row.get("id")).collect())
}

/// Which of these ids facts of other scopes have, in whatever state.
pub async fn taken(rows: &mut dyn Rows, scope: &str, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT id FROM memory_facts WHERE tenant_id = shared.tenant() AND scope <> $1 AND id = ANY($2)";
    Ok(rows.rows(sql, &[&scope, &ids]).await?.iter().map(|row| row.get("id")).collect())
}

/// Notes that these were recalled just now.
pub async fn touch(rows: &mut dyn Rows, ids: &[Uuid]) -> Result<(), StoreError> {
    rows.rows("SELECT memory_touch($1::uuid[])", &[&ids]).await.map(drop)
}

store::row! {
    /// What was done to facts of a scope.
    #[derive(Clone, Debug)]
    pub struct Done {
        pub id: Uuid,
        pub event_type: String,
        pub at: Timestamp,
        pub facts: i64,
        pub undone: bool,
    }
}

/// The events of runs over a scope (those whose payload names it), the newest first.
pub async fn runs(rows: &mut dyn Rows, scope: &str, limit: i64) -> Result<Vec<Done>, StoreError> {
    let sql =
        "SELECT e.id, e.event_type, e.at, (SELECT count(*) FROM memory_history h WHERE h.event_id = e.id) AS facts,
                      NOT memory_in_force(e.id) AS undone
               FROM memory_events e
               WHERE e.tenant_id = shared.tenant() AND e.payload ->> 'scope' = $1 AND e.undoes IS NULL
               ORDER BY e.seq DESC LIMIT $2";
    Ok(rows.rows(sql, &[&scope, &limit]).await?.iter().map(Done::from).collect())
}

/// How many events of each kind there were to facts of a scope since a moment.
pub async fn events_since(
    rows: &mut dyn Rows,
    scope: &str,
    since: Timestamp,
) -> Result<Vec<(String, i64)>, StoreError> {
    let sql = "SELECT e.event_type, count(*) AS n FROM memory_events e JOIN memory_facts f ON f.id = e.memory_id
               WHERE e.tenant_id = shared.tenant() AND f.scope = $1 AND e.at >= $2 GROUP BY 1 ORDER BY 1";
    Ok(rows.rows(sql, &[&scope, &since]).await?.iter().map(|row| (row.get("event_type"), row.get("n"))).collect())
}
