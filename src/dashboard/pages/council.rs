//! The council: what it was asked, and how it came to each answer.

use std::collections::BTreeSet;

use admin::{CouncilQuestion, CouncilStep};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::answers::look;
use super::journal::with_module;
use crate::form::encoded;
use crate::parts::{Tone, badge, crumbs, empty, line, note, said, toned, unavailable};
use crate::reply::{Answer, PageError, View};
use crate::route::{Route, get};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] =
    &[get("/council", |visit| Box::pin(list(visit))), get("/council/*", |visit| Box::pin(one(visit)))];

/// As many questions as the council lists.
const SHOWN: u32 = 100;

/// What the council lists.
#[derive(Deserialize)]
struct QuestionList {
    questions: Vec<CouncilQuestion>,
    episodes_waiting: i64,
    episodes_refused: i64,
}

/// A question with all that was done for it.
#[derive(Deserialize)]
struct Question {
    question: String,
    title: Option<String>,
    way: Option<String>,
    answer: Option<String>,
    failure: Option<String>,
    confidence: Option<Value>,
    ranking: Option<Vec<Place>>,
    asked_at: Option<Timestamp>,
    answered_at: Option<Timestamp>,
    steps: Vec<CouncilStep>,
}

/// A member's place in the joined ranking.
#[derive(Deserialize)]
struct Place {
    member: Option<String>,
    mean: Option<f64>,
    rankings: Option<u64>,
}

async fn list(visit: &Visit) -> Answer {
    let (mut asked, mut down, mut episodes) = (Vec::new(), Vec::new(), Vec::new());
    let names = with_module(visit, "council").await?;
    // Each council is a list of its own: an older page is of one of them.
    let (of, before) = (visit.query.get("butler"), visit.query.get("before"));
    if of.is_some_and(|of| names.iter().all(|name| name != of)) {
        return Err(PageError::nothing_here());
    }
    let mut older = Vec::new();
    for butler in names.iter().filter(|name| of.is_none_or(|of| of == name.as_str())) {
        let mut args = json!({ "limit": SHOWN + 1 });
        if let Some(before) = before {
            args["before"] = json!(before);
        }
        match look::<QuestionList>(visit, butler, "council_questions", args).await {
            Ok(mut answer) => {
                if answer.questions.len() > SHOWN as usize {
                    answer.questions.truncate(SHOWN as usize);
                    older.extend(answer.questions.last().map(|last| (butler.clone(), last.id)));
                }
                asked.extend(answer.questions);
                episodes.push((butler, answer.episodes_waiting, answer.episodes_refused));
            }
            Err(why) => down.push(admin::Unavailable { butler: butler.clone(), reason: why.message }),
        }
    }
    let body = html! {
        (unavailable(&down))
        @if names.is_empty() { (empty("There is no council. Switch it on with: butlerd council init MODEL MODEL")) }
        @else if asked.is_empty() && down.is_empty() {
            (empty(match before {
                Some(_) => "There are no older questions.",
                None => "The council was asked nothing yet. Ask it: butlerd council ask \"…\"",
            }))
        }
        @for (butler, waiting, refused) in episodes.iter().filter(|(_, waiting, refused)| waiting + refused > 0) {
            (note(Tone::Warn, &html! {
                // With one council alone it is clear whose they are.
                @if names.len() > 1 { (line(butler, 60)) ": " }
                (waiting) " episodes wait for the knowledge graph, which has refused " (refused) "."
            }))
        }
        ul.cards { @for question in &asked { li { (brief(visit, question)) } } }
        @for (butler, id) in &older {
            p { a href={ "/council?butler=" (encoded(butler)) "&before=" (id) } { "Older questions of " (butler) } }
        }
    };
    Ok(View::new("Council", body).live_if(before.is_none(), "house").into())
}

fn brief(visit: &Visit, question: &CouncilQuestion) -> Markup {
    html! {
        a href={ "/council/" (question.id) } { (line(&question.question, 200)) }
        div.dim { @if let Some(at) = question.asked_at { (visit.now.when(at)) " " }
            (state(question.way.as_deref(), question.failure.as_deref())) }
        @if let Some(answer) = &question.answer { div { (line(answer, 200)) } }
        @if let Some(failure) = &question.failure { div.dim { (line(failure, 200)) } }
    }
}

/// How a question was answered, or that it was not.
fn state(way: Option<&str>, failure: Option<&str>) -> Markup {
    match (way, failure) {
        (Some("memory"), _) => toned(Tone::Good, "answered from memory"),
        (Some("direct"), _) => toned(Tone::Good, "answered by one model"),
        (Some(_), _) => toned(Tone::Good, "answered by the council"),
        (None, Some(_)) => badge("failed"),
        (None, None) => toned(Tone::Busy, "deliberating"),
    }
}

async fn one(visit: &Visit) -> Answer {
    let id: Uuid = visit.parsed(0)?;
    let mut why_not = None;
    for butler in with_module(visit, "council").await? {
        match look::<Option<Question>>(visit, &butler, "council_question", json!({"id": id.to_string()})).await {
            Ok(Some(question)) => return Ok(page(visit, &butler, &question)),
            Ok(None) => {}
            Err(why) => why_not = Some(why),
        }
    }
    Err(why_not.map_or_else(PageError::nothing_here, PageError::from))
}

fn page(visit: &Visit, butler: &str, question: &Question) -> crate::reply::Reply {
    let title = question.title.clone().unwrap_or_else(|| line(&question.question, 80));
    let body = html! {
        (crumbs(&[("Council", "/council")]))
        (said(&question.question))
        p { (state(question.way.as_deref(), question.failure.as_deref()))
            @if let Some(at) = question.asked_at { " asked " (visit.now.when(at)) }
            @if let Some(at) = question.answered_at { ", answered " (visit.now.when(at)) } }
        @if let Some(answer) = &question.answer { h2 { "Answer" } (said(answer)) }
        @if let Some(failure) = &question.failure { (note(Tone::Bad, &html! { (failure) })) }
        (ranking(question))
        (dissent(question))
        @if let Some(confidence) = question.confidence.as_ref().filter(|c| c.is_object()) { h2 { "What memory was worth" } (memory(confidence)) }
        (stages(question))
    };
    let open = question.answer.is_none() && question.failure.is_none();
    View::new(title, body).live_if(open, format!("butler/{butler}")).into()
}

/// The joined ranking. Who is who is told here: the vote is over.
fn ranking(question: &Question) -> Markup {
    let Some(places) = question.ranking.as_ref().filter(|places| !places.is_empty()) else { return html! {} };
    html! {
        h2 { "Ranking" }
        div.wide tabindex="0" { table {
            thead { tr { th.num { "Place" } th { "Member" } th.num { "Mean place" } th.num { "Judged by" } } }
            tbody { @for (n, place) in places.iter().enumerate() { tr {
                td.num { (n + 1) }
                td.grow { (place.member.as_deref().unwrap_or("unknown")) }
                td.num { @match place.mean { Some(mean) => (format!("{mean:.2}")), None => span.dim { "not ranked" } } }
                td.num { @match place.rankings { Some(n) => (n), None => span.dim { "unknown" } } }
            } } }
        } }
    }
}

/// Who, in the last round, put somebody else first than all together did.
fn dissent(question: &Question) -> Markup {
    let first = question.ranking.as_ref().and_then(|places| places.first()).and_then(|place| place.member.as_deref());
    let (Some(first), Some(last)) = (first, judges(question).map(|step| step.round).max()) else { return html! {} };
    let others: Vec<(&str, &str)> = judges(question)
        .filter(|step| step.round == last)
        .filter_map(|step| Some((step.member.as_str(), step.ranking.as_ref()?.first()?.as_deref()?)))
        .filter(|(judge, best)| *best != first && *judge != first)
        .collect();
    html! {
        h2 { "Dissent" }
        @if others.is_empty() { p { "None: each of the other members put " strong { (first) } " first." } }
        ul { @for (judge, best) in &others { li { strong { (judge) } " put " strong { (best) } " first, not " (first) "." } } }
    }
}

fn judges(question: &Question) -> impl Iterator<Item = &CouncilStep> {
    question.steps.iter().filter(|step| step.stage == "judge")
}

fn memory(confidence: &Value) -> Markup {
    let best = confidence["candidates"].get(0).and_then(|best| best["confidence"].as_f64());
    html! { p {
        @match (best, confidence["why"].as_str()) {
            (Some(best), _) => { "Its best answer had the confidence " (format!("{best:.2}"))
                @if let Some(threshold) = confidence["threshold"].as_f64() { "; above " (format!("{threshold:.2}")) " it is given" } "." }
            (None, Some(why)) => { "It was not weighed: " (line(why, 400)) }
            (None, None) => "No memory answered the question.",
        }
    } }
}

/// The stages in the order in which they were, each with its members side by side.
fn stages(question: &Question) -> Markup {
    let order = ["confidence", "router", "title", "direct", "answer", "judge", "chairman"];
    let rounds: BTreeSet<(usize, i64)> = question
        .steps
        .iter()
        .map(|step| (order.iter().position(|stage| *stage == step.stage).unwrap_or(order.len()), step.round))
        .collect();
    html! {
        @if question.steps.is_empty() { h2 { "Stages" } (empty("Nothing was done for it yet.")) }
        @for (at, round) in rounds {
            @let of: Vec<&CouncilStep> = question.steps.iter()
                .filter(|step| step.round == round && order.iter().position(|stage| *stage == step.stage).unwrap_or(order.len()) == at).collect();
            @let name = order.get(at).copied().unwrap_or("other");
            h2 { (heading(name)) @if round > 0 { ", round " (round) } }
            div.side { @for step in of { section.card { (card(step)) } } }
        }
    }
}

fn heading(stage: &str) -> &'static str {
    match stage {
        "confidence" => "Is what memory knows enough?",
        "router" => "Does it need the council?",
        "title" => "Its title",
        "direct" => "The answer of one model",
        "answer" => "What each member answered",
        "judge" => "What each member said of the others",
        "chairman" => "The chairman's answer",
        _ => "What else was done",
    }
}

fn card(step: &CouncilStep) -> Markup {
    html! {
        h3 { (line(&step.member, 60)) }
        div.dim { (line(&step.model, 60)) @if let Some(session) = step.session_id { " · " a href={ "/sessions/" (session) } { "its session" } } }
        @if let Some(failure) = &step.failure { (note(Tone::Warn, &html! { "Left out: " (line(failure, 400)) })) }
        @if let Some(text) = &step.said { (said(text)) }
        @if let Some(letters) = step.letters.as_ref().filter(|letters| !letters.is_empty()) {
            div.dim { "It did not know that " @for (n, (letter, member)) in letters.iter().enumerate() {
                @if n > 0 { ", " } (letter) " was " (member.as_str().unwrap_or("unknown"))
            } "." }
        }
        @if let Some(order) = step.ranking.as_ref().filter(|order| !order.is_empty()) {
            ol { @for member in order { li { (member.as_deref().unwrap_or("unknown")) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(member: &str, round: i64, order: [&str; 2]) -> Value {
        json!({"stage": "judge", "round": round, "member": member, "model": "m", "session_id": null, "said": "s", "failure": null,
               "letters": {"A": "ada"}, "ranking": order})
    }

    #[test]
    fn dissent_is_of_the_last_round_and_nobody_dissents_from_themselves() {
        let question: Question = serde_json::from_value(json!({
            "question": "q", "title": null, "way": "council", "answer": "a", "failure": null, "confidence": null,
            "ranking": [{"member": "ada", "rankings": 2, "mean": 1.5}, {"member": "bob", "rankings": 2, "mean": 1.5}],
            "asked_at": null, "answered_at": null,
            "steps": [judge("cleo", 1, ["bob", "ada"]), judge("cleo", 2, ["ada", "bob"]), judge("dan", 2, ["bob", "ada"]),
                      judge("ada", 2, ["bob", "cleo"])]}))
        .unwrap();
        let shown = dissent(&question).into_string();
        assert!(shown.contains("<strong>dan</strong> put <strong>bob</strong> first"), "{shown}");
        assert!(!shown.contains("cleo") && shown.matches("<li>").count() == 1, "{shown}");
    }
}
