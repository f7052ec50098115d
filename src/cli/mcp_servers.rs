//! `butlerd mcp-servers`

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::out::{Out, Tone};
use super::problem::{Problem, USAGE};
use super::text::one_line;
use super::{Caller, Outcome};
use admin::api::{HouseApiClient, WorkApiClient};
use admin::{McpDifference, McpSide, McpTool};
use base::text::visible::visible_line;

/// The tool by which a butler tells of its servers; one without servers does not have it.
const LIST: &str = "mcp_server_list";

/// `mcp-servers`
#[derive(Debug, Subcommand)]
pub enum McpServers {
    /// List butlers' MCP servers of others, and how they are
    List,
    /// Show a server's tools, and how they differ from what you agreed to
    Show {
        #[arg(value_name = "BUTLER/SERVER")]
        server: String,
    },
    /// Agree to the tools that a server shows now
    Accept {
        #[arg(value_name = "BUTLER/SERVER")]
        server: String,
        /// What `show` gave for what you saw
        #[arg(long, value_name = "HASH")]
        seen: String,
    },
}

/// A server, as the tool `mcp_server_list` shows it.
#[derive(Deserialize, Serialize)]
struct Server {
    #[serde(default)]
    butler: String,
    server: String,
    state: String,
    at: Option<String>,
    tools: Vec<String>,
    down: Option<String>,
    /// What else it has.
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// A server with what it shows, as the tool `mcp_server_show` has it.
#[derive(Deserialize, Serialize)]
struct Shown {
    #[serde(flatten)]
    server: Server,
    shown: Vec<McpTool>,
    held_sha256: Option<String>,
    differences: Vec<McpDifference>,
}

pub async fn run(caller: Caller, what: McpServers) -> Outcome {
    match what {
        McpServers::List => list(&caller).await,
        McpServers::Show { server } => {
            let (butler, name) = parts(&server)?;
            let shown: Shown = caller.tool(butler, "mcp_server_show", json!({ "server": name })).await?;
            caller.out.answer(&shown, |out, shown| show(out, &server, shown))
        }
        McpServers::Accept { server, seen } => {
            let (butler, name) = parts(&server)?;
            let args = json!({ "server": name, "seen": seen });
            let done: Server = caller.tool(butler, "mcp_server_accept", args).await?;
            caller.out.answer(&done, |out, done| {
                out.line(&format!("Agreed. {butler} has of it: {}", listed(&done.tools)));
            })
        }
    }
}

fn parts(server: &str) -> Result<(&str, &str), Problem> {
    server.split_once('/').ok_or_else(|| {
        let said = format!("`{server}` is not BUTLER/SERVER.");
        Problem::new(USAGE, "usage", said, "See: butlerd mcp-servers list")
    })
}

fn listed(tools: &[String]) -> String {
    if tools.is_empty() { "no tools".to_owned() } else { tools.join(", ") }
}

async fn list(caller: &Caller) -> Outcome {
    let calls = caller.quick()?;
    let house = caller.got(calls.status().await)?;
    let mut all = Vec::new();
    for butler in house.butlers.into_iter().filter(|b| b.port.is_some()).map(|b| b.name) {
        let tools = caller.got(calls.tool_list(butler.clone()).await)?;
        if tools.iter().any(|tool| tool.name == LIST) {
            let servers: Vec<Server> = caller.tool(&butler, LIST, json!({})).await?;
            all.extend(servers.into_iter().map(|server| Server { butler: butler.clone(), ..server }));
        }
    }
    caller.out.list(&all, &[], |out, servers| {
        let tone = |s: &Server| match s.state.as_str() {
            "down" => Tone::Bad,
            "held" | "not seen yet" => Tone::Warn,
            _ => Tone::Plain,
        };
        out.table(servers)
            .column("SERVER", |s| format!("{}/{}", s.butler, s.server))
            .column("STATE", move |s| (tone(s), s.state.as_str()))
            .column("AT", |s| s.at.as_deref())
            .column("TOOLS", |s| listed(&s.tools))
            .column("WHY", |s| s.down.as_deref().map(|why| one_line(why, 200)))
            .print("No MCP servers");
    })
}

fn show(out: &Out, named: &str, shown: &Shown) {
    let Server { state, at, down, .. } = &shown.server;
    out.line(&format!("{named}: {state}, {}", at.as_deref().unwrap_or_default()));
    if let Some(why) = down {
        out.line(&out.paint(Tone::Bad, &visible_line(why)));
    }
    out.line("");
    out.table(&shown.shown)
        .column("TOOL", |t| visible_line(&t.tool))
        .column("CALLED", |t| t.called.as_deref())
        .column("NOT OFFERED", |t| t.not_offered.as_deref())
        .column("DESCRIPTION", |t| one_line(&t.description, 120))
        .print("It was not seen yet");
    for difference in &shown.differences {
        out.line("");
        out.line(&format!("{} {}", difference.change, visible_line(&difference.tool)));
        let (before, after) = (lines(difference.before.as_ref()), lines(difference.after.as_ref()));
        for (sign, tone, side, other) in [("-", Tone::Bad, &before, &after), ("+", Tone::Good, &after, &before)] {
            for line in side.iter().filter(|line| !other.contains(line)) {
                out.line(&out.paint(tone, &format!("{sign} {line}")));
            }
        }
    }
    if let Some(hash) = &shown.held_sha256 {
        out.line("");
        out.line(&format!("To agree to this: butlerd mcp-servers accept {named} --seen {hash}"));
    }
}

/// A tool's text, a line each: its description, then its schema.
fn lines(side: Option<&McpSide>) -> Vec<String> {
    let Some(McpSide { description, schema }) = side else { return Vec::new() };
    let schema = serde_json::to_string_pretty(schema).unwrap_or_default();
    description.lines().chain(schema.lines()).map(visible_line).collect()
}
