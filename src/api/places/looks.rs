//! What tools of butlers answer that only read.

use admin::Failure;
use admin::calls::LooksApiServer;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::visit::Visit;

/// Asks a tool that only reads.
pub(super) async fn look<T: DeserializeOwned>(
    visit: &Visit,
    butler: &str,
    tool: &str,
    args: Value,
) -> Result<T, Failure> {
    let args = args.as_object().cloned();
    read(visit.calls.tool_look(&visit.ext, butler.to_owned(), tool.to_owned(), args).await?)
}

/// A part of an answer, as its type.
pub(super) fn read<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|e| Failure::internal("Reading what a tool answered", &e))
}
