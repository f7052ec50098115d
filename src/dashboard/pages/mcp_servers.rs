//! MCP servers of others that butlers use: how each is, what it shows of its tools, and the owner's consent to them.

use admin::{McpDifference, McpServer, McpSide, McpTool};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::answers::{act, look, or_not_now};
use crate::form::encoded;
use crate::parts::{Tone, crumbs, empty, line, note, pretty, said, toned};
use crate::reply::{Answer, Did, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/connectors/mcp/*/*", |visit| Box::pin(one(visit))),
    post("/connectors/mcp/*/*/accept", |visit| Box::pin(accept(visit))),
];

/// How a module of a butler is named that is an MCP server.
const MODULE: &str = "mcp.";

/// A server with what it shows.
#[derive(Deserialize)]
struct Shown {
    #[serde(flatten)]
    server: McpServer,
    shown: Vec<McpTool>,
    held_sha256: Option<String>,
    differences: Vec<McpDifference>,
}

/// The servers of all butlers that the visitor reaches.
pub(super) async fn section(visit: &Visit, butlers: &[butler::ButlerStatus]) -> Markup {
    let with = butlers.iter().filter(|b| !b.removed && b.modules.keys().any(|name| name.starts_with(MODULE)));
    let mut all = Vec::new();
    for butler in with {
        all.push((
            butler.name.as_str(),
            look::<Vec<McpServer>>(visit, &butler.name, "mcp_server_list", json!({})).await,
        ));
    }
    html! {
        h2 { "MCP servers of others" }
        @if all.is_empty() { (empty("No butler uses one. Write [mcp.servers.<name>] into a butler's butler.toml.")) }
        @for (butler, found) in &all {
            (or_not_now(found, |all| html! { ul.rows { @for server in all { li { (brief(butler, server)) } } } }))
        }
    }
}

fn brief(butler: &str, server: &McpServer) -> Markup {
    html! {
        a href={ "/connectors/mcp/" (butler) "/" (encoded(&server.server)) } { strong { (butler) "/" (line(&server.server, 60)) } }
        " " (state(server))
        div.dim { @if server.tools.is_empty() { "no tools" } @else { (line(&server.tools.join(", "), 300)) } }
        @if let Some(why) = &server.down { div.dim { (line(why, 300)) } }
    }
}

fn state(server: &McpServer) -> Markup {
    let held = match server.changes.len() {
        1 => "one of its tools waits".to_owned(),
        n => format!("{n} of its tools wait"),
    };
    html! { @match server.state.as_str() {
        "down" => (toned(Tone::Bad, "down")),
        "held" => { (toned(Tone::Warn, "held")) " " (held) " for your agreement" }
        "connected" | "idle" => (toned(Tone::Good, &server.state)),
        other => (toned(Tone::Warn, other)),
    } }
}

async fn one(visit: &Visit) -> Answer {
    let (butler, name) = (visit.part(0), visit.part(1));
    let shown: Shown = look(visit, butler, "mcp_server_show", json!({ "server": name })).await?;
    let body = html! {
        (crumbs(&[("Connectors", "/connectors"), (butler, &format!("/butlers/{butler}"))]))
        dl.facts {
            dt { "State" } dd { (state(&shown.server)) }
            @if let Some(at) = &shown.server.at { dt { "At" } dd { code { (line(at, 200)) } } }
            @if let Some(why) = &shown.server.down { dt { "Why" } dd { (line(why, 500)) } }
        }
        (held(visit, &shown))
        h2 { "Tools that you agreed to" }
        @if shown.shown.is_empty() { (empty("None yet. Its tools are agreed to as it first shows them.")) }
        ul.rows { @for tool in &shown.shown { li {
            code { (line(&tool.tool, 80)) } " "
            @match (&tool.called, &tool.not_offered) {
                (Some(called), _) => { "the butler calls it " code { (line(called, 80)) } }
                (None, Some(why)) => { (toned(Tone::Quiet, "not offered")) " " (line(why, 200)) }
                (None, None) => (toned(Tone::Quiet, "not offered")),
            }
            (said(&tool.description))
        } } }
    };
    Ok(View::new(format!("MCP server {}", line(&shown.server.server, 80)), body).into())
}

/// What is not as it was agreed to: shown whole, agreed to by the hash of what was shown.
fn held(visit: &Visit, shown: &Shown) -> Markup {
    let Some(hash) = &shown.held_sha256 else { return html! {} };
    let to = format!("/connectors/mcp/{}/{}/accept", visit.part(0), encoded(visit.part(1)));
    html! {
        h2 { "Waiting for your agreement" }
        (note(Tone::Warn, &html! { "It shows other tools than those you agreed to. What a tool says of itself, models read and believe." }))
        @for (n, change) in shown.differences.iter().enumerate() {
            section.card aria-labelledby={ "change-" (n) } {
                h3 id={ "change-" (n) } { code { (line(&change.tool, 80)) } " " (toned(Tone::Warn, &change.change.replace('_', " "))) }
                div.side { (side("Before", change.before.as_ref())) (side("Now", change.after.as_ref())) }
            }
        }
        (visit.button(&to, "Agree to these tools", "main", &[("seen", hash)]))
    }
}

fn side(name: &str, side: Option<&McpSide>) -> Markup {
    html! { div {
        h4 { (name) }
        @match side {
            None => (empty("It was not there.")),
            Some(side) => {
                (said(&side.description))
                pre tabindex="0" { (pretty(&side.schema)) }
            }
        }
    } }
}

async fn accept(visit: &Visit) -> Answer {
    let (butler, name) = (visit.part(0), visit.part(1));
    let seen = visit.seen()?;
    act(visit, butler, "mcp_server_accept", json!({"server": name, "seen": seen})).await?;
    Ok(Reply::Go { to: format!("/connectors/mcp/{butler}/{}", encoded(name)), did: Did::Agreed })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_waits_is_counted_as_the_tool_tells_it() {
        let told = |changes: Value| {
            let server =
                json!({"server": "s", "state": "held", "at": null, "tools": [], "down": null, "changes": changes});
            serde_json::from_value::<McpServer>(server).map(|server| state(&server).into_string())
        };
        let two = told(json!({"a": "changed", "b": "new"})).unwrap();
        assert!(two.contains("2 of its tools wait for"), "{two}");
        let one = told(json!({"a": "gone"})).unwrap();
        assert!(one.contains("one of its tools waits for"), "{one}");
        assert!(told(Value::Null).is_err() && told(json!(["a"])).is_err(), "what can't be read is not none");
    }
}
