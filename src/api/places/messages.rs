//! Messages that came in, what was said, and what was sent.

use admin::calls::{ConversationsApiServer, DeliveriesApiServer, InboxApiServer};
use admin::{ConversationPage, Failure, SaidRow, SavedFile};
use inbox::Reopened;
use inbox::messages::Entry;
use outbox::{Changed, DeliveryView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::sessions::ById;
use crate::endpoint::{Endpoint, get, post};
use crate::input::{Nothing, Paging};
use crate::list::Page;
use crate::visit::Visit;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/inbox", "listInbox", "Messages that came in, the newest first, without their parts", inbox_list),
        get("/inbox/{id}", "getMessage", "One message with its parts and answers", inbox_one),
        post("/inbox/{id}/retry", "retryMessage", "Take a dead message, or its dead parts, up again", inbox_retry),
        post(
            "/inbox/{id}/reroute",
            "rerouteMessage",
            "Give a message, or a part of it, to another butler",
            inbox_reroute,
        ),
        get("/conversations", "listConversations", "Conversations, each by its last entry", conversations),
        get("/conversations/search", "searchConversations", "What was said that has this text in it", search),
        get(
            "/conversations/{id}",
            "getConversation",
            "What was said where this message or delivery belongs",
            conversation,
        ),
        get("/deliveries", "listDeliveries", "What was sent, waits to be sent, or failed", deliveries),
        get("/deliveries/{id}", "getDelivery", "One delivery with its tries", delivery),
        get("/files/{handle}", "getDeliveredFile", "A file that went along with a delivery, as it is kept", file),
        post(
            "/deliveries/{id}/retry",
            "retryDelivery",
            "Send one once more that failed, is dead or unknown",
            delivery_retry,
        ),
    ]
}

/// How far a message is.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum MessageState {
    Accepted,
    Processing,
    Done,
    Dead,
}

/// The word for one of an enum's values, as it stands in JSON.
pub(super) fn word<T: Serialize>(value: Option<T>) -> Option<String> {
    serde_json::to_value(value?).ok()?.as_str().map(str::to_owned)
}

/// Which messages.
#[derive(Deserialize, JsonSchema)]
struct InboxWanted {
    /// Of this state alone.
    state: Option<MessageState>,
    #[serde(flatten)]
    paging: Paging,
}

async fn inbox_list(visit: &Visit, wanted: InboxWanted) -> Result<Page<Entry>, Failure> {
    let start = visit.start::<Uuid>(&wanted.paging)?;
    let found = visit.calls.inbox_list(&visit.ext, word(wanted.state), start.one_more(), start.at).await?;
    Ok(visit.page(&start, found, |entry| entry.request_id))
}

/// Where to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Reroute {
    /// The butler that it is to go to.
    butler: String,
    /// The number of its part; without it all of it goes.
    #[schemars(range(min = 0, max = 10_000))]
    part: Option<i32>,
}

fn said(visit: &Visit, page: ConversationPage) -> Page<SaidRow> {
    visit.part(page.entries, page.before, Vec::new())
}

async fn conversations(visit: &Visit, wanted: Paging) -> Result<Page<SaidRow>, Failure> {
    let start = visit.start::<i64>(&wanted)?;
    Ok(said(visit, visit.calls.conversations_list(&visit.ext, start.at, Some(start.limit)).await?))
}

/// What to look for.
#[derive(Deserialize, JsonSchema)]
struct Searched {
    /// In what was said, in its subject, or in the name of the person.
    #[schemars(length(min = 1, max = 100))]
    text: String,
    #[serde(flatten)]
    paging: Paging,
}

async fn search(visit: &Visit, wanted: Searched) -> Result<Page<SaidRow>, Failure> {
    let start = visit.start::<i64>(&wanted.paging)?;
    let found = visit.calls.conversations_search(&visit.ext, wanted.text, start.at, Some(start.limit)).await?;
    Ok(said(visit, found))
}

/// A list below something.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ListOf {
    /// Its id.
    pub id: Uuid,
    #[serde(flatten)]
    pub paging: Paging,
}

async fn conversation(visit: &Visit, wanted: ListOf) -> Result<Page<SaidRow>, Failure> {
    let start = visit.start::<i64>(&wanted.paging)?;
    let found = visit.calls.conversations_show(&visit.ext, wanted.id, start.at, Some(start.limit)).await?;
    Ok(said(visit, found))
}

pub(super) async fn with_contact(visit: &Visit, wanted: ListOf) -> Result<Page<SaidRow>, Failure> {
    let start = visit.start::<i64>(&wanted.paging)?;
    let found = visit.calls.conversations_with(&visit.ext, wanted.id, start.at, Some(start.limit)).await?;
    Ok(said(visit, found))
}

/// How far a delivery is.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DeliveryState {
    Pending,
    Deferred,
    Waiting,
    Sending,
    Sent,
    Unknown,
    Failed,
    Dead,
    /// Unknown, failed and dead ones.
    Bad,
}

/// Which deliveries.
#[derive(Deserialize, JsonSchema)]
struct DeliveriesWanted {
    /// Of this butler alone.
    butler: Option<String>,
    /// Of this state alone; `bad` are unknown, failed and dead ones.
    state: Option<DeliveryState>,
    #[serde(flatten)]
    paging: Paging,
}

async fn deliveries(visit: &Visit, wanted: DeliveriesWanted) -> Result<Page<DeliveryView>, Failure> {
    let start = visit.start::<Uuid>(&wanted.paging)?;
    let (state, most) = (word(wanted.state), start.one_more());
    let found = visit.calls.deliveries_list(&visit.ext, wanted.butler, state, most, start.at).await?;
    Ok(visit.page(&start, found, |delivery| delivery.id))
}

/// Which file.
#[derive(Deserialize, JsonSchema)]
struct DeliveredFileOf {
    /// The beginning of its content's SHA-256, as its delivery names it: 8 hexadecimal digits at least.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{8,64}$"))]
    handle: String,
}

forwards! {
    inbox_one(of: ById) -> Entry = inbox_show(of.id);
    inbox_retry(of: ById, _: Nothing) -> Reopened = inbox_retry(of.id);
    inbox_reroute(of: ById, to: Reroute) -> Reopened = inbox_reroute(of.id, to.butler, to.part);
    delivery(of: ById) -> DeliveryView = deliveries_show(of.id);
    file(of: DeliveredFileOf) -> SavedFile = deliveries_file(of.handle);
    delivery_retry(of: ById, _: Nothing) -> Changed = deliveries_retry(of.id);
}
