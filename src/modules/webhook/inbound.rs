//! The settings of a way in, and what they make.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::Method;
use http::header::HeaderName;
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::NAME;
use super::hook::InboundHook;
use super::mapping::{Id, Mapping, POINTER, Pointer, SenderName, Template, conditions};
use super::proof::{ProofForm, Prover, SignedTime};
use crate::contract::ModuleContext;
use crate::routes::{Route, RouteSpec};
use base::{HumanDuration, Secret};
use config::KeyMistake;

/// `[modules.webhook.inbound.<name>]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct Inbound {
    /// The last part of its address, below `/hooks/webhook/`; if not set, its name.
    #[schemars(extend("format" = "name"))]
    path: Option<String>,
    /// The credential by which the program proves itself.
    #[schemars(extend("format" = "credential"))]
    pub secret: String,
    /// The environment variable that is asked where no such secret is stored; if not set, the one of the same name.
    #[schemars(extend("format" = "credential"))]
    pub token_env: Option<String>,
    /// `hmac`: the program signs the body with the secret. `bearer`: it sends the secret, as `Authorization: Bearer`.
    #[schemars(extend("default" = "hmac"))]
    proof: ProofKind,
    /// Of `hmac`: the header with the signature, HMAC-SHA256 in hexadecimal.
    #[schemars(extend("default" = "X-Hub-Signature-256"))]
    header: String,
    /// Of `hmac`: what stands in the header before the signature.
    #[schemars(extend("default" = "sha256="))]
    prefix: String,
    /// Of `hmac`: the header with the time, in seconds or as RFC 3339 has it, that the program signs together with a dot
    /// and the body. If not set, it signs the body alone.
    timestamp_header: Option<String>,
    /// With `timestamp_header`: an older or newer request is refused.
    #[schemars(range(min = 1.0, max = 86400.0), extend("default" = "5m"))]
    replay_window: HumanDuration,
    /// The message's words, such as `{/repository/full_name}: {/head_commit/message}`. `{/pointer}` stands for what is at that
    /// place of the body: a text as it is, all else as JSON.
    #[schemars(length(min = 1))]
    text: String,
    /// By what the same message is known again: a pointer into the body, or `header:` and a header's name. If not set, the
    /// same body is the same message.
    id: Option<String>,
    /// Who it is from, behind the name and a colon: a pointer into the body, or a fixed text. If not set, the name alone.
    sender: Option<String>,
    /// A pointer to what the messages of one conversation have in common.
    thread: Option<String>,
    /// Pointers, each with the values that may stand there, such as `{ "/action" = ["opened", "reopened"] }`; where another
    /// one does, the message is skipped.
    #[serde(default)]
    when: BTreeMap<String, Vec<String>>,
    /// `high_priority`: its messages go before those that wait already.
    #[schemars(extend("default" = "default"))]
    tier: InboundTier,
    /// The butler that gets the messages, whatever they say; if not set, the switchboard decides.
    #[schemars(extend("format" = "name"))]
    butler: Option<String>,
    /// Whether all words come from the program itself, and none from other people: then a contact, or the owner, who has the
    /// sender's identity on the channel `webhook` counts as the sender.
    #[schemars(extend("default" = false))]
    trusted: bool,
}

/// By what a program proves itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ProofKind {
    Hmac,
    Bearer,
}

/// How urgent messages are. Nobody waits for an answer, so none is interactive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum InboundTier {
    Default,
    HighPriority,
}

/// What shows only where keys are read, or several seen together.
pub(super) fn mistakes(inbound: &BTreeMap<String, Inbound>) -> Vec<KeyMistake> {
    let mut wrong = Vec::new();
    let mut paths = HashMap::new();
    for (name, one) in inbound {
        let read = one.mapping(name).err().into_iter().chain(one.form().err());
        wrong.extend(read.flatten().map(|told| KeyMistake { key: format!("inbound.{name}.{}", told.key), ..told }));
        if let Some(other) = paths.insert(one.path(name), name) {
            let problem = format!("found `{}`, which inbound.{other} has too", one.path(name));
            wrong.push(KeyMistake::new(&format!("inbound.{name}.path"), problem, "a path of its own"));
        }
    }
    wrong
}

/// What the settings say, or `None` with its mistake.
fn noted<T>(wrong: &mut Vec<KeyMistake>, key: &str, given: &str, read: Option<T>, expected: &str) -> Option<T> {
    if read.is_none() {
        wrong.push(KeyMistake::new(key, format!("found {}", json!(given)), expected));
    }
    read
}

impl Inbound {
    fn path<'a>(&'a self, name: &'a str) -> &'a str {
        self.path.as_deref().unwrap_or(name)
    }

    pub fn route(&self, name: &str) -> RouteSpec {
        RouteSpec::open(Method::POST, format!("/hooks/{NAME}/{}", self.path(name)))
    }

    /// The route with what answers it; `None`: the settings are wrong, which was told.
    pub fn served(&self, name: &str, secret: Secret<String>, cx: &ModuleContext) -> Option<Route> {
        let prover = Prover { secret, form: self.form().ok()? };
        let hook = InboundHook { prover, mapping: self.mapping(name).ok()?, cx: cx.clone() };
        Some(Route { spec: self.route(name), handler: Arc::new(hook) })
    }

    fn form(&self) -> Result<ProofForm, Vec<KeyMistake>> {
        if self.proof == ProofKind::Bearer {
            return match &self.timestamp_header {
                None => Ok(ProofForm::Bearer),
                Some(_) => {
                    let found = "found beside proof = \"bearer\"";
                    Err(vec![KeyMistake::new("timestamp_header", found, "it with \"hmac\", which signs the time")])
                }
            };
        }
        let mut wrong = Vec::new();
        let mut header = |key: &str, given: &str| {
            let expected = "the name of a header, such as \"X-Hub-Signature-256\"";
            noted(&mut wrong, key, given, HeaderName::try_from(given).ok(), expected)
        };
        let signature = header("header", &self.header);
        let window = SignedDuration::try_from(self.replay_window.0).unwrap_or(SignedDuration::from_mins(5));
        let time = self.timestamp_header.as_deref().and_then(|given| header("timestamp_header", given));
        let time = time.map(|header| SignedTime { header, window });
        // A header that was named and can't be read stands in `wrong`: nothing is proven without its time.
        match signature.filter(|_| wrong.is_empty()) {
            Some(header) => Ok(ProofForm::Signature { header, prefix: self.prefix.clone(), time }),
            None => Err(wrong),
        }
    }

    fn mapping(&self, name: &str) -> Result<Mapping, Vec<KeyMistake>> {
        let mut wrong = Vec::new();
        let place = "a text in which each {/ begins a JSON pointer that ends with }";
        let text = noted(&mut wrong, "text", &self.text, Template::parse(&self.text), place);
        let id = self.id.as_deref().map_or(Some(Id::Body), |given| {
            noted(&mut wrong, "id", given, Id::parse(given), "a JSON pointer, or \"header:\" and the name of a header")
        });
        let sender = self.sender.as_deref().map(|given| {
            noted(
                &mut wrong,
                "sender",
                given,
                SenderName::parse(given),
                "a JSON pointer, or a text without / before it",
            )
        });
        let thread =
            self.thread.as_deref().map(|given| noted(&mut wrong, "thread", given, Pointer::parse(given), POINTER));
        let when = conditions(&self.when)
            .map_err(|e| wrong.push(KeyMistake::new("when", e.to_string(), format!("keys that are each {POINTER}"))));
        let method = if self.proof == ProofKind::Bearer { "token" } else { "signature" };
        match (text, id, when) {
            (Some(text), Some(id), Ok(when)) if wrong.is_empty() => Ok(Mapping {
                name: name.to_owned(),
                text,
                id,
                from: sender.flatten(),
                thread: thread.flatten(),
                when,
                tier: match self.tier {
                    InboundTier::Default => "default",
                    InboundTier::HighPriority => "high_priority",
                },
                butler: self.butler.clone(),
                authenticated: (self.trusted, method),
            }),
            _ => Err(wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mapping::{Incoming, Reading};
    use super::super::out::sign;
    use super::*;
    use config::Section;
    use http::HeaderMap;
    use serde_json::Value;

    fn inbound(settings: Value) -> Inbound {
        Section::of::<Inbound>().read(&settings).unwrap()
    }

    #[test]
    fn one_household_takes_in_what_another_sends() {
        let peer = inbound(json!({"secret": "S", "text": "{/delivery/message}", "header": "X-Butlerd-Signature",
                                  "timestamp_header": "X-Butlerd-Timestamp", "id": "/delivery_id"}));
        let (secret, now) = (Secret::new("shared".to_owned()), jiff::Timestamp::from_second(1_790_000_000).unwrap());
        let body = br#"{"delivery_id": "7", "delivery": {"message": "hello"}}"#;
        let mut headers = HeaderMap::new();
        headers.insert("x-butlerd-timestamp", "1790000001".parse().unwrap());
        headers.insert("x-butlerd-signature", sign(&secret, "1790000001", body).parse().unwrap());
        let prover = Prover { secret, form: peer.form().unwrap() };
        let proven = prover.holds(&headers, body, now).unwrap();
        let json: Value = serde_json::from_slice(body).unwrap();
        let incoming = Incoming { body: &json, raw: body, headers: &headers, signed_at: proven.signed_at };
        let Reading::Message(message) = peer.mapping("peer").unwrap().read(&incoming, now) else {
            panic!("no message")
        };
        assert_eq!(
            (&message["event"]["external_event_id"], &message["payload"]["normalized_text"]),
            (&json!("7"), &json!("hello"))
        );
        assert!(prover.holds(&headers, body, now + SignedDuration::from_mins(6)).is_none());
    }
}
