//! The household's front door: takes messages in, finds out whose they are, hands them on, and sees to it that each
//! comes to an end.

mod accept;
mod backfill;
mod buffer;
mod classify;
mod connectors;
mod contacts;
pub mod envelope;
mod extractions;
mod follow;
mod handle;
mod history;
mod lanes;
mod live;
mod mail;
pub mod messages;
mod operator_actions;
pub mod people;
mod queue;
mod registry;
mod requests;
mod retry;
mod route;
mod scan;
mod settle;
mod tools;
pub mod triage;
mod types;

pub use buffer::Buffer;
pub use follow::{Follower, LiveUpdate, News};
pub use handle::{ButlerRegistration, Inbox, InboxParts, SWITCHBOARD, Target};
pub use live::Watch;
pub use operator_actions::{Operator, Stop};
pub use people::HOUSE_CHANNELS;
pub use queue::RETRY;
pub use registry::{Eligibility, Listed};
pub use retry::{OperatorActionError, Reopened};
pub use route::RouteError;
pub use settle::{Answer, End, Settlement};
pub use tools::switchboard_tools;
pub use types::*;
