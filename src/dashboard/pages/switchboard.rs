//! What the switchboard's tools answer: people, rules and connectors are its own.

use admin::calls::WorkApiServer;
use inbox::SWITCHBOARD;
use maud::{Markup, html};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::parts::{Tone, note};
use crate::reply::PageError;
use crate::visit::Visit;

/// What a tool of the switchboard answers. An error is a sentence for people.
async fn call(visit: &Visit, tool: &str, args: Value) -> Result<Value, PageError> {
    let args: Map<String, Value> = args.as_object().cloned().unwrap_or_default();
    let answer = visit.calls.tool_call(&visit.ext, SWITCHBOARD.to_owned(), tool.to_owned(), Some(args)).await?;
    let failed = answer.is_error || answer.result["status"] == "error";
    if failed {
        let told = answer.result["error"].as_str().unwrap_or("The switchboard could not do that.");
        return Err(PageError::new(http::StatusCode::CONFLICT, told));
    }
    Ok(answer.result)
}

/// A list that the switchboard has; rows that this version can't read are left out. An error is why there is none.
pub(super) async fn list<T: DeserializeOwned>(visit: &Visit, tool: &str) -> Result<Vec<T>, PageError> {
    if !visit.may_work() {
        return Err(PageError::invalid("You may look here, but lists of the switchboard need the scope `tools`."));
    }
    let answer = call(visit, tool, Value::Object(Map::new())).await?;
    let rows = answer.as_array().cloned().unwrap_or_default();
    Ok(rows.into_iter().filter_map(|row| serde_json::from_value(row).ok()).collect())
}

/// Has the switchboard do something.
pub(super) async fn act(visit: &Visit, tool: &str, args: Value) -> Result<(), PageError> {
    call(visit, tool, args).await.map(drop)
}

/// A list that can't be shown just now.
pub(super) fn not_now(why: &PageError) -> Markup {
    note(Tone::Warn, &html! { (why.message) })
}
