//! A real OpenID provider, in which one person logs in and consents without being asked. It refuses, fails and ends grants
//! as a test needs. tests/clients/oidc/server.mjs says what it can do.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use what_was_left_out::left_out;

use super::http;

/// Clients that the provider knows: without a secret, and with one.
pub const CLIENT: &str = "household";
pub const CLIENT_WITH_SECRET: (&str, &str) = ("household-secret", "secret-of-the-client");
/// Who logs in, unless the authorization request has a `login_hint`.
pub const ACCOUNT: &str = "household@example.org";

/// The provider. It runs until it is dropped, and no longer than this process.
pub struct Oidc {
    child: Child,
    input: Option<ChildStdin>,
    issuer: String,
    http: reqwest::Client,
}

/// What the token endpoint was asked for, successful or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    pub codes: u64,
    pub refreshes: u64,
    pub device_polls: u64,
    /// How many requests failed because [`Oidc::fail`] or [`Oidc::lose_answers`] said so.
    pub failed: u64,
    /// How often a refresh token was shown that had been used before: each time ends its grant.
    pub reused: u64,
}

impl Drop for Oidc {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

impl Oidc {
    /// `None`: it is not installed here, and that was told.
    pub async fn start() -> Option<Self> {
        Self::start_with(3600).await
    }

    /// As [`Oidc::start`]; access tokens are good for so many seconds.
    pub async fn start_with(access_ttl: u32) -> Option<Self> {
        let started = tokio::task::spawn_blocking(move || Self::start_blocking(access_ttl)).await.expect("it starts");
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        started.map_err(|why| left_out(&format!("{test}, with an OpenID provider"), &why)).ok()
    }

    fn start_blocking(access_ttl: u32) -> Result<Self, String> {
        let installed = |name: &str| {
            let set = std::env::var_os(name).map(PathBuf::from);
            set.ok_or_else(|| format!("{name} is not set; `eval \"$(.ci/run clients)\"` installs an OpenID provider"))
        };
        let (node, modules) = (installed("BUTLERD_TEST_NODE22")?, installed("BUTLERD_TEST_OIDC")?);
        let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/oidc/server.mjs");
        let errors = NamedTempFile::new().expect("a log");
        let mut command = Command::new(node);
        command.arg(server).env_clear().env("OIDC_MODULES", modules).env("ACCESS_TTL", access_ttl.to_string());
        // In a group of its own: who interrupts the tests ends it by its input.
        command.env("ACCOUNT", ACCOUNT).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(errors.reopen().expect("a log"));
        let mut child = command.spawn().expect("node runs");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output"));
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("its first line");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| {
            let log = std::fs::read_to_string(errors.path()).unwrap_or_default();
            panic!("the OpenID provider does not start: {e}: {line:?}\n{log}")
        });
        let issuer = said["issuer"].as_str().expect("an issuer").to_owned();
        Ok(Self { child, input, issuer, http: http() })
    }

    /// Such as `http://127.0.0.1:40001`.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Where Dovecot asks whose an access token is: `introspection_url`, for both modes.
    pub fn introspection(&self) -> String {
        format!("{}/introspect", self.issuer)
    }

    /// Opens an authorization URL as a browser whose person consents; gives the address at which it ends, without opening
    /// that.
    pub async fn consent(&self, url: &str) -> String {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let answer = client.get(url).send().await.expect("the provider answers");
        let end = answer.headers().get("location").and_then(|end| end.to_str().ok().map(str::to_owned));
        match end {
            Some(end) => end,
            None => panic!("no redirect, but {}: {}", answer.status(), answer.text().await.unwrap_or_default()),
        }
    }

    /// Ends all grants, and all that was given for them.
    pub async fn revoke(&self) {
        self.control("revoke", json!({})).await;
    }

    /// All access and refresh tokens that were ever given.
    pub async fn given(&self) -> Vec<String> {
        let tokens = self.control("given", json!({})).await;
        let tokens = tokens.as_array().expect("a list").iter();
        tokens.map(|token| token.as_str().expect("a token").to_owned()).collect()
    }

    /// From now on the person gives all but this scope.
    pub async fn hold_back(&self, scope: &str) {
        self.control("hold_back", json!({"scope": scope})).await;
    }

    /// The next token requests, so many, are answered with this status.
    pub async fn fail(&self, status: u16, times: u32) {
        self.control("fail", json!({"status": status, "times": times})).await;
    }

    /// The person says no, so many times.
    pub async fn refuse(&self, times: u32) {
        self.control("refuse", json!({"times": times})).await;
    }

    /// The person types a device's code, and consents.
    pub async fn approve_device(&self, user_code: &str) {
        self.control("approve_device", json!({"user_code": user_code})).await;
    }

    /// What was asked so far.
    pub async fn counts(&self) -> Counts {
        let said = self.control("counts", json!({})).await;
        let of = |grant_type: &str| said["requests"][grant_type].as_u64().unwrap_or(0);
        Counts {
            codes: of("authorization_code"),
            refreshes: of("refresh_token"),
            device_polls: of("urn:ietf:params:oauth:grant-type:device_code"),
            failed: said["failed"].as_u64().expect("a number"),
            reused: said["reused"].as_u64().expect("a number"),
        }
    }

    async fn control(&self, what: &str, with: Value) -> Value {
        let url = format!("{}/control/{what}", self.issuer);
        let answer = self.http.post(url).json(&with).send().await.expect("the provider answers");
        let (status, text) = (answer.status(), answer.text().await.expect("a body"));
        assert!(status.is_success(), "{what}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }
}
