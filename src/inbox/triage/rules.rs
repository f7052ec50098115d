//! What a rule says, and which one fits a message. Pure.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use crate::types::{Action, Envelope, Triage};
use base::text::plain_identity;

/// What of a message a rule looks at.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema, IntoStaticStr, EnumString, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "TriageKind")]
pub enum Kind {
    /// The sender's whole identity.
    SenderAddress,
    /// What stands behind the sender's `@`, subdomains included.
    SenderDomain,
    /// `Name: text`: a header of the raw message holds the text. `Name:` alone: it has the header.
    Header,
    /// The message's text, without regard to case.
    Substring,
    /// The thread, or where there is none the sender.
    ChatId,
    Channel,
    /// An attachment's type: `text/calendar`, or `image/*`.
    MimeType,
}

base::named!(Kind, from_name);

impl Kind {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// How a sentence begins that its pattern ends.
    pub fn words(self) -> &'static str {
        match self {
            Kind::SenderAddress => "the sender is",
            Kind::SenderDomain => "the sender's domain is",
            Kind::Header => "a header holds (Name: text)",
            Kind::Substring => "the text holds",
            Kind::ChatId => "the chat is",
            Kind::Channel => "the channel is",
            Kind::MimeType => "a file of it is (image/*)",
        }
    }
}

/// A triage rule. The first that fits a message decides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TriageRule")]
pub struct Rule {
    pub id: Uuid,
    /// Lower ones are asked first.
    pub position: i32,
    pub kind: Kind,
    pub pattern: String,
    #[schemars(schema_with = "actions")]
    pub action: Action,
    /// Of `route_to`.
    pub butler: Option<String>,
    pub enabled: bool,
    pub note: Option<String>,
}

fn actions(_: &mut SchemaGenerator) -> Schema {
    let words: Vec<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
    json_schema!({"type": "string", "enum": words})
}

/// A tenant's rules in their order.
#[derive(Clone, Default, Debug)]
pub struct Rules {
    pub list: Vec<Rule>,
}

impl Rules {
    /// What the first rule that fits says; `None`: none does, and the message goes on to classification.
    pub fn decide(&self, envelope: &Envelope) -> Option<Triage> {
        let rule = self.list.iter().filter(|rule| rule.enabled).find(|rule| rule.fits(envelope))?;
        Some(Triage { action: rule.action, butler: rule.butler.clone(), by: "rule".to_owned(), rule_id: Some(rule.id) })
    }
}

impl Rule {
    /// Whether the rule speaks of this message.
    pub fn fits(&self, envelope: &Envelope) -> bool {
        let pattern = self.pattern.trim();
        let sender = plain_identity(&envelope.sender.identity);
        match self.kind {
            Kind::SenderAddress => sender == plain_identity(pattern),
            Kind::SenderDomain => {
                let wanted = pattern.trim_start_matches('@').to_lowercase();
                let domain = sender.rsplit_once('@').map(|(_, domain)| domain).unwrap_or_default();
                domain == wanted || domain.strip_suffix(&wanted).is_some_and(|rest| rest.ends_with('.'))
            }
            Kind::Header => header_fits(pattern, envelope.payload.raw.as_ref().and_then(|raw| raw.get("headers"))),
            Kind::Substring => envelope.payload.normalized_text.to_lowercase().contains(&pattern.to_lowercase()),
            Kind::ChatId => {
                let thread = envelope.event.external_thread_id.as_deref();
                thread.unwrap_or(&envelope.sender.identity) == pattern
            }
            Kind::Channel => envelope.source.channel == pattern,
            Kind::MimeType => {
                let pattern = pattern.to_lowercase();
                envelope.payload.attachments.iter().any(|attachment| {
                    let kind = attachment.media_type.to_lowercase();
                    match pattern.strip_suffix("/*") {
                        Some(family) => kind.split('/').next() == Some(family),
                        None => kind == pattern,
                    }
                })
            }
        }
    }
}

/// Headers stand in the raw message as an object, `{"List-Id": "…"}`, or as pairs, `[{"name": …, "value": …}]`.
fn header_fits(pattern: &str, headers: Option<&Value>) -> bool {
    let (name, wanted) = pattern.split_once(':').unwrap_or((pattern, ""));
    let (name, wanted) = (name.trim(), wanted.trim().to_lowercase());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned).to_lowercase();
    let fits = |given: &str, value: &Value| given.eq_ignore_ascii_case(name) && text(value).contains(&wanted);
    match headers {
        Some(Value::Object(map)) => map.iter().any(|(given, value)| fits(given, value)),
        Some(Value::Array(pairs)) => {
            pairs.iter().any(|pair| fits(pair["name"].as_str().unwrap_or_default(), &pair["value"]))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mail() -> Envelope {
        let value = json!({"schema_version": "ingest.v1",
            "source": {"channel": "email", "provider": "imap", "endpoint_identity": "home"},
            "event": {"external_event_id": "1", "external_thread_id": "t-9", "observed_at": "2026-11-01T08:00:00Z"},
            "sender": {"identity": "Weekly News <News@List.Example.org>"},
            "payload": {"raw": {"headers": {"List-Id": "<news.example.org>", "Precedence": "bulk"}},
                        "normalized_text": "Our offers of the week",
                        "attachments": [{"media_type": "Image/PNG", "size_bytes": 3}]}});
        serde_json::from_value(value).unwrap()
    }

    fn rule(kind: Kind, pattern: &str, action: Action) -> Rule {
        let butler = (action == Action::RouteTo).then(|| "finance".to_owned());
        Rule {
            id: Uuid::now_v7(),
            position: 0,
            kind,
            pattern: pattern.into(),
            action,
            butler,
            enabled: true,
            note: None,
        }
    }

    #[test]
    fn each_kind_fits_what_it_speaks_of_and_nothing_else() {
        for (kind, fits, others) in [
            (
                Kind::SenderAddress,
                &["news@list.example.org", "NEWS@list.example.org "][..],
                &["example.org", "news"][..],
            ),
            (
                Kind::SenderDomain,
                &["list.example.org", "example.org", "@Example.ORG"],
                &["ample.org", "other.example.org", "org.example"],
            ),
            (Kind::Header, &["List-Id: news.EXAMPLE", "list-id", "precedence: bulk"], &["List-Id: other", "X-Spam"]),
            (Kind::Substring, &["OFFERS", "of the week"], &["offer of"]),
            (Kind::ChatId, &["t-9"], &["t-", "news@list.example.org"]),
            (Kind::Channel, &["email"], &["mail", "telegram"]),
            (Kind::MimeType, &["image/png", "IMAGE/*"], &["image/jpeg", "text/*", "image"]),
        ] {
            for pattern in fits {
                assert!(rule(kind, pattern, Action::Skip).fits(&mail()), "{kind:?} {pattern}");
            }
            for pattern in others {
                assert!(!rule(kind, pattern, Action::Skip).fits(&mail()), "{kind:?} {pattern}");
            }
        }
    }

    #[test]
    fn headers_may_be_pairs_and_a_chat_without_a_thread_is_its_sender() {
        let mut mail = mail();
        let raw = json!({"headers": [{"name": "list-ID", "value": "news"}, {"name": "X-N", "value": 7}]});
        mail.payload.raw = raw.as_object().cloned();
        assert!(rule(Kind::Header, "List-Id: news", Action::Skip).fits(&mail));
        assert!(rule(Kind::Header, "x-n: 7", Action::Skip).fits(&mail));
        mail.payload.raw = None;
        assert!(!rule(Kind::Header, "List-Id", Action::Skip).fits(&mail));
        mail.event.external_thread_id = None;
        mail.sender.identity = "4711".to_owned();
        assert!(rule(Kind::ChatId, "4711", Action::Skip).fits(&mail));
    }

    #[test]
    fn the_first_rule_that_fits_and_is_on_decides_with_its_action() {
        for action in [Action::Skip, Action::MetadataOnly, Action::LowPriority, Action::RouteTo, Action::Pass] {
            let mut list = vec![
                rule(Kind::Channel, "telegram", Action::Skip),
                rule(Kind::Substring, "offers", action),
                rule(Kind::Channel, "email", Action::Skip),
            ];
            let said = Rules { list: list.clone() }.decide(&mail()).unwrap();
            assert_eq!((said.action, said.rule_id, said.by.as_str()), (action, Some(list[1].id), "rule"));
            assert_eq!(said.butler.as_deref(), (action == Action::RouteTo).then_some("finance"));
            list[1].enabled = false;
            let said = Rules { list }.decide(&mail()).unwrap();
            assert_eq!(said.action, Action::Skip, "the next one decides where that is off");
        }
        assert_eq!(Rules::default().decide(&mail()), None);
    }
}
