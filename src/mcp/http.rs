//! Small HTTP answers, shared by the butlers' servers and the admin server.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::access::Refusal;

/// The one body type of our servers.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// An answer of JSON.
pub fn json_body(status: StatusCode, value: &Value) -> Response<Body> {
    text_body(status, "application/json", value.to_string())
}

/// An answer of text in a media type.
pub fn text_body(status: StatusCode, media_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    response
}

/// A refusal as every door answers it.
pub fn refusal_response(refusal: &Refusal) -> Response<Body> {
    let mut response =
        json_body(refusal.status, &json!({"status": "error", "error": refusal.message, "code": refusal.code}));
    if refusal.status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
    }
    response
}
