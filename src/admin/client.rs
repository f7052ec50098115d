//! The client's side: find the daemon, call it, understand its refusals.

use std::path::Path;
use std::time::Duration;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use jsonrpsee::core::ClientError as RpcError;
use jsonrpsee_http_client::{HttpClient, HttpClientBuilder};
use jsonrpsee_ws_client::{PingConfig, WsClient, WsClientBuilder};

use super::failure::Failure;
use super::place::{DaemonFile, PlaceError, operator_token};
use base::{http_client, innermost};
use supervisor::with_causes;

/// Most calls answer at once.
const QUICK: Duration = Duration::from_secs(60);
/// A session may wait in a queue and then run for as long as its butler allows, which is a week at most.
const PATIENT: Duration = Duration::from_secs(30 * 86_400);
const CONNECT: Duration = Duration::from_secs(5);
const MAX_MESSAGE: u32 = 64 << 20;

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("the daemon at {addr} does not answer: {problem}")]
    Unreachable { addr: String, problem: String },
    /// The daemon refused or failed; its own sentence.
    #[error("{}", .0.message)]
    Refused(Failure),
    #[error("the daemon's answer can't be read: {problem}")]
    Foreign { problem: String },
}

/// A way to the daemon of one data directory.
#[derive(Clone)]
pub struct Client {
    daemon: DaemonFile,
    headers: HeaderMap,
}

impl Client {
    /// Finds the daemon that runs with this data directory, and the token for its command line.
    pub fn find(data_dir: &Path) -> Result<Self, ClientError> {
        let daemon = DaemonFile::read(data_dir)?;
        let token = operator_token(data_dir)?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| {
            ClientError::Foreign { problem: "run/operator.token is damaged; restart the daemon".to_owned() }
        })?;
        bearer.set_sensitive(true);
        Ok(Self { daemon, headers: HeaderMap::from_iter([(AUTHORIZATION, bearer)]) })
    }

    /// The daemon that was found.
    pub fn daemon(&self) -> &DaemonFile {
        &self.daemon
    }

    /// For calls that answer at once.
    pub fn quick(&self) -> Result<HttpClient, ClientError> {
        self.http(QUICK)
    }

    /// For calls that last as long as what they start.
    pub fn patient(&self) -> Result<HttpClient, ClientError> {
        self.http(PATIENT)
    }

    fn http(&self, timeout: Duration) -> Result<HttpClient, ClientError> {
        let builder = HttpClientBuilder::new()
            .set_headers(self.headers.clone())
            .request_timeout(timeout)
            .connect_timeout(CONNECT)
            .max_request_size(MAX_MESSAGE)
            .max_response_size(MAX_MESSAGE);
        builder.build(format!("http://{}/rpc", self.daemon.reachable())).map_err(|e| self.error(e))
    }

    /// For subscriptions, and calls beside them.
    pub async fn live(&self) -> Result<WsClient, ClientError> {
        let builder = WsClientBuilder::new()
            .set_headers(self.headers.clone())
            .request_timeout(PATIENT)
            .connection_timeout(CONNECT)
            .max_request_size(MAX_MESSAGE)
            .max_response_size(MAX_MESSAGE)
            .enable_ws_ping(PingConfig::default());
        builder.build(format!("ws://{}/rpc", self.daemon.reachable())).await.map_err(|e| self.error(e))
    }

    /// What requests to `/api` are sent with. Their answers may last as long as what they tell of.
    pub fn sender(&self) -> Result<reqwest::Client, ClientError> {
        let built = http_client(&format!("http://{}", self.daemon.reachable())).connect_timeout(CONNECT).build();
        built.map_err(|e| ClientError::Foreign { problem: innermost(&e) })
    }

    /// A request to a path of `/api`, the token with it.
    pub fn api(&self, sender: &reqwest::Client, method: http::Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("http://{}{path}", self.daemon.reachable());
        sender.request(method, url).headers(self.headers.clone())
    }

    /// The daemon did not answer such a request.
    pub fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        ClientError::Unreachable { addr: self.daemon.reachable().to_string(), problem: innermost(error) }
    }

    /// What a failed call means.
    pub fn error(&self, error: RpcError) -> ClientError {
        let addr = self.daemon.reachable().to_string();
        match error {
            RpcError::Call(object) => ClientError::Refused(Failure::of(&object)),
            RpcError::ParseError(e) => {
                let (theirs, own) = (&self.daemon.version, env!("CARGO_PKG_VERSION"));
                let versions = if theirs == own {
                    String::new()
                } else {
                    format!(" (the daemon is butlerd {theirs}, this is {own})")
                };
                ClientError::Foreign { problem: format!("{e}{versions}") }
            }
            RpcError::RequestTimeout => {
                ClientError::Unreachable { addr, problem: format!("nothing came within {} s", QUICK.as_secs()) }
            }
            other => match rejection(&with_causes(&other)) {
                Some(failure) => ClientError::Refused(failure),
                None => ClientError::Unreachable { addr, problem: innermost(&other) },
            },
        }
    }
}

/// A request that the door turned away: the libraries keep its status, and only as text.
fn rejection(text: &str) -> Option<Failure> {
    let says = |status: &str| {
        text.contains(&format!("rejected `{status}`")) || text.contains(&format!("status code: {status}"))
    };
    if says("401") {
        let message = "The daemon does not know the token in run/operator.token; it was restarted just now, \
                       or the file belongs to another daemon.";
        return Some(Failure::new("unauthorized", message));
    }
    if says("403") {
        return Some(Failure::forbidden("The daemon does not answer requests to this address or with this token."));
    }
    if says("413") {
        return Some(Failure::new("too_large", "The request is larger than the daemon accepts: [admin] max_body."));
    }
    if says("429") {
        return Some(Failure::new("busy", "The daemon has as many calls open as it accepts; try again later."));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_door_is_told_from_a_missing_one() {
        assert_eq!(rejection("Request rejected `401`").unwrap().code, "unauthorized");
        assert_eq!(rejection("Connection rejected with status code: 403").unwrap().code, "forbidden");
        assert_eq!(rejection("client error: Connection refused (os error 111)"), None);
    }
}
