//! What can be asked about the council: its questions, and what each model said.

use serde_json::{Value, json};
use uuid::Uuid;

use super::sql;
use crate::contract::ModuleError;
use ::tools::{Definition, Meta, Tool, handler};

const NAMES: [&str; 2] = ["council_questions", "council_question"];

/// The names of all of them.
pub(super) fn names() -> Vec<String> {
    NAMES.map(str::to_owned).into()
}

pub(super) fn tools() -> Result<Vec<Tool>, ModuleError> {
    let define = |name: &str, description: &str, properties: Value, required: Value| {
        // Questions and answers carry what strangers wrote.
        let meta = Meta { reads_untrusted: true, ..Meta::read() };
        Definition::of(name, description, properties, required, meta).map_err(ModuleError::new)
    };
    let list = define(
        NAMES[0],
        "The council's newest questions, each with how it was answered, and how many episodes wait for the knowledge graph.",
        json!({"limit": {"type": "integer", "minimum": 1, "maximum": 101, "default": 20},
               "before": {"type": "string", "format": "uuid", "description": "Those asked before this one"}}),
        json!([]),
    )?;
    let one = define(
        NAMES[1],
        "One question of the council with all that was done for it: what memory was worth, what each member answered, how each \
         judged, the ranking, who was left out. Null where there is none with this id.",
        json!({"id": {"type": "string", "format": "uuid"}}),
        json!(["id"]),
    )?;
    let lists = handler(|call: ::tools::ToolCall| async move {
        let most = call.args.get("limit").and_then(Value::as_i64).unwrap_or(20);
        let before = call.text("before").and_then(|id| id.parse().ok());
        let (waiting, dead) = sql::waiting(&call).await?;
        Ok(
            json!({"questions": sql::newest(&call, before, most).await?, "episodes_waiting": waiting, "episodes_refused": dead}),
        )
    });
    let shows = handler(|call: ::tools::ToolCall| async move {
        let id: Uuid = call.text("id").and_then(|id| id.parse().ok()).unwrap_or_default();
        sql::one(&call, id).await
    });
    Ok(vec![Tool::new(&list, lists), Tool::new(&one, shows)])
}
