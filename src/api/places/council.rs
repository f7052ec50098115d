//! The council.

use admin::{CouncilQuestion, CouncilStep, Failure, answered};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::endpoint::{Endpoint, get};
use crate::input::Paging;
use crate::list::Page;
use crate::visit::Visit;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/butlers/{butler}/council", "listQuestions", "What the council was asked, the newest first", list),
        get("/butlers/{butler}/council/{id}", "getQuestion", "One question with all that was done for it", one),
    ]
}

/// Whose questions.
#[derive(Deserialize, JsonSchema)]
struct Wanted {
    /// The butler that has the council.
    butler: String,
    #[serde(flatten)]
    paging: Paging,
}

/// A question with all that was done for it.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Deliberation {
    question: String,
    title: Option<String>,
    way: Option<String>,
    answer: Option<String>,
    failure: Option<String>,
    /// What memory was worth.
    confidence: Value,
    /// The joined ranking.
    ranking: Value,
    asked_at: Option<Timestamp>,
    answered_at: Option<Timestamp>,
    steps: Vec<CouncilStep>,
}

async fn list(visit: &Visit, wanted: Wanted) -> Result<Page<CouncilQuestion>, Failure> {
    let start = visit.start::<Uuid>(&wanted.paging)?;
    let mut args = json!({"limit": start.one_more()});
    if let Some(before) = start.at {
        args["before"] = json!(before);
    }
    let mut answer: Value = visit.look(&wanted.butler, "council_questions", args).await?;
    Ok(visit.page(&start, answered(answer["questions"].take())?, |question: &CouncilQuestion| question.id))
}

/// Which question.
#[derive(Deserialize, JsonSchema)]
struct OneOf {
    /// The butler that has the council.
    butler: String,
    /// Its id.
    id: Uuid,
}

async fn one(visit: &Visit, of: OneOf) -> Result<Deliberation, Failure> {
    let found: Option<Deliberation> = visit.look(&of.butler, "council_question", json!({"id": of.id})).await?;
    found.ok_or_else(|| Failure::new("not_found", format!("There is no question {}.", of.id)))
}
