//! Sessions over all butlers, read through each butler's own tools.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, Unavailable, limited, not_found, typed};
use super::visitor::may;
use access::Grant;
use base::{Money, SessionId};
use butler::Butler;
use sessions::SessionState;

const MOST: u32 = 200;
const USUAL: u32 = 20;

/// Sessions.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait SessionsApi {
    /// The newest sessions of one butler or of all, at most `limit` (1 to 200, else 20). Scope `read`.
    #[method(name = "sessions_list", param_kind = map, with_extensions)]
    async fn sessions_list(&self, butler: Option<String>, limit: Option<u32>) -> Result<SessionPage, Failure>;

    /// One session with its tool calls, its system prompt and the context of its trigger, whichever butler has it.
    /// Scope `read`.
    #[method(name = "sessions_get", param_kind = map, with_extensions)]
    async fn sessions_get(&self, id: Uuid) -> Result<SessionDetail, Failure>;

    /// Cancels a session that waits or runs. Scope `admin`.
    #[method(name = "sessions_cancel", param_kind = map, with_extensions)]
    async fn sessions_cancel(&self, id: Uuid) -> Result<Cancelled, Failure>;
}

/// What `sessions_list` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionPage {
    /// The newest first.
    pub sessions: Vec<SessionRow>,
    /// Butlers whose sessions can't be read just now.
    pub unavailable: Vec<Unavailable>,
}

/// A session, as the tool `sessions_list` shows it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionRow {
    #[serde(default)]
    pub butler: String,
    pub id: Uuid,
    pub request_id: Uuid,
    pub parent_session_id: Option<Uuid>,
    pub trace_id: String,
    pub prompt: String,
    /// `trigger`, `schedule:<name>`, …
    pub trigger_source: String,
    pub state: SessionState,
    pub runtime: String,
    pub model: Option<String>,
    pub trust: String,
    /// When what it read lowered its trust.
    pub exposed_at: Option<Timestamp>,
    /// Who besides the household may learn all that it was shown, as `channel:identity`.
    pub audience: Vec<String>,
    pub result: Option<String>,
    pub error: Option<String>,
    pub exit_status: Option<String>,
    pub tool_call_count: i64,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    pub cache_creation_tokens: Option<i64>,
    /// `None` is unknown.
    pub cost_usd: Option<Money>,
    pub queued_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    pub duration_ms: Option<i64>,
    /// What else its row has.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What `sessions_get` answers.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionDetail {
    #[serde(flatten)]
    pub session: SessionRow,
    pub tool_calls: Vec<CallRow>,
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// `{"request": …, "context": …}` of its trigger.
    #[serde(default)]
    pub context: Value,
}

/// A tool call on record.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallRow {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub butler: String,
    pub tool: String,
    pub arguments: Value,
    /// `ok`, `refused`, `error`, `cancelled`
    pub outcome: String,
    pub detail: Option<String>,
    /// Who called; of a call in a session its session is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    pub called_at: Timestamp,
    pub duration_us: i64,
    /// What else its row has.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What `sessions_cancel` answers.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cancelled {
    pub session_id: Uuid,
    pub butler: String,
}

impl Rpc {
    /// Asks one of a butler's own tools. The error says why it did not answer.
    pub(super) async fn own_tool<T: DeserializeOwned>(
        &self,
        grant: &Arc<Grant>,
        butler: &Butler,
        tool: &str,
        args: Map<String, Value>,
    ) -> Result<T, Unavailable> {
        let reply = butler.tools().call(tool, args, self.caller(grant), CancellationToken::new()).await;
        let reply = reply.ok_or_else(|| Unavailable::new(butler, &format!("it has no tool `{tool}`")))?;
        if reply.is_error {
            return Err(Unavailable::new(butler, &reply.json["error"].as_str().unwrap_or("the tool failed")));
        }
        serde_json::from_value(reply.json).map_err(|e| Unavailable::new(butler, &e))
    }

    /// One session, and the butler that has it.
    pub async fn session(&self, grant: &Arc<Grant>, id: Uuid) -> Result<(Butler, SessionDetail), Failure> {
        let (butlers, mut unavailable) = self.butlers(grant, None).await?;
        for butler in butlers {
            let args = Map::from_iter([("session_id".to_owned(), json!(id))]);
            match self.own_tool::<Option<SessionDetail>>(grant, &butler, "sessions_get", args).await {
                Ok(Some(mut found)) => {
                    found.session.butler = butler.name().to_string();
                    return Ok((butler, found));
                }
                Ok(None) => {}
                Err(why) => unavailable.push(why),
            }
        }
        Err(not_found(&format!("There is no session {id}. See: butlerd sessions list"), &unavailable))
    }
}

#[async_trait]
impl SessionsApiServer for Rpc {
    async fn sessions_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        limit: Option<u32>,
    ) -> Result<SessionPage, Failure> {
        let grant = may(ext, Need::Look)?;
        let limit = limited(limit, USUAL, MOST)?;
        let (butlers, mut unavailable) = self.butlers(&grant, butler.as_deref()).await?;
        let args = Map::from_iter([("limit".to_owned(), json!(limit))]);
        // Each has a role and connections of its own: all of them answer in the time of the slowest.
        let asked = butlers
            .iter()
            .map(|butler| self.own_tool::<Vec<SessionRow>>(&grant, butler, "sessions_list", args.clone()));
        let mut sessions: Vec<SessionRow> = Vec::new();
        for (butler, found) in butlers.iter().zip(join_all(asked).await) {
            match found {
                Ok(rows) => {
                    let rows = rows.into_iter();
                    sessions.extend(rows.map(|row| SessionRow { butler: butler.name().to_string(), ..row }));
                }
                Err(why) => unavailable.push(why),
            }
        }
        sessions.sort_by_key(|row| Reverse(row.queued_at));
        sessions.truncate(limit as usize);
        Ok(SessionPage { sessions, unavailable })
    }

    async fn sessions_get(&self, ext: &Extensions, id: Uuid) -> Result<SessionDetail, Failure> {
        let grant = may(ext, Need::Look)?;
        let (butler, mut found) = self.session(&grant, id).await?;
        #[derive(Default, Deserialize)]
        struct Prompt {
            system_prompt: Option<String>,
            context: Value,
        }
        let prompt = butler.spawner().prompt_of(&self.caller(&grant).context, id).await?;
        let prompt = typed::<Option<Prompt>>(prompt)?.unwrap_or_default();
        (found.system_prompt, found.context) = (prompt.system_prompt, prompt.context);
        Ok(found)
    }

    async fn sessions_cancel(&self, ext: &Extensions, id: Uuid) -> Result<Cancelled, Failure> {
        let grant = may(ext, Need::Manage)?;
        // The row says whose session it is, and keeps one tenant from another's.
        let (butler, found) = self.session(&grant, id).await?;
        let name = butler.name().to_string();
        if butler.spawner().cancel(SessionId(id)) {
            return Ok(Cancelled { session_id: id, butler: name });
        }
        let message = match found.session.state {
            SessionState::Queued | SessionState::Running => {
                format!("Session {id} of {name} was just ending; nothing is left to cancel.")
            }
            over => format!("Session {id} of {name} is over already: {}.", over.as_str().replace('_', " ")),
        };
        Err(Failure::new("not_running", message))
    }
}
