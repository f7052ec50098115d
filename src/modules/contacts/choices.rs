//! Cards that both sides had changed: what differs, and the version that a person wants.

use std::sync::Arc;

use serde_json::{Value, json};

use super::source::Source;
use super::sql::{self, ConflictRow, decisions};
use super::work::follow;
use ::tools::{ToolCall, ToolError};
use base::{Label, Trust};

/// Lines of a version that are shown, and letters of each.
const MOST_LINES: usize = 60;
const LONGEST: usize = 300;

/// The lines of a version that do not stand in all of them.
fn differs(version: Option<&[u8]>, of: &ConflictRow) -> Value {
    let lines = |bytes: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(bytes).replace("\r\n ", "").replace("\n ", "");
        text.lines().map(|line| line.trim_end().chars().take(LONGEST).collect()).collect()
    };
    let Some(version) = version else { return Value::Null };
    let others: Vec<Vec<String>> = [&of.base, &of.ours, &of.theirs].into_iter().flatten().map(|b| lines(b)).collect();
    let own = |line: &String| !others.iter().all(|other| other.contains(line));
    lines(version).into_iter().filter(own).take(MOST_LINES).collect()
}

fn shown(row: &ConflictRow) -> Value {
    let now = [("theirs", &row.theirs), ("ours", &row.ours), ("base", &row.base)];
    let now = now.into_iter().find(|(_, version)| version.is_some() && **version == row.now).map(|(name, _)| name);
    let name = row.now.as_deref().or(row.theirs.as_deref()).and_then(super::people::Said::of).map(|said| said.name);
    json!({"conflict_id": row.id, "card_id": row.card, "kind": row.kind, "account": row.account, "name": name,
           "found_at": row.found_at.to_string(), "now": now, "base": differs(row.base.as_deref(), row),
           "ours": differs(row.ours.as_deref(), row), "theirs": differs(row.theirs.as_deref(), row)})
}

fn refused() -> ToolError {
    let why = "There is no such conflict, no such version of it, or its card is gone. Nothing was changed; without an id this \
               lists what there is.";
    ToolError::refused("not_found", why)
}

pub(super) async fn conflicts(call: ToolCall, source: Arc<Source>, butler: Arc<str>) -> Result<Value, ToolError> {
    let id = call.args.get("conflict_id").and_then(Value::as_i64);
    let rows = sql::conflicts(&mut source.lease().await?, &butler, id).await?;
    let Some(take) = call.text("take").map(str::to_owned) else {
        // Anybody may have written what stands on a card.
        if !rows.is_empty() {
            call.shows(&Label::household(Trust::Stranger));
        }
        return Ok(json!({"conflicts": rows.iter().map(shown).collect::<Vec<_>>()}));
    };
    let (Some(id), Some(_)) = (id, rows.first()) else { return Err(refused()) };
    let done = json!({"status": "ok", "conflict_id": id, "taken": take});
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    if !decisions::choose(&mut tx, id, &take).await? {
        tx.rollback().await?;
        return Err(refused());
    }
    tx.commit().await?;
    follow(&source).await;
    Ok(done)
}
