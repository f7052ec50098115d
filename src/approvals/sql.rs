//! The statements on what waits for a person: what its owner was told of, was shown, and decided, and what came of it.

mod actions;
mod announced;
mod calls;
mod decisions;
mod events;
mod rules;

use store::StoreError;

pub(super) use actions::{
    IDS, ParkedRow, any_of, asked_before, count_waiting, expire, latest_like, list, one, park, to_suggest_from,
};
pub use announced::{Unannounced, all_waiting, announced, notices, unannounced, unannounced_tenants};
pub use calls::butlers_due;
pub(super) use calls::{ApprovedRow, SettledCall, claim, hand_back, handed_back, next_ended, owner_waits, settle};
pub(super) use decisions::{Decision, decide, note_shown, pages_shown, waiting};
pub(super) use events::{NewEvent, events_of, note};
pub(super) use rules::{NewRule, create_rule, one_rule, revoke_rule, rules, use_up};

/// How statements here look at the sessions of a butler, whose tables belong to crates above this one. Each makes a
/// piece of SQL of its owner's, for a schema and a session that is SQL itself.
#[derive(Clone, Copy)]
pub struct SessionPieces {
    /// The other sessions that tried the same work, as a query of their ids.
    pub earlier_tries: fn(&str, &str) -> String,
    /// Whether the owner waits in the conversation that the session deals with; null where it deals with none.
    pub owner_waits: fn(&str, &str) -> String,
}

pub(super) fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("looking after approvals")
}
