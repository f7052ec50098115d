//! MCP servers of others: each `[mcp.servers.<name>]` of a `butler.toml` is a module `mcp.<name>`, whose tools the
//! server runs.
//!
//! What sessions are told of such a tool is what the server said when it was first seen, or what the owner agreed to
//! since: the list is a row (`pins.rs`). A server that shows another list is held: what is new or different is not
//! offered. Its results are a stranger's words, and what is sent to it leaves the household, unless the owner's file
//! says otherwise. It is started by a call and ended when none comes (`server.rs`), and one that is down refuses its
//! calls alone.

mod link;
mod operator;
mod pins;
mod registry;
mod server;
mod sql;
mod start;
mod tool;
mod undo;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::background::{Background, BackgroundTask, TaskError, TaskKind};
use super::contract::{Credential, Factory, Manifest, Module, ModuleContext, ModuleError};
use base::ButlerName;
use config::{KeyMistake, McpServer};
use server::Server;
use start::ServerParts;
use tools::http::HeaderTemplate;
use tools::{Tool, UndoTemplate};

pub use operator::mcp_server_tools;
pub use registry::McpServers;
pub use start::Children;

pub(super) struct McpServerFactory;

/// A server's settings with its name.
#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    server: McpServer,
}

impl Named {
    fn read(config: &Value) -> Result<Self, ModuleError> {
        Self::deserialize(config).map_err(ModuleError::new)
    }
}

impl Factory for McpServerFactory {
    fn name(&self) -> &str {
        "mcp"
    }
    fn check(&self, config: &Value) -> Vec<KeyMistake> {
        match Named::read(config) {
            Ok(Named { name, server }) => mistakes(&name, &server),
            Err(e) => vec![KeyMistake::new("", e.to_string(), "")],
        }
    }
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let Named { name, server } = Named::read(config)?;
        Ok(Box::new(McpServerModule { name, config: server, server: Mutex::default() }))
    }
}

/// What is wrong with a server's settings as a whole.
fn mistakes(name: &str, server: &McpServer) -> Vec<KeyMistake> {
    let mut found = server.mistakes(name);
    for (header, value) in &server.headers {
        if let Err(place) = HeaderTemplate(value).secrets() {
            let key = format!("headers.{header}");
            found.push(KeyMistake::new(
                &key,
                format!("found {place}"),
                "{secret.NAME}, the only place that it may have",
            ));
        }
    }
    for (tool, undo) in &server.undo {
        let unknown = UndoTemplate(&undo.arguments).unknown().into_iter();
        found.extend(unknown.map(|(at, text)| {
            let expected = "$arguments or $result, then a JSON pointer such as /id, or `$$` for a `$`";
            KeyMistake::new(&format!("undo.{tool}.arguments.{at}"), format!("found \"{text}\""), expected)
        }));
    }
    found
}

struct McpServerModule {
    name: String,
    config: McpServer,
    /// Once it has started.
    server: Mutex<Option<Arc<Server>>>,
}

impl McpServerModule {
    fn server(&self) -> Option<Arc<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Module for McpServerModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        let tools = self.config.places().map(|(_, tool)| self.config.tool_name(&self.name, tool)).collect();
        Ok(Manifest { tools, ..Manifest::default() })
    }

    fn credentials(&self) -> Vec<Credential> {
        let in_headers =
            self.config.headers.values().flat_map(|value| HeaderTemplate(value).secrets().unwrap_or_default());
        let names = self.config.env.iter().cloned().chain(in_headers);
        names.map(|name| Credential { name, token_env: None, required: true }).collect()
    }

    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        let server = Server::new(ServerParts {
            name: self.name.clone(),
            config: self.config.clone(),
            butler: cx.butler.clone(),
            secrets: cx.credentials.clone(),
            children: cx.children.clone(),
            store: cx.store.clone(),
            outbox: cx.outbox.clone(),
            live: cx.live.clone(),
        });
        server.remember().await.map_err(ModuleError::new)?;
        cx.servers.add(&server);
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(())
    }

    async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        Ok(self.server().map(|server| server.tools()).unwrap_or_default())
    }

    fn tasks(&self, _: &ModuleContext) -> Vec<BackgroundTask> {
        let keep = |server| BackgroundTask {
            name: "connection",
            kind: TaskKind::Loop,
            work: Arc::new(ConnectionLoop(server)),
        };
        self.server().map(keep).into_iter().collect()
    }

    async fn stop(&self) {
        if let Some(server) = self.server() {
            server.hang_up().await;
        }
    }
}

/// Keeps a server's connection in good order.
struct ConnectionLoop(Arc<Server>);

#[async_trait]
impl Background for ConnectionLoop {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        self.0.keep(&stop).await;
        Ok(())
    }
}
