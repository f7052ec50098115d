//! What leaves the household: rows of the outbox, the one worker that carries them out, and what the owner is told of
//! failures.
//!
//! Whatever is sent is a row of `shared.outbox`, written by `notify`, `remind` or a channel's tool in the call's own
//! transaction (`shared.queue_delivery`: the origin is who logs in); an answer gets its row from a trigger on
//! `shared.replies`, and goes out over the channel that the question came through. What no channel takes is `waiting`
//! until one does. Channels of other butlers' modules, and their tools whose names end like `_send_message`, are
//! stripped, and the log says so. To whom it goes is decided once ([`Recipient`]): the owner's identities, `shared`
//! contacts, configured ends; an address that nobody is known by is refused. The same request, butler, channel, target
//! and content is the same delivery.
//!
//! The pump claims the first of each lane (channel and target; a unique index keeps a second one out), commits
//! `sending` and a row of the try, and then lets it leave. What surely did not arrive is tried again, ten times, then
//! `dead`; `retry-after` is kept and costs no try. What may have arrived is sent again under the same key where the
//! channel knows a repetition, looked for where that can be seen, and else `unknown`: never sent again but by a person.
//! Quiet hours and reminders are `deferred` rows with a time. A bad end comes back to its butler as a new session,
//! once; an answer to what was sent goes back to whoever sent it.
//!
//! `shared.notices` has one row for each thing that failed, found by looking at rows; one message a minute at most
//! carries what is new to the owner. It is a delivery like others, but no notice is made of its own end: what its
//! channel does not get through, the chat shows.
//!
//! What somebody less than the owner had a part in is shown to the owner with links that do nothing: each delivery
//! passes `composed.rs` on its way to its channel, and the chat shows its rows the same way.
//!
//! What never happens here: something sent whose row is not committed before; something sent again of which nobody
//! knows whether it arrived, where the channel can't tell a repetition; an end that nobody hears of.

mod announce;
mod channel;
mod chat;
mod composed;
mod delivery;
mod files;
mod handle;
mod household;
mod notices;
mod operator_tools;
mod owner;
mod preview;
mod pump;
mod quiet;
mod recipient;
mod sql;
mod tool;
mod views;
mod watch;

pub use channel::{Channel, Conversation, Outcome, Shown, WouldRefuse};
pub use delivery::{DecisionRequest, Delivery, Intent, NewDelivery};
pub use files::{MOST_BYTES, MOST_FILES, OutFile, files_to_save};
pub use handle::{DeliveryEvent, Outbox, OutboxParts};
pub use household::{CHAT, Owner};
pub use operator_tools::messenger_tools;
pub use owner::OwnerNote;
pub use preview::DeliveryPreview;
pub use pump::{DeliveryHooks, Pump};
pub use recipient::{Recipient, RecipientError};
pub use sql::OLD;
pub use sql::notices::NoticeSources;
pub use sql::views::{Attempt, DeliveryStatus, DeliveryView, FileView, Note};
pub use tool::{
    ATTACHMENTS_TO_OWNER, FILES_TOO_LATE, SendRequest, deferred_until, egress_target, egress_target_fn, send,
    send_tool, send_tool_name,
};
pub use views::{Changed, DeliveryError};

/// The butler that everything leaves through.
pub const MESSENGER: &str = "messenger";
/// Under whose name the daemon itself writes.
pub const BUTLERD: &str = "butlerd";
