//! A provider of tests, in this process, that can do the worst.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base::Secret;
use base::task::{Kind, spawn};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::provider::{About, Provider, ReturnTo};

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Counted from 0.
    pub nth: usize,
    pub path: String,
    pub form: BTreeMap<String, String>,
    pub authorization: String,
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum Reply {
    Bytes(String),
    /// A body that never ends.
    Endless,
}

impl Reply {
    pub fn json(status: u16, body: &Value) -> Self {
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
        Self::Bytes(format!("{head}\r\n\r\n{body}"))
    }

    pub fn html(status: u16) -> Self {
        let body = "<!doctype html><p>Sign in to the hotel's network</p>";
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: text/html\r\ncontent-length: {}", body.len());
        Self::Bytes(format!("{head}\r\n\r\n{body}"))
    }

    pub fn raw(bytes: &str) -> Self {
        Self::Bytes(bytes.to_owned())
    }
}

/// The provider's server; what it was asked.
pub struct Server {
    pub base: String,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// `answer` gets each request, and the address at which the server is.
    pub async fn start(answer: impl Fn(&Request, &str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let asked: Arc<Mutex<Vec<Request>>> = Arc::default();
        let server = Self { base: base.clone(), asked: asked.clone() };
        spawn(Kind::Actor, "provider", async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some(mut one) = read(&mut stream).await else { continue };
                one.nth = asked.lock().unwrap().len();
                asked.lock().unwrap().push(one.clone());
                match answer(&one, &base) {
                    Reply::Bytes(bytes) => {
                        let _ = stream.write_all(bytes.as_bytes()).await;
                        let _ = stream.shutdown().await;
                    }
                    Reply::Endless => {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n").await;
                        while stream.write_all(&[b' '; 4096]).await.is_ok() {}
                    }
                }
            }
        });
        server
    }

    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }

    /// It as a provider with the client `home`.
    pub fn provider(&self) -> Provider {
        let at = |path: &str| format!("{}/{path}", self.base);
        let about = About {
            issuer: self.base.clone(),
            authorization: at("auth?tenant=1"),
            token: at("token"),
            device: Some(at("device")),
            revocation: Some(at("revoke")),
            client_id: "home".to_owned(),
            basic: false,
            scopes: vec!["mail".to_owned(), "openid".to_owned()],
            parameters: vec![("hint".to_owned(), "a b".to_owned())],
            return_to: ReturnTo::Address,
            tells_issuer: false,
        };
        Provider { about, secret: Some(Secret::new("hush-hush".to_owned())) }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let (mut head, mut length) = (None, 0);
    while head.is_none_or(|end: usize| bytes.len() < end + length) {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        head = bytes.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
        let text = String::from_utf8_lossy(&bytes[..head.unwrap_or(0)]).to_lowercase();
        length = text.lines().find_map(|l| l.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    }
    let (head, body) = bytes.split_at(head?);
    let (head, body) = (String::from_utf8(head.to_vec()).ok()?, String::from_utf8(body.to_vec()).ok()?);
    let path = head.split(' ').nth(1)?.to_owned();
    let authorization = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or_default();
    let form = parameters(&format!("http://form/?{body}"));
    Some(Request { nth: 0, path, form, authorization: authorization.to_owned() })
}

/// The parameters of a URL.
pub fn parameters(url: &str) -> BTreeMap<String, String> {
    Url::parse(url).unwrap().query_pairs().into_owned().collect()
}

/// Asks the server at `at` for a path; all that it answers.
pub async fn get(at: &str, path: &str) -> String {
    send(at, &format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncookie: a=b\r\n\r\n")).await
}

/// Sends this to the server at `at`, and gives all that it answers.
pub async fn send(at: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(at[7..].trim_end_matches('/')).await.unwrap();
    let mut answer = Vec::new();
    // The server may have enough before all is said.
    let _ = stream.write_all(request.as_bytes()).await;
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

/// An address at which nobody answers.
pub async fn nobody() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    format!("http://127.0.0.1:{}/token", listener.local_addr().unwrap().port())
}

/// An ID token with these claims, signed by nobody.
pub fn id_token(claims: &Value) -> String {
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
}
