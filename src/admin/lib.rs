//! The admin port: health, readiness, metrics, and the typed calls that the command line and other programs make.
//!
//! It decides nothing by itself: a call asks the supervisor, a butler or one of its tools, with the caller's identity.
//! What never happens here: a body read before Host, Origin, size and token were looked at; a secret in an address, a
//! log line or an answer to anybody but its owner; a session's token accepted.

mod answers;
mod approval_reads;
mod approvals;
mod audit;
mod butler_pages;
mod calendar_week;
mod chat;
mod chat_message;
mod client;
mod contacts;
mod conversations;
mod deliveries;
mod failure;
mod ids;
mod inbound;
mod inbox;
mod live;
mod local_answers;
mod login;
mod login_links;
mod looks;
mod methods;
mod models;
mod module_routes;
mod notes;
mod owner_notes;
mod place;
mod ready;
mod rights;
mod rpc;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod sample;
mod schedule_edits;
mod schedule_week;
mod schedules;
mod sealed;
mod secrets;
mod server;
mod services;
mod session_pages;
mod sessions;
mod timeline;
mod tokens;
mod undo;
mod usage;
mod visitor;
mod work;

/// The calls, for clients: one trait for each part of the daemon.
pub mod api {
    pub use super::approvals::ApprovalsApiClient;
    pub use super::audit::AuditApiClient;
    pub use super::calendar_week::CalendarWeekApiClient;
    pub use super::contacts::ContactsApiClient;
    pub use super::conversations::ConversationsApiClient;
    pub use super::deliveries::DeliveriesApiClient;
    pub use super::ids::IdsApiClient;
    pub use super::inbox::InboxApiClient;
    pub use super::live::EventsApiClient;
    pub use super::local_answers::LocalAnswersApiClient;
    pub use super::login::LoginApiClient;
    pub use super::looks::LooksApiClient;
    pub use super::models::ModelsApiClient;
    pub use super::owner_notes::NotesApiClient;
    pub use super::schedule_edits::ScheduleEditsApiClient;
    pub use super::schedule_week::ScheduleWeekApiClient;
    pub use super::schedules::SchedulesApiClient;
    pub use super::secrets::SecretsApiClient;
    pub use super::services::HouseApiClient;
    pub use super::session_pages::SessionPagesApiClient;
    pub use super::sessions::SessionsApiClient;
    pub use super::timeline::TimelineApiClient;
    pub use super::tokens::TokensApiClient;
    pub use super::undo::UndoApiClient;
    pub use super::work::WorkApiClient;
}

/// The same, for pages that the daemon itself serves: what they show and do is asked for by these calls, under the
/// rights of whoever looks.
pub mod calls {
    pub use super::approvals::ApprovalsApiServer;
    pub use super::audit::AuditApiServer;
    pub use super::calendar_week::CalendarWeekApiServer;
    pub use super::contacts::ContactsApiServer;
    pub use super::conversations::ConversationsApiServer;
    pub use super::deliveries::DeliveriesApiServer;
    pub use super::ids::IdsApiServer;
    pub use super::inbox::InboxApiServer;
    pub use super::local_answers::LocalAnswersApiServer;
    pub use super::looks::LooksApiServer;
    pub use super::owner_notes::NotesApiServer;
    pub use super::schedule_edits::ScheduleEditsApiServer;
    pub use super::schedule_week::ScheduleWeekApiServer;
    pub use super::schedules::SchedulesApiServer;
    pub use super::secrets::SecretsApiServer;
    pub use super::services::HouseApiServer;
    pub use super::session_pages::SessionPagesApiServer;
    pub use super::sessions::SessionsApiServer;
    pub use super::timeline::TimelineApiServer;
    pub use super::tokens::TokensApiServer;
    pub use super::undo::UndoApiServer;
    pub use super::work::WorkApiServer;
}

pub use self::approvals::{ActionPage, NewStandingRule, ProposalPage};
pub use self::sessions::{CallRow, Cancelled, SessionDetail, SessionPage, SessionRow};
pub use answers::{
    Backfill, Connector, CouncilQuestion, CouncilStep, Identity, McpDifference, McpServer, McpSide, McpTool, MemoryLink,
};
pub use audit::{AuditPage, AuditRow};
pub use client::{Client, ClientError};
pub use contacts::Pairing;
pub use conversations::{ConversationPage, SaidRow, Written};
pub use deliveries::SavedFile;
pub use failure::Failure;
pub use ids::{FoundIds, IdKind};
pub use live::LiveEvent;
pub use local_answers::{ProjectExchange, ProjectPage, ProjectRow};
pub use login::{LoginLink, WantedLink};
pub use login_links::{LoginLinks, Redeemed};
pub use looks::{SkillInfo, ToolTried, answered, look};
pub use models::{ModelKeys, TrialOutcome, TriedModel, model_key_names, try_models};
pub use place::{DaemonFile, PlaceError};
pub use rights::Need;
pub use rpc::{Rpc, Unavailable};
pub use schedule_edits::{MarkedRun, RemovedSchedule, ScheduleFields};
pub use schedule_week::{CalendarPage, CalendarRow};
pub use schedules::{OpenRun, OpenRunPage, RunRow, ScheduleDetail, SchedulePage, ScheduleRan, ScheduleRow};
pub use sealed::Sealed;
pub use secrets::SecretName;
pub use server::{MakeSite, Site, SiteParts};
pub use services::DbLogin;
pub use session_pages::SessionsBefore;
pub use timeline::{Timeline, TracedRun, TracedSession};
pub use tokens::{MadeToken, Revoked, WantedToken};
pub use undo::{TakenBack, UndoPage, UndoableCall, Undone};
pub use usage::{DirectoryUsage, DiskUsage, Usage};
pub use visitor::Visitor;
pub use work::{Started, ToolAnswer, ToolInfo};

/// Starts the admin server as a task: what the supervisor is handed for it.
pub fn spawn(door: supervisor::AdminDoor) -> tokio::task::JoinHandle<()> {
    spawn_with(door, &[])
}

/// The same, with sites beside the calls.
pub fn spawn_with(door: supervisor::AdminDoor, sites: &'static [MakeSite]) -> tokio::task::JoinHandle<()> {
    base::task::spawn(base::task::Kind::Actor, "admin", server::serve(door, sites))
}
