//! The header of a letter, or of a part of one: its fields as they stand.

use super::decode;

/// Fields that are looked at; nobody's letter has so many.
const MOST_FIELDS: usize = 2_000;
/// Bytes of one field's value.
const MOST_VALUE: usize = 64 * 1024;

/// Fields of which a signature covers the last, and a reader takes the first: twice there, one of them is not the signer's.
const ONCE: [&str; 12] = [
    "from",
    "to",
    "cc",
    "subject",
    "date",
    "message-id",
    "in-reply-to",
    "references",
    "reply-to",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
];

/// One field, folded as it came.
pub(crate) struct Field<'a> {
    /// In lower case.
    pub name: String,
    value: &'a [u8],
}

/// All fields of one header, from the top.
#[derive(Default)]
pub(crate) struct Fields<'a> {
    all: Vec<Field<'a>>,
    /// It is written so that others may read it differently: what it says proves nothing.
    pub odd: bool,
}

impl Field<'_> {
    /// The value on one line, as characters; encoded words are still encoded.
    pub fn text(&self) -> String {
        // A fold's line break goes and its space stays.
        let bytes: Vec<u8> = self.value.iter().copied().filter(|byte| *byte != b'\n' && *byte != b'\r').collect();
        decode::text(&bytes, None).trim().to_owned()
    }
}

impl<'a> Fields<'a> {
    /// Reads fields up to the empty line, and gives what is behind it. It never fails: what is no field is passed over.
    pub fn parse(raw: &'a [u8]) -> (Self, &'a [u8]) {
        let mut fields = Self::default();
        let mut rest = raw;
        // Where the field's value that is being read began.
        let mut open: Option<(String, &'a [u8], usize)> = None;
        while !rest.is_empty() {
            let (line, behind) = line(rest);
            let bare = line.strip_suffix(b"\n").unwrap_or(line);
            let bare = bare.strip_suffix(b"\r").unwrap_or(bare);
            fields.odd |= bare.iter().any(|byte| *byte == b'\r' || *byte == 0);
            if bare.is_empty() {
                rest = behind;
                break;
            }
            match (&mut open, bare[0]) {
                (Some((_, _, length)), b' ' | b'\t') => *length += line.len(),
                (None, b' ' | b'\t') => {}
                _ => {
                    fields.close(open.take());
                    open = fields.name(bare).map(|(name, colon)| {
                        let value = &rest[colon + 1..];
                        (name, value, line.len() - colon - 1)
                    });
                }
            }
            rest = behind;
        }
        fields.close(open);
        fields.odd |= ONCE.iter().any(|name| fields.all(name).nth(1).is_some());
        (fields, rest)
    }

    /// The field's name in a line, and where its colon is.
    fn name(&mut self, line: &[u8]) -> Option<(String, usize)> {
        // Longer than any name that means something.
        let colon = line.iter().take(200).position(|byte| *byte == b':')?;
        let name = line[..colon].trim_ascii_end();
        if !name.is_empty() && name.iter().all(u8::is_ascii_graphic) {
            return Some((String::from_utf8_lossy(name).to_ascii_lowercase(), colon));
        }
        let graphic: Vec<u8> = name.iter().copied().filter(u8::is_ascii_graphic).collect();
        // A program that is less strict might take it for the sender.
        self.odd |= graphic.eq_ignore_ascii_case(b"from");
        None
    }

    fn close(&mut self, open: Option<(String, &'a [u8], usize)>) {
        let Some((name, value, length)) = open else { return };
        if self.all.len() >= MOST_FIELDS {
            // The field that is not looked at may be a second sender.
            self.odd = true;
            return;
        }
        self.odd |= length > MOST_VALUE && name == "from";
        self.all.push(Field { name, value: &value[..length.min(MOST_VALUE)] });
    }

    pub fn iter(&self) -> impl Iterator<Item = &Field<'a>> {
        self.all.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn all<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'b Field<'a>> + 'b {
        self.all.iter().filter(move |field| field.name == name)
    }

    /// The topmost field of that name, on one line.
    pub fn text(&self, name: &str) -> Option<String> {
        self.all(name).next().map(Field::text)
    }

    pub fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }
}

/// The first line with its end, and what follows it.
pub(crate) fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(at) => bytes.split_at(at + 1),
        None => (bytes, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_stand() {
        let (fields, body) = Fields::parse(b"Subject: a\r\n b\r\nno field\r\nFROM : x\r\nX-Empty:\r\n\r\nbody");
        assert_eq!(fields.text("subject").as_deref(), Some("a b"));
        assert_eq!(fields.text("from").as_deref(), Some("x"));
        assert_eq!(fields.text("x-empty").as_deref(), Some(""));
        assert_eq!((body, fields.odd), (&b"body"[..], false));
    }

    #[test]
    fn a_header_without_an_end_is_a_header() {
        let (fields, body) = Fields::parse(b"Subject: a\nTo: b");
        assert_eq!((fields.text("to").as_deref(), body), (Some("b"), &b""[..]));
        assert!(Fields::parse(b"").0.is_empty());
        assert!(Fields::parse(b"\nSubject: a").0.is_empty());
    }

    #[test]
    fn what_others_may_read_differently_is_odd() {
        for raw in [&b"Subject: a\rFrom: x\n\n"[..], b"Fr\0om: a\n\n", b"From\xa0: a\n\n", b"F rom: a\n\n"] {
            assert!(Fields::parse(raw).0.odd, "{raw:?}");
        }
        assert!(Fields::parse(b"Subject: a\nFrom: x\nSubject: b\n\n").0.odd);
        assert!(!Fields::parse(b"Received: a\nReceived: b\nFrom: x\n\n").0.odd);
        let many = "X: y\n".repeat(3_000) + "From: x\n";
        let (fields, _) = Fields::parse(many.as_bytes());
        assert!(fields.odd && !fields.has("from"));
    }
}
