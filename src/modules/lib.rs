//! Modules: opt-in parts of a butler that bring tools and tables. One that fails does not take its butler along.
//!
//! A module never imports another; it works with the [`ModuleContext`] it is given.

mod accounts;
mod approvals;
mod background;
pub mod calendar;
mod catalog;
mod connector;
mod contacts;
mod contract;
mod council;
pub mod email;
mod file;
mod grant;
mod graphiti;
mod inbound;
mod items;
mod job;
mod journal;
mod live;
mod local_socket;
mod log;
mod mcp_servers;
pub mod memory;
mod memory_calls;
mod notice;
mod opening;
mod order;
mod own_sessions;
mod probe;
mod project_memory;
mod replies;
mod roster;
mod routes;
mod set;
mod strict;
pub mod telegram;
mod vcard;
mod webhook;

pub use ::journal::pack::Part;
pub use ::memory::MemoryHandle;
pub use accounts::TriedAccount;
pub use background::{Background, BackgroundTask, TaskError, TaskHealth, TaskKind, TaskState};
pub use catalog::Catalog;
pub use connector::{Batch, Connector, Incoming, Source, SourceError, Unreadable};
pub use contract::{
    AccountTrial, Credential, Factory, Health, Manifest, Module, ModuleContext, ModuleError, Phase, State,
};
pub use council::OLD as OLD_EPISODES;
pub use grant::{GrantError, Grants, new_grant};
pub use inbound::Inbound;
pub use job::{AskModel, AskModelError, Job, JobCall, JobFailure, NamedJob};
pub use live::{Live, OfferError};
pub use mcp_servers::{Children, McpServers, mcp_server_tools};
pub use opening::{Lines, NamedOpening, OPENING_BUDGET, Opened, Opening, SessionLines, estimate, open};
pub use own_sessions::{Cause, ModuleSessions, SessionRequest};
pub use routes::{
    Found, Matched, Route, RouteAnswer, RouteError, RouteHandler, RouteProof, RouteRequest, RouteSpec, RouteTable,
};
pub use set::{ModuleStates, Modules, switch_key};
pub use strict::{Mentions, StrictCatalog};
