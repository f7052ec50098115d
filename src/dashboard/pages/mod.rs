//! The pages, one file a place.

mod approvals;
mod home;
mod leave;
mod sessions;

use super::live;
use super::route::Route;

/// All paths of all pages.
pub(super) static ALL: &[&[Route]] = &[home::ROUTES, approvals::ROUTES, sessions::ROUTES, leave::ROUTES, live::ROUTES];
