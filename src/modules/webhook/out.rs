//! The way out: each delivery is one signed POST to a configured endpoint.
//!
//! The body is the delivery as `notify.v1` has it. `Idempotency-Key` is the same for every try of a delivery;
//! `X-Butlerd-Signature` is `sha256=` and the HMAC-SHA256 of `X-Butlerd-Timestamp`, a dot and the body, in hexadecimal.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::NAME;
use super::proof::mac;
use crate::contract::ModuleError;
use base::{Clock, HumanDuration, Secret, http_client, innermost};
use outbox::{Channel, Delivery, Intent, Outcome};

/// `[modules.webhook.endpoints.<name>]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct Endpoint {
    /// The address that deliveries are posted to.
    #[schemars(extend("format" = "url"))]
    url: String,
    /// The credential whose value signs the requests.
    #[schemars(extend("format" = "credential"))]
    pub secret: String,
    /// The environment variable that is asked where no such secret is stored; if not set, the one of the same name.
    #[schemars(extend("format" = "credential"))]
    pub token_env: Option<String>,
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

struct End {
    endpoint: Endpoint,
    secret: Secret<String>,
    client: reqwest::Client,
}

pub(super) struct WebhookChannel {
    ends: BTreeMap<String, End>,
    clock: Clock,
}

impl WebhookChannel {
    /// One that sends nowhere.
    pub fn new(clock: &Clock) -> Self {
        Self { ends: BTreeMap::new(), clock: clock.clone() }
    }

    pub fn add(&mut self, name: &str, endpoint: &Endpoint, secret: Secret<String>) -> Result<(), ModuleError> {
        let client = http_client(&endpoint.url)
            // A connection that was used before may be closed just as a request is sent on it, and then nobody
            // knows whether it arrived.
            .pool_max_idle_per_host(0)
            .timeout(endpoint.timeout.0)
            .build()
            .map_err(|e| format!("endpoints.{name}: no client can be made: {e}"))?;
        self.ends.insert(name.to_owned(), End { endpoint: endpoint.clone(), secret, client });
        Ok(())
    }

    /// An answer goes back through the end that the question came from, and through no other: who wrote may be called
    /// as one is.
    fn end(&self, delivery: &Delivery) -> Option<&End> {
        let back = delivery.endpoint.as_ref().and_then(|name| self.ends.get(name));
        match delivery.intent {
            Intent::Send => back.or_else(|| self.ends.get(&delivery.target)),
            Intent::Reply | Intent::React => back,
        }
    }

    /// Why there is no end for it.
    fn no_end(&self, delivery: &Delivery) -> String {
        if delivery.intent != Intent::Send {
            let end = delivery.endpoint.as_deref().unwrap_or("nobody");
            return format!(
                "nobody reads an answer there: the program behind the webhook `{end}` only hands messages in; what the owner should \
                 know is sent with notify, intent send"
            );
        }
        let known: Vec<&str> = self.ends.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("there is no endpoint {}; there are: {known}", delivery.target)
    }
}

/// `sha256=` and the signature over time and body.
pub(super) fn sign(secret: &Secret<String>, timestamp: &str, body: &[u8]) -> String {
    format!("sha256={}", base::text::hex(&mac(secret, &[timestamp.as_bytes(), b".", body])))
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
            return Outcome::Refused { why: self.no_end(delivery) };
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
    use base::TenantId;

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

    fn delivery(intent: Intent, endpoint: Option<&str>, target: &str) -> Delivery {
        Delivery {
            origin: "health".to_owned(),
            intent,
            endpoint: endpoint.map(str::to_owned),
            message: Some("hello".to_owned()),
            attempt: 1,
            ..Delivery::sketch(&TenantId::owner(), NAME, target, Timestamp::UNIX_EPOCH)
        }
    }

    #[tokio::test]
    async fn an_answer_goes_to_the_end_of_its_question_or_nowhere() {
        let mut channel = WebhookChannel::new(&Clock::default());
        let home = json!({"url": "http://127.0.0.1:9/", "secret": "S", "timeout": "1s", "idempotent": false});
        channel.add("home", &serde_json::from_value(home).unwrap(), Secret::new("key".to_owned())).unwrap();
        let has = |intent, endpoint, target| channel.end(&delivery(intent, endpoint, target)).is_some();
        assert!(has(Intent::Send, None, "home") && !has(Intent::Send, None, "door"));
        assert!(has(Intent::Reply, Some("home"), "home:ada"));
        // Somebody calls himself as an end is called.
        assert!(!has(Intent::Reply, Some("github"), "home") && !has(Intent::React, None, "home"));
        let Outcome::Refused { why } = channel.send(&delivery(Intent::Reply, Some("github"), "home")).await else {
            panic!("it was sent")
        };
        assert!(why.contains("nobody reads an answer there") && why.contains("`github`"), "{why}");
        let nowhere = WebhookChannel::new(&Clock::default()).send(&delivery(Intent::Send, None, "door")).await;
        assert_eq!(nowhere, Outcome::Refused { why: "there is no endpoint door; there are: none".to_owned() });
    }
}
