//! What model servers say when they refuse, in whichever API: the one place that knows their phrases.

use serde_json::Value;

/// The kind and the sentence of an error's document, out of the shapes that servers use. The kind is what `type`,
/// `code` and `status` say, where these are texts.
pub fn words(value: &Value) -> (String, String) {
    let error = value.get("error").unwrap_or(value);
    if let Some(sentence) = error.as_str() {
        return (String::new(), sentence.to_owned());
    }
    let kind: Vec<&str> = ["type", "code", "status"].iter().filter_map(|key| error.get(*key)?.as_str()).collect();
    let sentence = ["message", "detail"].iter().find_map(|key| error.get(*key)?.as_str());
    (kind.join(" "), sentence.map_or_else(|| error.to_string(), str::to_owned))
}

/// Whether kind and sentence say that the conversation no longer fits the model.
pub fn says_too_long(kind: &str, sentence: &str) -> bool {
    says(
        kind,
        sentence,
        &[
            "prompt is too long",
            "context_length_exceeded",
            "maximum context length",
            "exceed_context_size",
            "exceeds the available context",
            "exceeds the maximum number of tokens",
            "context window",
        ],
    )
}

/// Whether kind and sentence say that the account has no money left.
pub fn says_no_money(kind: &str, sentence: &str) -> bool {
    says(kind, sentence, &["insufficient_quota", "billing_error", "credit balance is too low"])
}

fn says(kind: &str, sentence: &str, phrases: &[&str]) -> bool {
    let said = format!("{kind} {sentence}").to_lowercase();
    phrases.iter().any(|phrase| said.contains(phrase))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_found_in_all_shapes() {
        let anthropic = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        assert_eq!(words(&anthropic), ("overloaded_error".into(), "Overloaded".into()));
        let numbered = json!({"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}});
        assert_eq!(words(&numbered), ("RESOURCE_EXHAUSTED".into(), "m".into()));
        assert_eq!(words(&json!({"error": "no such model"})), (String::new(), "no such model".into()));
        assert_eq!(words(&json!({"detail": "d"})), (String::new(), "d".into()));
    }

    #[test]
    fn phrases_count_in_any_case() {
        assert!(says_too_long("", "Prompt is TOO long: 3 > 2"));
        assert!(says_no_money("insufficient_quota", ""));
        assert!(!says_too_long("x", "y") && !says_no_money("x", "y"));
    }
}
