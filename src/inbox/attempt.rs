//! One try at a message: what was claimed, what its parts are, and what became of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::handle::Inbox;
use super::lanes::Item;
use super::queue::pause;
use super::types::{Control, Sender, Tier, Triage};
use base::RequestContext;

/// A message that this claim holds.
pub(super) struct Message {
    pub item: Item,
    pub claim: Uuid,
    pub body: String,
    pub attachments: Value,
    pub envelope: Value,
    pub context: Arc<RequestContext>,
    pub triage: Option<Triage>,
    pub classified: bool,
    /// Its tries, this one included.
    pub attempts: i32,
    /// Why the last try failed.
    pub last_error: Option<String>,
}

/// What became of one try.
pub(super) enum Tried {
    /// Its parts are with their butlers, who end it.
    HandedOn,
    /// Nothing of it is at fault; the same again after a while.
    Later(Duration),
    /// The machine or the model's side is at fault; the same again after a while.
    Wait { after: Duration, why: String },
    /// It failed; again, unless it has failed too often.
    Failed(String),
    /// Somebody else holds it by now.
    Lost,
}

/// One part of a message, chosen for one butler.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub butler: String,
    pub prompt: String,
    pub context: Option<Value>,
    pub chosen_by: &'static str,
}

/// One try.
pub(super) struct Pass<'a> {
    pub inbox: &'a Inbox,
    pub claimed: &'a Message,
    /// The claim does not hold any more.
    pub lost: &'a CancellationToken,
}

/// Whether somebody waits for the answer.
pub(super) fn interactive(claimed: &Message) -> bool {
    somebody_waits(&claimed.context.source_channel, &claimed.envelope)
}

/// As [`interactive`], of a message's channel and envelope alone.
pub(super) fn somebody_waits(channel: &str, envelope: &Value) -> bool {
    let control = envelope.get("control").cloned().unwrap_or_default();
    let tier = serde_json::from_value::<Control>(control).map(|c| c.policy_tier).unwrap_or_default();
    channel == "chat" || tier == Tier::Interactive
}

/// Who wrote the message, as sessions are shown it.
pub(super) fn sender_shown(claimed: &Message) -> Value {
    let identity = &claimed.context.source_sender_identity;
    let sender = serde_json::from_value::<Sender>(claimed.envelope["sender"].clone());
    sender.map_or_else(|_| json!({"identity": identity}), |sender| sender.shown())
}

/// As [`pause`], for what was only turned away because there is much to do.
pub(super) fn busy() -> Tried {
    Tried::Later(pause(1))
}
