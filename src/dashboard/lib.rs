//! The dashboard: the household as pages that the daemon itself serves, on the admin port.
//!
//! It decides nothing and reads no table. What a page shows, and what a button does, is asked for by the calls of
//! `admin` under the rights of the browser's session, so a page can do what the command line can with the same token, and
//! no more. Pages are HTML made here; without scripts all of it can be read and done, and scripts add liveness and plots.
//!
//! What never happens here: a page without a session (but for the one that signs in); a change that did not come from a
//! form of one of this session's own pages; text from outside in a page as anything but text; a request of a page to
//! anybody else's server.

mod assets;
mod changes;
mod form;
mod layout;
mod live;
mod login;
mod packed;
mod pages;
mod parts;
mod plot;
mod reply;
mod route;
mod router;
mod send;
mod site;
mod time;
mod visit;

use std::sync::Arc;

use admin::{MakeSite, Site, SiteParts};

/// The paths of all forms, `*` for what differs from one to the next.
pub fn forms() -> impl Iterator<Item = &'static str> {
    let routes = pages::ALL.iter().flat_map(|routes| routes.iter());
    routes.filter(|route| route.method == http::Method::POST).map(|route| route.pattern)
}

/// The paths of all pages, `*` for what differs from one to the next.
pub fn pages() -> impl Iterator<Item = &'static str> {
    pages::ALL.iter().flat_map(|routes| routes.iter()).filter(|route| route.page).map(|route| route.pattern)
}

/// Which of [`pages`] is at an address of this dashboard. `None`: there is no page.
pub fn page_of(address: &str) -> Option<&'static str> {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    match router::find(&http::Method::GET, path) {
        router::Found::Route(route, _) if route.page => Some(route.pattern),
        _ => None,
    }
}

/// The dashboard of an admin port.
pub const SITE: MakeSite = |parts: SiteParts| -> Arc<dyn Site> { Arc::new(site::Dashboard::new(parts)) };
