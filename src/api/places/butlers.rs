//! Butlers.

use admin::calls::{HouseApiServer, LooksApiServer, WorkApiServer};
use admin::{Failure, McpServer, SkillInfo, ToolInfo};
use butler::ButlerStatus;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::endpoint::{Endpoint, get};
use crate::input::{Nothing, Paging};
use crate::list::Page;
use crate::visit::Visit;

/// As many notes as their tool lists.
const MOST_NOTES: usize = 500;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/butlers", "listButlers", "The butlers and how each is", list),
        get("/butlers/{butler}", "getButler", "One butler with its modules", one),
        get("/butlers/{butler}/tools", "listTools", "A butler's tools with their arguments", tools),
        get("/butlers/{butler}/skills", "listSkills", "A butler's skills", skills),
        get("/butlers/{butler}/notes", "listNotesToSelf", "What a butler noted for its later sessions", notes),
        get("/butlers/{butler}/mcp-servers", "listMcpServers", "MCP servers of others that a butler uses", mcp_servers),
    ]
}

/// Which butler.
#[derive(Deserialize, JsonSchema)]
pub(super) struct OfButler {
    /// Its name.
    pub butler: String,
}

/// A list of a butler's.
#[derive(Deserialize, JsonSchema)]
pub(super) struct PagesOf {
    /// The butler.
    pub butler: String,
    #[serde(flatten)]
    pub paging: Paging,
}

/// A note to self.
#[derive(Serialize, Deserialize, JsonSchema)]
struct NoteToSelf {
    note_id: i64,
    note: String,
    /// Who is behind it: `owner`, `system`, `known` or `stranger`.
    trust: String,
    told_to_sessions: bool,
    session_id: Option<Uuid>,
    created_at: Timestamp,
}

async fn list(visit: &Visit, _: Nothing) -> Result<Page<ButlerStatus>, Failure> {
    Ok(visit.whole(visit.calls.status(&visit.ext).await?.butlers))
}

async fn one(visit: &Visit, of: OfButler) -> Result<ButlerStatus, Failure> {
    let house = visit.calls.status(&visit.ext).await?;
    let found = house.butlers.into_iter().find(|butler| butler.name == of.butler);
    found.ok_or_else(|| Failure::new("unknown_butler", format!("There is no butler `{}`.", of.butler)))
}

async fn mcp_servers(visit: &Visit, of: OfButler) -> Result<Page<McpServer>, Failure> {
    let butler = one(visit, of).await?;
    if !butler.modules.keys().any(|name| name.starts_with("mcp.")) {
        return Ok(visit.whole(Vec::new()));
    }
    Ok(visit.whole(visit.look(&butler.name, "mcp_server_list", json!({})).await?))
}

async fn notes(visit: &Visit, of: OfButler) -> Result<Page<NoteToSelf>, Failure> {
    Ok(visit.most(visit.look(&of.butler, "notes_list", json!({})).await?, MOST_NOTES))
}

lists! {
    tools(of: OfButler) -> ToolInfo = tool_list(of.butler);
    skills(of: OfButler) -> SkillInfo = skill_list(of.butler);
}
