//! Which page answers which path.

use futures_util::future::BoxFuture;
use http::Method;

use super::reply::Answer;
use super::visit::Visit;

/// What runs for a path.
pub(super) type Run = for<'a> fn(&'a Visit) -> BoxFuture<'a, Answer>;

/// A path and what answers it. A pattern's `*` stands for one part of the path.
pub(super) struct Route {
    pub method: Method,
    pub pattern: &'static str,
    /// What it answers to a GET is a page, which people look at.
    pub page: bool,
    pub run: Run,
    /// Whoever may only look is refused before it runs, whatever it would ask for itself.
    pub acts: bool,
}

/// A page that one looks at.
pub(super) const fn get(pattern: &'static str, run: Run) -> Route {
    Route { method: Method::GET, pattern, page: true, run, acts: false }
}

/// What a page loads or a browser saves: a stream, or a file.
pub(super) const fn raw(pattern: &'static str, run: Run) -> Route {
    Route { method: Method::GET, pattern, page: false, run, acts: false }
}

/// What a form does.
pub(super) const fn post(pattern: &'static str, run: Run) -> Route {
    Route { method: Method::POST, pattern, page: false, run, acts: true }
}

/// What a form does that whoever is signed in may send, because it touches nothing but their own session.
pub(super) const fn post_by_all(pattern: &'static str, run: Run) -> Route {
    Route { method: Method::POST, pattern, page: false, run, acts: false }
}
