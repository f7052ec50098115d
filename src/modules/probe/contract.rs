//! A module that uses each part of the contract: background tasks, inbound, routes, sessions, the MCP client, opening
//! lines, a schedule that people see.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::background::{Background, BackgroundTask, TaskError, TaskKind};
use crate::contract::{Factory, Manifest, Module, ModuleContext, ModuleError};
use crate::job::{Job, JobCall, JobFailure, NamedJob};
use crate::opening::{Lines, Opening, SessionLines};
use crate::own_sessions::{Cause, SessionRequest};
use crate::routes::{Route, RouteAnswer, RouteHandler, RouteRequest, RouteSpec};
use ::journal::pack::Part;
use access::GrantScope;
use base::{ButlerName, HumanDuration, TenantId, Trust};
use config::KeyMistake;
use conversation::Placed;
use mcp::{RemoteConnection, RemoteServer};
use schedule::{BuiltInSchedule, BuiltInTimes};
use sessions::budget::Limits;
use sessions::{SessionResult, Trigger, TriggerError};
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// The channel whose messages it hands in.
const CHANNEL: &str = "probe";

pub(super) struct ContractFactory {
    pub name: &'static str,
    pub needs: &'static [&'static str],
}

impl Factory for ContractFactory {
    fn name(&self) -> &str {
        self.name
    }
    fn dependencies(&self) -> &[&str] {
        self.needs
    }
    fn check(&self, config: &Value) -> Vec<KeyMistake> {
        let known = ["every", "marker", "opening", "order", "route"];
        let keys = config.as_object().into_iter().flat_map(Map::keys);
        let mistake = |key: &String| KeyMistake::new(key, "unknown key", "");
        keys.filter(|key| !known.contains(&key.as_str())).map(mistake).collect()
    }
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let text = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Box::new(Contract {
            name: self.name,
            marker: Marker(text("marker").map(PathBuf::from)),
            every: text("every").and_then(|every| HumanDuration::parse(&every).ok()),
            opening: text("opening"),
            order: config.get("order").and_then(Value::as_u64).and_then(|n| n.try_into().ok()).unwrap_or(100),
            route: text("route"),
            ends: ["steady", "shaky", "vital"].map(|task| (task, Arc::new(End::default()))).into(),
        }))
    }
}

/// A file to which each start and stop adds a line.
#[derive(Clone)]
pub(super) struct Marker(pub Option<PathBuf>);

impl Marker {
    pub fn say(&self, line: &str) {
        if let Some(path) = &self.0 {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            // A test reads the file; that a line is missing is then the finding.
            let _ = file.and_then(|mut file| writeln!(file, "{line}"));
        }
    }
}

/// How a test ends a task.
#[derive(Default)]
struct End {
    panic: Notify,
    error: Notify,
}

struct Contract {
    name: &'static str,
    /// How often its job runs, if it does.
    every: Option<HumanDuration>,
    marker: Marker,
    opening: Option<String>,
    order: u16,
    /// One more route, which it may have no right to.
    route: Option<String>,
    ends: BTreeMap<&'static str, Arc<End>>,
}

/// The job of its schedule, which people see in their list.
const JOB: &[&str] = &["contract_work"];

/// Says by whom it was run.
struct Noting(Marker);

#[async_trait]
impl Job for Noting {
    async fn run(&self, call: JobCall<'_>) -> Result<String, JobFailure> {
        let said = format!("{} ran with priority {}", call.schedule, call.priority);
        self.0.say(&said);
        Ok(said)
    }
}

struct Waiting {
    label: String,
    marker: Marker,
    end: Arc<End>,
}

#[async_trait]
impl Background for Waiting {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        self.marker.say(&format!("{} started", self.label));
        tokio::select! {
            () = stop.cancelled() => {
                self.marker.say(&format!("{} stopped", self.label));
                Ok(())
            }
            () = self.end.panic.notified() => panic!("asked to panic"),
            () = self.end.error.notified() => Err(TaskError("asked to fail".to_owned())),
        }
    }
}

struct Done;

#[async_trait]
impl Background for Done {
    async fn run(&self, _: CancellationToken) -> Result<(), TaskError> {
        Ok(())
    }
}

struct Say {
    line: String,
}

#[async_trait]
impl SessionLines for Say {
    async fn lines(&self, trigger: &Trigger) -> Option<Lines> {
        if trigger.prompt.contains("opening hangs") {
            std::future::pending::<()>().await;
        }
        Some(Lines { first: None, notes: false, parts: vec![Part::lines(self.line.clone())], seen: Trust::System })
    }
}

/// What its routes do.
#[derive(Clone, Copy)]
enum Behaviour {
    Echo,
    Panic,
    Session,
}

struct Answering {
    cx: ModuleContext,
    behaviour: Behaviour,
}

#[async_trait]
impl RouteHandler for Answering {
    async fn answer(&self, request: RouteRequest) -> RouteAnswer {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        match self.behaviour {
            Behaviour::Echo => {
                let token = request.headers.contains_key("authorization");
                let shown = json!({"parts": request.parts, "query": request.query, "body": body, "token_shown": token,
                                   "tenant": request.tenant.as_str()});
                RouteAnswer::json(StatusCode::OK, &shown)
            }
            Behaviour::Panic => panic!("asked to panic"),
            Behaviour::Session => {
                let cause = Cause::Own { tenant: request.tenant, trust: Trust::Known };
                match self.cx.sessions.run(SessionRequest::new(body, cause)).await {
                    Ok(end) => RouteAnswer::json(StatusCode::OK, &json!(end)),
                    Err(e) => RouteAnswer::error(StatusCode::CONFLICT, e.code(), &e.to_string()),
                }
            }
        }
    }
}

impl Contract {
    fn is_child(&self) -> bool {
        self.name != "contract_probe"
    }

    fn specs(&self) -> Vec<(RouteSpec, Behaviour)> {
        if self.is_child() {
            return Vec::new();
        }
        let mut specs = vec![
            (RouteSpec::new(Method::POST, "/hooks/contract_probe/echo", GrantScope::Ingest), Behaviour::Echo),
            (RouteSpec::new(Method::GET, "/api/contract/{name}", GrantScope::Read), Behaviour::Echo),
            (RouteSpec::new(Method::POST, "/api/contract/panic", GrantScope::Tools), Behaviour::Panic),
            (RouteSpec::new(Method::POST, "/api/contract/session", GrantScope::Tools), Behaviour::Session),
        ];
        if let Some(path) = &self.route {
            specs.push((RouteSpec::new(Method::GET, path, GrantScope::Read), Behaviour::Echo));
        }
        specs
    }
}

#[async_trait]
impl Module for Contract {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        if self.is_child() {
            return Ok(Manifest::default());
        }
        let tools =
            ["contract_end", "contract_receive", "contract_session", "contract_remote", "contract_conversation"];
        Ok(Manifest {
            tools: tools.map(str::to_owned).into(),
            routes: self.specs().into_iter().map(|(spec, _)| spec).collect(),
            channels: vec![CHANNEL.to_owned(), "chat".to_owned()],
        })
    }
    async fn start(&self, _: &ModuleContext) -> Result<(), ModuleError> {
        self.marker.say(&format!("{} started", self.name));
        Ok(())
    }
    fn tasks(&self, _: &ModuleContext) -> Vec<BackgroundTask> {
        let waiting = |name: &'static str, kind| {
            let (label, marker) = (format!("{}/{name}", self.name), self.marker.clone());
            BackgroundTask { name, kind, work: Arc::new(Waiting { label, marker, end: self.ends[name].clone() }) }
        };
        vec![
            waiting("steady", TaskKind::Loop),
            waiting("shaky", TaskKind::Loop),
            waiting("vital", TaskKind::Vital),
            BackgroundTask { name: "done", kind: TaskKind::Once, work: Arc::new(Done) },
        ]
    }
    fn routes(&self, cx: &ModuleContext) -> Vec<Route> {
        let route = |(spec, behaviour)| Route { spec, handler: Arc::new(Answering { cx: cx.clone(), behaviour }) };
        self.specs().into_iter().map(route).collect()
    }
    fn jobs(&self, _: &ModuleContext) -> Vec<NamedJob> {
        vec![NamedJob { names: JOB, job: Arc::new(Noting(self.marker.clone())) }]
    }
    fn schedules(&self) -> Vec<BuiltInSchedule> {
        let schedule = |every: HumanDuration| BuiltInSchedule {
            name: "contract-work".to_owned(),
            times: BuiltInTimes::Every(every.0),
            job: JOB,
            priority: 1,
            require_idle: false,
            listed: true,
        };
        self.every.into_iter().map(schedule).collect()
    }
    fn opening(&self, _: &ModuleContext) -> Option<Opening> {
        let line = self.opening.clone()?;
        Some(Opening { order: self.order, source: Arc::new(Say { line }) })
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        if self.is_child() {
            return Ok(Vec::new());
        }
        let ends = self.ends.clone();
        let (inbound, sessions, conversation) = (cx.clone(), cx.clone(), cx.clone());
        Ok(vec![
            define("contract_end", handler(move |call| end_task(call, ends.clone()))),
            define("contract_receive", handler(move |call| receive(call, inbound.clone()))),
            define("contract_session", handler(move |call| run_session(call, sessions.clone()))),
            define("contract_remote", handler(remote)),
            define("contract_conversation", handler(move |call| read_on(call, conversation.clone()))),
        ])
    }
    async fn stop(&self) {
        self.marker.say(&format!("{} stopped", self.name));
    }
}

fn define(name: &str, run: tools::Handler) -> Tool {
    let meta = Meta { effect: Some(Effect::Once), ..Meta::default() };
    let def = Definition::new(name, "Uses a part of the contract.", json!({"type": "object"}), meta).expect("a schema");
    Tool::new(&Arc::new(def), run)
}

/// `{"task", "how": "panic" | "error"}`
async fn end_task(call: ToolCall, ends: BTreeMap<&'static str, Arc<End>>) -> Result<Value, ToolError> {
    let Some(end) = call.text("task").and_then(|task| ends.get(task)) else {
        return Err(ToolError::refused("not_found", "There is no such task."));
    };
    if call.text("how") == Some("panic") {
        end.panic.notify_one()
    } else {
        end.error.notify_one()
    }
    Ok(json!({}))
}

/// `{"text", "channel"}`
async fn receive(call: ToolCall, cx: ModuleContext) -> Result<Value, ToolError> {
    let channel = call.text("channel").unwrap_or(CHANNEL);
    let message = json!({
        "schema_version": "ingest.v1",
        "source": {"channel": channel, "provider": "probe", "endpoint_identity": "probe:1"},
        "event": {"external_event_id": call.text("text"), "observed_at": cx.clock.now().to_string()},
        "sender": {"identity": "somebody"},
        "payload": {"normalized_text": call.text("text")},
    });
    let Value::Object(message) = message else { return Ok(Value::Null) };
    let accepted = cx.inbound.accept(&TenantId::owner(), message).await;
    accepted.map(|accepted| json!(accepted)).map_err(|e| ToolError::refused(e.code(), e.to_string()))
}

/// `{"prompt", "model", "runtime", "tools", "turns"}`
async fn run_session(call: ToolCall, cx: ModuleContext) -> Result<Value, ToolError> {
    let list = call.args.get("tools").and_then(Value::as_array);
    let tools: Option<BTreeSet<String>> =
        list.map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    let turns = call.args.get("turns").and_then(Value::as_u64).and_then(|n| n.try_into().ok());
    let ended: Result<SessionResult, TriggerError> = cx
        .sessions
        .run(SessionRequest {
            model: call.text("model").map(str::to_owned),
            runtime: call.text("runtime").and_then(|name| name.parse().ok()),
            tools,
            limits: Limits { turns, ..Limits::default() },
            ..SessionRequest::new(call.text("prompt").unwrap_or_default(), Cause::Call(&call))
        })
        .await;
    ended.map(|end| json!(end)).map_err(|e| ToolError::refused(e.code(), e.to_string()))
}

/// `{"after"}`: what concerns the butler and stands behind that place of the conversation log.
async fn read_on(call: ToolCall, cx: ModuleContext) -> Result<Value, ToolError> {
    let place = call.args.get("after").and_then(Value::as_i64).unwrap_or(0);
    let mut lease = call.lease().await?;
    let page = cx.conversation.after(&mut lease, &call.context().tenant_id, place, 100).await?;
    let said = |p: &Placed| json!({"place": p.place, "person": p.entry.person, "text": p.entry.text});
    Ok(page.iter().map(said).collect())
}

/// `{"url", "token_file", "tool", "arguments"}`; a token among the arguments would be covered, as every secret is.
async fn remote(call: ToolCall) -> Result<Value, ToolError> {
    let refused = |e: mcp::ClientError| ToolError::refused("remote", e.to_string());
    let server = RemoteServer {
        name: "another".to_owned(),
        url: call.text("url").unwrap_or_default().to_owned(),
        token: call
            .text("token_file")
            .and_then(|file| std::fs::read_to_string(file).ok())
            .map(|token| token.trim().to_owned().into()),
        headers: Vec::new(),
        call_within: Duration::from_secs(20),
    };
    let connection = RemoteConnection::open(server).await.map_err(refused)?;
    let names: Vec<String> = connection.tools().iter().map(|tool| tool.name.clone()).collect();
    let arguments = call.args.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
    let answer = connection.call(call.text("tool").unwrap_or_default(), arguments).await.map_err(refused)?;
    connection.close().await;
    Ok(json!({"tools": names, "text": answer.text, "is_error": answer.is_error}))
}
