//! One memory: what it says, how it came to be, what was done to it, and its owner's corrections.

use admin::MemoryLink;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answers::{act, look, or_not_now};
use super::memory_parts::{Event, KINDS, events};
use crate::parts::{Tone, count, crumbs, line, note, said};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::visit::Visit;

/// What `memory_why` answers.
#[derive(Deserialize)]
struct Story {
    memory_type: String,
    memory: Map<String, Value>,
    source: Option<Value>,
    session: Option<Value>,
    supersedes: Option<Value>,
    superseded_by: Option<Value>,
    #[serde(default)]
    also_put: Vec<Value>,
    #[serde(default)]
    links: Vec<MemoryLink>,
}

/// What `memory_history` answers of one memory.
#[derive(Deserialize)]
struct Past {
    events: Vec<Event>,
    /// From where earlier ones go on.
    #[serde(rename = "next_before")]
    more: Option<i64>,
}

/// So many of the things that were done to it are shown, the newest first.
const PAST: u32 = 50;

const PERMANENCE: [&str; 5] = ["permanent", "stable", "standard", "volatile", "ephemeral"];
const SENSITIVITY: [&str; 3] = ["normal", "sensitive", "secret"];
/// Columns that are told in words of their own, or to nobody.
const ELSEWHERE: [&str; 9] = [
    "id",
    "content",
    "subject",
    "predicate",
    "speaker",
    "tenant_id",
    "session_id",
    "source_episode_id",
    "supersedes_id",
];

/// Which memory a path names: whose, of which kind, and which.
fn which(visit: &Visit) -> Result<(String, String, Uuid), PageError> {
    let kind = visit.part(1);
    match KINDS.contains(&kind) {
        true => Ok((visit.part(0).to_owned(), kind.to_owned(), visit.parsed(2)?)),
        false => Err(PageError::nothing_here()),
    }
}

pub(super) async fn show(visit: &Visit) -> Answer {
    let (butler, _, id) = which(visit)?;
    let story: Story = look(visit, &butler, "memory_why", json!({ "memory_id": id })).await?;
    // The story names what was done; the history also says what each of it changed.
    let past = look::<Past>(visit, &butler, "memory_history", json!({"memory_id": id, "limit": PAST})).await;
    let forgotten = story.memory.get("forgotten_at").is_some_and(|at| !at.is_null());
    let body = html! {
        (crumbs(&[("Memory", "/memory"), (&butler, &format!("/memory?butler={butler}"))]))
        @if forgotten { (note(Tone::Quiet, &html! { "It was forgotten. Nothing finds it any more." })) }
        (said(text(&story.memory, "content").unwrap_or("–")))
        (facts(visit, &story.memory))
        h2 { "Why it is known" }
        (why(visit, &butler, &story))
        @if visit.may_work() && !forgotten { (edit_form(visit, &butler, &story, id)) }
        h2 { "What was done to it" }
        (or_not_now(&past, |past| html! {
            (events(visit, &butler, &past.events))
            @if past.more.is_some() {
                p.dim { "These are the newest " (PAST) ". All: " code { "butlerd memory history " (id) } }
            }
        }))
    };
    Ok(View::new(format!("A {} of {butler}", story.memory_type), body).into())
}

fn text<'a>(memory: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    memory.get(name).and_then(Value::as_str)
}

fn facts(visit: &Visit, memory: &Map<String, Value>) -> Markup {
    let about = ["subject", "speaker", "predicate"].into_iter().filter_map(|name| text(memory, name));
    let about = about.collect::<Vec<_>>().join(" ").replace('_', " ");
    let told = memory.iter().filter(|(name, value)| !ELSEWHERE.contains(&name.as_str()) && !is_empty(value));
    html! { dl.facts {
        @if !about.is_empty() { dt { "About" } dd { (about) } }
        @for (name, value) in told { dt { (name.replace('_', " ")) } dd { (readable(visit, value)) } }
        @if let Some(id) = text(memory, "id") { dt { "Id" } dd { code { (id) } } }
    } }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        _ => false,
    }
}

/// A value as it stands, a moment in the owner's zone.
fn readable(visit: &Visit, value: &Value) -> Markup {
    match value {
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(at) if text.len() >= 20 => visit.now.when(at),
            _ => html! { (line(text, 500)) },
        },
        other => html! { (line(&other.to_string(), 500)) },
    }
}

/// The chain of what it comes from.
fn why(visit: &Visit, butler: &str, story: &Story) -> Markup {
    let at = |value: &Value| value.as_str().and_then(|at| at.parse::<Timestamp>().ok());
    let words =
        |value: &Value, missing: &'static str| value.as_str().map_or(missing.to_owned(), |said| line(said, 500));
    // Other wordings of a fact are facts, as are what it replaced and what replaced it.
    let other = |value: &Value| {
        let (id, said) =
            (value["id"].as_str().and_then(|id| id.parse::<Uuid>().ok()), words(&value["content"], "forgotten"));
        html! { @if let Some(id) = id { a href={ "/memory/" (butler) "/" (story.memory_type) "/" (id) } { (said) } } @else { (said) } }
    };
    html! { dl.facts {
        @if let Some(source) = story.source.as_ref().filter(|source| source.is_object()) {
            dt { "It comes from" } dd {
                @match source["episode_id"].as_str().and_then(|id| id.parse::<Uuid>().ok()) {
                    Some(id) => a href={ "/memory/" (butler) "/episode/" (id) } { "an episode" },
                    None => "an episode",
                }
                " " (visit.now.maybe(at(&source["occurred_at"]))) ", from " (words(&source["trust"], "unknown"))
                (said(&words(&source["content"], "It was forgotten.")))
            }
        }
        @if let Some(session) = story.session.as_ref().filter(|session| session.is_object()) {
            dt { "Learned in" } dd {
                @if let Some(id) = session["session_id"].as_str().and_then(|id| id.parse::<Uuid>().ok()) {
                    a href={ "/sessions/" (id) } { "this session" } " (" a href={ "/memory/told/" (id) } { "what it was told" } ") "
                }
                (visit.now.maybe(at(&session["started_at"]))) ", because of " (words(&session["trigger_source"], "something unknown"))
                div.dim { "It was asked: " (words(&session["prompt"], "unknown")) }
            }
        }
        @if let Some(before) = story.supersedes.as_ref().filter(|b| b.is_object()) { dt { "It replaced" } dd { (other(before)) } }
        @if let Some(after) = story.superseded_by.as_ref().filter(|a| a.is_object()) { dt { "Replaced by" } dd { (other(after)) } }
        @for wording in &story.also_put { dt { "Also put as" } dd { (other(wording)) } }
        @for link in &story.links {
            dt { "Linked" } dd {
                (place(butler, &link.from, link.from_id)) " " (link.relation.replace('_', " ")) " " (place(butler, &link.to, link.to_id))
            }
        }
        @if story.source.is_none() && story.session.is_none() { dt { "It comes from" } dd { "whoever stored it; see below" } }
    } }
}

fn place(butler: &str, kind: &str, id: Uuid) -> Markup {
    html! {
        @if KINDS.contains(&kind) { a href={ "/memory/" (butler) "/" (kind) "/" (id) } { (kind) " " (crate::parts::id(&id)) } }
        @else { (kind) " " (crate::parts::id(&id)) }
    }
}

fn edit_form(visit: &Visit, butler: &str, story: &Story, id: Uuid) -> Markup {
    let (memory, kind) = (&story.memory, story.memory_type.as_str());
    let at = format!("/memory/{butler}/{kind}/{id}");
    let of = |name: &str| {
        memory.get(name).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).unwrap_or_default()
    };
    let choice = |name: &str, label: &str, all: &[&str]| {
        let now = of(name);
        html! { label { (label) select name=(name) { @for one in all { option value=(one) selected[*one == now] { (one) } } } } }
    };
    html! {
        details { summary { "Correct it" }
            form method="post" action={ (at) "/edit" } {
                (visit.proof())
                label { "What it says" textarea name="content" required { "\n" (of("content")) } }
                @if kind == "fact" {
                    label { "About" input type="text" name="subject" value=(of("subject")); }
                    label { "What is said of it" input type="text" name="predicate" value=(of("predicate")); }
                }
                label { "How much it matters, 0 to 10" input type="text" inputmode="decimal" name="importance" value=(of("importance")); }
                @if kind != "episode" { (choice("permanence", "How long it is likely to stay so", &PERMANENCE)) }
                (choice("sensitivity", "How private it is", &SENSITIVITY))
                label { "Why, without repeating what it says" input type="text" name="reason" maxlength="500"; }
                button.main type="submit" { "Keep the correction" }
            }
        }
        details { summary { "Forget it" }
            form method="post" action={ (at) "/forget" } {
                (visit.proof())
                p { "Nothing finds it any more, and it does not come back by itself. You can take that back below." }
                label { "Why, without repeating what it says" input type="text" name="reason" maxlength="500"; }
                button.danger type="submit" { "Forget it" }
            }
            p { a href={ (at) "/purge" } { "Remove its words for good" } }
        }
    }
}

pub(super) async fn edit(visit: &Visit) -> Answer {
    let (butler, kind, id) = which(visit)?;
    let story: Story = look(visit, &butler, "memory_why", json!({ "memory_id": id })).await?;
    let mut args = json!({"memory_type": kind, "memory_id": id});
    // What stays as it is, is not sent, so that nothing counts as changed that was not.
    let is = |name: &str| story.memory.get(name).cloned().unwrap_or_default();
    for name in ["content", "subject", "predicate", "permanence", "sensitivity"] {
        let typed = visit
            .form
            .raw(name)
            .map(|text| text.replace("\r\n", "\n").trim().to_owned())
            .filter(|text| !text.is_empty());
        if let Some(typed) = typed.filter(|typed| is(name) != json!(typed)) {
            args[name] = json!(typed);
        }
    }
    if let Some(typed) = visit.form.get("importance") {
        let number =
            typed.parse::<f64>().map_err(|_| PageError::invalid("How much it matters is a number from 0 to 10."))?;
        if is("importance").as_f64() != Some(number) {
            args["importance"] = json!(number);
        }
    }
    if args.as_object().is_some_and(|args| args.len() == 2) {
        return Err(PageError::invalid("Nothing was changed: it says this already."));
    }
    if let Some(reason) = visit.form.get("reason") {
        args["reason"] = json!(reason);
    }
    act(visit, &butler, "memory_edit", args).await?;
    Ok(Reply::Go { to: format!("/memory/{butler}/{kind}/{id}"), did: Did::Changed })
}

pub(super) async fn forget(visit: &Visit) -> Answer {
    let (butler, kind, id) = which(visit)?;
    let mut args = json!({"memory_type": kind, "memory_id": id});
    if let Some(reason) = visit.form.get("reason") {
        args["reason"] = json!(reason);
    }
    act(visit, &butler, "memory_forget", args).await?;
    Ok(Reply::Go { to: format!("/memory/{butler}/{kind}/{id}"), did: Did::Removed })
}

/// Asks whether its words shall really go, for nothing brings them back.
pub(super) async fn confirm(visit: &Visit) -> Answer {
    let (butler, kind, id) = which(visit)?;
    let at = format!("/memory/{butler}/{kind}/{id}");
    let story: Story = look(visit, &butler, "memory_why", json!({ "memory_id": id })).await?;
    let body = html! {
        (crumbs(&[("Memory", "/memory"), ("The memory", &at)]))
        (note(Tone::Warn, &html! { "Its words are taken out of everything that this household keeps. This can't be taken back." }))
        (said(text(&story.memory, "content").unwrap_or("–")))
        @if visit.may_work() {
            form method="post" action={ (at) "/purge" } {
                (visit.proof())
                label.tick { input type="checkbox" name="sure" value="1" required; "I want these words gone for good" }
                div { button.danger type="submit" { "Remove them for good" } }
            }
        } @else { (note(Tone::Quiet, &html! { "You may look here, but not remove anything." })) }
        p { a href=(at) { "Leave it as it is" } }
    };
    Ok(View::new("Remove a memory for good", body).into())
}

pub(super) async fn purge(visit: &Visit) -> Answer {
    let (butler, kind, id) = which(visit)?;
    if !visit.form.ticked("sure") {
        return Err(PageError::invalid("Nothing was removed: say that you want it gone for good."));
    }
    let gone = act(visit, &butler, "memory_purge", json!({"memory_type": kind, "memory_id": id})).await?;
    let places = |name: &str| {
        html! { ul { @for (place, n) in gone[name].as_object().into_iter().flatten() {
            li { (place) ": " (n.as_u64().map_or_else(|| "some".to_owned(), count)) " rows" }
        } } }
    };
    let has = |name: &str| gone[name].as_object().is_some_and(|all| !all.is_empty());
    let body = html! {
        (crumbs(&[("Memory", &format!("/memory?butler={butler}"))]))
        (note(Tone::Good, &html! { "The " (kind) " is gone for good." }))
        @if has("cleaned") { h2 { "Its words were removed from" } (places("cleaned")) }
        @if has("kept") { h2 { "Its words still stand in" } (places("kept")) }
        @for told in gone["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) { p { (told) } }
    };
    Ok(View::new("Removed for good", body).into())
}

pub(super) async fn undo(visit: &Visit) -> Answer {
    let (butler, event) = (visit.part(0), visit.parsed::<Uuid>(1)?);
    act(visit, butler, "memory_undo", json!({ "event": event })).await?;
    let kind = visit.form.get("kind").filter(|kind| KINDS.contains(kind));
    let to = match (kind, visit.form.get("id").and_then(|id| id.parse::<Uuid>().ok())) {
        (Some(kind), Some(id)) => format!("/memory/{butler}/{kind}/{id}"),
        _ => format!("/memory?butler={butler}"),
    };
    Ok(Reply::Go { to, did: Did::Undone })
}
