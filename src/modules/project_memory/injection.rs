//! What a session is told without asking, and that it is told nothing twice.

use std::collections::HashSet;

use memory::sql::Rows;
use memory::sql::experiences::{self, Experience, Which};
use memory::write::WriteError;
use memory_index::rank::{Mode, Parts, words_of};
use project::hook::{BUDGET, FLOOR};
use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::{Arguments, tags_of, wrong};
use super::records;
use super::request::ProjectRequest;
use super::search::{fitting, ranked, rounded};
use super::sql;

/// A request has so many queries at most.
const MOST_QUERIES: usize = 8;
/// So many of a query are looked at: some may have been told before.
const LOOKED_AT: usize = 30;

/// A fact that may be told.
struct Candidate {
    fact: Experience,
    relevance: f64,
}

/// What has fewer characters says too little without being asked for.
const LEAST_CHARACTERS: usize = 20;

/// The place from which on what was found is the field: what comes near in any case.
const FIELD: usize = 5;
/// So much more relevant than the field is what bears on a question. By `tests/data/project`: of what is merely above
/// the floor half is unrelated, of what stands out by so much about every seventh.
const AHEAD: f32 = 0.25;
/// It shares so many of the question's words, by their weight, …
const SHARED_WORDS: f32 = 2.0;
/// … or this part of them, where there are few.
const NEARLY_ALL: f32 = 0.9;

/// How many tokens a fact takes with its line, about.
fn tokens(fact: &Experience) -> usize {
    fact.content.chars().take(400).count() / 4 + 12
}

pub(super) async fn inject(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let args = request.args;
    let session = args.text("session");
    let event = args.needed("event")?;
    let floor = args.share("floor", FLOOR)?;
    let budget = match &args.0["budget_tokens"] {
        Value::Null => BUDGET,
        value => value.as_u64().ok_or_else(|| wrong("`budget_tokens` is a number."))?,
    };
    let queries = args.0["queries"].as_array().ok_or_else(|| wrong("`queries` is a list."))?;
    if queries.len() > MOST_QUERIES {
        return Err(wrong(format!("A telling has at most {MOST_QUERIES} queries.")));
    }
    let mut told: HashSet<Uuid> = match session {
        Some(session) => sql::told(rows, session).await?.into_iter().collect(),
        None => HashSet::new(),
    };
    let mut chosen: Vec<Candidate> = Vec::new();
    let mut left = usize::try_from(budget).unwrap_or(usize::MAX);
    for query in queries {
        let query = Arguments(query);
        let limit = query.limit(5, LOOKED_AT)?;
        let mut taken = 0;
        for candidate in candidates(request, rows, query, floor).await? {
            let cost = tokens(&candidate.fact);
            if taken == limit {
                break;
            }
            if cost > left || !told.insert(candidate.fact.id) {
                continue;
            }
            taken += 1;
            left -= cost;
            chosen.push(candidate);
        }
    }
    if let Some(session) = session {
        let ids: Vec<Uuid> = chosen.iter().map(|c| c.fact.id).collect();
        let costs: Vec<i32> = chosen.iter().map(|c| i32::try_from(tokens(&c.fact)).unwrap_or(i32::MAX)).collect();
        // Another hook of the session may have some of it in hand meanwhile.
        let noted = sql::tell(rows, request.project.id, (session, event), &ids, &costs).await?;
        chosen.retain(|candidate| noted.contains(&candidate.fact.id));
    }
    let lines = chosen.iter().map(|c| {
        json!({"id": c.fact.id, "content": c.fact.content, "experience_type": records::kind(&c.fact).as_str(),
            "relevance": c.relevance, "tags": c.fact.tags, "created_at": c.fact.created_at.to_string()})
    });
    Ok(json!({"lines": lines.collect::<Vec<_>>()}))
}

/// What fits a query well enough, the best first: a text, or tags.
async fn candidates(
    request: &ProjectRequest<'_>,
    rows: &mut dyn Rows,
    query: Arguments<'_>,
    floor: f64,
) -> Result<Vec<Candidate>, WriteError> {
    let tags = tags_of(&query.0["tags"])?;
    if !tags.is_empty() {
        let which = Which { tags, limit: i64::try_from(LOOKED_AT).ok(), ..Which::default() };
        let listed = experiences::list(rows, &request.project.scope, &which).await?;
        let worth = listed.into_iter().filter(says_something);
        return Ok(worth.map(|fact| Candidate { fact, relevance: 1.0 }).collect());
    }
    let Some(text) = query.text("text") else { return Ok(Vec::new()) };
    let hits = ranked(request, text, Mode::Hybrid, LOOKED_AT).await?;
    let found = fitting(request, rows, &hits).await?;
    let field = found.get(FIELD).map(|f| f.parts.relevance);
    let words = words_of(text);
    let fits = found
        .into_iter()
        .filter(|f| says_something(&f.fact) && stands_out(&f.parts, field, words))
        .map(|f| Candidate { relevance: rounded(f.parts.relevance), fact: f.fact });
    Ok(fits.filter(|candidate| candidate.relevance >= floor).collect())
}

/// Whether a memory fits so much better than the field, and shares so many words with the question, that it bears on
/// it: in a large project something always comes near. Where there is no field, nothing has to stand out from it.
fn stands_out(parts: &Parts, field: Option<f32>, words: usize) -> bool {
    let Some(field) = field else { return true };
    #[allow(clippy::cast_precision_loss, reason = "the words of a question")]
    let shared = parts.bm25.clamp(0.0, 1.0) * words as f32;
    parts.relevance - field >= AHEAD && (shared >= SHARED_WORDS || parts.bm25 >= NEARLY_ALL)
}

fn says_something(fact: &Experience) -> bool {
    fact.content.trim().chars().count() >= LEAST_CHARACTERS
}

/// What a hook printed was told.
pub(super) async fn told(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let ids = request.args.0["ids"].as_array().ok_or_else(|| wrong("`ids` is a list."))?;
    let ids: Vec<Uuid> = ids.iter().filter_map(|id| id.as_str()?.parse().ok()).collect();
    let told = sql::printed(rows, request.args.needed("session")?, &ids).await?;
    Ok(json!({"told": told}))
}

pub(super) async fn forget_session(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let cleared = sql::forget_told(rows, request.args.needed("session")?).await?;
    Ok(json!({"cleared": cleared}))
}

/// What the project's sessions were told of late.
pub(super) async fn metrics(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let days = request.args.number("since_days")?.unwrap_or(30.0);
    if !(0.0..=100_000.0).contains(&days) {
        return Err(wrong(format!("`since_days` is a number of days, and {days} is not.")));
    }
    let since = request.house.clock.now() - jiff::SignedDuration::from_secs_f64(days * 86_400.0);
    let told = sql::told_since(rows, request.project.id, since).await?;
    let sessions = sql::sessions_since(rows, request.project.id, since).await?;
    let by_event: serde_json::Map<String, Value> = told
        .iter()
        .map(|t| (t.event.clone(), json!({"sessions": t.sessions, "injections": t.injections, "tokens": t.tokens})))
        .collect();
    Ok(json!({"since": since.to_string(), "sessions": sessions,
        "injections": told.iter().map(|t| t.injections).sum::<i64>(),
        "tokens": told.iter().map(|t| t.tokens).sum::<i64>(), "by_event": by_event}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_merely_comes_near_does_not_stand_out() {
        let parts = |relevance, bm25| Parts { relevance, bm25, ..Parts::default() };
        assert!(stands_out(&parts(0.6, 0.5), Some(0.2), 6), "half of six words, and far ahead");
        assert!(!stands_out(&parts(0.6, 0.5), Some(0.4), 6), "others fit about as well");
        assert!(!stands_out(&parts(0.6, 0.2), Some(0.2), 6), "one word that both have");
        assert!(stands_out(&parts(0.6, 0.95), Some(0.2), 1), "all there is of a short question");
        assert!(stands_out(&parts(0.6, 0.2), None, 6), "nothing else comes near");
    }
}
