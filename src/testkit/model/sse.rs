//! How answers are cut into server-sent events.

use serde_json::Value;

/// Cuts a text in two, so that clients have to put it together again. No pieces of an empty text.
pub fn halves(text: &str) -> Vec<&str> {
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle += 1;
    }
    let (first, second) = text.split_at(middle);
    [first, second].into_iter().filter(|piece| !piece.is_empty()).collect()
}

/// An event whose name is its `type`.
pub fn sse_named(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

/// An event without a name.
pub fn sse_data(event: &Value) -> String {
    format!("data: {event}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_whole_characters() {
        assert_eq!(halves("äöü"), ["äö", "ü"]);
        assert_eq!(halves("a"), ["a"]);
        assert!(halves("").is_empty());
    }
}
