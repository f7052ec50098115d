//! iCalendar as lines: components and properties in the bytes in which they came.
//!
//! A calendar of others has properties that nobody here knows. Each line keeps its bytes, with its folding and its line
//! end, until somebody sets that very property. So what is written back differs in nothing but what was changed.

use crate::CalendarError;

/// The longest text that is read.
pub const MAX_BYTES: usize = 1 << 20;
const MAX_DEPTH: usize = 4;
const MAX_COMPONENTS: usize = 4_000;
/// Octets of a line before it is folded (RFC 5545, 3.1).
const FOLD: usize = 75;

/// One property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    raw: Vec<u8>,
    /// Upper case, without a group.
    pub name: String,
    /// What stands between name and value, with its semicolons.
    pub params: String,
    /// As it is written: not unescaped.
    pub value: String,
}

impl Line {
    /// A new line: `head` is the name with its parameters, `value` is written as it is.
    pub fn new(head: &str, value: &str) -> Self {
        let text = format!("{head}:{value}");
        let (name, params, value) = split(&text);
        Self { raw: fold(&text), name, params, value }
    }
    /// A parameter's value, without quotes.
    pub fn param(&self, name: &str) -> Option<String> {
        let mut rest = self.params.as_str();
        while let Some(part) = rest.strip_prefix(';') {
            let end = unquoted(part, |c| c == ';').unwrap_or(part.len());
            if let Some((key, value)) = part[..end].split_once('=')
                && key.eq_ignore_ascii_case(name)
            {
                return Some(value.trim_matches('"').to_owned());
            }
            rest = &part[end..];
        }
        None
    }
    /// Its parameters without those of this name, with their semicolons, as they are written.
    pub fn params_but(&self, name: &str) -> String {
        let (mut kept, mut rest) = (String::new(), self.params.as_str());
        while let Some(part) = rest.strip_prefix(';') {
            let end = unquoted(part, |c| c == ';').unwrap_or(part.len());
            let key = part[..end].split_once('=').map_or(&part[..end], |(key, _)| key);
            if !key.eq_ignore_ascii_case(name) {
                kept.push_str(&rest[..=end]);
            }
            rest = &part[end..];
        }
        kept
    }
}

/// What a component consists of, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Line(Line),
    Component(Component),
}

/// `BEGIN:NAME` to `END:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    pub name: String,
    begin: Vec<u8>,
    pub nodes: Vec<Node>,
    end: Vec<u8>,
}

impl Component {
    /// An empty one.
    pub fn new(name: &str) -> Self {
        let line = |word: &str| format!("{word}:{name}\r\n").into_bytes();
        Self { name: name.to_owned(), begin: line("BEGIN"), nodes: Vec::new(), end: line("END") }
    }
    /// Its properties of this name.
    pub fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Line> {
        self.nodes.iter().filter_map(move |node| match node {
            Node::Line(line) if line.name == name => Some(line),
            _ => None,
        })
    }
    /// Its first property of this name.
    pub fn line(&self, name: &str) -> Option<&Line> {
        self.nodes.iter().find_map(|node| match node {
            Node::Line(line) if line.name == name => Some(line),
            _ => None,
        })
    }
    /// Components right in it.
    pub fn components<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Component> {
        self.nodes.iter().filter_map(move |node| match node {
            Node::Component(inner) if inner.name == name => Some(inner),
            _ => None,
        })
    }
    /// Puts `lines` where the first property of this name was, and takes the others away.
    pub fn set(&mut self, name: &str, lines: Vec<Line>) {
        let is_it = |node: &Node| matches!(node, Node::Line(line) if line.name == name);
        let place = self.nodes.iter().position(is_it);
        let place = place.or_else(|| self.nodes.iter().position(|node| matches!(node, Node::Component(_))));
        let place = place.unwrap_or(self.nodes.len());
        self.nodes.retain(|node| !is_it(node));
        let place = place.min(self.nodes.len());
        self.nodes.splice(place..place, lines.into_iter().map(Node::Line));
    }
    /// The bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.begin);
        for node in &self.nodes {
            match node {
                Node::Line(line) => out.extend_from_slice(&line.raw),
                Node::Component(inner) => inner.write(out),
            }
        }
        out.extend_from_slice(&self.end);
    }
}

/// Reads one `VCALENDAR`. What stands behind it is an error, because it would be lost.
pub fn read(bytes: &[u8]) -> Result<Component, CalendarError> {
    let fail = |why: String| Err(CalendarError::NotCalendar(why));
    if bytes.len() > MAX_BYTES {
        return fail(format!("it has more than {MAX_BYTES} bytes"));
    }
    let mut open: Vec<Component> = Vec::new();
    let mut whole = None;
    let mut components = 0;
    for raw in logical(bytes) {
        let text = unfold(raw);
        if text.is_empty() {
            // Blank lines are kept where they stand in a component.
            if let Some(inner) = open.last_mut() {
                inner.nodes.push(Node::Line(Line {
                    raw: raw.to_vec(),
                    name: String::new(),
                    params: String::new(),
                    value: text,
                }));
            }
            continue;
        }
        if whole.is_some() {
            return fail("something follows its END:VCALENDAR".to_owned());
        }
        let (name, params, value) = split(&text);
        match name.as_str() {
            "BEGIN" => {
                components += 1;
                if open.len() == MAX_DEPTH || components > MAX_COMPONENTS {
                    return fail("it has too many components".to_owned());
                }
                let name = value.trim().to_ascii_uppercase();
                if open.is_empty() && name != "VCALENDAR" {
                    return fail("it does not begin with BEGIN:VCALENDAR".to_owned());
                }
                open.push(Component { name, begin: raw.to_vec(), nodes: Vec::new(), end: Vec::new() });
            }
            "END" => {
                let Some(mut done) = open.pop() else { return fail("an END has no BEGIN".to_owned()) };
                if !done.name.eq_ignore_ascii_case(value.trim()) {
                    return fail(format!("BEGIN:{} is ended by END:{value}", done.name));
                }
                done.end = raw.to_vec();
                match open.last_mut() {
                    Some(outer) => outer.nodes.push(Node::Component(done)),
                    None => whole = Some(done),
                }
            }
            _ => match open.last_mut() {
                Some(inner) => inner.nodes.push(Node::Line(Line { raw: raw.to_vec(), name, params, value })),
                None => return fail("it does not begin with BEGIN:VCALENDAR".to_owned()),
            },
        }
    }
    match whole {
        Some(whole) => Ok(whole),
        None => fail("it has no END:VCALENDAR".to_owned()),
    }
}

/// Lines with their continuations, each with its line end.
fn logical(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    while at < bytes.len() {
        let end = bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| at + n + 1);
        if end == bytes.len() || !matches!(bytes[end], b' ' | b'\t') {
            lines.push(&bytes[begin..end]);
            begin = end;
        }
        at = end;
    }
    lines
}

/// A fold may stand inside of a character, so bytes are joined before they are read as text.
fn unfold(raw: &[u8]) -> String {
    let mut joined = Vec::with_capacity(raw.len());
    for (n, piece) in raw.split(|b| *b == b'\n').enumerate() {
        let piece = piece.strip_suffix(b"\r").unwrap_or(piece);
        joined.extend_from_slice(if n > 0 { piece.get(1..).unwrap_or_default() } else { piece });
    }
    let text = String::from_utf8_lossy(&joined).into_owned();
    text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text)
}

fn fold(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    let mut width = 0;
    for c in text.chars() {
        if width + c.len_utf8() > FOLD {
            out.extend_from_slice(b"\r\n ");
            width = 1;
        }
        width += c.len_utf8();
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out
}

fn unquoted(text: &str, is_it: impl Fn(char) -> bool) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (!quoted && is_it(c)).then_some(at)
    })
}

/// Name, parameters and value of a line.
fn split(text: &str) -> (String, String, String) {
    let colon = unquoted(text, |c| c == ':').unwrap_or(text.len());
    let (head, value) = (&text[..colon], text.get(colon + 1..).unwrap_or_default());
    let end = head.find(';').unwrap_or(head.len());
    let name = head[..end].rsplit('.').next().unwrap_or_default();
    (name.to_ascii_uppercase(), head[end..].to_owned(), value.to_owned())
}

/// A text as the value of a property.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | ';' | ',' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => {}
            // Other control characters have no place in a text (RFC 5545, 3.3.11).
            c if c.is_control() && c != '\t' => {}
            c => out.push(c),
        }
    }
    out
}

/// A text as a parameter's value, which can't hold quotes or line ends at all.
pub fn quote(text: &str) -> String {
    let clean: String = text.chars().filter(|c| *c != '"' && !c.is_control()).collect();
    format!("\"{clean}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &[u8] = b"BEGIN:VCALENDAR\r\nX-A;P=\"a:b;c\":1\r\nBEGIN:VEVENT\nSUMMARY:Lo\n ng\r\nX-B:\xc3\r\n \xa4 end\r\nSUMMARY:two\r\nBEGIN:VALARM\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

    #[test]
    fn untouched_lines_keep_their_bytes() {
        let mut whole = read(ODD).unwrap();
        let mut out = Vec::new();
        whole.write(&mut out);
        assert_eq!(out, ODD);
        assert_eq!(whole.line("X-A").unwrap().param("p").as_deref(), Some("a:b;c"));
        let Node::Component(event) = &mut whole.nodes[1] else { panic!("{whole:?}") };
        assert_eq!(event.line("SUMMARY").unwrap().value, "Long");
        assert_eq!(event.line("X-B").unwrap().value, "ä end");
        event.set("SUMMARY", vec![Line::new("SUMMARY", &"é".repeat(60))]);
        event.set("LOCATION", vec![Line::new("LOCATION", "Here")]);
        let mut out = Vec::new();
        whole.write(&mut out);
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(text.lines().all(|line| line.len() <= 75), "{text}");
        assert!(text.contains("LOCATION:Here\r\nBEGIN:VALARM"), "{text}");
        assert!(out.windows(14).any(|w| w == b"X-B:\xc3\r\n \xa4 end\r"), "{text}");
        assert_eq!(read(&out).unwrap().components("VEVENT").next().unwrap().lines("SUMMARY").count(), 1);
    }

    #[test]
    fn what_is_no_calendar_is_refused() {
        for bad in [
            "",
            "BEGIN:VCARD\nEND:VCARD",
            "BEGIN:VCALENDAR",
            "BEGIN:VCALENDAR\nEND:VEVENT",
            "X:1\nBEGIN:VCALENDAR\nEND:VCALENDAR",
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        let deep = "BEGIN:VCALENDAR\n".repeat(1000);
        assert!(read(deep.as_bytes()).is_err());
    }
}
