//! The household's front door: takes messages in, finds out whose they are, hands them on, and sees to it that each
//! comes to an end.

mod accept;
mod attempt;
mod backfill;
mod buffer;
mod classify;
mod connectors;
mod contacts;
mod define;
mod directory;
pub mod envelope;
mod extractions;
mod follow;
mod handle;
mod history;
mod live;
mod mail;
pub mod messages;
mod operator;
mod operator_actions;
pub mod people;
mod queue;
mod registrar;
mod registry;
mod requests;
mod retry;
mod route;
mod settle;
mod settlement;
mod sql;
mod tools;
pub mod triage;
mod types;

pub use attempt::{TRIES, pause};
pub use buffer::Buffer;
pub use directory::{ButlerDirectory, Target};
pub use follow::{Follower, LiveUpdate, News};
pub use handle::{Inbox, InboxParts, SWITCHBOARD};
pub use live::Watch;
pub use operator::{Operator, OperatorActionError, Reopened, Requests, Stop};
pub use people::HOUSE_CHANNELS;
pub use registry::{ButlerRegistration, Eligibility, Listed};
pub use route::RouteError;
pub use settlement::{Answer, End, HandedWork, Settlement, Withdrawn};
pub use tools::switchboard_tools;
pub use types::*;
