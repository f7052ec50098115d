//! What of a project's memory fits a text.

use std::collections::HashMap;

use memory::Ask;
use memory::sql::Rows;
use memory::sql::experiences::{self, Experience};
use memory::write::WriteError;
use memory_index::Kind;
use memory_index::rank::{Hit, Mode, Parts};
use uuid::Uuid;

use super::request::ProjectRequest;

/// So many are given at most.
pub(super) const MOST: usize = 200;

/// What of a project fits a text, the best first.
pub(super) async fn ranked(
    request: &ProjectRequest<'_>,
    text: &str,
    mode: Mode,
    limit: usize,
) -> Result<Vec<Hit>, WriteError> {
    let memory = &request.house.memory;
    let ask = Ask {
        text: text.to_owned(),
        mode,
        limit,
        kinds: vec![Kind::Fact],
        scopes: vec![request.project.scope.clone()],
        butlers: vec![memory.butler.to_string()],
        ..Ask::default()
    };
    Ok(memory.search(request.tenant, &ask).await?.hits)
}

/// A fact that was found, and how well it fits.
pub(super) struct Fitting {
    pub fact: Experience,
    pub score: f32,
    pub parts: Parts,
}

/// The facts behind hits, in their order.
pub(super) async fn fitting(
    request: &ProjectRequest<'_>,
    rows: &mut dyn Rows,
    hits: &[Hit],
) -> Result<Vec<Fitting>, WriteError> {
    let ids: Vec<Uuid> = hits.iter().map(|hit| hit.id).collect();
    let facts = experiences::of(rows, &request.project.scope, &ids).await?;
    let by_id: HashMap<Uuid, &Hit> = hits.iter().map(|hit| (hit.id, hit)).collect();
    let found = facts.into_iter().filter_map(|fact| {
        let hit = by_id.get(&fact.id)?;
        Some(Fitting { score: hit.score, parts: hit.parts, fact })
    });
    Ok(found.collect())
}

/// With three digits.
pub(super) fn rounded(share: f32) -> f64 {
    (f64::from(share.clamp(0.0, 1.0)) * 1000.0).round() / 1000.0
}
