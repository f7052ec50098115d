//! Pages and redirects as answers.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use maud::Markup;
use mcp::Body;

use super::reply::Did;

/// To where it is seen what was done. The browser asks for it anew, so that reloading does nothing twice.
pub(super) fn go(to: &str, did: Did) -> Response<Body> {
    let name: &'static str = did.into();
    let with = if to.contains('?') { '&' } else { '?' };
    let to = if did == Did::Nothing { to.to_owned() } else { format!("{to}{with}did={name}") };
    let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(to) = HeaderValue::from_str(&to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

/// A page.
pub(super) fn html(status: StatusCode, page: &Markup) -> Response<Body> {
    mcp::text_body(status, "text/html; charset=utf-8", page.0.clone())
}
