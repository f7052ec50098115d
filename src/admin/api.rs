//! The calls that the daemon answers on `/rpc`, declared once for the server and for the command line's client.
//!
//! JSON-RPC 2.0 with named parameters, by HTTP POST or over a WebSocket; subscriptions need the WebSocket.

use jiff::Timestamp;
use jsonrpsee::core::{RpcResult, SubscriptionResult};
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::approvals::{ActionPage, RuleRequest};
use super::sealed::Sealed;
use access::TokenInfo;
use approvals::{Action, Rule};
use butler::HouseholdStatus;
use inbox::Reopened;
use inbox::messages::Entry;
use outbox::{Changed, DeliveryView};
use sessions::budget::{By, Costs};
use sessions::{EventPage, Preview, SessionEvent, SessionResult};
use supervisor::Reloaded;

/// The daemon's calls. Each error has a sentence as its message and `{"code": …}`, a stable name, as its data.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait Api {
    /// The household: database, butlers, modules. Scope `read`.
    #[method(name = "status", param_kind = map, with_extensions)]
    async fn status(&self) -> RpcResult<HouseholdStatus>;

    /// Takes up the roster as it is now: new, changed and removed butlers, and nobody else. Answers when all is done; a
    /// butler that is drained takes as long as its sessions, at most its own shutdown timeout. Scope `admin`.
    #[method(name = "reload", param_kind = map, with_extensions)]
    async fn reload(&self) -> RpcResult<Reloaded>;

    /// Starts a session of a butler and answers when it is over. The session goes on when the caller hangs up.
    /// Scope `tools`.
    #[method(name = "trigger", param_kind = map, with_extensions)]
    // The macro has a variable `context` of its own, hence the other name here.
    async fn trigger(
        &self,
        butler: String,
        prompt: String,
        #[argument(rename = "context")] facts: Option<Value>,
    ) -> RpcResult<SessionResult>;

    /// Starts a session of a butler and answers as soon as its row is there. Scope `tools`.
    #[method(name = "trigger_start", param_kind = map, with_extensions)]
    async fn trigger_start(
        &self,
        butler: String,
        prompt: String,
        #[argument(rename = "context")] facts: Option<Value>,
    ) -> RpcResult<Started>;

    /// What such a trigger would run, and why not if so. Starts nothing and writes nothing. Scope `tools`.
    #[method(name = "trigger_preview", param_kind = map, with_extensions)]
    async fn trigger_preview(
        &self,
        butler: String,
        prompt: String,
        #[argument(rename = "context")] facts: Option<Value>,
    ) -> RpcResult<Preview>;

    /// What was spent in the last `days` days, today included, or without them since the first of this month; and what
    /// the month will come to. Of the butlers that the token reaches. Scope `read`.
    #[method(name = "costs", param_kind = map, with_extensions)]
    async fn costs(&self, days: Option<u32>, by: By) -> RpcResult<Costs>;

    /// The newest sessions of one butler or of all, at most `limit` (1 to 200, else 20). Scope `read`.
    #[method(name = "sessions_list", param_kind = map, with_extensions)]
    async fn sessions_list(&self, butler: Option<String>, limit: Option<u32>) -> RpcResult<SessionPage>;

    /// One session with its tool calls, its system prompt and the context of its trigger, whichever butler has it: its
    /// row, with `butler` added. Scope `read`.
    #[method(name = "sessions_get", param_kind = map, with_extensions)]
    async fn sessions_get(&self, id: Uuid) -> RpcResult<Value>;

    /// What happened in a session after the event numbered `after` (0: from the beginning), as far as it is on record by
    /// now; at most some hundred events, and whether there are more. Scope `read`.
    #[method(name = "sessions_events", param_kind = map, with_extensions)]
    async fn sessions_events(&self, id: Uuid, after: Option<i32>) -> RpcResult<EventPage>;

    /// The newest calls of one butler or of all whose rows can be put back, at most `limit` (1 to 200, else 20). Scope
    /// `read`.
    #[method(name = "undo_list", param_kind = map, with_extensions)]
    async fn undo_list(&self, butler: Option<String>, limit: Option<u32>) -> RpcResult<Vec<UndoableCall>>;

    /// Puts the rows that a call changed back as they were: all, or none when something newer stands on one. Scope
    /// `admin`.
    #[method(name = "undo_call", param_kind = map, with_extensions)]
    async fn undo_call(&self, butler: String, call: i64) -> RpcResult<Undone>;

    /// The same for all calls of a session, the newest first. Scope `admin`.
    #[method(name = "undo_session", param_kind = map, with_extensions)]
    async fn undo_session(&self, id: Uuid) -> RpcResult<Undone>;

    /// All that is on record of an id, over all butlers: of a session, a request, a trace, or a schedule's last runs.
    /// Scope `read`.
    #[method(name = "timeline", param_kind = map, with_extensions)]
    async fn timeline(&self, id: Uuid) -> RpcResult<Timeline>;

    /// The schedules of one butler or of all: rows as the tool `schedule_list` shows them, each with `butler` and its last
    /// run; those that `key` names (a name, or an id or its beginning), if it is given. Scope `read`.
    #[method(name = "schedule_list", param_kind = map, with_extensions)]
    async fn schedule_list(&self, butler: Option<String>, key: Option<String>) -> RpcResult<SchedulePage>;

    /// One schedule, with its newest runs as `history`, at most `limit` (1 to 500, else 20). Scope `read`.
    #[method(name = "schedule_show", param_kind = map, with_extensions)]
    async fn schedule_show(&self, key: String, butler: Option<String>, limit: Option<u32>) -> RpcResult<Value>;

    /// Runs a schedule once, now, and answers when the run is over, as the tool `schedule_trigger` does. Scope `tools`.
    #[method(name = "schedule_run", param_kind = map, with_extensions)]
    async fn schedule_run(&self, key: String, butler: Option<String>) -> RpcResult<Value>;

    /// Pauses a schedule, or lets it go on; the schedule as it is then. Scope `tools`.
    #[method(name = "schedule_switch", param_kind = map, with_extensions)]
    async fn schedule_switch(&self, key: String, butler: Option<String>, enabled: bool) -> RpcResult<Value>;

    /// The newest messages, at most `limit` (1 to 200, else 20), without their parts; of one state, if that is named.
    /// Scope `read`.
    #[method(name = "inbox_list", param_kind = map, with_extensions)]
    async fn inbox_list(&self, state: Option<String>, limit: Option<u32>) -> RpcResult<Vec<Entry>>;

    /// One message with its parts and answers. Scope `read`.
    #[method(name = "inbox_show", param_kind = map, with_extensions)]
    async fn inbox_show(&self, id: Uuid) -> RpcResult<Entry>;

    /// Takes a dead message, or its dead parts, up again. Scope `admin`.
    #[method(name = "inbox_retry", param_kind = map, with_extensions)]
    async fn inbox_retry(&self, id: Uuid) -> RpcResult<Reopened>;

    /// Gives a message, or its part of this number, to another butler. Scope `admin`.
    #[method(name = "inbox_reroute", param_kind = map, with_extensions)]
    async fn inbox_reroute(&self, id: Uuid, butler: String, part: Option<i32>) -> RpcResult<Reopened>;

    /// The newest actions that wait, or waited, for a person: at most `limit` (1 to 200, else 50), of one butler and one
    /// status, if they are named. Scope `read`.
    #[method(name = "approvals_list", param_kind = map, with_extensions)]
    async fn approvals_list(
        &self,
        butler: Option<String>,
        status: Option<String>,
        limit: Option<u32>,
    ) -> RpcResult<Vec<Action>>;

    /// One action with what happened to it. Scope `read`.
    #[method(name = "approvals_show", param_kind = map, with_extensions)]
    async fn approvals_show(&self, id: Uuid) -> RpcResult<ActionPage>;

    /// Lets an action through; `seen` is the hash of the arguments that the person saw. Scope `admin`.
    #[method(name = "approvals_approve", param_kind = map, with_extensions)]
    async fn approvals_approve(&self, id: Uuid, seen: Option<String>) -> RpcResult<Action>;

    /// Turns an action down. Scope `admin`.
    #[method(name = "approvals_reject", param_kind = map, with_extensions)]
    async fn approvals_reject(&self, id: Uuid, reason: Option<String>) -> RpcResult<Action>;

    /// The standing rules; with `all`, those that ended as well. Scope `read`.
    #[method(name = "approvals_rules", param_kind = map, with_extensions)]
    async fn approvals_rules(&self, all: bool) -> RpcResult<Vec<Rule>>;

    /// Allows calls like this one from now on. Scope `admin`.
    #[method(name = "approvals_rule", param_kind = map, with_extensions)]
    async fn approvals_rule(&self, id: Uuid, request: RuleRequest) -> RpcResult<Rule>;

    /// Ends a standing rule. Scope `admin`.
    #[method(name = "approvals_revoke", param_kind = map, with_extensions)]
    async fn approvals_revoke(&self, id: Uuid) -> RpcResult<Rule>;
    /// The newest deliveries, at most `limit` (1 to 200, else 20); of one butler, or of one state, or `bad`: unknown,
    /// failed and dead ones. Scope `read`.
    #[method(name = "deliveries_list", param_kind = map, with_extensions)]
    async fn deliveries_list(
        &self,
        butler: Option<String>,
        state: Option<String>,
        limit: Option<u32>,
    ) -> RpcResult<Vec<DeliveryView>>;

    /// One delivery with its tries. Scope `read`.
    #[method(name = "deliveries_show", param_kind = map, with_extensions)]
    async fn deliveries_show(&self, id: Uuid) -> RpcResult<DeliveryView>;

    /// Sends one once more that failed, is dead or unknown. Scope `admin`.
    #[method(name = "deliveries_retry", param_kind = map, with_extensions)]
    async fn deliveries_retry(&self, id: Uuid) -> RpcResult<Changed>;

    /// Calls one off that has not left. Scope `admin`.
    #[method(name = "deliveries_cancel", param_kind = map, with_extensions)]
    async fn deliveries_cancel(&self, id: Uuid) -> RpcResult<Changed>;

    /// Says of an unknown one whether it arrived; one that did not is sent once more. Scope `admin`.
    #[method(name = "deliveries_resolve", param_kind = map, with_extensions)]
    async fn deliveries_resolve(&self, id: Uuid, arrived: bool) -> RpcResult<Changed>;

    /// Cancels a session that waits or runs. Scope `admin`.
    #[method(name = "sessions_cancel", param_kind = map, with_extensions)]
    async fn sessions_cancel(&self, id: Uuid) -> RpcResult<Cancelled>;

    /// Stores a secret, encrypted, in place of an older one of this name. Scope `admin`.
    #[method(name = "secret_set", param_kind = map, with_extensions)]
    async fn secret_set(&self, name: String, value: Sealed) -> RpcResult<SecretName>;

    /// Names and times of the stored secrets. Scope `admin`.
    #[method(name = "secret_list", param_kind = map, with_extensions)]
    async fn secret_list(&self) -> RpcResult<Vec<SecretName>>;

    /// Removes a secret. Scope `admin`.
    #[method(name = "secret_remove", param_kind = map, with_extensions)]
    async fn secret_remove(&self, name: String) -> RpcResult<SecretName>;

    /// Makes an operator's token; this answer is the only place where it ever stands in clear. `expires_in` is a
    /// duration such as `30d`; without it the token lasts until it is revoked. Scope `admin`.
    #[method(name = "token_create", param_kind = map, with_extensions)]
    async fn token_create(
        &self,
        label: String,
        butler: Option<String>,
        tenant: Option<String>,
        scopes: Vec<String>,
        expires_in: Option<String>,
    ) -> RpcResult<MadeToken>;

    /// The live tokens, without their secret part. Scope `admin`.
    #[method(name = "token_list", param_kind = map, with_extensions)]
    async fn token_list(&self) -> RpcResult<Vec<TokenInfo>>;

    /// Ends a token at once. Scope `admin`.
    #[method(name = "token_revoke", param_kind = map, with_extensions)]
    async fn token_revoke(&self, id: Uuid) -> RpcResult<Revoked>;

    /// A butler's tools. Scope `read`.
    #[method(name = "tool_list", param_kind = map, with_extensions)]
    async fn tool_list(&self, butler: String) -> RpcResult<Vec<ToolInfo>>;

    /// Calls a butler's tool, through the same checks and the same record as over MCP. Scope `tools`.
    #[method(name = "tool_call", param_kind = map, with_extensions)]
    async fn tool_call(&self, butler: String, tool: String, args: Option<Map<String, Value>>) -> RpcResult<ToolAnswer>;

    /// How to connect to the database as a butler's role. Scope `admin`.
    #[method(name = "db_login", param_kind = map, with_extensions)]
    async fn db_login(&self, butler: String) -> RpcResult<DbLogin>;

    /// Events of sessions as they happen, of one butler or of all. Scope `read`.
    #[subscription(name = "subscribe_events" => "event", unsubscribe = "unsubscribe_events", item = LiveEvent,
                   param_kind = map, with_extensions)]
    async fn subscribe_events(&self, butler: Option<String>) -> SubscriptionResult;
}

/// What `sessions_list` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionPage {
    /// Rows as the tool `sessions_list` shows them, each with `butler` added; the newest first.
    pub sessions: Vec<Value>,
    /// Butlers whose sessions can't be read just now.
    pub unavailable: Vec<Unavailable>,
}

/// What `schedule_list` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SchedulePage {
    pub schedules: Vec<Value>,
    /// Butlers whose schedules can't be read just now.
    pub unavailable: Vec<Unavailable>,
}

/// A butler that could not be asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unavailable {
    pub butler: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// What `trigger_start` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Started {
    pub session_id: Uuid,
    pub butler: String,
}

/// What `timeline` answers: everything in the order of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// What was asked for.
    pub id: Uuid,
    /// The traces that it belongs to.
    pub traces: Vec<String>,
    /// Rows as the tool `sessions_list` shows them, each with `butler`, the `request` that it came from, and its `depth`:
    /// the number of sessions between the first request and this one.
    pub sessions: Vec<Value>,
    /// What happened in these sessions.
    pub events: Vec<SessionEvent>,
    /// Tool calls outside of sessions.
    pub calls: Vec<Value>,
    /// Runs of schedules.
    pub runs: Vec<Value>,
    /// Of the sessions whose cost is known, in US dollars; `None`: of none.
    pub cost_usd: Option<String>,
    pub sessions_of_unknown_cost: usize,
    /// There is more on record than is shown here.
    pub cut: bool,
    /// Butlers that can't be asked just now.
    pub unavailable: Vec<Unavailable>,
}

/// What `sessions_cancel` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cancelled {
    pub session_id: Uuid,
    pub butler: String,
}

/// What may be told of a secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SecretName {
    pub name: String,
    /// `None` where only the name matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

/// A token that was just made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MadeToken {
    /// The token in clear.
    pub token: Sealed,
    pub id: Uuid,
    pub label: String,
    pub tenant: String,
    pub butler: Option<String>,
    pub scopes: Vec<String>,
    pub expires_at: Option<Timestamp>,
}

/// What `token_revoke` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Revoked {
    pub id: Uuid,
}

/// A tool as `tool_list` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolInfo {
    pub name: String,
    pub description: String,
    /// What a call may change: `none`, `idempotent` or `once`.
    pub effect: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

/// What a tool answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolAnswer {
    pub result: Value,
    /// Whether the call itself failed. A tool that refuses says so in its result: `{"status": "error", …}`.
    pub is_error: bool,
}

/// A role's way into the database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DbLogin {
    /// A host name, an address, or the directory of a Unix socket.
    pub host: String,
    pub port: u16,
    pub dbname: String,
    pub user: String,
    pub password: Sealed,
    /// What libpq calls `options`: the tenant, without which no row is seen, and the owner's time zone.
    pub options: String,
}

/// What a subscriber gets.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LiveEvent {
    Session(Box<SessionEvent>),
    /// The subscriber was too slow: so many events were left out here.
    Missed {
        missed: u64,
    },
}

/// A call whose rows can be put back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UndoableCall {
    /// Its name for people: `health/123`.
    pub call: String,
    pub butler: String,
    pub tool: String,
    pub called_at: Timestamp,
    /// Null: a person called, not a session.
    pub session_id: Option<Uuid>,
    /// How many rows it changed.
    pub rows: i64,
}

/// A call that was taken back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TakenBack {
    pub call: String,
    pub tool: String,
    pub rows: i64,
}

/// What was taken back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Undone {
    pub butler: String,
    /// The record of this undo, by which it can be taken back itself.
    pub undo: String,
    /// The newest first.
    pub calls: Vec<TakenBack>,
    /// The tools of calls that changed what is not kept.
    pub left: Vec<String>,
}
