//! Text from outside, cut and cleaned.

pub mod links;
pub mod visible;

use serde_json::Value;

/// The sentence with a capital at its start.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + chars.as_str())
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Cuts to at most `max` bytes on a character boundary and says how much is gone.
pub fn truncate(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… [{} bytes cut]", &text[..end], text.len() - end)
}

/// At most the last `max` bytes, begun on a character boundary.
pub fn last(text: &str, max: usize) -> String {
    let mut from = text.len().saturating_sub(max);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    if from == 0 { text.to_owned() } else { format!("…{}", &text[from..]) }
}

/// Removes what PostgreSQL can't store (NUL) and what a terminal would obey; keeps newline and tab.
pub fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect()
}

/// On one line, without what a terminal would obey or what shows other characters elsewhere; at most so many characters.
pub fn plain(text: &str, most: usize) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().filter(|c| !hidden(*c)).take(most).collect::<String>().trim().to_owned()
}

/// An error with what caused it, in one line.
pub fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// A value that people meant as a text, such as an unquoted number. Null is an empty one.
pub fn of_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// An identity as it is compared: without regard to case, and an address without the name before it.
pub fn plain_identity(identity: &str) -> String {
    let address = identity.rsplit_once('<').and_then(|(_, rest)| rest.strip_suffix('>')).unwrap_or(identity);
    address.trim().to_lowercase()
}

/// Takes NUL characters out of every text in the value, which PostgreSQL can't store.
pub fn strip_nul(value: &mut Value) {
    match value {
        Value::String(s) if s.contains('\0') => *s = s.replace('\0', ""),
        Value::Array(a) => a.iter_mut().for_each(strip_nul),
        Value::Object(o) => {
            o.values_mut().for_each(strip_nul);
            if o.keys().any(|k| k.contains('\0')) {
                *o = std::mem::take(o).into_iter().map(|(k, v)| (k.replace('\0', ""), v)).collect();
            }
        }
        _ => {}
    }
}

/// How long the value is as JSON, in bytes, without writing it down.
pub fn json_length(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0 += text.len();
            Ok(text.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither JSON values nor the counting can fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_digits_each() {
        assert_eq!(hex(&[0, 9, 0x0a, 0xff, 0x10]), "00090aff10");
        assert_eq!(hex(&[]), "");
    }

    #[test]
    fn truncate_keeps_characters_whole() {
        assert_eq!(truncate("short", 10), "short");
        assert_eq!(truncate("äöü", 3), "ä… [4 bytes cut]");
    }

    #[test]
    fn clean_drops_controls() {
        assert_eq!(clean("a\0b\x1b[31mc\nd"), "ab[31mc\nd");
    }

    #[test]
    fn identities_are_compared_as_people_mean_them() {
        for same in ["Ada@Example.org", "Ada L. <ada@example.org>", " ada@example.org "] {
            assert_eq!(plain_identity(same), "ada@example.org", "{same}");
        }
        assert_eq!(plain_identity("a<b"), "a<b");
    }
}
