//! The channel `webhook`: each delivery is one signed POST to a configured endpoint.
//!
//! The body is the delivery as `notify.v1` has it. `Idempotency-Key` is the same for every try of a delivery;
//! `X-Butlerd-Signature` is `sha256=` and the HMAC-SHA256 of `X-Butlerd-Timestamp`, a dot and the body, in hexadecimal.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use config::{KeyMistake, Section};
use hmac::{Hmac, KeyInit, Mac};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Sha256;

use super::contract::{Credential, Factory, Manifest, Module, ModuleContext, ModuleError};
use base::{ButlerName, Clock, HumanDuration, Secret, http_client, innermost};
use outbox::{Channel, Delivery, Outcome, send_tool, send_tool_name};
use tools::Tool;

const NAME: &str = "webhook";

pub(super) struct WebhookFactory;

/// `[modules.webhook]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Settings {
    /// Where deliveries go, by a name of the owner's.
    #[serde(default)]
    endpoints: BTreeMap<String, Endpoint>,
}

/// `[modules.webhook.endpoints.<name>]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Endpoint {
    /// The address that deliveries are posted to.
    #[schemars(extend("format" = "url"))]
    url: String,
    /// The credential whose value signs the requests.
    #[schemars(extend("format" = "credential"))]
    secret: String,
    /// The environment variable that is asked where no such secret is stored; if not set, the one of the same name.
    #[schemars(extend("format" = "credential"))]
    token_env: Option<String>,
    /// The other side knows a repetition by its `Idempotency-Key`.
    #[schemars(extend("default" = false))]
    idempotent: bool,
    /// How many requests it takes in a minute; any number, if not set.
    #[schemars(range(min = 1))]
    per_minute: Option<u32>,
    /// How long an answer may take.
    #[schemars(range(min = 0.1, max = 120.0), extend("default" = "15s"))]
    timeout: HumanDuration,
}

/// The settings, or what is wrong with them.
fn read(config: &Value) -> Result<Settings, Vec<KeyMistake>> {
    Section::of::<Settings>().read_with(config, |settings: &Settings| {
        let expected = "at least one [modules.webhook.endpoints.<name>] with url and secret";
        let none = settings.endpoints.is_empty().then(|| KeyMistake::new("endpoints", "found none", expected));
        none.into_iter().collect()
    })
}

impl Factory for WebhookFactory {
    fn name(&self) -> &str {
        NAME
    }
    fn settings(&self) -> Section {
        Section::of::<Settings>()
    }
    fn check(&self, config: &Value) -> Vec<KeyMistake> {
        read(config).err().unwrap_or_default()
    }
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        Ok(Box::new(WebhookModule { settings: read(config)? }))
    }
}

struct WebhookModule {
    settings: Settings,
}

#[async_trait]
impl Module for WebhookModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        Ok(Manifest { tools: vec![send_tool_name(NAME)], ..Manifest::default() })
    }
    fn credentials(&self) -> Vec<Credential> {
        let name = |e: &Endpoint| Credential { name: e.secret.clone(), token_env: e.token_env.clone(), required: true };
        self.settings.endpoints.values().map(name).collect()
    }
    fn channels(&self, cx: &ModuleContext) -> Result<Vec<Arc<dyn Channel>>, ModuleError> {
        let mut ends = BTreeMap::new();
        for (name, endpoint) in &self.settings.endpoints {
            let secret = cx.credentials.get(&endpoint.secret).cloned();
            let secret = secret.ok_or_else(|| format!("{} is not set", endpoint.secret))?;
            let client = http_client(&endpoint.url)
                // A connection that was used before may be closed just as a request is sent on it, and then nobody
                // knows whether it arrived.
                .pool_max_idle_per_host(0)
                .timeout(endpoint.timeout.0)
                .build()
                .map_err(|e| format!("endpoints.{name}: no client can be made: {e}"))?;
            ends.insert(name.clone(), End { endpoint: endpoint.clone(), secret, client });
        }
        Ok(vec![Arc::new(WebhookChannel { ends, clock: cx.clock.clone() })])
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        Ok(vec![send_tool(&cx.outbox, NAME).map_err(ModuleError::new)?])
    }
}

struct End {
    endpoint: Endpoint,
    secret: Secret<String>,
    client: reqwest::Client,
}

struct WebhookChannel {
    ends: BTreeMap<String, End>,
    clock: Clock,
}

impl WebhookChannel {
    /// An answer goes back through the end that the question came from.
    fn end(&self, delivery: &Delivery) -> Option<&End> {
        delivery.endpoint.as_ref().and_then(|name| self.ends.get(name)).or_else(|| self.ends.get(&delivery.target))
    }
}

/// `sha256=` and the signature over time and body.
fn sign(secret: &Secret<String>, timestamp: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).expect("HMAC takes a key of any length");
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("sha256={}", base::text::hex(&mac.finalize().into_bytes()))
}

#[async_trait]
impl Channel for WebhookChannel {
    fn name(&self) -> &str {
        NAME
    }
    fn targets(&self) -> Vec<String> {
        self.ends.keys().cloned().collect()
    }
    fn repeatable(&self, delivery: &Delivery) -> bool {
        self.end(delivery).is_some_and(|end| end.endpoint.idempotent)
    }
    fn per_minute(&self, delivery: &Delivery) -> Option<u32> {
        self.end(delivery)?.endpoint.per_minute
    }
    async fn send(&self, delivery: &Delivery) -> Outcome {
        let Some(end) = self.end(delivery) else {
            let known: Vec<&str> = self.ends.keys().map(String::as_str).collect();
            let why = format!("there is no endpoint {}; there are: {}", delivery.target, known.join(", "));
            return Outcome::Refused { why };
        };
        let body = delivery.envelope().to_string();
        let timestamp = self.clock.now().as_second().to_string();
        let request = end
            .client
            .post(&end.endpoint.url)
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", delivery.idempotency_key())
            .header("X-Butlerd-Timestamp", &timestamp)
            .header("X-Butlerd-Signature", sign(&end.secret, &timestamp, body.as_bytes()))
            .body(body);
        match request.send().await {
            // The body says nothing that is needed, and may never come.
            Ok(response) => of_status(response.status(), response.headers(), self.clock.now()),
            Err(e) if e.is_builder() => Outcome::Refused { why: innermost(&e) },
            Err(e) if e.is_connect() => {
                Outcome::NotSent { why: format!("no connection: {}", innermost(&e)), retry_after: None }
            }
            Err(e) if e.is_timeout() => Outcome::Unknown { why: format!("no answer within {}", end.endpoint.timeout) },
            Err(e) => Outcome::Unknown { why: format!("no answer: {}", innermost(&e)) },
        }
    }
}

/// What an answer means. 502 and 504 come from somebody between, who may have passed the request on.
fn of_status(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Outcome {
    let why = format!("the receiver answered {status}");
    match status.as_u16() {
        200..=299 => Outcome::Sent { receipt: json!({"status": status.as_u16()}) },
        502 | 504 => Outcome::Unknown { why },
        408 | 425 | 429 | 500..=599 => Outcome::NotSent { why, retry_after: retry_after(headers, now) },
        _ => Outcome::Refused { why },
    }
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(at.duration_since(now).try_into().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_each_with_its_key() {
        let good = json!({"endpoints": {"door": {"url": "https://a.example/x", "secret": "S", "timeout": "2s"}}});
        assert!(read(&good).is_ok());
        for (bad, key) in [
            (json!({}), "endpoints"),
            (json!({"endpoints": {"d": {"url": "ftp://a", "secret": "S"}}}), "endpoints.d.url"),
            (json!({"endpoints": {"d": {"url": "http://a", "secret": "a b"}}}), "endpoints.d.secret"),
            (json!({"endpoints": {"d": {"url": "http://a", "secret": "S", "per_minute": 0}}}), "per_minute"),
            (json!({"endpoints": {"d": {"url": "http://a", "secret": "S", "timeout": "1h"}}}), "timeout"),
            (json!({"endpoints": {"d": {"url": "http://a", "secret": "S", "key": 1}}}), "key"),
        ] {
            let wrong = read(&bad).unwrap_err();
            assert!(wrong.iter().any(|w| w.key.contains(key)), "{bad}: {wrong:?}");
        }
    }

    #[test]
    fn answers_mean_what_they_say() {
        let now: Timestamp = "2026-11-22T03:00:00Z".parse().unwrap();
        let of = |status: u16, after: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(after) = after {
                headers.insert(RETRY_AFTER, after.parse().unwrap());
            }
            of_status(StatusCode::from_u16(status).unwrap(), &headers, now)
        };
        assert!(matches!(of(204, None), Outcome::Sent { .. }));
        let wait = |outcome| match outcome {
            Outcome::NotSent { retry_after, .. } => retry_after.map(|d| d.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!(wait(of(429, Some("7"))), Some(7));
        assert_eq!(wait(of(503, Some("Sun, 22 Nov 2026 03:01:00 GMT"))), Some(60));
        assert_eq!(wait(of(503, Some("Sun, 22 Nov 2026 02:01:00 GMT"))), Some(0));
        assert_eq!((wait(of(500, None)), wait(of(429, Some("soon")))), (None, None));
        assert!(matches!(of(502, None), Outcome::Unknown { .. }) && matches!(of(504, None), Outcome::Unknown { .. }));
        for refused in [301, 400, 401, 404, 410, 413] {
            assert!(matches!(of(refused, None), Outcome::Refused { .. }), "{refused}");
        }
    }

    #[test]
    fn the_signature_is_over_time_and_body() {
        // As `printf '%s' '1700000000.{}' | openssl dgst -sha256 -hmac key` has it.
        let signed = sign(&Secret::new("key".to_owned()), "1700000000", b"{}");
        assert_eq!(signed, "sha256=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae");
        assert_ne!(signed, sign(&Secret::new("key".to_owned()), "1700000001", b"{}"));
    }
}
