//! `/api/v1`: the household for other programs, as JSON over plain HTTP.
//!
//! It decides nothing and reads no table: what is read and done is asked for by the calls of `admin`, under the rights of
//! the request's token. One table (`table`) has every endpoint with its types. It routes, it checks what comes in, and the
//! OpenAPI document and the page for people are made of it, so that the three can't differ.
//!
//! What never happens here: an answer of a status that the document does not name; a cursor taken that this list did not
//! give; a browser's cookie accepted.

mod cursor;
mod document;
mod endpoint;
mod input;
mod list;
mod page;
mod places;
mod problem;
mod seen;
mod site;
mod table;
mod visit;

use std::sync::Arc;

use admin::{MakeSite, Site, SiteParts};

/// The API of an admin port.
pub const SITE: MakeSite = |parts: SiteParts| -> Arc<dyn Site> { Arc::new(site::Api::new(parts)) };
