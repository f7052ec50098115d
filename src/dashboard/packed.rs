//! Answers in fewer bytes, for browsers that take them so.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use http::response::Response;
use http_body_util::{BodyExt, Full};
use mcp::Body;

/// Below this, the frame around it costs more than it saves.
const SMALL: usize = 1024;

/// Whether the client takes gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let named = |value: &str| {
        let (name, weight) = value.split_once(';').unwrap_or((value, ""));
        let refused = weight.trim().strip_prefix("q=").and_then(|q| q.trim().parse::<f32>().ok()) == Some(0.0);
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    };
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(named)
}

pub(super) fn gzip(content: &[u8], level: Compression) -> Bytes {
    let mut gzip = GzEncoder::new(Vec::with_capacity(content.len() / 4), level);
    // Writing into memory can't fail.
    let _ = gzip.write_all(content);
    Bytes::from(gzip.finish().unwrap_or_default())
}

/// Says of an answer that it is packed, and that others may get it otherwise.
pub(super) fn mark(headers: &mut HeaderMap) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
}

/// A page as it is sent: packed, if its client takes that. Everything else stays as it is, streams above all.
///
/// A page holds the proof of its session's forms beside what people wrote. Guessing that from the length of packed
/// answers takes requests that somebody else has this browser make, and those come without its cookie (`SameSite=Strict`).
pub(super) async fn page(response: Response<Body>, takes_gzip: bool) -> Response<Body> {
    let is_page = |value: &HeaderValue| value.to_str().is_ok_and(|kind| kind.starts_with("text/html"));
    if !response.headers().get(CONTENT_TYPE).is_some_and(is_page) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    let whole = match body.collect().await {
        Ok(whole) => whole.to_bytes(),
        Err(never) => match never {},
    };
    let content = match takes_gzip && whole.len() >= SMALL {
        true => {
            mark(&mut head.headers);
            gzip(&whole, Compression::fast())
        }
        false => whole,
    };
    Response::from_parts(head, Full::new(content).boxed_unsync())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_gzip_says_so() {
        let takes = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            takes_gzip(&headers)
        };
        for yes in ["gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.5", "deflate,gzip"] {
            assert!(takes(yes), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "x-gzip-like", "identity, gzip; q=0.0"] {
            assert!(!takes(no), "{no}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
