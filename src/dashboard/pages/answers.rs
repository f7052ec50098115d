//! What tools of butlers answer, for pages: an answer that a page can't read is told as that, and never taken for none.

use admin::Failure;
use admin::calls::WorkApiServer;
use http::StatusCode;
use maud::{Markup, html};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use admin::answered as read;

use crate::parts::{Tone, note};
use crate::reply::PageError;
use crate::visit::Visit;

/// Asks a tool that only reads.
pub(super) async fn look<T: DeserializeOwned>(
    visit: &Visit,
    butler: &str,
    tool: &str,
    args: Value,
) -> Result<T, Failure> {
    admin::look(&visit.calls, &visit.ext, butler, tool, args).await
}

/// Calls a tool that changes something.
pub(super) async fn act(visit: &Visit, butler: &str, tool: &str, args: Value) -> Result<Value, PageError> {
    let args = args.as_object().cloned();
    let answer = Box::pin(visit.calls.tool_call(&visit.ext, butler.to_owned(), tool.to_owned(), args)).await?;
    if answer.is_error || answer.result["status"] == "error" {
        let why = answer.result["error"].as_str().unwrap_or("The tool refused it and did not say why.");
        return Err(PageError::new(StatusCode::CONFLICT, why));
    }
    Ok(answer.result)
}

/// What can't be shown just now, in the place of it.
pub(super) fn not_now(why: &Failure) -> Markup {
    note(Tone::Warn, &html! { (why.message) })
}

/// What was asked for as it is drawn, or why it can't be shown just now.
pub(super) fn or_not_now<T>(found: &Result<T, Failure>, draw: impl FnOnce(&T) -> Markup) -> Markup {
    match found {
        Ok(found) => draw(found),
        Err(why) => not_now(why),
    }
}
