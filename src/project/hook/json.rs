//! JSON as JavaScript writes it.

use std::borrow::Cow;

use serde_json::Value;

/// Reads it. A text that was cut within a character beyond the first 65,536 ends in half of it,
/// written as an escape that stands for no character.
pub fn json(text: &str) -> Result<Value, serde_json::Error> {
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str(text).or_else(|error| match mended(text) {
        Cow::Owned(mended) => serde_json::from_str(&mended),
        Cow::Borrowed(_) => Err(error),
    })
}

/// The text with each escape for half a character replaced by that for the replacement character.
fn mended(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let half = |at: usize| {
        let digits = bytes.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let is_first = |unit: u16| (0xd800..0xdc00).contains(&unit);
    let is_second = |unit: u16| (0xdc00..0xe000).contains(&unit);
    let (mut halves, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match half(at) {
            Some(unit) if is_first(unit) && half(at + 6).is_some_and(is_second) => at += 12,
            Some(unit) => {
                if is_first(unit) || is_second(unit) {
                    halves.push(at);
                }
                at += 6;
            }
            // Some other escape, of which the second byte begins none.
            None => at += 2,
        }
    }
    if halves.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut whole = text.to_owned();
    for at in halves {
        whole.replace_range(at..at + 6, "\\ufffd");
    }
    Cow::Owned(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_characters_are_mended() {
        let value = json(r#"{"a": "cut \ud83d", "b": "\ud83d\ude00", "c": "\\ud83d", "d": "\ude00x"}"#).unwrap();
        assert_eq!(value["a"], "cut \u{fffd}");
        assert_eq!(value["b"], "\u{1f600}");
        assert_eq!(value["c"], "\\ud83d");
        assert_eq!(value["d"], "\u{fffd}x");
        assert!(json(r#"{"a": "\ud83"#).is_err());
        assert_eq!(json("\u{feff} {}\n").unwrap(), serde_json::json!({}));
    }
}
