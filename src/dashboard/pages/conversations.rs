//! Conversations: by thread and by person, across channels; and writing to the household.

use admin::calls::{ConversationsApiServer, HouseApiServer, InboxApiServer};
use admin::{ConversationPage, SaidRow};
use base::text::truncate;
use maud::{Markup, html};
use uuid::Uuid;

use super::answers::or_not_now;
use crate::form::encoded;
use crate::parts::{Tone, badge, crumbs, empty, line, toned};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/conversations", |visit| Box::pin(list(visit))),
    post("/conversations", |visit| Box::pin(write(visit))),
    get("/conversations/*", |visit| Box::pin(one(visit))),
    get("/conversations/with/*", |visit| Box::pin(with(visit))),
];

/// Entries of one page.
const SHOWN: u32 = 50;
/// How much of one entry is shown.
const MOST: usize = 16 * 1024;

/// Where a page of a list begins.
pub(super) fn before<T: std::str::FromStr>(visit: &Visit) -> Result<Option<T>, PageError> {
    let given = visit.query.get("before").map(str::parse).transpose();
    given.map_err(|_| PageError::invalid("This address does not say where the page begins. Go back to the list."))
}

async fn list(visit: &Visit) -> Answer {
    let (before, wanted) = (before(visit)?, visit.query.get("q"));
    let page = match wanted {
        Some(text) => visit.calls.conversations_search(&visit.ext, text.to_owned(), before, Some(SHOWN)).await,
        None => visit.calls.conversations_list(&visit.ext, before, Some(SHOWN)).await,
    };
    let form = write_form(visit, None).await;
    let body = html! {
        @if before.is_none() && wanted.is_none() { (form) }
        form.line role="search" method="get" action="/conversations" {
            label { "Find what was said, or who said it" input type="search" name="q" value=[wanted] maxlength="200"; }
            button type="submit" { "Find" }
        }
        @if let Some(text) = wanted { p { "With “" (line(text, 200)) "” in it. " a href="/conversations" { "All conversations" } } }
        (or_not_now(&page, |page| found(visit, page, wanted)))
    };
    Ok(View::new("Conversations", body).live_if(before.is_none() && wanted.is_none(), "house").into())
}

fn found(visit: &Visit, page: &ConversationPage, wanted: Option<&str>) -> Markup {
    let older = page.before.map(|n| match wanted {
        Some(text) => format!("/conversations?q={}&before={n}", encoded(text)),
        None => format!("/conversations?before={n}"),
    });
    html! {
        @if page.entries.is_empty() {
            (empty(match (wanted, page.before) {
                (Some(_), Some(_)) => "Nothing of the kind in this part of the log; look further back.",
                (Some(_), None) => "Nobody said anything of the kind.",
                (None, Some(_)) => "No conversation ended in this part of the log; look further back.",
                (None, None) => "Nobody has said anything yet. Write to the household here, or connect a channel with: butlerd connect",
            }))
        }
        ul.rows { @for said in &page.entries { li { (row(visit, said)) } } }
        @if let Some(older) = older { p { a href=(older) rel="next" { @if wanted.is_some() { "Look further back" } @else { "Older" } } } }
    }
}

/// An entry as a line of a list.
pub(super) fn row(visit: &Visit, said: &SaidRow) -> Markup {
    html! {
        a href={ "/conversations/" (said.id) } { strong { (line(name(said), 80)) } }
        " " (toned(Tone::Quiet, &line(&said.channel, 30)))
        " " (visit.now.when(said.said_at))
        div { @if let Some(butler) = &said.butler { span.dim { (line(butler, 60)) ": " } } (line(text_of(said), 160)) }
    }
}

fn name(said: &SaidRow) -> &str {
    said.person_name.as_deref().unwrap_or(&said.person)
}

fn text_of(said: &SaidRow) -> &str {
    said.text.as_deref().or(said.emoji.as_deref()).or(said.subject.as_deref()).unwrap_or("(nothing but files)")
}

async fn one(visit: &Visit) -> Answer {
    let id: Uuid = visit.parsed(0)?;
    let before = before(visit)?;
    let page = visit.calls.conversations_show(&visit.ext, id, before, Some(SHOWN)).await?;
    let open = if before.is_none() { open_request(visit, &page).await } else { None };
    let last = page.entries.iter().find(|said| said.inbound).or(page.entries.first());
    let title =
        last.map_or_else(|| "Conversation".to_owned(), |said| format!("Conversation with {}", line(name(said), 80)));
    let form = match &page.thread {
        Some(thread) if before.is_none() => write_form(visit, Some(thread)).await,
        _ => html! {},
    };
    let body = html! {
        (crumbs(&[("Conversations", "/conversations")]))
        @if let Some(said) = last {
            p { (toned(Tone::Quiet, &line(&said.channel, 30)))
                @if let Some(contact) = said.contact_id { " " a href={ "/conversations/with/" (contact) } { "All with this person" } } }
        }
        (talk(visit, &page, &format!("/conversations/{id}")))
        // Without scripts, or once it is over, the record is what there is: a reload shows it.
        @if let Some(request) = open {
            ol.talk data-stream={ "/live/chat/" (request) } aria-live="polite" aria-label="The answer, as it comes" {}
            noscript { p { "The answer is on its way. " a href={ "/conversations/" (id) } { "Reload" } " to see it." } }
        }
        (form)
    };
    // While an answer streams in, its pieces are not to be taken away by a page that does not have them.
    Ok(View::new(title, body).live_if(open.is_none() && before.is_none(), "house").into())
}

/// The newest message of a chat, while it has not come to its end.
async fn open_request(visit: &Visit, page: &ConversationPage) -> Option<Uuid> {
    let newest = page.entries.iter().find(|said| said.inbound)?;
    if page.thread.is_none() || !visit.may_work() {
        return None;
    }
    let entry = visit.calls.inbox_show(&visit.ext, newest.request_id).await.ok()?;
    matches!(entry.state.as_str(), "accepted" | "processing").then_some(newest.request_id)
}

async fn with(visit: &Visit) -> Answer {
    let contact: Uuid = visit.parsed(0)?;
    let page = visit.calls.conversations_with(&visit.ext, contact, before(visit)?, Some(SHOWN)).await?;
    let title = page.entries.iter().find(|said| said.inbound).map(|said| format!("All with {}", line(name(said), 80)));
    let body = html! {
        (crumbs(&[("Conversations", "/conversations"), ("People", "/people")]))
        (talk(visit, &page, &format!("/conversations/with/{contact}")))
    };
    Ok(View::new(title.unwrap_or_else(|| "All with one person".to_owned()), body).into())
}

/// What was said, the oldest first.
fn talk(visit: &Visit, page: &ConversationPage, at: &str) -> Markup {
    html! {
        @if page.entries.is_empty() { (empty("Nothing was said here.")) }
        @if let Some(older) = page.before { p { a href={ (at) "?before=" (older) } rel="next" { "Older" } } }
        ol.talk { @for said in page.entries.iter().rev() { (entry(visit, said)) } }
    }
}

fn entry(visit: &Visit, said: &SaidRow) -> Markup {
    let text = said.text.as_deref().unwrap_or_default();
    html! {
        li class=(if said.inbound { "in" } else { "out" }) id={ "said-" (said.id) } {
            div.dim {
                strong { @if said.inbound { (line(name(said), 80)) } @else { (line(said.butler.as_deref().unwrap_or("butlerd"), 60)) } }
                " " (visit.now.when(said.said_at)) " "
                @if said.inbound { a href={ "/inbox/" (said.request_id) } { "what became of it" } }
                @else { a href={ "/deliveries/" (said.id) } { "delivery" }
                    @if let Some(session) = said.session_id { " · " a href={ "/sessions/" (session) } { "session" } } }
                @if !matches!(said.kind.as_str(), "message" | "reply") { " " (badge(&said.kind)) }
                @if said.trust == "stranger" { " " (toned(Tone::Warn, "stranger")) }
            }
            @if let Some(subject) = &said.subject { div { strong { (line(subject, 300)) } } }
            @if let Some(emoji) = &said.emoji { div { (line(emoji, 40)) } }
            @if !text.is_empty() { div.said { (truncate(text, MOST)) } }
            (files(said))
        }
    }
}

/// What came along, by the names that whoever sent it gave.
fn files(said: &SaidRow) -> Markup {
    let unnamed = said.files.saturating_sub(said.file_names.len());
    html! { @if said.files > 0 { ul.dim {
        @for name in &said.file_names { li { (line(name, 200)) } }
        @if unnamed > 0 { li { (unnamed) @if unnamed == 1 { " file" } @else { " files" } " without a name" } }
    } } }
}

/// The butlers that one may choose among. Without the household's state there are none; the switchboard finds out.
pub(super) async fn to_choose(visit: &Visit) -> Vec<String> {
    let all = visit.calls.status(&visit.ext).await.map(|status| status.butlers).unwrap_or_default();
    all.into_iter().filter(|b| !b.removed && b.name != inbox::SWITCHBOARD).map(|b| b.name).collect()
}

/// The form by which one writes to the household: in a thread of the chat, or in the usual one.
async fn write_form(visit: &Visit, thread: Option<&str>) -> Markup {
    if !visit.may_work() {
        return html! {};
    }
    let butlers = to_choose(visit).await;
    html! {
        section.card aria-labelledby="write" {
            h2 #write { "Write to the household" }
            form method="post" action="/conversations" {
                (visit.proof())
                // Sent twice it is the same message.
                input type="hidden" name="id" value=(Uuid::now_v7());
                @if let Some(thread) = thread { input type="hidden" name="thread" value=(thread); }
                label { "Message" textarea name="text" required maxlength="100000" rows="3" {} }
                label { "For" select name="butler" {
                    option value="" { "Whoever it concerns" }
                    @for butler in &butlers { option value=(butler) { (butler) } }
                } }
                button.main type="submit" { "Send" }
            }
        }
    }
}

async fn write(visit: &Visit) -> Answer {
    let text = visit.form.get("text").ok_or_else(|| PageError::invalid("The message is empty. Write something."))?;
    let own = |name: &str| visit.form.get(name).map(str::to_owned);
    let written =
        visit.calls.conversations_write(&visit.ext, text.to_owned(), own("butler"), own("thread"), own("id")).await?;
    Ok(Reply::Go { to: format!("/conversations/{}", written.request_id), did: Did::Sent })
}
