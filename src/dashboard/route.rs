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
    pub run: Run,
}

/// A page that one looks at.
pub(super) const fn get(pattern: &'static str, run: Run) -> Route {
    Route { method: Method::GET, pattern, run }
}

/// What a form does.
pub(super) const fn post(pattern: &'static str, run: Run) -> Route {
    Route { method: Method::POST, pattern, run }
}
