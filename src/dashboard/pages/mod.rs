//! The pages, one file a place.

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
