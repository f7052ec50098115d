//! Pages and redirects as answers.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use maud::Markup;
use mcp::Body;

use super::form::encoded;
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

/// Bytes for the browser to keep under this name, and never to show.
pub(super) fn download(name: &str, content: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(content)).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let disposition = HeaderValue::from_str(&disposition(name));
    headers.insert(CONTENT_DISPOSITION, disposition.unwrap_or(HeaderValue::from_static("attachment")));
    response
}

/// The name twice (RFC 6266): for old programs in letters that mean nothing in a header or a path, and as it is.
fn disposition(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ');
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(200).collect();
    let name = name.trim_start_matches('.').trim();
    let name = if name.is_empty() { "file" } else { name };
    let ascii: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{}", encoded(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_somebody_is_a_name_in_a_header() {
        assert_eq!(disposition("a b.pdf"), "attachment; filename=\"a b.pdf\"; filename*=UTF-8''a%20b.pdf");
        assert_eq!(disposition("../../.ssh/ké\"y"), "attachment; filename=\"k__y\"; filename*=UTF-8''k%C3%A9%22y");
        assert_eq!(
            disposition("C:\\x\r\nSet-Cookie: a"),
            "attachment; filename=\"xSet-Cookie_ a\"; filename*=UTF-8''xSet-Cookie%3A%20a"
        );
        for none in ["", "..", "a/", "\u{1}"] {
            assert_eq!(disposition(none), "attachment; filename=\"file\"; filename*=UTF-8''file", "{none:?}");
        }
    }
}
