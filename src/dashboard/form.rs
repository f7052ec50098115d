//! What a form or an address brings, as `application/x-www-form-urlencoded` has it.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The fields of a form, or the query of an address. A field that comes twice has its last value.
#[derive(Clone, Debug, Default)]
pub(super) struct Form(BTreeMap<String, String>);

impl Form {
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let read = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name).into_owned(), decoded(value).into_owned())
        });
        Self(read.collect())
    }

    /// A field that was filled in, without the space around it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// A field as it was sent.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether a box was ticked.
    pub fn ticked(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Undoes the escaping of one name or value. What is no text becomes U+FFFD.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let (bytes, mut plain, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let hex =
            || std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok().and_then(|two| u8::from_str_radix(two, 16).ok());
        match (bytes[at], hex()) {
            (b'%', Some(byte)) => {
                plain.push(byte);
                at += 3;
                continue;
            }
            (b'+', _) => plain.push(b' '),
            (byte, _) => plain.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

/// A value for an address.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_as_they_were_typed() {
        let form = Form::parse("a=1+2&b=%C3%A9%26&c=%zz%&d&a=3&e=+&=x");
        assert_eq!((form.get("a"), form.get("b"), form.get("c")), (Some("3"), Some("é&"), Some("%zz%")));
        assert_eq!((form.get("d"), form.get("e"), form.raw("e")), (None, None, Some(" ")));
        assert_eq!(form.get("missing"), None);
        let back = Form::parse(&format!("x={}", encoded("a b&=+%é\n")));
        assert_eq!(back.raw("x"), Some("a b&=+%é\n"));
    }
}
