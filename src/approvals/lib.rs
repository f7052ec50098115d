//! The door out of the household: calls that a person allows first.
//!
//! Three things send a call here: its tool is gated by the butler's settings; or others have influenced its session,
//! and it would reach people who may not learn all that the session was shown, or change something. What waits is a
//! row; a person decides; the call is made exactly once, whatever dies meanwhile; its butler is told how it ended.
//!
//! What never happens here: a session letting its own call through, an approval by somebody to whom a part of the call
//! was not shown, a call made with other arguments than the person saw, one approval making two calls, a standing rule
//! that lets somebody through whom it does not name, a call that vanishes without an end on record.

mod actions;
mod decisions;
mod gate;
mod rendering;
mod rules;
mod settings;
mod sql;
mod standing;
mod types;
mod worker;

pub use actions::{Actions, DecideError};
pub use decisions::{Ruling, Subject};
pub use gate::{ApprovalGate, OthersMay};
pub use rendering::shown_sha256_of;
pub use rules::{Constraint, ConstraintError, Constraints, Draft, Rule, RuleError, people};
pub use settings::{Gated, Settings};
pub use sql::{
    SessionPieces, Unannounced, all_waiting, announced, butlers_due, notices, unannounced, unannounced_tenants,
};
pub use types::{Action, ActionRecipient, Cause, Event, Filter, NewAction, RiskTier, Source, Status, principal};
pub use worker::{ApprovalParts, start};
