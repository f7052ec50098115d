//! Calls for whoever looks at a butler on a page: its skills, what its tools answer that only read, one tool tried with
//! its line on record, a schedule that begins while the caller goes on.

use std::sync::Arc;

use async_trait::async_trait;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, to_its_end, typed};
use super::schedules::ScheduleRow;
use super::sessions::CallRow;
use super::visitor::may;
use super::work::ToolAnswer;
use tools::{Effect, Reply};

/// What may be asked of a butler's tools by who may only look: they change nothing, ask nobody outside, and answer what a
/// page of the household shows.
const LOOKS: &[&str] = &[
    "backfill_list",
    "connector_list",
    "contact_identity_list",
    "council_question",
    "council_questions",
    "mcp_server_list",
    "mcp_server_show",
    "memory_get",
    "memory_history",
    "memory_search",
    "memory_stats",
    "memory_why",
    "notes_list",
    "triage_rule_list",
];

/// Looking at a butler.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait LooksApi {
    /// A butler's skills, as they were when it started. Scope `read`.
    #[method(name = "skill_list", param_kind = map, with_extensions)]
    async fn skill_list(&self, butler: String) -> Result<Vec<SkillInfo>, Failure>;

    /// What one of the tools answers that show memories, notes, the council, people, rules, connectors and MCP servers; no other is
    /// asked. Scope `read`.
    #[method(name = "tool_look", param_kind = map, with_extensions)]
    async fn tool_look(&self, butler: String, tool: String, args: Option<Map<String, Value>>)
    -> Result<Value, Failure>;

    /// Calls a butler's tool as `tool_call` does, and answers with the line that is on record of it. Scope `tools`.
    #[method(name = "tool_try", param_kind = map, with_extensions)]
    async fn tool_try(
        &self,
        butler: String,
        tool: String,
        args: Option<Map<String, Value>>,
    ) -> Result<ToolTried, Failure>;

    /// Runs a schedule once, now, and answers before the run has begun. Scope `tools`.
    #[method(name = "schedule_start", param_kind = map, with_extensions)]
    async fn schedule_start(&self, key: String, butler: Option<String>) -> Result<ScheduleRow, Failure>;
}

/// A skill as `skill_list` shows it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SkillInfo {
    pub name: String,
    pub description: String,
    pub version: Option<String>,
    /// The household's, not this butler's alone.
    pub shared: bool,
}

/// What `tool_try` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolTried {
    #[serde(flatten)]
    pub answer: ToolAnswer,
    /// `None`: its line can't be read just now.
    pub call: Option<CallRow>,
}

/// Asks a tool of a butler that only reads; its answer as the type that the caller has of it.
pub async fn look<T: DeserializeOwned>(
    calls: &Rpc,
    ext: &Extensions,
    butler: &str,
    tool: &str,
    args: Value,
) -> Result<T, Failure> {
    let args = args.as_object().cloned();
    answered(calls.tool_look(ext, butler.to_owned(), tool.to_owned(), args).await?)
}

/// An answer of a tool, or a part of it, as its type.
pub fn answered<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|e| Failure::internal("Reading what a tool answered", &e))
}

#[async_trait]
impl LooksApiServer for Rpc {
    async fn skill_list(&self, ext: &Extensions, butler: String) -> Result<Vec<SkillInfo>, Failure> {
        let grant = may(ext, Need::Look)?;
        let butler = self.butler(&grant, &butler).await?;
        let info = |(skill, shared): (&config::Skill, bool)| SkillInfo {
            name: skill.name.clone(),
            description: skill.description.clone(),
            version: skill.version.clone(),
            shared,
        };
        Ok(butler.skills().map(info).collect())
    }

    async fn tool_look(
        &self,
        ext: &Extensions,
        butler: String,
        tool: String,
        args: Option<Map<String, Value>>,
    ) -> Result<Value, Failure> {
        let grant = may(ext, Need::Look)?;
        let butler = self.butler(&grant, &butler).await?;
        let reads = butler.tools().definitions().any(|d| d.name == tool && d.effect() == Effect::None);
        if !LOOKS.contains(&tool.as_str()) || !reads {
            let name = butler.name();
            return Err(Failure::new(
                "unknown_tool",
                format!("{name} has no tool `{tool}` that can be looked at here."),
            ));
        }
        if !grant.allows(&tool) {
            return Err(Failure::forbidden(format!("This token's list lacks the tool `{tool}`.")));
        }
        let caller = self.caller(&grant);
        let reply = butler.tools().call(&tool, args.unwrap_or_default(), caller, CancellationToken::new()).await;
        match reply {
            Some(Reply { json, is_error: false, .. }) if json["status"] != "error" => Ok(json),
            Some(Reply { json, .. }) => Err(Failure::new(
                json["code"].as_str().unwrap_or("tool_failed"),
                json["error"].as_str().unwrap_or("The tool failed."),
            )),
            None => Err(Failure::new("unknown_tool", format!("There is no tool `{tool}` any more."))),
        }
    }

    async fn tool_try(
        &self,
        ext: &Extensions,
        butler: String,
        tool: String,
        args: Option<Map<String, Value>>,
    ) -> Result<ToolTried, Failure> {
        let grant = may(ext, Need::Work)?;
        let butler = self.butler(&grant, &butler).await?;
        let caller = self.caller(&grant);
        let context = caller.context.clone();
        let answer = self.run_tool_as(&grant, caller, &butler, &tool, args.unwrap_or_default()).await?;
        // The call is done: that its line can't be read is no failure of it.
        let part = butler.spawner().trace_part(&context, context.request_id.0, &[]).await;
        let rows = part.map(|part| typed::<Vec<CallRow>>(part.calls.into()));
        let call = rows.ok().and_then(Result::ok).and_then(|rows| rows.into_iter().next());
        Ok(ToolTried { answer, call })
    }

    async fn schedule_start(
        &self,
        ext: &Extensions,
        key: String,
        butler: Option<String>,
    ) -> Result<ScheduleRow, Failure> {
        let grant = may(ext, Need::Work)?;
        let (butler, schedule) = Box::pin(self.schedule(&grant, butler.as_deref(), &key)).await?;
        if !grant.allows("schedule_trigger") {
            return Err(Failure::forbidden("This token's list lacks the tool `schedule_trigger`."));
        }
        let (rpc, grant, args) =
            (self.clone(), Arc::clone(&grant), Map::from_iter([("id".to_owned(), json!(schedule.id))]));
        // How it ends is in the schedule's history.
        let run = async move { Box::pin(rpc.run_tool(&grant, &butler, "schedule_trigger", args)).await.map(drop) };
        drop(to_its_end::<(), Failure, _>("schedule-start", "The run", run));
        Ok(schedule)
    }
}
