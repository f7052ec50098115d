//! Entities, and the ties between them.

use jiff::Timestamp;
use serde_json::Value;
use store::{AsRows, StoreError};
use uuid::Uuid;

use super::Rows;

/// The entity that stands for this one now; none: there is no such entity.
pub async fn standing_now(from: &mut dyn Rows, entity: Uuid) -> Result<Option<Uuid>, StoreError> {
    from.rows("SELECT shared.entity_standing($1)", &[&entity]).await.cell(0)
}

/// Makes an entity; none: there is one of that name and kind.
pub async fn create(
    tx: &mut dyn Rows,
    kind: &str,
    name: &str,
    aliases: &[String],
    details: &Value,
) -> Result<Option<Uuid>, StoreError> {
    tx.rows("SELECT shared.entity_create($1, $2, $3, $4)", &[&kind, &name, &aliases, details]).await.cell(0)
}

/// Changes what is given of an entity. False: there is no such entity.
pub async fn update(
    tx: &mut dyn Rows,
    entity: Uuid,
    name: Option<&str>,
    aliases: Option<&[String]>,
    details: Option<&Value>,
) -> Result<bool, StoreError> {
    let sql = "SELECT shared.entity_update($1, $2, $3, $4, NULL)";
    Ok(tx.rows(sql, &[&entity, &name, &aliases, &details]).await?.first().is_some_and(|r| r.get(0)))
}

store::row! {
    /// An entity.
    pub struct Entity {
        pub id: Uuid,
        pub kind: String,
        pub name: String,
        pub aliases: Vec<String>,
        pub details: Value,
        pub created_at: Timestamp,
        pub updated_at: Timestamp,
        pub trust: String,
    }
}

/// Those of these that are there.
pub async fn by_id(from: &mut dyn Rows, ids: &[Uuid]) -> Result<Vec<Entity>, StoreError> {
    let sql =
        "SELECT e.id, e.kind, e.name, e.aliases, e.details - 'merged' AS details, e.created_at, e.updated_at, e.trust
               FROM shared.entities e WHERE e.id = ANY($1)";
    Ok(from.rows(sql, &[&ids]).await?.iter().map(Entity::from).collect())
}

store::row! {
    /// What an entity is called by.
    pub struct Names {
        pub id: Uuid,
        pub kind: String,
        pub name: String,
        pub aliases: Vec<String>,
        pub roles: Value,
    }
}

/// The names of all entities.
pub async fn names(from: &mut dyn Rows) -> Result<Vec<Names>, StoreError> {
    from.rows("SELECT id, kind, name, aliases, roles FROM shared.entity_names()", &[]).await.typed()
}

store::row! {
    /// How many facts speak of an entity, and how many of those have one of the words that were asked for.
    pub struct FactCount {
        pub entity: Uuid,
        pub facts: i64,
        pub hits: i64,
    }
}

pub async fn count_facts(from: &mut dyn Rows, entities: &[Uuid], words: &str) -> Result<Vec<FactCount>, StoreError> {
    from.rows("SELECT entity, facts, hits FROM memory_facts_count($1, $2)", &[&entities, &words]).await.typed()
}

store::row! {
    /// A fact that ties one entity to another.
    pub struct Tie {
        /// One of those that were asked for.
        pub near: Uuid,
        pub far: Option<Uuid>,
        pub id: Uuid,
        pub predicate: String,
        pub content: String,
    }
}

/// The ties that go out of these entities, or come in, the most important first.
pub async fn ties(from: &mut dyn Rows, entities: &[Uuid], outgoing: bool, most: usize) -> Result<Vec<Tie>, StoreError> {
    let (near, far) = if outgoing { ("entity_id", "object_entity_id") } else { ("object_entity_id", "entity_id") };
    // By the ids alone, so that what is not shown is not read.
    let sql = format!(
        "SELECT f.{near} AS near, shared.entity_standing(f.{far}) AS far, f.id, f.predicate, f.content FROM memory_facts f
         WHERE f.{near} = ANY($1) AND f.{far} IS NOT NULL AND f.forgotten_at IS NULL
           AND f.validity IN ('active', 'fading') ORDER BY f.importance DESC, f.id LIMIT {most}"
    );
    Ok(from.rows(&sql, &[&entities]).await?.iter().map(Tie::from).collect())
}
