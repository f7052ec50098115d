//! What models are told of a tool: what says something to them. The checks of a call know more.

use serde_json::{Map, Value};

use super::definition::Definition;
use super::egress::WHY;
use access::Detail;

impl Definition {
    /// The description that a model gets.
    pub fn told_description(&self, detail: Detail) -> &str {
        match detail {
            Detail::Whole => first_sentences(&self.description, 2),
            Detail::Terse => first_sentences(&self.description, 1),
        }
    }

    /// The schema that a model gets: without what only checks need.
    pub fn told_schema(&self, detail: Detail) -> Map<String, Value> {
        let mut told = plain(&self.schema, detail);
        if let Some(Value::Object(arguments)) = told.get_mut("properties") {
            // Taken for those who send it; it is known to the house.
            arguments.remove("request_context");
        }
        if told.get("required").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            told.remove("required");
        }
        told
    }
}

/// A schema without closed doors and lengths: a call that does not keep to them is told so.
fn plain(schema: &Map<String, Value>, detail: Detail) -> Map<String, Value> {
    let says = |key: &str, value: &Value| match key {
        "additionalProperties" => value.is_object(),
        "minLength" | "maxLength" | "maxItems" | "uniqueItems" | "minItems" => false,
        // Ids come from lists. Of the other forms, such as a date, nobody else speaks.
        "format" => detail != Detail::Terse || value != "uuid",
        "description" => detail != Detail::Terse,
        _ => true,
    };
    let inner = |of: &Value| of.as_object().map_or_else(|| of.clone(), |of| plain(of, detail).into());
    let told = |key: &str, value: &Value| match (key, value) {
        // Names that could be those of keywords.
        ("properties", Value::Object(all)) => {
            let named = |(name, of): (&String, &Value)| (name.clone(), inner(of));
            Value::Object(all.iter().filter(|(name, _)| detail != Detail::Terse || *name != WHY).map(named).collect())
        }
        ("items" | "additionalProperties", of) => inner(of),
        _ => value.clone(),
    };
    let kept = schema.iter().filter(|(key, value)| says(key, value));
    kept.map(|(key, value)| (key.clone(), told(key, value))).collect()
}

/// The first sentences of a text.
fn first_sentences(text: &str, most: usize) -> &str {
    let mut found = 0;
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let space = rest.peek().is_some_and(|(_, next)| next.is_whitespace());
        // An abbreviation goes on in small letters.
        let begins = || text[at + 1..].trim_start().starts_with(|next: char| !next.is_lowercase());
        if matches!(c, '.' | '!' | '?') && space && begins() {
            found += 1;
            if found == most {
                return &text[..=at];
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Meta;

    #[test]
    fn what_says_nothing_is_left_out() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": [], "properties": {
            "maxLength": {"type": "string", "maxLength": 9, "enum": ["a", "b"], "description": "Which"},
            "many": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
            "request_context": {"type": "object"}}});
        let about = "Log it, e.g. a meal. Use it often! It returns the row, and more of 1.5 kB.";
        let def = Definition::new("log", about, schema, Meta::read()).unwrap();
        let told = json!({"type": "object", "properties": {
            "maxLength": {"type": "string", "enum": ["a", "b"], "description": "Which"},
            "many": {"type": "array", "items": {"type": "string"}}}});
        assert_eq!(Value::from(def.told_schema(Detail::Whole)), told);
        assert!(!Value::from(def.told_schema(Detail::Terse)).to_string().contains("Which"));
        assert_eq!(def.told_description(Detail::Whole), "Log it, e.g. a meal. Use it often!");
        assert_eq!(def.told_description(Detail::Terse), "Log it, e.g. a meal.");
        assert_eq!(first_sentences("One only.", 2), "One only.");
    }
}
