//! What leaves the household: rows of the outbox, the one worker that carries them out, and what the owner is told of
//! failures.
//!
//! What never happens here: something sent whose row is not committed before; something sent again of which nobody knows
//! whether it arrived, where the channel can't tell a repetition; an end that nobody hears of.

mod aim;
mod announce;
mod channel;
mod home;
mod letter;
mod look;
mod notices;
mod outbox;
mod owner;
mod post;
mod pump;
mod quiet;
mod tool;

pub use aim::{Aim, NoAim};
pub use channel::{Channel, Conversation, Outcome};
pub use letter::{Intent, Letter, NewLetter, Priority};
pub use look::{Attempt, Changed, Delivery, LookError, Note};
pub use owner::OwnerNote;
pub use post::{CHAT, Owner, Post, PostParts, Posted, Told};
pub use pump::{Aftermath, Pump};
pub use tool::{aim_of, deferred_until, send_tool, send_tool_name};

/// The butler that everything leaves through.
pub const MESSENGER: &str = "messenger";
/// Under whose name the daemon itself writes.
pub const BUTLERD: &str = "butlerd";
