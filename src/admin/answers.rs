//! What butlers' tools answer that are looked at, as its readers have it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// An identity under which a person writes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    pub contact_id: Uuid,
    /// The person's name.
    pub name: String,
    pub channel: String,
    pub identity: String,
    /// What else is known of it.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What hands messages in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Connector {
    pub connector_type: String,
    pub endpoint_identity: String,
    pub version: Option<String>,
    /// `online`, `stale`, `offline` or `disconnected`.
    pub liveness: String,
    /// How it says that it is.
    pub state: String,
    pub error_message: Option<String>,
    pub last_seen_at: Timestamp,
    /// Its counters, how far it has read, and what else is known of it.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A job that brings in messages of the past.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Backfill {
    pub job_id: Uuid,
    pub connector_type: String,
    pub endpoint_identity: String,
    pub date_from: String,
    pub date_to: String,
    pub status: String,
    pub rows_processed: i64,
    pub rows_skipped: i64,
    pub error: Option<String>,
    pub updated_at: Timestamp,
    /// What else is known of it.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// An MCP server of others.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct McpServer {
    /// Its name in the settings.
    pub server: String,
    /// `connected`, `idle`, `not seen yet`, `held` (some of its tools wait for the owner's agreement) or `down`.
    pub state: String,
    /// Its address, or the program that is started.
    pub at: Option<String>,
    /// Which of its tools the butler is offered, as the butler calls them.
    pub tools: Vec<String>,
    /// Why it is down.
    pub down: Option<String>,
    /// Its tools that are not as they were agreed to, each with what is the matter.
    pub changes: Map<String, Value>,
}

/// A tool that an MCP server shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct McpTool {
    pub tool: String,
    pub called: Option<String>,
    pub not_offered: Option<String>,
    pub description: String,
}

/// How a tool differs from what was agreed to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct McpDifference {
    pub tool: String,
    pub change: String,
    pub before: Option<McpSide>,
    pub after: Option<McpSide>,
}

/// A tool before or after a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct McpSide {
    pub description: String,
    pub schema: Value,
}

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CouncilQuestion {
    pub id: Uuid,
    pub question: String,
    /// How it was answered: `memory`, `direct` or `council`; null: not yet, or not at all.
    pub way: Option<String>,
    pub answer: Option<String>,
    pub failure: Option<String>,
    pub asked_at: Option<Timestamp>,
    pub answered_at: Option<Timestamp>,
}

/// What one model did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CouncilStep {
    pub stage: String,
    pub round: i64,
    pub member: String,
    pub model: String,
    pub session_id: Option<Uuid>,
    pub said: Option<String>,
    pub failure: Option<String>,
    /// Whom each letter stood for.
    pub letters: Option<Map<String, Value>>,
    pub ranking: Option<Vec<Option<String>>>,
}

/// A tie between two memories.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemoryLink {
    pub relation: String,
    pub from: String,
    pub from_id: Uuid,
    pub to: String,
    pub to_id: Uuid,
}
