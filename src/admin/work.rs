//! Calls that make a butler do something: a session, or one tool.

use std::sync::Arc;

use async_trait::async_trait;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, to_its_end};
use super::visitor::may;
use access::{Caller, Grant};
use butler::Butler;
use sessions::{Preview, SessionResult, Trigger};
use tools::{Effect, Reply};

/// Sessions and tools.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait WorkApi {
    /// Starts a session of a butler and answers when it is over. The session goes on when the caller hangs up.
    /// Scope `tools`.
    #[method(name = "trigger", param_kind = map, with_extensions)]
    // The macro has a variable `context` of its own, hence the other name here.
    async fn trigger(
        &self,
        butler: String,
        prompt: String,
        #[argument(rename = "context")] facts: Option<Value>,
    ) -> Result<SessionResult, Failure>;

    /// Starts a session of a butler and answers as soon as its row is there. Scope `tools`.
    #[method(name = "trigger_start", param_kind = map, with_extensions)]
    async fn trigger_start(
        &self,
        butler: String,
        prompt: String,
        #[argument(rename = "context")] facts: Option<Value>,
    ) -> Result<Started, Failure>;

    /// What such a trigger would run, and why not if so. Starts nothing and writes nothing. Scope `tools`.
    #[method(name = "trigger_preview", param_kind = map, with_extensions)]
    async fn trigger_preview(
        &self,
        butler: String,
        prompt: String,
        #[argument(rename = "context")] facts: Option<Value>,
    ) -> Result<Preview, Failure>;

    /// A butler's tools. Scope `read`.
    #[method(name = "tool_list", param_kind = map, with_extensions)]
    async fn tool_list(&self, butler: String) -> Result<Vec<ToolInfo>, Failure>;

    /// Calls a butler's tool, through the same checks and the same record as over MCP. Scope `tools`.
    #[method(name = "tool_call", param_kind = map, with_extensions)]
    async fn tool_call(
        &self,
        butler: String,
        tool: String,
        args: Option<Map<String, Value>>,
    ) -> Result<ToolAnswer, Failure>;
}

/// What `trigger_start` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Started {
    pub session_id: Uuid,
    pub butler: String,
}

/// A tool as `tool_list` shows it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
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

impl Rpc {
    /// Which butler is asked for what.
    async fn request(
        &self,
        ext: &Extensions,
        butler: &str,
        prompt: String,
        context: Option<Value>,
    ) -> Result<(Butler, Trigger), Failure> {
        let grant = may(ext, Need::Work)?;
        let butler = self.butler(&grant, butler).await?;
        let request = self.caller(&grant).context;
        Ok((butler, Trigger { context, ..Trigger::new(prompt, "trigger", request) }))
    }

    /// Calls a tool of a butler for a person, through all checks.
    pub async fn run_tool(
        &self,
        grant: &Arc<Grant>,
        butler: &Butler,
        tool: &str,
        args: Map<String, Value>,
    ) -> Result<ToolAnswer, Failure> {
        self.run_tool_as(grant, self.caller(grant), butler, tool, args).await
    }

    /// The same for a request that is known already.
    pub(super) async fn run_tool_as(
        &self,
        grant: &Grant,
        caller: Caller,
        butler: &Butler,
        tool: &str,
        args: Map<String, Value>,
    ) -> Result<ToolAnswer, Failure> {
        let (tools, name) = (butler.tools().clone(), butler.name().clone());
        let unknown =
            || Failure::new("unknown_tool", format!("{name} has no tool `{tool}`. See: butlerd tool list {name}"));
        if !tools.has(tool) || tools.is_internal(tool) {
            return Err(unknown());
        }
        if !grant.allows(tool) {
            return Err(Failure::forbidden(format!("This token's list lacks the tool `{tool}`.")));
        }
        let cancelled = CancellationToken::new();
        let gone = cancelled.clone().drop_guard();
        let tool_name = tool.to_owned();
        // A call with an effect reaches its end even when the caller hangs up; one without is dropped then.
        let ended = to_its_end::<Option<Reply>, Failure, _>("tool-call", "The tool", async move {
            Ok(tools.call(&tool_name, args, caller, cancelled).await)
        })
        .await;
        gone.disarm();
        let reply = ended?.ok_or_else(unknown)?;
        Ok(ToolAnswer { result: reply.json, is_error: reply.is_error })
    }
}

#[async_trait]
impl WorkApiServer for Rpc {
    async fn trigger(
        &self,
        ext: &Extensions,
        butler: String,
        prompt: String,
        facts: Option<Value>,
    ) -> Result<SessionResult, Failure> {
        let (butler, request) = self.request(ext, &butler, prompt, facts).await?;
        to_its_end("trigger", "The session", async move { butler.trigger(request).await }).await
    }

    async fn trigger_start(
        &self,
        ext: &Extensions,
        butler: String,
        prompt: String,
        facts: Option<Value>,
    ) -> Result<Started, Failure> {
        let (butler, request) = self.request(ext, &butler, prompt, facts).await?;
        let name = butler.name().to_string();
        let started =
            to_its_end("trigger", "The session", async move { butler.spawner().start(request).await }).await?;
        Ok(Started { session_id: started.0, butler: name })
    }

    async fn trigger_preview(
        &self,
        ext: &Extensions,
        butler: String,
        prompt: String,
        facts: Option<Value>,
    ) -> Result<Preview, Failure> {
        let (butler, request) = self.request(ext, &butler, prompt, facts).await?;
        Ok(butler.spawner().preview(&request).await?)
    }

    async fn tool_list(&self, ext: &Extensions, butler: String) -> Result<Vec<ToolInfo>, Failure> {
        let grant = may(ext, Need::Look)?;
        let butler = self.butler(&grant, &butler).await?;
        let shown = butler.tools().definitions().filter(|d| grant.allows(&d.name) && !d.meta.internal);
        let info = |d: Arc<tools::Definition>| ToolInfo {
            name: d.name.clone(),
            description: d.description.clone(),
            effect: Effect::as_str(d.effect()).to_owned(),
            input_schema: Value::Object((*d.schema).clone()),
        };
        Ok(shown.map(info).collect())
    }

    async fn tool_call(
        &self,
        ext: &Extensions,
        butler: String,
        tool: String,
        args: Option<Map<String, Value>>,
    ) -> Result<ToolAnswer, Failure> {
        let grant = may(ext, Need::Work)?;
        let butler = self.butler(&grant, &butler).await?;
        self.run_tool(&grant, &butler, &tool, args.unwrap_or_default()).await
    }
}
