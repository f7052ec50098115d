//! What waits at the door, as rows and people have it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use strum::{EnumString, IntoStaticStr, VariantArray};
use tokio_postgres::Row;
use uuid::Uuid;

use base::{RequestContext, Trust};

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

impl RiskTier {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Reads the name back; anything unknown is the worst.
    pub fn from_name(name: &str) -> Self {
        name.parse().unwrap_or(RiskTier::Critical)
    }

    /// Whether a rule for such a tool must have an end.
    pub fn wants_bounds(self) -> bool {
        self >= RiskTier::High
    }
}

/// Where a wish stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, IntoStaticStr, EnumString, VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Status {
    Pending,
    Approved,
    Rejected,
    Expired,
    Executed,
    /// Approved, and then not called: its arguments are not those that were approved, or its tool is gone.
    Abandoned,
}

impl Status {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// What sent a call to the door.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, IntoStaticStr, EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Cause {
    /// The butler's settings gate the tool.
    Gated,
    /// It would leave the household, out of a session that a stranger's words and private data meet in. Rows and clients
    /// know it as `exposure`.
    #[serde(rename = "exposure")]
    #[strum(serialize = "exposure")]
    Taint,
    /// It would change something, out of a session that somebody besides the owner and the house has influenced: what their
    /// message proposes.
    #[serde(rename = "proposal")]
    #[strum(serialize = "proposal")]
    Influenced,
}

impl Cause {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A call that is to wait.
pub struct NewAction<'a> {
    pub session: Uuid,
    pub tool: &'a str,
    pub args: &'a Value,
    /// Names of arguments that nobody may see.
    pub sensitive: &'a [String],
    pub why: Option<&'a str>,
    pub cause: Cause,
    /// To whom it goes, in words, where it leaves the household.
    pub to: Option<&'a str>,
    pub risk_tier: RiskTier,
    pub expiry_hours: u32,
    /// What the session was shown at that moment goes along in it.
    pub request: &'a RequestContext,
}

/// A call that waits or waited, for people.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Action {
    pub id: Uuid,
    pub butler: String,
    pub session_id: Uuid,
    pub tool_name: String,
    /// Without what nobody may see.
    pub tool_args: Value,
    /// Of the exact arguments: what a person approves.
    pub args_sha256: String,
    pub agent_summary: String,
    /// In the model's words, which may be anybody's.
    pub why: Option<String>,
    pub cause: Cause,
    /// `{"trust", "private"}` of the session at that moment.
    pub exposure: Value,
    /// How far what it says is believed: its session's words, and what its call has shown.
    pub trust: Trust,
    pub risk_tier: RiskTier,
    pub status: Status,
    pub requested_at: Timestamp,
    pub expires_at: Timestamp,
    pub decided_by: Option<String>,
    pub decided_at: Option<Timestamp>,
    pub decision_reason: Option<String>,
    pub approval_rule_id: Option<Uuid>,
    /// `{"success", "result", "error", "executed_at"}`
    pub execution_result: Option<Value>,
}

impl Action {
    pub(super) const COLUMNS: &str = "id, butler, session_id, tool_name, args_shown, args_sha256, agent_summary, why, cause,
        exposure, risk_tier, status, requested_at, expires_at, decided_by, decided_at, decision_reason, approval_rule_id,
        execution_result, trust";

    pub(super) fn of_row(row: &Row) -> Self {
        Self {
            id: row.get(0),
            butler: row.get(1),
            session_id: row.get(2),
            tool_name: row.get(3),
            tool_args: row.get(4),
            args_sha256: row.get(5),
            agent_summary: row.get(6),
            why: row.get(7),
            cause: row.get::<_, &str>(8).parse().unwrap_or(Cause::Taint),
            exposure: row.get(9),
            risk_tier: RiskTier::from_name(row.get(10)),
            status: Status::from_name(row.get(11)).unwrap_or(Status::Abandoned),
            requested_at: row.get(12),
            expires_at: row.get(13),
            decided_by: row.get(14),
            decided_at: row.get(15),
            decision_reason: row.get(16),
            approval_rule_id: row.get(17),
            execution_result: row.get(18),
            trust: Trust::from_name(row.get(19)),
        }
    }
}

/// Something that happened to a wish or a rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    pub event_type: String,
    pub actor: String,
    pub reason: Option<String>,
    pub event_metadata: Value,
    pub occurred_at: Timestamp,
}

/// The SHA-256, in hex, of whose call it is and of its exact arguments.
pub(super) fn args_sha256(butler: &str, tool: &str, args: &str) -> String {
    let mut digest = Sha256::new();
    for part in [butler, tool, args] {
        // Each with its length, so that nothing can slip from one part into the next.
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    digest.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// What stands where a value may not be shown.
pub(super) const HIDDEN: &str = "***REDACTED***";

/// Argument names whose values are secrets wherever they stand.
const SECRET_NAMES: [&str; 9] =
    ["password", "token", "secret", "key", "api_key", "auth", "authorization", "credential", "credentials"];

/// The arguments as people may see them. To whom and how much stays readable: that is what they decide on.
pub(super) fn shown(args: &Value, sensitive: &[String]) -> Value {
    match args {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| {
                let hidden = sensitive.contains(name) || SECRET_NAMES.contains(&name.to_lowercase().as_str());
                (name.clone(), if hidden { Value::from(HIDDEN) } else { shown(value, &[]) })
            })
            .collect(),
        Value::Array(items) => items.iter().map(|item| shown(item, &[])).collect(),
        other => other.clone(),
    }
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
    fn secrets_are_hidden_wherever_they_stand() {
        let args = json!({"to": "bob", "pin": "1", "headers": {"Authorization": "x"}, "list": [{"token": "y"}]});
        let expected =
            json!({"to": "bob", "pin": HIDDEN, "headers": {"Authorization": HIDDEN}, "list": [{"token": HIDDEN}]});
        assert_eq!(shown(&args, &["pin".to_owned()]), expected);
    }
}
