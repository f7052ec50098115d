//! A request of any API, reduced to what a script needs.

use serde_json::{Value, json};

/// What the client sent.
#[derive(Debug, Clone, Default)]
pub struct Dialog {
    pub items: Vec<Item>,
    pub tools: Vec<OfferedTool>,
    /// The JSON Schema that the answer must fit, if the client asks for one.
    pub schema: Option<Value>,
    pub stream: bool,
    /// Chat completions only: usage was asked for in the stream.
    pub stream_usage: bool,
    pub model: String,
}

/// One thing in the conversation so far, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The user's words, cleaned of what clients add.
    User(String),
    /// One turn of the model, however many items the API cuts it into.
    Model,
    /// What a tool gave.
    Result(String),
}

/// A tool that the client offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedTool {
    pub name: String,
    /// Codex groups MCP tools by server.
    pub namespace: Option<String>,
}

impl Dialog {
    /// What all bodies but Gemini's carry alike.
    pub fn of(body: &Value) -> Self {
        Self {
            stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            model: body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned(),
            ..Self::default()
        }
    }

    /// Adds the user's text, if anything is left of it.
    pub fn user(&mut self, text: &str) {
        let text = without_reminders(text);
        if !text.trim().is_empty() {
            self.items.push(Item::User(text.trim().to_owned()));
        }
    }

    /// Adds a piece of the model's turn.
    pub fn model(&mut self) {
        if self.items.last() != Some(&Item::Model) {
            self.items.push(Item::Model);
        }
    }

    /// Adds a tool's result.
    pub fn result(&mut self, text: &str) {
        self.items.push(Item::Result(bare_result(text)));
    }

    pub fn offer(&mut self, tool: &Value, namespace: Option<&str>) {
        if let Some(name) = tool.get("name").and_then(Value::as_str) {
            self.tools.push(OfferedTool { name: name.to_owned(), namespace: namespace.map(str::to_owned) });
        }
    }

    /// How many turns the model has taken in all.
    pub fn turns(&self) -> usize {
        self.items.iter().filter(|item| **item == Item::Model).count()
    }
}

/// The texts of a content that is a text, or a list of parts.
pub fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Claude Code adds blocks of its own to user texts and tool results.
fn without_reminders(text: &str) -> String {
    const OPEN: &str = "<system-reminder>";
    const CLOSE: &str = "</system-reminder>";
    let mut rest = text;
    let mut kept = String::new();
    while let Some(at) = rest.find(OPEN) {
        kept.push_str(&rest[..at]);
        rest = rest[at..].find(CLOSE).map_or("", |end| &rest[at + end + CLOSE.len()..]);
    }
    kept.push_str(rest);
    kept
}

/// A tool's result without what the client wrapped around it.
fn bare_result(text: &str) -> String {
    let text = without_reminders(text);
    let mut bare = text.trim();
    // Codex: how long it took, then the output.
    if bare.starts_with("Wall time:")
        && let Some((_, output)) = bare.split_once("\nOutput:\n")
    {
        bare = output;
    }
    // Gemini: a warning to the model around it.
    if let Some((_, inside)) = bare.split_once("<untrusted_context>") {
        bare = inside.split_once("</untrusted_context>").map_or(inside, |(inside, _)| inside);
    }
    bare.trim().to_owned()
}

/// A value that fits the schema, as plain as can be.
pub fn instance(schema: &Value) -> Value {
    if let Some(value) = schema.get("const").or_else(|| schema.get("enum")?.get(0)) {
        return value.clone();
    }
    if let Some(first) = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema.get(*key)?.get(0)) {
        return instance(first);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or_default().to_owned(),
        kind => kind.as_str().unwrap_or("object").to_owned(),
    };
    match kind.to_ascii_lowercase().as_str() {
        "string" => json!("scripted"),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        "null" => Value::Null,
        "array" => json!([instance(&schema["items"])]),
        _ => {
            let fields = schema.get("properties").and_then(Value::as_object);
            Value::Object(fields.into_iter().flatten().map(|(key, inner)| (key.clone(), instance(inner))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_add_is_removed() {
        let mut dialog = Dialog::default();
        dialog.user("<system-reminder>\ntoday\n</system-reminder>\nhello<system-reminder>x</system-reminder>");
        dialog.user("<system-reminder>only this</system-reminder>");
        dialog.model();
        dialog.model();
        dialog.result("{\"a\":1}\n<system-reminder>x");
        dialog.result("Wall time: 0.01 seconds\nOutput:\nteal");
        dialog.result("Careful.\n<untrusted_context>\nteal\n</untrusted_context>");
        let result = |text: &str| Item::Result(text.into());
        assert_eq!(
            dialog.items,
            [Item::User("hello".into()), Item::Model, result("{\"a\":1}"), result("teal"), result("teal")]
        );
    }

    #[test]
    fn instances_fit_their_schemas() {
        let schema = json!({"type": "object", "properties": {
            "title": {"type": "string"}, "kind": {"enum": ["a", "b"]}, "n": {"type": ["integer", "null"]},
            "list": {"type": "ARRAY", "items": {"type": "BOOLEAN"}}, "any": {"anyOf": [{"type": "null"}]}}});
        assert_eq!(instance(&schema), json!({"title": "scripted", "kind": "a", "n": 1, "list": [true], "any": null}));
    }
}
