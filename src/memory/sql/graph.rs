//! Episodes and facts of scopes as a graph: what tied whom to what, from when to when, and who said so.

use jiff::Timestamp;
use serde_json::Value;
use store::StoreError;
use uuid::Uuid;

use super::Rows;

store::row! {
    /// An episode that a program brought in.
    #[derive(Clone, Debug)]
    pub struct GraphEpisode {
        pub id: Uuid,
        pub content: String,
        pub metadata: Value,
        pub scope: String,
        pub created_at: Timestamp,
        pub trust: String,
    }
}

const EPISODE: &str = "SELECT id, content, metadata, scope, created_at, trust FROM memory_episodes
                       WHERE tenant_id = shared.tenant() AND forgotten_at IS NULL";

/// The episodes of these scopes, the newest first.
pub async fn episodes(rows: &mut dyn Rows, scopes: &[String], limit: i64) -> Result<Vec<GraphEpisode>, StoreError> {
    let sql = format!("{EPISODE} AND scope = ANY($1) ORDER BY seq DESC LIMIT $2");
    Ok(rows.rows(&sql, &[&scopes, &limit]).await?.iter().map(GraphEpisode::from).collect())
}

/// The episode with this id, or this key, in a scope that begins so.
pub async fn episode(
    rows: &mut dyn Rows,
    within: &str,
    id: Option<Uuid>,
    key: &str,
) -> Result<Option<GraphEpisode>, StoreError> {
    let sql = format!("{EPISODE} AND starts_with(scope, $1) AND (id = $2 OR idempotency_key = $3)");
    Ok(rows.rows(&sql, &[&within, &id, &key]).await?.first().map(GraphEpisode::from))
}

/// The facts that nothing but this episode says.
pub async fn only_of(rows: &mut dyn Rows, episode: Uuid) -> Result<Vec<Uuid>, StoreError> {
    let says = "(l.source_id = f.id AND l.relation = 'derived_from' OR l.target_id = f.id AND l.relation = 'supports')";
    let sql = format!(
        "SELECT f.id FROM memory_facts f
         WHERE f.tenant_id = shared.tenant() AND f.forgotten_at IS NULL
           AND EXISTS (SELECT 1 FROM memory_links l WHERE {says} AND $1 IN (l.source_id, l.target_id))
           AND NOT EXISTS (SELECT 1 FROM memory_links l JOIN memory_episodes e
                                ON e.id IN (l.source_id, l.target_id) AND e.forgotten_at IS NULL
                           WHERE {says} AND e.id <> $1)
         ORDER BY f.id"
    );
    Ok(rows.rows(&sql, &[&episode]).await?.iter().map(|row| row.get("id")).collect())
}

store::row! {
    /// A fact with what it ties, and what says so.
    #[derive(Clone, Debug)]
    pub struct GraphFact {
        pub id: Uuid,
        pub subject: String,
        pub predicate: String,
        pub content: String,
        pub scope: String,
        pub entity_id: Option<Uuid>,
        pub object_entity_id: Option<Uuid>,
        /// The name of what it points to.
        pub object: Option<String>,
        /// The names, or else the ids, of the episodes that say so.
        pub episodes: Vec<String>,
        pub created_at: Timestamp,
        pub valid_from: Option<Timestamp>,
        pub valid_to: Option<Timestamp>,
        /// When something else took its place.
        pub superseded_at: Option<Timestamp>,
        /// When the newest of its episodes happened.
        pub said_at: Option<Timestamp>,
        pub validity: String,
        pub confidence: f32,
        pub trust: String,
    }
}

const FACT: &str = "
    SELECT f.id, f.subject, f.predicate, f.content, f.scope, f.entity_id, f.object_entity_id, o.name AS object, f.created_at,
           f.valid_from, f.valid_to, f.validity, f.confidence, f.trust, said.episodes, said.said_at,
           (SELECT min(s.created_at) FROM memory_links l JOIN memory_facts s ON s.id = l.source_id
            WHERE l.target_id = f.id AND l.relation = 'supersedes' AND s.forgotten_at IS NULL) AS superseded_at
    FROM memory_facts f LEFT JOIN shared.entities o ON o.id = f.object_entity_id
    CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(coalesce(e.metadata ->> 'uuid', e.id::text) ORDER BY e.seq), '{}') AS episodes,
               max(e.occurred_at) AS said_at
        FROM memory_episodes e WHERE e.forgotten_at IS NULL AND e.id IN (
            SELECT l.target_id FROM memory_links l WHERE l.source_id = f.id AND l.relation = 'derived_from'
            UNION SELECT l.source_id FROM memory_links l WHERE l.target_id = f.id AND l.relation = 'supports')) said
    WHERE f.tenant_id = shared.tenant() AND f.forgotten_at IS NULL AND f.validity <> 'merged'";

/// These facts of these scopes, in the order of the ids.
pub async fn facts(rows: &mut dyn Rows, scopes: &[String], ids: &[Uuid]) -> Result<Vec<GraphFact>, StoreError> {
    let sql = format!("{FACT} AND f.scope = ANY($1) AND f.id = ANY($2) ORDER BY array_position($2, f.id)");
    Ok(rows.rows(&sql, &[&scopes, &ids]).await?.iter().map(GraphFact::from).collect())
}

/// What held before these facts, and was said of the same.
pub async fn former(rows: &mut dyn Rows, scopes: &[String], ids: &[Uuid]) -> Result<Vec<GraphFact>, StoreError> {
    let sql = format!(
        "{FACT} AND f.scope = ANY($1) AND f.validity = 'superseded'
         AND f.topic_hash IN (SELECT n.topic_hash FROM memory_facts n WHERE n.tenant_id = shared.tenant() AND n.id = ANY($2))
         ORDER BY f.valid_to DESC NULLS LAST, f.seq DESC LIMIT 100"
    );
    Ok(rows.rows(&sql, &[&scopes, &ids]).await?.iter().map(GraphFact::from).collect())
}

/// The fact with this id, in a scope that begins so.
pub async fn fact(rows: &mut dyn Rows, within: &str, id: Uuid) -> Result<Option<GraphFact>, StoreError> {
    let sql = format!("{FACT} AND starts_with(f.scope, $1) AND f.id = $2");
    Ok(rows.rows(&sql, &[&within, &id]).await?.first().map(GraphFact::from))
}

/// Facts that speak of the same as these of these scopes, those that hold, the newest first.
pub async fn about(rows: &mut dyn Rows, scopes: &[String], subjects: &[String]) -> Result<Vec<GraphFact>, StoreError> {
    let sql = format!(
        "{FACT} AND f.scope = ANY($1) AND f.subject = ANY($2) AND f.validity IN ('active', 'fading')
         ORDER BY f.seq DESC LIMIT 500"
    );
    Ok(rows.rows(&sql, &[&scopes, &subjects]).await?.iter().map(GraphFact::from).collect())
}
