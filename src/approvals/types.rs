//! Calls that wait for a decision, as rows and people have them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use strum::{EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use base::text::{hex, plain_identity};
use base::{RequestContext, Trust};
use tools::EgressTarget;

/// How much harm a wrong call could do.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema, IntoStaticStr, EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RiskTier {
    Low,
    Medium,
    High,
    Critical,
}

base::named!(RiskTier);

impl RiskTier {
    /// Reads the name back; anything unknown is the worst.
    pub fn from_name(name: &str) -> Self {
        name.parse().unwrap_or(RiskTier::Critical)
    }

    /// Whether a rule for such a tool must have an end.
    pub fn wants_bounds(self) -> bool {
        self >= RiskTier::High
    }
}

/// How far a call is that waits, or waited, for a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[derive(IntoStaticStr, EnumString, VariantArray)]
#[strum(serialize_all = "lowercase")]
#[schemars(rename = "ApprovalStatus")]
pub enum Status {
    Pending,
    Approved,
    Rejected,
    Expired,
    Executed,
    /// Approved, and then not called: its arguments are not those that were approved, or its tool is gone.
    Abandoned,
}

base::named!(Status, from_name);

impl Status {
    pub const ALL: &'static [Self] = Self::VARIANTS;
}

/// Why a call waits for a decision.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, IntoStaticStr, EnumString, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[schemars(rename = "ApprovalCause")]
pub enum Cause {
    /// The butler's settings gate the tool, or it speaks in the owner's name.
    Gated,
    /// It would reach people who may not learn all that the session was shown, and others have influenced the session.
    /// Rows and clients know it as `exposure`.
    #[serde(rename = "exposure")]
    #[strum(serialize = "exposure")]
    Taint,
    /// Somebody who may not have it done by himself has influenced the session. What one message asks for is told and
    /// decided on together. Rows and clients know it as `proposal`.
    #[serde(rename = "proposal")]
    #[strum(serialize = "proposal")]
    Influenced,
}

base::named!(Cause);

impl Cause {
    /// Reads the name back; what is unknown is the one that shows most.
    pub fn from_name(name: &str) -> Self {
        [Cause::Gated, Cause::Influenced].into_iter().find(|cause| cause.as_str() == name).unwrap_or(Cause::Taint)
    }

    /// Why it waits, for people.
    pub fn reason(self) -> &'static str {
        match self {
            Cause::Gated => "the butler's settings gate its tool, or it speaks in your name",
            Cause::Taint => {
                "others influenced its session, and this would reach people who may not learn all that it was shown"
            }
            Cause::Influenced => {
                "somebody else than you has influenced its session, who may not have this done by himself"
            }
        }
    }
}

/// Somebody who could have influenced a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "InfluenceSource")]
pub struct Source {
    /// `channel:identity`.
    pub who: String,
    /// How far they were believed.
    pub trust: Trust,
    /// What they asked for, and what stands at its beginning.
    pub request_id: Uuid,
    pub root_request_id: Uuid,
}

impl Source {
    /// Whoever asked for what a session deals with.
    pub fn of(request: &RequestContext) -> Self {
        Self {
            who: principal(&request.source_channel, &request.source_sender_identity),
            trust: request.trust,
            request_id: request.request_id.0,
            root_request_id: request.lineage.root_request_id.0,
        }
    }
}

/// Somebody, as labels and rules name them: `channel:identity`.
pub fn principal(channel: &str, identity: &str) -> String {
    format!("{channel}:{}", plain_identity(identity))
}

/// To whom a call goes, as it was resolved when it was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ActionRecipient {
    /// In words.
    pub to: String,
    pub name: Option<String>,
    pub channel: Option<String>,
    pub address: Option<String>,
    /// Whether anything was ever sent there before. `None`: it has no address.
    pub written_before: Option<bool>,
}

/// A call that is to wait.
pub struct NewAction<'a> {
    pub session: Uuid,
    pub tool: &'a str,
    pub args: &'a Value,
    /// Whether its tool changes anything besides what it tells.
    pub changes: bool,
    /// Names of arguments that nobody may see.
    pub sensitive: &'a [String],
    pub why: Option<&'a str>,
    pub cause: Cause,
    /// To whom it goes, where it leaves the household.
    pub to: Option<&'a EgressTarget>,
    pub risk_tier: RiskTier,
    pub expiry_hours: u32,
    /// What the session was shown at that moment goes along in it.
    pub request: &'a RequestContext,
}

store::row! {
    /// A call that waits or waited, for people.
    #[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
    #[schemars(rename = "Approval")]
    pub struct Action {
        pub id: Uuid,
        pub butler: String,
        pub session_id: Uuid,
        pub tool_name: String,
        /// Without what nobody may see.
        pub tool_args: Value = |row| row.get("args_shown"),
        /// The arguments of which something is hidden: their tool declares them sensitive.
        #[serde(default)]
        pub hidden: Vec<String> = |row| hidden(&row.get("args_shown"), row.get("tool_args")),
        /// Of the exact arguments.
        pub args_sha256: String,
        /// To whom it goes. `None`: it does not leave the household.
        #[serde(default)]
        pub recipient: Option<ActionRecipient> = |row| row.get::<_, Option<Value>>("recipient").and_then(|value| serde_json::from_value(value).ok()),
        /// Who could have influenced it.
        #[serde(default)]
        pub sources: Vec<Source> = |row| serde_json::from_value(row.get("sources")).unwrap_or_default(),
        /// What was asked for together with others; the message's request.
        #[serde(default)]
        pub proposal: Option<Uuid>,
        pub agent_summary: String,
        /// In the model's words, which may be anybody's.
        pub why: Option<String>,
        pub cause: Cause = |row| Cause::from_name(row.get("cause")),
        /// `{"trust", "audience"}` of the session at that moment; and `"changes"`, whether rows get that label.
        pub exposure: Value,
        /// How far what it says is believed: its session's words, and what its call has shown.
        pub trust: Trust = |row| Trust::from_name(row.get("trust")),
        pub risk_tier: RiskTier = |row| RiskTier::from_name(row.get("risk_tier")),
        pub status: Status = |row| Status::from_name(row.get("status")).unwrap_or(Status::Abandoned),
        pub requested_at: Timestamp,
        pub expires_at: Timestamp,
        pub decided_by: Option<String>,
        pub decided_at: Option<Timestamp>,
        pub decision_reason: Option<String>,
        pub approval_rule_id: Option<Uuid>,
        /// `{"success", "result", "error", "executed_at"}`
        pub execution_result: Option<Value>,
    }
}

/// Which calls to list. Nothing set: all of them.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub butler: Option<String>,
    pub status: Option<Status>,
    pub tool_name: Option<String>,
    pub rule: Option<Uuid>,
    pub since: Option<Timestamp>,
    /// Those that were asked for before this one.
    pub before: Option<Uuid>,
    /// Those of these sessions.
    pub sessions: Option<Vec<Uuid>>,
}

store::row! {
    /// Something that happened to a call waiting for a decision, or to a rule.
    #[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
    #[schemars(rename = "ApprovalEvent")]
    pub struct Event {
        pub event_type: String,
        pub actor: String,
        pub reason: Option<String>,
        pub event_metadata: Value,
        pub occurred_at: Timestamp,
    }
}

/// The SHA-256, in hex, of whose call it is and of its exact arguments.
pub(super) fn args_sha256(butler: &str, tool: &str, args: &str) -> String {
    sha256([butler, tool, args])
}

/// The SHA-256, in hex, of parts.
pub(super) fn sha256(parts: impl IntoIterator<Item: AsRef<str>>) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        // Each with its length, so that nothing can slip from one part into the next.
        digest.update((part.as_ref().len() as u64).to_be_bytes());
        digest.update(part.as_ref().as_bytes());
    }
    hex(&digest.finalize())
}

/// The arguments as people may see them: all of them, but for those that their tool declares sensitive.
pub(super) fn shown(args: &Value, sensitive: &[String]) -> Value {
    let Some(members) = args.as_object() else { return args.clone() };
    let show = |(name, value): (&String, &Value)| match sensitive.contains(name) {
        true => (name.clone(), Value::from(hidden_value(value))),
        false => (name.clone(), value.clone()),
    };
    members.iter().map(show).collect::<serde_json::Map<_, _>>().into()
}

/// What stands where a value may not be shown.
fn hidden_value(value: &Value) -> String {
    let length = value.as_str().map_or_else(|| value.to_string().chars().count(), |text| text.chars().count());
    format!("hidden ({length} characters, declared sensitive)")
}

/// The arguments that are not shown as they are. What differs from what is called is hidden, whatever it says.
pub(super) fn hidden(shown: &Value, exact: &str) -> Vec<String> {
    let exact: Value = serde_json::from_str(exact).unwrap_or_default();
    let members = shown.as_object().into_iter().flatten();
    members.filter(|(name, value)| exact.get(*name) != Some(*value)).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_is_of_whose_and_which_call() {
        let hash = args_sha256("health", "notify", "{}");
        assert_eq!(hash, args_sha256("health", "notify", "{}"));
        for other in [args_sha256("healthn", "otify", "{}"), args_sha256("health", "notify", "{ }")] {
            assert_ne!(hash, other);
        }
    }

    #[test]
    fn only_what_its_tool_declares_sensitive_is_hidden() {
        let args = json!({"to": "bob", "pin": "1234", "key": "k", "headers": {"Authorization": "x", "pin": 1}});
        let visible = shown(&args, &["pin".to_owned()]);
        let told = "hidden (4 characters, declared sensitive)";
        assert_eq!(visible, json!({"to": "bob", "pin": told, "key": "k", "headers": {"Authorization": "x", "pin": 1}}));
        assert_eq!(hidden(&visible, &args.to_string()), ["pin"]);
        // One that says of itself that it is hidden is not.
        let args = json!({"note": told});
        assert!(hidden(&shown(&args, &[]), &args.to_string()).is_empty());
    }

    #[test]
    fn causes_keep_their_names() {
        for cause in [Cause::Gated, Cause::Taint, Cause::Influenced] {
            assert_eq!(Cause::from_name(cause.as_str()), cause);
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
        }
        assert_eq!(Cause::Influenced.as_str(), "proposal");
    }
}
