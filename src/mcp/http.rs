//! Bodies in and small answers out, shared by the butlers' servers and the admin server.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use serde_json::{Value, json};

use access::Refusal;

/// The one body type of our servers.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// A client has this long to send its request's body, from when the server begins to read it.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

const TOO_LARGE: Refusal =
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "The request is larger than this server accepts.");
/// Of a body that takes longer than [`BODY_TIMEOUT`].
pub const TOO_SLOW: Refusal =
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "The request's body did not arrive in time.");
const BROKEN: Refusal = Refusal::new(StatusCode::BAD_REQUEST, "broken_body", "The request's body could not be read.");

/// Reads a request's body to its end: at most `max` bytes (else 413) within `patience` (else 408). An upgrade's is
/// empty; what follows the upgrade is no body and has no limit here.
pub async fn whole_body<B>(body: B, max: u64, patience: Duration) -> Result<Bytes, Refusal>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let limit = usize::try_from(max).unwrap_or(usize::MAX);
    match tokio::time::timeout(patience, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(e)) => Err(body_refusal(&*e)),
        Err(_) => Err(TOO_SLOW),
    }
}

/// What a body that failed, or that came past its limit, is answered with.
pub fn body_refusal(error: &(dyn Error + Send + Sync + 'static)) -> Refusal {
    if error.is::<LengthLimitError>() { TOO_LARGE } else { BROKEN }
}

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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio_util::sync::CancellationToken;

    use super::super::server::{Listener, accept_loop};
    use super::*;
    use base::task;

    /// What a server that takes 8 bytes within `patience` answers to these bytes of a client that then waits, read
    /// until the server closes.
    async fn answer(patience: Duration, sent: &str) -> String {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = listener.addr();
        let stop = CancellationToken::new();
        let serve = move |request: http::Request<hyper::body::Incoming>| async move {
            match whole_body(request.into_body(), 8, patience).await {
                Ok(bytes) => text_body(StatusCode::OK, "text/plain", String::from_utf8(bytes.to_vec()).unwrap()),
                Err(refusal) => refusal_response(&refusal),
            }
        };
        let server = task::spawn(task::Kind::Actor, "test-server", accept_loop(listener, stop.clone(), serve));
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(format!("POST / HTTP/1.1\r\nhost: x\r\n{sent}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        stop.cancel();
        server.await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_body_that_never_ends_costs_its_connection() {
        let shown = answer(Duration::from_millis(20), "content-length: 8\r\n\r\nx").await;
        assert!(shown.starts_with("HTTP/1.1 408 ") && shown.contains("request_timeout"), "{shown}");
        let chunked = answer(Duration::from_millis(20), "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n").await;
        assert!(chunked.starts_with("HTTP/1.1 408 "), "{chunked}");
    }

    #[tokio::test]
    async fn a_body_of_unknown_length_ends_at_the_limit() {
        let chunk = "transfer-encoding: chunked\r\n\r\n9\r\n123456789\r\n";
        let shown = answer(BODY_TIMEOUT, chunk).await;
        assert!(shown.starts_with("HTTP/1.1 413 ") && shown.contains("too_large"), "{shown}");
    }

    #[tokio::test]
    async fn a_body_within_the_limits_is_whole() {
        let chunks = "transfer-encoding: chunked\r\nconnection: close\r\n\r\n4\r\n1234\r\n4\r\n5678\r\n0\r\n\r\n";
        let shown = answer(BODY_TIMEOUT, chunks).await;
        assert!(shown.starts_with("HTTP/1.1 200 ") && shown.ends_with("12345678"), "{shown}");
    }
}
