//! The pages, one file a place.

mod approvals;
mod audit;
mod costs;
mod find;
mod home;
mod leave;
mod sessions;
mod settings;

use super::live;
use super::route::Route;

/// All paths of all pages.
pub(super) static ALL: &[&[Route]] = &[
    home::ROUTES,
    approvals::ROUTES,
    audit::ROUTES,
    costs::ROUTES,
    find::ROUTES,
    sessions::ROUTES,
    settings::ROUTES,
    leave::ROUTES,
    live::ROUTES,
];
