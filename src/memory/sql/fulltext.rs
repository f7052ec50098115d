//! While an index is made: an answer by the database's own full text, without vectors and neighbours.

use std::collections::HashSet;

use base::{ButlerName, TenantId};
use memory_index::Kind;
use memory_index::rank::{Hit, Parts, Weights};
use store::{Store, StoreError};
use uuid::Uuid;

use crate::Ask;

/// The best by words, weighed as the index would, with what a row tells of itself.
pub(crate) async fn search(
    store: &Store,
    tenant: &TenantId,
    butler: &ButlerName,
    ask: &Ask,
    weights: Weights,
) -> Result<Vec<Hit>, StoreError> {
    let mut lease = store.tenant(tenant).await?;
    let included = |kind: Kind| ask.kinds.is_empty() || ask.kinds.contains(&kind);
    let kinds: Vec<&str> = Kind::ALL.iter().copied().filter(|kind| included(*kind)).map(Kind::as_str).collect();
    let limit = i64::try_from(ask.limit).unwrap_or(i64::MAX);
    let least = ask.least_trust.map_or(0, |t| t as i32);
    let sensitivity = ask.max_sensitivity.map_or(2, i32::from);
    let (w, now) = (weights, ask.now.unwrap_or_else(|| store.clock().now()));
    let rows = lease
        .read(
            SEARCH,
            &[
                &ask.text,
                &kinds,
                &ask.scopes,
                &ask.butlers,
                &butler.as_str(),
                &ask.classes,
                &ask.predicate,
                &ask.entity,
                &ask.object,
                &ask.time_from,
                &ask.time_to,
                &ask.valid_at,
                &sensitivity,
                &least,
                &f64::from(ask.min_confidence),
                &now,
                &f64::from(w.relevance),
                &f64::from(w.importance),
                &f64::from(w.recency),
                &f64::from(w.confidence),
                &limit,
            ],
        )
        .await
        .map_err(StoreError::query("searching memories by full text"))?;
    let hit = |row: &tokio_postgres::Row| Hit {
        id: row.get("id"),
        kind: Kind::from_name(row.get("kind")).unwrap_or(Kind::Fact),
        score: row.get::<_, f64>("score") as f32,
        parts: Parts { relevance: row.get::<_, f64>("relevance") as f32, ..Parts::default() },
    };
    let mut hits: Vec<Hit> = rows.iter().map(hit).collect();
    if !ask.scopes.is_empty() && hits.iter().any(|hit| hit.kind == Kind::Episode) {
        let found: Vec<Uuid> = hits.iter().map(|hit| hit.id).collect();
        let elsewhere = lease.read(ELSEWHERE, &[&found, &ask.scopes]).await;
        let elsewhere = elsewhere.map_err(StoreError::query("searching memories by full text"))?;
        let elsewhere: HashSet<Uuid> = elsewhere.iter().map(|row| row.get("id")).collect();
        hits.retain(|hit| !elsewhere.contains(&hit.id));
    }
    Ok(hits)
}

/// Which of these are episodes of other scopes: the function asks facts and rules alone.
const ELSEWHERE: &str = "SELECT id FROM memory_episodes WHERE id = ANY($1) AND NOT scope = ANY($2)";

const SEARCH: &str =
    "SELECT id, kind, score, relevance FROM memory_full_text($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
    $14, $15, $16, $17, $18, $19, $20, $21)";
