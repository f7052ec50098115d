//! Facts, their wordings and successors, and the entities and predicates that they speak of.

use jiff::Timestamp;
use memory_index::predicates::TenantPredicate;
use uuid::Uuid;

use super::Rows;
use super::entities::standing_now;
use crate::write::WriteError;
use store::AsRows;

store::row! {
    /// A fact that another one is held against, or one more wording of it.
    pub(crate) struct FactRival {
        pub(crate) id: Uuid,
        /// The fact that it is a wording of.
        pub(crate) wording_of: Option<Uuid>,
        pub(crate) kind: String,
        pub(crate) subject: String,
        pub(crate) predicate: String,
        pub(crate) scope: String,
        pub(crate) content: String,
        pub(crate) content_hash: String,
        pub(crate) topic_hash: String,
        pub(crate) idempotency_key: Option<String>,
        pub(crate) source_episode_id: Option<Uuid>,
        pub(crate) entity_id: Option<Uuid>,
        pub(crate) object_entity_id: Option<Uuid>,
        pub(crate) valid_from: Option<Timestamp>,
        pub(crate) valid_to: Option<Timestamp>,
        pub(crate) learned_at: Timestamp,
        pub(crate) validity: String,
        pub(crate) trust: String,
        pub(crate) forgotten_at: Option<Timestamp>,
    }
}

impl FactRival {
    pub(crate) fn is_of_stranger(&self) -> bool {
        self.trust == "stranger"
    }

    /// Whether it is so, as far as is known.
    pub(crate) fn holds(&self) -> bool {
        self.forgotten_at.is_none() && ["active", "fading"].contains(&&*self.validity)
    }
}

/// Facts that may be held against one of this topic, hash, episode or key, or that a session was told; those that
/// decide first come first.
pub(crate) async fn rivals(
    tx: &mut dyn Rows,
    topic: &str,
    hash: &str,
    episode: Option<Uuid>,
    key: Option<&str>,
    told: &[Uuid],
) -> Result<Vec<FactRival>, WriteError> {
    let sql = "SELECT * FROM memory_fact_rivals($1, $2, $3, $4, $5)";
    Ok(tx.rows(sql, &[&topic, &hash, &episode, &key, &told]).await?.iter().map(FactRival::from).collect())
}

/// The other wordings of a fact. `former`: also of what it said before it was edited.
pub async fn wordings(tx: &mut dyn Rows, fact: Uuid, former: bool) -> Result<Vec<Uuid>, WriteError> {
    Ok(tx.rows("SELECT id FROM memory_fact_wordings($1, $2)", &[&fact, &former]).await.column("id")?)
}

/// What took a fact's place.
pub(crate) async fn successors(tx: &mut dyn Rows, fact: Uuid) -> Result<Vec<Uuid>, WriteError> {
    Ok(tx.rows("SELECT id FROM memory_fact_successors($1)", &[&fact]).await.column("id")?)
}

store::row! {
    /// A fact that speaks of an entity, or points to it.
    pub(crate) struct FactAbout {
        pub(crate) id: Uuid,
        pub(crate) kind: String,
        pub(crate) scope: String,
        pub(crate) subject: String,
        pub(crate) predicate: String,
        pub(crate) content_hash: String,
        pub(crate) entity_id: Option<Uuid>,
        pub(crate) object_entity_id: Option<Uuid>,
        pub(crate) validity: String,
        pub(crate) trust: String,
        pub(crate) forgotten_at: Option<Timestamp>,
    }
}

pub(crate) async fn about(tx: &mut dyn Rows, entity: Uuid) -> Result<Vec<FactAbout>, WriteError> {
    Ok(tx.rows("SELECT * FROM memory_facts_about($1)", &[&entity]).await.typed()?)
}

/// Makes two entities one. Returns how many names the target got; none: the source does not stand for itself.
pub(crate) async fn merge_entities(tx: &mut dyn Rows, source: Uuid, target: Uuid) -> Result<Option<i32>, WriteError> {
    Ok(tx.rows("SELECT shared.entity_merge($1, $2)", &[&source, &target]).await.cell(0)?)
}

/// The entity that stands for this one now.
pub(crate) async fn standing(
    tx: &mut dyn Rows,
    argument: &str,
    entity: Option<Uuid>,
) -> Result<Option<Uuid>, WriteError> {
    let Some(entity) = entity else { return Ok(None) };
    let unknown = || WriteError::refused("not_found", format!("{argument}: there is no entity {entity}."));
    standing_now(tx, entity).await?.map(Some).ok_or_else(unknown)
}

/// The tenant's own predicates.
pub(crate) async fn known_predicates(tx: &mut dyn Rows) -> Result<Vec<TenantPredicate>, WriteError> {
    let rows = tx.rows("SELECT * FROM memory_predicates_known()", &[]).await?;
    let known = |r: &tokio_postgres::Row| TenantPredicate {
        name: r.get("name"),
        aliases: r.get("aliases"),
        edge: r.get("is_edge"),
        temporal: r.get("is_temporal"),
        many: r.get("is_many"),
    };
    Ok(rows.iter().map(known).collect())
}

/// Counts a use of a predicate, which is known from then on.
pub(crate) async fn predicate_used(
    tx: &mut dyn Rows,
    predicate: &memory_index::predicates::Predicate,
) -> Result<(), WriteError> {
    let p = predicate;
    tx.rows("SELECT memory_predicate_used($1, $2, $3, $4)", &[&p.name, &p.edge, &p.temporal, &p.many]).await?;
    Ok(())
}
