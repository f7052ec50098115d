//! The pages, one file a place.

mod approvals;
mod audit;
mod butler;
mod cards;
mod costs;
mod council;
mod find;
mod home;
mod journal;
mod leave;
mod memory;
mod memory_one;
mod projects;
mod schedules;
mod sessions;
mod settings;
mod tools;
mod week;

use super::live;
use super::route::Route;

/// All paths of all pages.
pub(super) static ALL: &[&[Route]] = &[
    approvals::ROUTES,
    audit::ROUTES,
    butler::ROUTES,
    costs::ROUTES,
    council::ROUTES,
    find::ROUTES,
    home::ROUTES,
    journal::ROUTES,
    leave::ROUTES,
    memory::ROUTES,
    projects::ROUTES,
    schedules::ROUTES,
    sessions::ROUTES,
    settings::ROUTES,
    live::ROUTES,
];
