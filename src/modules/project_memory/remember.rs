//! Taking in and letting go.

use memory::sql::Rows;
use memory::sql::experiences::{self, Experience, Which};
use memory::write::{Brought, NewFact, Permanence, WriteError, forget_facts, store_fact};
use project::record::ExperienceType;
use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::wrong;
use super::records::{self, BRANCH, TODO};
use super::request::{ProjectRequest, SUBJECT};

/// The tag of what a program took in by itself. What was forgotten on purpose does not come back by it.
const AUTO: &str = "auto";

/// How much a memory matters from the start, 0 to 10.
fn weight(kind: ExperienceType, failure: bool, anomaly: bool) -> f64 {
    let base = match kind {
        ExperienceType::Decision => 7.0,
        ExperienceType::Learning => 6.0,
        ExperienceType::Context => 4.0,
    };
    base + f64::from(u8::from(failure)) + f64::from(u8::from(anomaly))
}

pub(super) async fn remember(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let args = request.args;
    let content = args.needed("content")?;
    let kind = args.experience_type()?.unwrap_or_default();
    let (failure, anomaly) = (args.flag("failure"), args.flag("anomaly"));
    let given = match &args.0["metadata"] {
        Value::Null => Vec::new(),
        Value::Object(given) => given.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
        other => return Err(wrong(format!("`metadata` is an object, and not {other}."))),
    };
    let tags = branch_tagged(args.tags()?, request.branch);
    let fact = NewFact {
        importance: weight(kind, failure, anomaly),
        tags,
        metadata: records::metadata(given, failure, anomaly),
        ..new_fact(request, kind, content).await
    };
    take_in(request, rows, fact).await
}

/// A fact of the caller's project.
pub(super) async fn new_fact(request: &ProjectRequest<'_>, kind: ExperienceType, content: &str) -> NewFact {
    let predicate = kind.as_str().to_lowercase();
    NewFact {
        permanence: Permanence::Permanent,
        by_words: true,
        scope: request.project.scope.clone(),
        vector: request.house.vector(&predicate, content).await,
        // People and models name a memory by the first characters of its id. All ids that a clock makes within a minute
        // begin alike, so these are random.
        brought: Some(Brought { id: Uuid::new_v4(), created_at: request.house.clock.now(), reference_count: 0 }),
        ..NewFact::new(SUBJECT, &predicate, content)
    }
}

async fn take_in(request: &ProjectRequest<'_>, rows: &mut dyn Rows, fact: NewFact) -> Result<Value, WriteError> {
    // Somebody who says it again after it was forgotten wants it back; a program that reads transcripts does not. It
    // comes back under another id: elsewhere the old one may be known as forgotten.
    let fact = NewFact { again: !fact.tags.iter().any(|tag| tag == AUTO), ..fact };
    let stored = store_fact(rows, &request.origin, &fact).await?;
    Ok(json!({"id": stored.id, "status": stored.status}))
}

pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// With the branch that is checked out, unless a branch is named.
fn branch_tagged(mut tags: Vec<String>, branch: Option<&str>) -> Vec<String> {
    if let Some(branch) = branch
        && !tags.iter().any(|tag| tag.starts_with(BRANCH))
    {
        tags.push(format!("{BRANCH}{branch}"));
    }
    tags
}

/// The one fact whose id begins so.
pub(super) async fn one(
    request: &ProjectRequest<'_>,
    rows: &mut dyn Rows,
    id: &str,
) -> Result<Option<Experience>, WriteError> {
    let beginning = id.trim().to_lowercase();
    if beginning.len() < 4 || !beginning.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        return Err(wrong(format!("{id:?} is not an id, nor the first four characters of one or more.")));
    }
    let which = Which { beginning: Some(beginning), limit: Some(2), ..Which::default() };
    let mut found = experiences::list(rows, &request.project.scope, &which).await?;
    if found.len() > 1 {
        return Err(WriteError::refused("ambiguous", format!("More than one id begins with {id}. Give more of it.")));
    }
    Ok(found.pop())
}

pub(super) async fn forget(request: &ProjectRequest<'_>, rows: &mut dyn Rows, name: &str) -> Result<Value, WriteError> {
    let id = request.args.needed(name)?;
    let Some(fact) = one(request, rows, id).await? else { return Ok(json!({"deleted": false, "id": id})) };
    let payload = json!({"scope": request.project.scope, "count": 1});
    let done = forget_facts(rows, &request.origin, "forgotten", &[fact.id], payload).await?;
    Ok(json!({"deleted": done.is_some(), "id": fact.id, "run": done.map(|(run, _)| run)}))
}

pub(super) async fn forget_by_tags(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let tags = request.args.tags()?;
    if tags.is_empty() {
        return Err(wrong("`tags` is empty: name at least one."));
    }
    forget_which(request, rows, &Which { tags, ..Which::default() }).await
}

pub(super) async fn clear_todos(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    forget_which(request, rows, &Which { tags: vec![TODO.to_owned()], ..Which::default() }).await
}

pub(super) async fn forget_matching(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let args = request.args;
    if let Some(pattern) = args.text("pattern") {
        let re =
            regex::Regex::new(pattern).map_err(|e| wrong(format!("`pattern` is not a regular expression: {e}.")))?;
        let all = experiences::list(rows, &request.project.scope, &Which::default()).await?;
        let ids: Vec<Uuid> = all.iter().filter(|fact| re.is_match(&fact.content)).map(|fact| fact.id).collect();
        return forget_all(request, rows, &ids).await;
    }
    let which = if let Some(days) = args.number("older_than_days")? {
        if !(0.0..=100_000.0).contains(&days) {
            return Err(wrong(format!("`older_than_days` is a number of days, and {days} is not.")));
        }
        let age = jiff::SignedDuration::from_secs_f64(days * 86_400.0);
        Which { until: request.house.clock.now().checked_sub(age).ok(), ..Which::default() }
    } else if let (Some(since), until) = (args.moment("since")?, args.moment("until")?) {
        Which { since: Some(since), until, ..Which::default() }
    } else if args.flag("all") {
        Which::default()
    } else {
        return Err(wrong("Say which: `all`, `older_than_days`, `pattern`, or `since` and `until`."));
    };
    forget_which(request, rows, &which).await
}

async fn forget_which(request: &ProjectRequest<'_>, rows: &mut dyn Rows, which: &Which) -> Result<Value, WriteError> {
    let found = experiences::list(rows, &request.project.scope, which).await?;
    let ids: Vec<Uuid> = found.iter().map(|fact| fact.id).collect();
    forget_all(request, rows, &ids).await
}

/// Forgets these in one run, which can be taken back.
async fn forget_all(request: &ProjectRequest<'_>, rows: &mut dyn Rows, ids: &[Uuid]) -> Result<Value, WriteError> {
    let payload = json!({"scope": request.project.scope, "count": ids.len()});
    let done = forget_facts(rows, &request.origin, "forgotten", ids, payload).await?;
    Ok(json!({"deleted_count": done.map_or(0, |(_, count)| count), "run": done.map(|(run, _)| run)}))
}

pub(super) async fn add_todo(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let content = request.args.needed("content")?;
    let mut tags = vec![TODO.to_owned(), "backlog".to_owned()];
    tags.extend(request.args.tags()?.into_iter().filter(|tag| !["todo", "backlog"].contains(&&**tag)));
    let status = ("todo_status".to_owned(), "open".to_owned());
    let fact = NewFact {
        importance: weight(ExperienceType::Context, false, false),
        tags: branch_tagged(tags, request.branch),
        metadata: records::metadata([status], false, false),
        ..new_fact(request, ExperienceType::Context, content).await
    };
    take_in(request, rows, fact).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_noted_once_and_none_outside_of_one() {
        let tags = |given: &[&str], branch| branch_tagged(given.iter().map(|t| (*t).to_owned()).collect(), branch);
        assert_eq!(tags(&["a"], Some("main")), ["a", "branch:main"]);
        assert_eq!(tags(&["branch:old", "a"], Some("main")), ["branch:old", "a"]);
        assert_eq!(tags(&["a"], None), ["a"]);
    }
}
