//! The way to the configured endpoint and back: one request out, its answer through as it comes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use llm_api::request::{self, Judged, Refused};
use llm_api::{Api, Endpoint, ErrorClass, Failure, Family, Purpose};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::headers;
use super::login::over_limit;
use super::relay::RequestBody;
use super::routes::Route;
use super::tally::Tally;
use super::types::{ModelCall, Patience, Upstream};
use access::Refusal;
use base::{http_client, innermost, text};

/// An answer's body; it fails where the upstream's does, so that the child sees a cut one as cut.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The largest error document that is passed on.
const LARGEST_ERROR: usize = 1 << 20;
const BUSY: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
/// Tells clients that know it not to try again.
const SHOULD_RETRY: &str = "x-should-retry";

/// The clients, made when first needed: one that trusts the system's certificates, one for plain HTTP that needs none,
/// and one for loopback, which no proxy serves.
#[derive(Default)]
pub(super) struct Clients {
    made: [OnceLock<reqwest::Client>; 3],
}

impl Clients {
    pub fn of(&self, url: &str) -> Result<reqwest::Client, reqwest::Error> {
        let plain = url.starts_with("http://");
        let local = ["http://127.", "http://localhost", "http://[::1]"].iter().any(|start| url.starts_with(start));
        let slot = &self.made[usize::from(plain) + usize::from(local)];
        if let Some(client) = slot.get() {
            return Ok(client.clone());
        }
        let client = http_client(url).build()?;
        Ok(slot.get_or_init(|| client).clone())
    }
}

/// One request as it comes in, its tokens proven, its body still to be read.
pub(super) struct IncomingRequest {
    pub method: Method,
    pub path: String,
    pub query: Option<String>,
    pub headers: HeaderMap,
    pub body: RequestBody,
}

/// Answers a request on one of the family's paths.
pub(super) async fn forward(
    route: Arc<Route>,
    endpoint: Endpoint,
    asked: IncomingRequest,
    patience: Patience,
) -> Response<Body> {
    let family = route.upstream.family;
    let Ok(permit) = route.at_once.clone().try_acquire_owned() else {
        let why = "This session has too many model calls under way at once.";
        return refusal(family, StatusCode::TOO_MANY_REQUESTS, why);
    };
    // Of what asks no model, the permit is held until its answer begins.
    let (mut tally, mut held) = (None, Some(permit));
    if let Some((api, permit)) = endpoint.api().and_then(|api| Some((api, held.take()?))) {
        let number = route.number();
        if let Err(over) = route.meter.may_call() {
            let answer = limit_reached(api, &over);
            route.refuse(number, &asked.path, over);
            return answer;
        }
        let call =
            ModelCall { number, path: asked.path.clone(), model: endpoint.model.clone(), ..ModelCall::default() };
        tally = Some(Tally::new(route.clone(), api, call, permit));
    }
    let onward = match judged(&route, &endpoint, asked, tally.as_mut(), patience.head).await {
        Ok(onward) => onward,
        Err(answer) => return answer,
    };
    let failed = |tally: Option<Tally>, status, class, message: String| {
        if let Some(mut tally) = tally {
            tally.fail(class, message.as_str());
        }
        json(status, &error(family, status, &message))
    };
    let Ok(proof) = route.upstream.login.headers(family) else {
        let message = "the model's key has characters that an HTTP header cannot carry".to_owned();
        return failed(tally, StatusCode::UNAUTHORIZED, ErrorClass::Auth, message);
    };
    let Onward { method, url, mut headers, body } = onward;
    headers.extend(proof);
    let request = route.client.request(method, url).headers(headers).body(body);
    let place = || text::truncate(&route.upstream.endpoint, 200);
    if let Some(tally) = &mut tally {
        tally.sent();
    }
    let answered = tokio::select! {
        biased;
        () = route.closed.cancelled() => {
            let over = "the session is over".to_owned();
            return failed(tally, StatusCode::UNAUTHORIZED, ErrorClass::Cancelled, over);
        }
        answered = tokio::time::timeout(patience.head, request.send()) => answered,
    };
    let response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(e)) => {
            if let Some(tally) = tally.as_mut().filter(|_| e.is_connect()) {
                tally.not_sent();
            }
            // Without the URL: it may hold a password.
            let message = format!("no answer from the model's endpoint {}: {}", place(), innermost(&e.without_url()));
            return failed(tally, StatusCode::BAD_GATEWAY, ErrorClass::ModelUnreachable, message);
        }
        Err(_) => {
            let limit = base::HumanDuration(patience.head);
            let message = format!("the model's endpoint {} did not answer within {limit}", place());
            return failed(tally, StatusCode::GATEWAY_TIMEOUT, ErrorClass::TimedOut, message);
        }
    };
    let status = response.status();
    if let Some(tally) = &mut tally {
        tally.head(status, response.headers());
    }
    if status.is_redirection() || status.is_informational() {
        let message = format!("the model's endpoint {} answers with a redirect; configure where it leads", place());
        return failed(tally, StatusCode::BAD_GATEWAY, ErrorClass::InvalidRequest, message);
    }
    if !status.is_success() {
        return upstream_error(&route, response, tally, patience.pause).await;
    }
    through(response, tally, route.closed.clone(), patience.pause)
}

/// Why a call does not begin, as its program understands it, not to be tried again.
fn limit_reached(api: Api, over: &Failure) -> Response<Body> {
    let (status, body) = over_limit(api, &over.message);
    no_retry(json(status, &body))
}

/// A request as it goes on to the upstream, but for the login.
struct Onward {
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// Reads the request, judges what it asks, and reserves what it may come to. `Err`: the answer that says why it does not
/// go on.
async fn judged(
    route: &Route,
    endpoint: &Endpoint,
    asked: IncomingRequest,
    mut tally: Option<&mut Tally>,
    patience: Duration,
) -> Result<Onward, Response<Body>> {
    let Upstream { family, endpoint: base, granted, .. } = &route.upstream;
    let IncomingRequest { method, path, query, headers: from, body } = asked;
    let read = tokio::select! {
        biased;
        () = route.closed.cancelled() => Err(OVER),
        read = body.whole() => read,
    };
    let bytes = read.map_err(|refused| {
        if let Some(tally) = &mut tally {
            tally.fail(ErrorClass::InvalidRequest, refused.message);
        }
        json(refused.status, &error(*family, refused.status, refused.message))
    })?;
    let from = headers::onward(&from);
    let judge = || {
        // What is only looked up has nothing to say.
        let mut said = match endpoint.purpose {
            Purpose::Models => Judged::default(),
            purpose => request::judge(*family, purpose, &bytes, granted)?,
        };
        let headers = request::headers(*family, &from, granted, &mut said.left_out)?;
        Ok((said, headers))
    };
    let (said, headers) = judge().map_err(|refused: Refused| {
        let message = refused.to_string();
        tracing::warn!(session = %route.session, path, "a session's request to its model was refused: {message}");
        if let Some(tally) = &mut tally {
            tally.not_allowed(&message);
        }
        refusal(*family, StatusCode::BAD_REQUEST, &message)
    })?;
    route.left_out(&said.left_out);
    if let Some(tally) = tally {
        tally.asks(said.model);
        let reserved = tokio::select! {
            biased;
            () = route.closed.cancelled() => {
                tally.fail(ErrorClass::Cancelled, OVER.message);
                return Err(json(OVER.status, &error(*family, OVER.status, OVER.message)));
            }
            reserved = tally.reserve(said.body.len(), said.most_output, patience) => reserved,
        };
        reserved.map_err(|over| match over.class {
            ErrorClass::Overloaded => json(BUSY, &error(*family, BUSY, &over.message)),
            _ => limit_reached(tally.api, &over),
        })?;
    }
    Ok(Onward { method, url: address(base, &endpoint.path, query.as_deref()), headers, body: said.body })
}

const OVER: Refusal = Refusal::new(StatusCode::UNAUTHORIZED, "over", "The session is over.");

/// The address: below the endpoint, with what of the query says in what form to answer.
fn address(endpoint: &str, path: &str, query: Option<&str>) -> String {
    let mut url = format!("{}{path}", endpoint.trim_end_matches('/'));
    const KEPT: [&str; 8] =
        ["after_id", "alt", "before_id", "beta", "client_version", "limit", "pageSize", "pageToken"];
    let is_plain = |pair: &&str| KEPT.contains(&pair.split('=').next().unwrap_or(pair));
    let kept: Vec<&str> = query.unwrap_or_default().split('&').filter(is_plain).collect();
    if !kept.is_empty() {
        url = format!("{url}?{}", kept.join("&"));
    }
    url
}

/// An error that the upstream answers with: read whole, because it may quote the key that it refuses.
async fn upstream_error(
    route: &Route,
    response: reqwest::Response,
    tally: Option<Tally>,
    pause: Duration,
) -> Response<Body> {
    let (status, mut headers) = (response.status(), headers::back(response.headers()));
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Ok(Some(Ok(piece))) = tokio::time::timeout(pause, pieces.next()).await {
        body.extend_from_slice(&piece);
        if body.len() > LARGEST_ERROR {
            body.truncate(LARGEST_ERROR);
            break;
        }
    }
    let body = route.hide(&body);
    if let Some(mut tally) = tally {
        tally.refused(status, &body);
    }
    headers.remove(CONTENT_LENGTH);
    for value in headers.values_mut() {
        if value.to_str().is_ok_and(|v| route.hide(v.as_bytes()) != v.as_bytes()) {
            *value = HeaderValue::from_static("[hidden]");
        }
    }
    let mut answer = Response::new(whole(body));
    (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
    answer
}

/// The answer, piece by piece as it comes. Whoever drops it ends the upstream's request with it.
fn through(
    response: reqwest::Response,
    tally: Option<Tally>,
    closed: CancellationToken,
    pause: Duration,
) -> Response<Body> {
    let (status, headers) = (response.status(), headers::back(response.headers()));
    let passing = Passing { pieces: Box::pin(response.bytes_stream()), tally, closed, pause, broken: false };
    let frames = stream::unfold(passing, |mut passing| async {
        let piece = passing.next().await?;
        Some((piece.map(Frame::data), passing))
    });
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
    answer
}

struct Passing {
    pieces: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    tally: Option<Tally>,
    closed: CancellationToken,
    pause: Duration,
    broken: bool,
}

impl Passing {
    /// The next piece, read before it goes on. After an error there is nothing more.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.broken {
            return None;
        }
        let piece = tokio::select! {
            biased;
            () = self.closed.cancelled() => return self.broke(ErrorClass::Cancelled, "the session is over".to_owned()),
            piece = tokio::time::timeout(self.pause, self.pieces.next()) => piece,
        };
        match piece {
            Ok(Some(Ok(bytes))) => {
                if let Some(tally) = &mut self.tally {
                    tally.piece(&bytes);
                }
                Some(Ok(bytes))
            }
            Ok(None) => {
                if let Some(mut tally) = self.tally.take() {
                    tally.complete();
                }
                None
            }
            Ok(Some(Err(e))) => {
                let why = format!("the model's answer broke off: {}", innermost(&e.without_url()));
                self.broke(ErrorClass::ModelUnreachable, why)
            }
            Err(_) => {
                let why = format!("the model's answer stood still for {}", base::HumanDuration(self.pause));
                self.broke(ErrorClass::TimedOut, why)
            }
        }
    }

    fn broke(&mut self, class: ErrorClass, why: String) -> Option<io::Result<Bytes>> {
        self.broken = true;
        if let Some(mut tally) = self.tally.take() {
            tally.fail(class, why.as_str());
        }
        Some(Err(io::Error::other(why)))
    }
}

/// An error of the gateway's own, in the family's shape.
fn error(family: Family, status: StatusCode, message: &str) -> Value {
    family.error(status.as_u16(), message, None)
}

/// The same, not to be tried again.
pub(super) fn refusal(family: Family, status: StatusCode, message: &str) -> Response<Body> {
    no_retry(json(status, &error(family, status, message)))
}

fn no_retry(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    response
}

fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(whole(value.to_string().into_bytes()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn whole(bytes: Vec<u8>) -> Body {
    Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_below_the_endpoint_and_carry_no_key() {
        let at = |query| address("https://api.example.com/", "/v1/messages", query);
        assert_eq!(at(None), "https://api.example.com/v1/messages");
        assert_eq!(at(Some("beta=true")), "https://api.example.com/v1/messages?beta=true");
        assert_eq!(at(Some("key=s&alt=sse&access_token=t&&x=1")), "https://api.example.com/v1/messages?alt=sse");
    }
}
