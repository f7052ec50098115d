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

/// The dashboard of an admin port.
pub const SITE: MakeSite = |parts: SiteParts| -> Arc<dyn Site> { Arc::new(site::Dashboard::new(parts)) };
