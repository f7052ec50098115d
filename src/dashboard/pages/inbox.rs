//! The inbox: what came in, what became of each message, and taking one up again.

use admin::calls::{InboxApiServer, TimelineApiServer};
use base::text::truncate;
use inbox::messages::{Entry, Part, Said};
use maud::{Markup, html};
use uuid::Uuid;

use super::answers::{not_now, or_not_now, read};
use super::conversations::{before, to_choose};
use super::sessions;
use crate::parts::{Tone, badge, crumbs, empty, line, note, said, toned};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/inbox", |visit| Box::pin(list(visit))),
    get("/inbox/*", |visit| Box::pin(one(visit))),
    post("/inbox/*/retry", |visit| Box::pin(retry(visit))),
    post("/inbox/*/reroute", |visit| Box::pin(reroute(visit))),
];

const SHOWN: u32 = 50;
/// How much of one message is shown.
const MOST: usize = 32 * 1024;
const TABS: [(&str, &str); 5] =
    [("", "All"), ("accepted", "Waiting"), ("processing", "Under way"), ("done", "Done"), ("dead", "Came to nothing")];

async fn list(visit: &Visit) -> Answer {
    let state = visit.query.get("state").filter(|state| TABS.iter().any(|(name, _)| name == state));
    let before: Option<Uuid> = before(visit)?;
    let found = visit.calls.inbox_list(&visit.ext, state.map(str::to_owned), Some(SHOWN), before).await;
    let here = state.unwrap_or_default();
    let body = html! {
        p.tabs { @for (name, word) in TABS {
            a href={ "/inbox" @if !name.is_empty() { "?state=" (name) } } aria-current=[(name == here).then_some("true")] { (word) }
        } }
        (or_not_now(&found, |entries| table(visit, entries, here)))
    };
    Ok(View::new("Inbox", body).live_if(before.is_none(), "house").into())
}

fn table(visit: &Visit, entries: &[Entry], state: &str) -> Markup {
    if entries.is_empty() {
        return empty(if state.is_empty() {
            "Inbox is empty. Messages come in over a channel; connect one with: butlerd connect"
        } else {
            "No message is in this state."
        });
    }
    let older = entries.last().filter(|_| entries.len() >= SHOWN as usize).map(|entry| entry.request_id);
    html! {
        div.wide tabindex="0" { table {
            thead { tr { th { "Received" } th { "From" } th { "Message" } th { "State" } } }
            tbody { @for entry in entries { tr {
                td { (visit.now.when(entry.received_at)) }
                td { (line(&entry.sender, 60)) div.dim { (line(&entry.channel, 30)) @if entry.trust == "stranger" { ", stranger" } } }
                td.grow { a href={ "/inbox/" (entry.request_id) } { (line(shown(&entry.body), 140)) }
                    @if let Some(error) = &entry.last_error { div.dim { (line(error, 160)) } } }
                td { (badge(&entry.state)) }
            } } }
        } }
        @if let Some(older) = older {
            p { a rel="next" href={ "/inbox?" @if !state.is_empty() { "state=" (state) "&" } "before=" (older) } { "Older" } }
        }
    }
}

fn shown(body: &str) -> &str {
    if body.trim().is_empty() { "(no text)" } else { body }
}

async fn one(visit: &Visit) -> Answer {
    let id: Uuid = visit.parsed(0)?;
    let entry = visit.calls.inbox_show(&visit.ext, id).await?;
    let (timeline, butlers) = tokio::join!(visit.calls.timeline(&visit.ext, id), to_choose(visit));
    let handed = read::<Vec<Part>>(entry.segments.clone().into());
    let said_back = read::<Vec<Said>>(entry.replies.clone().into());
    let over = matches!(entry.state.as_str(), "done" | "dead");
    let body = html! {
        (crumbs(&[("Inbox", "/inbox")]))
        (facts(visit, &entry))
        @if let Some(error) = &entry.last_error { (note(Tone::Bad, &html! { (error) })) }
        h2 { "Message" }
        (said(&truncate(shown(&entry.body), MOST)))
        p { a href={ "/conversations/" (id) } { "The conversation that it belongs to" } }
        h2 { "What became of it" }
        (triage(&entry))
        @match &handed { Ok(all) => (parts(all)), Err(why) => (not_now(why)) }
        @match &said_back { Ok(all) => (answers(visit, all)), Err(why) => (not_now(why)) }
        h2 { "Sessions" }
        @match &timeline {
            Ok(timeline) if timeline.sessions.is_empty() => (empty("No session has worked on it.")),
            Ok(timeline) => {
                (crate::parts::unavailable(&timeline.unavailable))
                @let sessions: Vec<_> = timeline.sessions.iter().map(|traced| traced.session.clone()).collect();
                (sessions::table(visit, &sessions, &[]))
            }
            Err(why) => (note(Tone::Warn, &html! { (why.message) })),
        }
        @if visit.may_act() { (hands(visit, &entry, handed.as_deref().ok(), &butlers)) }
    };
    Ok(View::new(format!("Message from {}", line(&entry.sender, 80)), body).live_if(!over, "house").into())
}

fn facts(visit: &Visit, entry: &Entry) -> Markup {
    html! { dl.facts {
        dt { "State" } dd { (badge(&entry.state)) @if entry.attempts > 1 { " after " (entry.attempts) " tries" } }
        dt { "Received" } dd { (visit.now.when(entry.received_at)) }
        dt { "Ended" } dd { (visit.now.maybe(entry.settled_at)) }
        dt { "From" } dd { (line(&entry.sender, 200)) " over " (line(&entry.channel, 40)) }
        @if let Some(thread) = &entry.thread { dt { "Thread" } dd { (line(thread, 200)) } }
        dt { "Trust" } dd { (toned(if entry.trust == "stranger" { Tone::Warn } else { Tone::Quiet }, &entry.trust)) }
        dt { "Urgency" } dd { (line(&entry.tier, 40)) }
        dt { "Id" } dd { code { (entry.request_id) } }
    } }
}

/// What was decided before any model was asked.
fn triage(entry: &Entry) -> Markup {
    let Some(triage) = &entry.triage else {
        return html! { p { "No rule decided on it; the switchboard found out whose it is." } };
    };
    let word = |name: &str| triage[name].as_str().unwrap_or_default();
    html! { p {
        @match word("by") {
            "rule" => { a href="/rules" { "A rule" } " decided: " },
            "" => "It was decided: ",
            by => { "Decided by " (line(&by.replace('_', " "), 60)) ": " },
        }
        (badge(word("action")))
        @if !word("butler").is_empty() { " " a href={ "/butlers/" (word("butler")) } { (line(word("butler"), 60)) } }
    } }
}

fn parts(parts: &[Part]) -> Markup {
    if parts.is_empty() {
        return empty("It was not handed to any butler.");
    }
    html! { div.wide tabindex="0" { table {
        thead { tr { th.num { "Part" } th { "Butler" } th { "Chosen by" } th { "State" } th { "What for" } } }
        tbody { @for part in parts { tr {
            td.num { (part.n) }
            td { (line(&part.butler, 60)) }
            td { (line(&part.chosen_by.replace('_', " "), 40)) }
            td { (badge(&part.state)) }
            td.grow { (line(&part.prompt, 200)) @if let Some(error) = &part.error { div.dim { (line(error, 300)) } } }
        } } }
    } } }
}

fn answers(visit: &Visit, answers: &[Said]) -> Markup {
    html! { @if !answers.is_empty() {
        h3 { "Answers" }
        ol.talk { @for answer in answers { li.out {
            div.dim { strong { (line(&answer.butler, 60)) } " " (visit.now.maybe(answer.at))
                @if answer.auto { " · its last words, sent for it" }
                @if let Some(session) = answer.session_id { " · " a href={ "/sessions/" (session) } { "session" } } }
            (said(&truncate(answer.message.as_deref().or(answer.emoji.as_deref()).unwrap_or_default(), MOST)))
        } } }
    } }
}

/// The rule that would have sent such a message there: a letter is known by who sent it, a chat by where it goes on.
fn rule_of(entry: &Entry) -> (&'static str, &str) {
    match &entry.thread {
        Some(thread) if entry.channel != "email" => ("chat_id", thread),
        _ => ("sender_address", &entry.sender),
    }
}

/// What a person can do with it. Parts that can't be read can't be chosen among, and nobody shall move all of them unseen.
fn hands(visit: &Visit, entry: &Entry, parts: Option<&[Part]>, butlers: &[String]) -> Markup {
    let at = format!("/inbox/{}", entry.request_id);
    let (kind, pattern) = rule_of(entry);
    let choice = |id: &str| {
        html! { select name="butler" id=(id) required {
            @for butler in butlers { option value=(butler) { (butler) } }
        } }
    };
    html! {
        section.card aria-labelledby="hands" {
            h2 #hands { "Do something about it" }
            @if entry.state == "dead" { (visit.button(&format!("{at}/retry"), "Try again", "main", &[])) }
            @if let Some(parts) = parts {
                form.line method="post" action={ (at) "/reroute" } {
                    (visit.proof())
                    label { "Give it to" (choice("to")) }
                    @if parts.len() > 1 {
                        label { "Which part" select name="part" {
                            option value="" { "All of it" }
                            @for part in parts { option value=(part.n) { (part.n) ", " (line(&part.butler, 40)) } }
                        } }
                    }
                    button type="submit" { "Reroute" }
                }
            }
            @if visit.may_work() {
                h3 { "Send such messages there at once" }
                p { "The rule: " code { (kind) } " is " code { (line(pattern, 200)) } ", route to the butler. It holds for messages to come." }
                form.line method="post" action="/rules" {
                    (visit.proof())
                    input type="hidden" name="kind" value=(kind);
                    input type="hidden" name="pattern" value=(pattern);
                    input type="hidden" name="action" value="route_to";
                    label { "Butler" (choice("rule-to")) }
                    button type="submit" { "Make the rule" }
                }
            }
        }
    }
}

does! {
    retry(visit, id) = inbox_retry(id) -> format!("/inbox/{id}"), Retried;
}

async fn reroute(visit: &Visit) -> Answer {
    let id: Uuid = visit.parsed(0)?;
    let butler = visit.form.get("butler").ok_or_else(|| PageError::invalid("Choose the butler that gets it."))?;
    let part = visit.form.get("part").map(str::parse).transpose();
    let part = part.map_err(|_| PageError::invalid("The part must be a whole number."))?;
    visit.calls.inbox_reroute(&visit.ext, id, butler.to_owned(), part).await?;
    Ok(Reply::Go { to: format!("/inbox/{id}"), did: Did::Rerouted })
}
