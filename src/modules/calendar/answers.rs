//! Answers to invitations. One goes to whoever invites, in the owner's name, so every session's waits for the owner.

use serde_json::{Value, json};

use super::args::{instance, shown};
use super::book::{Book, refused};
use super::sql::EventRow;
use super::writes::{self, Step};
use ::tools::{EgressRecipient, EgressTarget, ToolCall, ToolError};
use calendar::{Answer, Object, plain_address, respond};

/// Letters of an event's title that are shown with whom its answer reaches.
const TITLE: usize = 120;

fn not_invited() -> ToolError {
    let why = "Nobody asks the owner to come to this event, as far as the owner's addresses are known (own_addresses of \
               [modules.calendar]), so there is nothing to answer. Nothing was changed.";
    ToolError::refused("not_invited", why)
}

/// The event of a call and who invites to it.
async fn invitation(call: &ToolCall, book: &Book) -> Result<(EventRow, Object, String), ToolError> {
    let (row, object) = writes::event(call, book).await?;
    let organizer = book.inviter(&object).ok_or_else(not_invited)?;
    Ok((row, object, organizer))
}

/// Whom an answer reaches: who invites, at the address that the event has now, and whoever sees the calendar.
pub(super) async fn reaches(call: &ToolCall, book: &Book) -> Result<Option<EgressTarget>, ToolError> {
    let (row, object, organizer) = invitation(call, book).await?;
    let sources = book.sources(call, &[]).await?;
    let calendar = sources.iter().find(|source| source.id == row.source).map(|source| source.name.as_str());
    let calendar = calendar.unwrap_or_default();
    let event = object.main();
    let title: String = event.title.chars().take(TITLE).collect();
    let at = match event.start.instant(book.home()) {
        Ok(at) if !event.start.is_date() => shown(at, book.home()),
        _ => event.start.shown(book.home()),
    };
    let mut to = format!("{}, who invites to \"{title}\" at {at}", plain_address(&organizer));
    if !book.is_private(calendar) {
        to.push_str(&format!(", and all who see the calendar `{calendar}` of {}", book.account()));
    }
    let address = plain_address(&organizer).to_owned();
    // The address is compared again when it is approved: an event that somebody else invites to by then is not answered.
    let recipient = EgressRecipient { name: None, channel: "email".to_owned(), address };
    Ok(Some(EgressTarget { to, recipient: Some(recipient), ..EgressTarget::unknown() }))
}

pub(super) async fn answer(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let (row, object, _) = invitation(call, book).await?;
    let answer: Answer = call.text("response").unwrap_or_default().parse().map_err(refused)?;
    let at = instance(call, book, object.main())?;
    let answered = respond(&object, book.own(), at.as_ref(), (answer, call.text("comment")), book.home());
    let answered = answered.map_err(refused)?;
    let mut result = writes::told("answered", row.id, (&answered, at.as_ref()), book);
    result["response"] = json!(answer.word());
    result["note"] = json!("The calendar's server tells whoever invites, where it sends answers at all.");
    let step = Step::Put { object: answered, id: row.id, source: row.source, seen: Some(row.revision) };
    writes::settle(call, book, vec![step], result).await
}
