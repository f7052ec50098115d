//! The household's front door: takes messages in, finds out whose they are, hands them on, and sees to it that each
//! comes to an end.

mod accept;
mod again;
mod backfill;
mod buffer;
mod classify;
mod connectors;
mod contacts;
mod desk;
pub mod envelope;
mod extractions;
mod follow;
mod hand;
mod history;
pub mod inbox;
mod live;
mod mail;
pub mod people;
mod queue;
mod registry;
mod requests;
mod route;
mod settle;
mod tools;
pub mod triage;
mod types;

pub use again::{AgainError, Reopened};
pub use buffer::{Buffer, TRIES, pause};
pub use desk::{Advert, Desk, DeskParts, SWITCHBOARD, Target};
pub use follow::{Follower, Heard, News};
pub use hand::{Hand, Stop};
pub use live::Watch;
pub use registry::{Eligibility, Listed};
pub use route::RouteError;
pub use settle::{Answer, End, Settlement};
pub use tools::switchboard_tools;
pub use types::*;
