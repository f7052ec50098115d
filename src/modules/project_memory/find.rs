//! Searching: what is asked for, and what bears on the work.

use std::collections::HashSet;

use memory::sql::Rows;
use memory::sql::experiences::{self, Experience, Which};
use memory::write::WriteError;
use memory_index::rank::{Hit, Mode, Parts};
use project::tool::DEFAULT_LIMIT;
use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::wrong;
use super::look;
use super::records::{self, BRANCH};
use super::request::ProjectRequest;
use super::search::{Fitting, MOST, fitting, ranked, rounded};

/// So many are looked at before tags and branches choose among them.
const CANDIDATES: usize = 200;
/// By so much a memory of the branch may be weaker than another and still come first.
const BRANCH_BONUS: f32 = 0.1;

pub(super) async fn recall(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let args = request.args;
    let limit = args.limit(usize::try_from(DEFAULT_LIMIT).unwrap_or(5), MOST)?;
    let tags = args.tags()?;
    let scope = &request.project.scope;
    if args.flag("tags_only") {
        if tags.is_empty() {
            return Err(wrong("`tags_only` needs `tags`."));
        }
        let which = Which { tags, limit: i64::try_from(limit).ok(), ..Which::default() };
        return Ok(records::records(&experiences::list(rows, scope, &which).await?));
    }
    if args.text("since").is_some() || args.text("until").is_some() {
        return look::by_date(request, rows).await;
    }
    let least = args.share("min_importance", 0.0)?;
    let (query, mode) = (args.needed("query")?, args.mode()?);
    let mut hits = ranked(request, query, mode, CANDIDATES).await?;
    if mode == Mode::Hybrid && hits.len() < limit {
        // Somebody who asks in other words than were written wants what comes near, behind what fits.
        let near = ranked(request, query, Mode::Semantic, limit).await?;
        let seen: HashSet<Uuid> = hits.iter().map(|hit| hit.id).collect();
        hits.extend(near.into_iter().filter(|hit| !seen.contains(&hit.id)).map(|hit| Hit { score: 0.0, ..hit }));
    }
    let legacy = args.flag("legacy_order");
    let mut reach = hits.clone();
    if tags.is_empty() && least <= 0.0 && !legacy {
        within_reach(&mut reach, limit);
    }
    let mut found = fitting(request, rows, &reach).await?;
    if found.len() < reach.len() && reach.len() < hits.len() {
        // Some were forgotten meanwhile, so that others move up.
        found = fitting(request, rows, &hits).await?;
    }
    found.retain(|f| records::importance(&f.fact) >= least);
    let facts: Vec<Experience> = if tags.is_empty() {
        let branch = request.branch.map(|branch| format!("{BRANCH}{branch}"));
        let order = if legacy { legacy_order } else { boosted };
        order(found, branch.as_deref(), limit)
    } else {
        found.retain(|f| f.fact.tags.iter().any(|tag| tags.contains(tag)));
        found.into_iter().take(limit).map(|f| f.fact).collect()
    };
    Ok(records::records(&facts))
}

/// Leaves what may come among the first `limit` wherever it belongs: to read a memory takes longer than to find it.
fn within_reach(hits: &mut Vec<Hit>, limit: usize) {
    let mut scores: Vec<f32> = hits.iter().map(|hit| hit.score).collect();
    scores.sort_by(|a, b| b.total_cmp(a));
    if let Some(last) = limit.checked_sub(1).and_then(|last| scores.get(last)) {
        hits.retain(|hit| hit.score + BRANCH_BONUS >= *last);
    }
}

/// The best, where a memory of the branch counts a little more: it goes before one that fits about as well, and never
/// before one that clearly fits better.
fn boosted(mut found: Vec<Fitting>, branch: Option<&str>, limit: usize) -> Vec<Experience> {
    let weight = |f: &Fitting| if is_of(&f.fact, branch) { f.score + BRANCH_BONUS } else { f.score };
    found.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    found.into_iter().take(limit).map(|f| f.fact).collect()
}

/// The order of wt-memory: up to half of the places and one go to the branch, however weak its memories are.
fn legacy_order(found: Vec<Fitting>, branch: Option<&str>, limit: usize) -> Vec<Experience> {
    let share = limit.div_ceil(2) + 1;
    let of_branch = found.iter().filter(|f| is_of(&f.fact, branch)).take(share);
    let mut seen = HashSet::new();
    let both = of_branch.chain(found.iter().take(limit));
    both.filter(|f| seen.insert(f.fact.id)).take(limit).map(|f| f.fact.clone()).collect()
}

fn is_of(fact: &Experience, branch: Option<&str>) -> bool {
    branch.is_some_and(|branch| fact.tags.iter().any(|tag| tag == branch))
}

pub(super) async fn proactive(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let limit = request.args.limit(usize::try_from(DEFAULT_LIMIT).unwrap_or(5), MOST)?;
    let hits = ranked(request, request.args.needed("context")?, Mode::Hybrid, limit).await?;
    let found = fitting(request, rows, &hits).await?;
    let shown = found.iter().map(|f| {
        json!({"id": f.fact.id, "content": f.fact.content, "memory_type": records::kind(&f.fact).as_str(),
            "importance": records::importance(&f.fact), "relevance_score": rounded(f.parts.relevance),
            "relevance_reason": reason(&f.parts), "created_at": f.fact.created_at.to_string(), "tags": f.fact.tags})
    });
    Ok(json!(shown.collect::<Vec<_>>()))
}

/// Why it was found.
fn reason(parts: &Parts) -> String {
    let percent = |share: f32| (share.clamp(0.0, 1.0) * 100.0).round();
    match (parts.bm25 > 0.15, parts.cosine > 0.3) {
        (true, true) => {
            format!("shares {}% of the weight of its words, and means nearly the same", percent(parts.bm25))
        }
        (true, false) => format!("shares {}% of the weight of its words", percent(parts.bm25)),
        (false, true) => "means nearly the same in other words".to_owned(),
        (false, false) => "shares a few of its words".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use memory_index::Kind;

    use super::*;

    fn found(scores: &[(f32, &str)]) -> Vec<Fitting> {
        let fact = |n: usize, tag: &str| Experience {
            id: Uuid::from_u128(n as u128),
            predicate: "learning".to_owned(),
            content: n.to_string(),
            tags: vec![tag.to_owned()],
            metadata: json!({}),
            importance: 5.0,
            reference_count: 0,
            created_at: Timestamp::UNIX_EPOCH,
            last_referenced_at: None,
        };
        let each = scores.iter().enumerate();
        each.map(|(n, (score, tag))| Fitting { fact: fact(n, tag), score: *score, parts: Parts::default() }).collect()
    }

    fn words(facts: &[Experience]) -> String {
        facts.iter().map(|fact| &*fact.content).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_out_of_reach_is_not_read_and_would_not_come_first() {
        let scores = [(0.9, "x"), (0.85, "x"), (0.8, "branch:f"), (0.76, "branch:f"), (0.74, "branch:f"), (0.3, "x")];
        for limit in 0..8 {
            let hit = |f: &Fitting| Hit { id: f.fact.id, kind: Kind::Fact, score: f.score, parts: Parts::default() };
            let mut hits: Vec<Hit> = found(&scores).iter().map(hit).collect();
            within_reach(&mut hits, limit);
            let mut reached = found(&scores);
            reached.retain(|f| hits.iter().any(|hit| hit.id == f.fact.id));
            let [few, all] = [reached, found(&scores)].map(|found| words(&boosted(found, Some("branch:f"), limit)));
            assert_eq!(few, all, "{limit}");
            assert!(limit != 2 || hits.len() == 4, "{hits:?}");
        }
    }

    #[test]
    fn a_weak_memory_of_the_branch_does_not_displace_a_strong_other() {
        let scores = [(0.9, "x"), (0.85, "branch:f"), (0.8, "x"), (0.3, "branch:f"), (0.2, "branch:f")];
        assert_eq!(words(&boosted(found(&scores), Some("branch:f"), 3)), "1 0 2");
        assert_eq!(words(&legacy_order(found(&scores), Some("branch:f"), 3)), "1 3 4");
        assert_eq!(words(&boosted(found(&scores), None, 2)), "0 1");
        assert_eq!(words(&legacy_order(found(&scores), None, 2)), "0 1");
    }
}
