//! Notes: what the household told its owner.

use admin::calls::NotesApiServer;
use base::text::truncate;
use maud::{Markup, html};
use outbox::Note;
use uuid::Uuid;

use super::answers::or_not_now;
use super::conversations::before;
use crate::parts::{Tone, empty, line, said, toned};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] =
    &[get("/notes", |visit| Box::pin(list(visit))), post("/notes/seen", |visit| Box::pin(seen(visit)))];

const SHOWN: u32 = 50;
/// How much of one note is shown.
const MOST: usize = 16 * 1024;

async fn list(visit: &Visit) -> Answer {
    let before: Option<Uuid> = before(visit)?;
    let found = visit.calls.notes_list(&visit.ext, before, Some(SHOWN)).await;
    let body = or_not_now(&found, |notes| shown(visit, notes));
    Ok(View::new("Notes", body).live_if(before.is_none(), "house").into())
}

fn shown(visit: &Visit, notes: &[Note]) -> Markup {
    let unseen: Vec<String> = notes.iter().filter(|n| n.seen_at.is_none()).map(|n| n.id.to_string()).collect();
    let older = notes.last().filter(|_| notes.len() >= SHOWN as usize).map(|n| n.id);
    html! {
        @if notes.is_empty() { (empty("The household has told you nothing yet.")) }
        @if !unseen.is_empty() && visit.may_work() {
            form method="post" action="/notes/seen" {
                (visit.proof())
                input type="hidden" name="ids" value=(unseen.join(","));
                button.main type="submit" { "Mark " (unseen.len()) " as read" }
            }
        }
        ul.cards { @for n in notes { li id={ "note-" (n.id) } {
            strong { (line(&n.from, 60)) } " " (visit.now.when(n.at)) " "
            @if n.seen_at.is_none() { (toned(Tone::Busy, "new")) }
            @if n.kind != "message" { " " (toned(Tone::Quiet, &n.kind)) }
            @if let Some(subject) = &n.subject { div { strong { (line(subject, 300)) } } }
            (said(&truncate(&n.message, MOST)))
            div.dim { a href={ "/deliveries/" (n.id) } { "delivery" } " · " a href={ "/conversations/" (n.id) } { "conversation" } }
        } } }
        @if let Some(older) = older { p { a rel="next" href={ "/notes?before=" (older) } { "Older" } } }
    }
}

async fn seen(visit: &Visit) -> Answer {
    let ids = visit.form.get("ids").unwrap_or_default().split(',').take(SHOWN as usize).map(str::parse).collect();
    let ids: Vec<Uuid> = Result::map_err(ids, |_: uuid::Error| PageError::invalid("The form names no notes."))?;
    visit.calls.notes_seen(&visit.ext, ids).await?;
    Ok(Reply::Go { to: "/notes".to_owned(), did: Did::Noted })
}
