//! The pages, one file a place.

/// What forms do by one call, and where they lead then. `id`: what the path names.
macro_rules! does {
    ($($name:ident($visit:ident $(, $id:ident)?) = $call:ident($($arg:expr),*) -> $to:expr, $did:ident;)+) => {$(
        async fn $name($visit: &Visit) -> Answer {
            $(let $id: Uuid = $visit.parsed(0)?;)?
            $visit.calls.$call(&$visit.ext $(, $arg)*).await?;
            Ok(Reply::Go { to: $to, did: Did::$did })
        }
    )+};
}

mod answers;
mod approvals;
mod arguments;
mod audit;
mod butler;
mod cards;
mod chat;
mod connectors;
mod conversations;
mod costs;
mod council;
mod deliveries;
mod find;
mod home;
mod inbox;
mod journal;
mod leave;
mod mcp_servers;
mod memory;
mod memory_one;
mod memory_parts;
mod notes;
mod people;
mod projects;
mod proposals;
mod rules;
mod schedules;
mod session_live;
mod sessions;
mod settings;
mod tools;
mod trace;
mod transcript;
mod week;

use super::live;
use super::route::Route;

/// All paths of all pages.
pub(super) static ALL: &[&[Route]] = &[
    approvals::ROUTES,
    audit::ROUTES,
    butler::ROUTES,
    chat::ROUTES,
    connectors::ROUTES,
    conversations::ROUTES,
    costs::ROUTES,
    council::ROUTES,
    deliveries::ROUTES,
    find::ROUTES,
    home::ROUTES,
    inbox::ROUTES,
    journal::ROUTES,
    leave::ROUTES,
    mcp_servers::ROUTES,
    memory::ROUTES,
    notes::ROUTES,
    people::ROUTES,
    proposals::ROUTES,
    projects::ROUTES,
    rules::ROUTES,
    schedules::ROUTES,
    session_live::ROUTES,
    sessions::ROUTES,
    settings::ROUTES,
    trace::ROUTES,
    live::ROUTES,
];
