//! `/api/butlers/<butler>/<path>`: the pages that a butler's directory brings (`roster/<butler>/api/`), and the list of
//! them at `/api/butlers/<butler>/`.

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use reqwest::Url;
use serde_json::json;

use super::failure::Failure;
use super::inbound::{Inbound, forbidden, said};
use super::module_routes::only;
use super::rights::{self, Need};
use super::rpc::Rpc;
use access::Caller;
use butler::Butler;
use mcp::{Body, json_body};
use tools::sql::PageError;

/// The channel under which those who look come in.
const CHANNEL: &str = "api";

impl Inbound<'_> {
    /// `GET /api/butlers/<butler>/<path>`. Scope `read`, for that butler.
    pub(super) async fn butler_page(&self, request: &Request<Incoming>) -> Response<Body> {
        if request.method() != Method::GET {
            return only(&[Method::GET]);
        }
        if let Err(refused) = rights::check(self.grant, Need::Look) {
            return forbidden(&refused);
        }
        let place = request.uri().path().trim_start_matches("/api/butlers/");
        let (name, path) = place.split_once('/').unwrap_or((place, ""));
        let rpc = Rpc::new(self.supervisor.clone());
        let butler = match rpc.butler(self.grant, name).await {
            Ok(butler) => butler,
            Err(failure) => return refused(&failure),
        };
        let shown = match path {
            "" => list(&butler),
            path => self.rows(&butler, path, request.uri().query().unwrap_or_default()).await,
        };
        shown.unwrap_or_else(|e| refused(&failure(e)))
    }

    async fn rows(&self, butler: &Butler, path: &str, query: &str) -> Result<Response<Body>, PageError> {
        let pages = butler.pages()?;
        let params = match pages.iter().find(|page| page.path == path) {
            Some(page) => page.typed(&words(query))?,
            // It is refused with the names of those that there are.
            None => Default::default(),
        };
        let clock = &self.supervisor.services().clock;
        let caller = Caller::of(Arc::new(self.grant.clone()), clock, CHANNEL);
        let found = butler.read_page(&caller, path, params).await?;
        let meta = json!({"columns": found.columns, "truncated": found.truncated});
        Ok(json_body(StatusCode::OK, &json!({"data": found.rows, "meta": meta})))
    }
}

fn list(butler: &Butler) -> Result<Response<Body>, PageError> {
    let pages = butler.pages()?;
    Ok(json_body(StatusCode::OK, &json!({"data": pages, "meta": {"butler": butler.name()}})))
}

/// Names and values of a query, as a browser's form writes them.
fn words(query: &str) -> Vec<(String, String)> {
    let address = Url::parse("http://localhost/").map(|mut url| {
        url.set_query(Some(query));
        url.query_pairs().into_owned().collect()
    });
    address.unwrap_or_default()
}

fn failure(e: PageError) -> Failure {
    let code = match &e {
        PageError::Unknown { .. } => "not_found",
        PageError::Parameters(_) => "invalid_arguments",
        PageError::Refused { code, .. } => code,
        PageError::TooSlow => "timeout",
        PageError::Session => "forbidden",
        PageError::Broken(_) => "pages_broken",
        PageError::Store(_) => "internal",
    };
    match e {
        PageError::Store(e) => e.into(),
        e => Failure::new(code, e.to_string()),
    }
}

fn refused(failure: &Failure) -> Response<Body> {
    let status = match failure.code.as_str() {
        "forbidden" => StatusCode::FORBIDDEN,
        "not_found" | "unknown_butler" => StatusCode::NOT_FOUND,
        "unavailable" | "butler_unavailable" | "timeout" | "pages_broken" => StatusCode::SERVICE_UNAVAILABLE,
        "internal" => StatusCode::INTERNAL_SERVER_ERROR,
        // The page's own refusals, and wrong parameters.
        _ => StatusCode::BAD_REQUEST,
    };
    said(status, &failure.code, &failure.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_a_form_writes_it() {
        let found = words("name=a+b%26c&days=7&flag&x=%27%3B--");
        let wanted = [("name", "a b&c"), ("days", "7"), ("flag", ""), ("x", "';--")];
        assert_eq!(found, wanted.map(|(name, word)| (name.to_owned(), word.to_owned())));
        assert!(words("").is_empty());
    }
}
