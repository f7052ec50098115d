//! `memory_edit`

use serde_json::{Value, json};

use super::super::tools::{With, id, in_tx, kind, moment, origin, vector};
use memory::sql::story;
use memory::write::{self, Edit, Kind, Permanence};
use memory_index::rank::fact_text;
use tools::{ToolCall, ToolError};

pub(super) async fn memory_edit(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let (kind, which) = (kind(&call), id(&call, "memory_id")?);
    let given = |name: &str| call.text(name).map(str::to_owned);
    let number = |name: &str| call.args.get(name).and_then(Value::as_f64);
    let mut edit = Edit {
        content: given("content"),
        subject: given("subject"),
        predicate: given("predicate"),
        importance: number("importance"),
        confidence: number("confidence"),
        permanence: call.text("permanence").and_then(Permanence::from_name),
        sensitivity: given("sensitivity"),
        valid_from: moment(&call, "valid_from")?,
        valid_to: moment(&call, "valid_to")?,
        ..Edit::default()
    };
    if edit.content.is_some() || edit.subject.is_some() || edit.predicate.is_some() {
        let row = story::whole(&mut &call, kind, which).await?;
        let part = |name: &str, edited: &Option<String>| {
            edited.clone().unwrap_or_else(|| row[name].as_str().unwrap_or_default().to_owned())
        };
        let content = part("content", &edit.content);
        edit.vector = match kind {
            Kind::Fact => {
                let said = fact_text(&part("predicate", &edit.predicate), &content);
                vector(&with.memory, Some(&part("subject", &edit.subject)), &said).await
            }
            Kind::Rule => vector(&with.memory, None, &content).await,
            Kind::Episode => vector(&with.memory, row["speaker"].as_str(), &content).await,
        };
    }
    let reason = call.text("reason");
    let origin = origin(&call, &with.memory).await?;
    let event = in_tx!(&call, &with, |tx| write::edit(&mut tx, &origin, kind, which, &edit, reason));
    Ok(json!({"edited": true, "memory_type": kind.as_str(), "id": which, "event": event}))
}
