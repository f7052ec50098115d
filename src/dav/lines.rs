//! vCards and iCalendar objects as lines that keep their bytes: whoever changes one leaves all others as they were.

use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;

/// A logical line: what folding made several of is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// Its bytes as they stand, with folds and line end.
    pub raw: &'a [u8],
    /// Unfolded, without its end.
    pub text: String,
    /// `item1` of `item1.TEL`, in lower case.
    pub group: Option<String>,
    /// In upper case; empty where the line is none of these formats.
    pub name: String,
    /// Where the value begins in `text`, behind the colon; the text's end where there is none.
    value: usize,
}

impl<'a> Line<'a> {
    /// The lines of a text, with nothing left out.
    pub fn all(bytes: &'a [u8]) -> Vec<Self> {
        let mut lines = Vec::new();
        let (mut start, mut at, mut quoted) = (0, 0, false);
        while at < bytes.len() {
            let end = bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| at + n + 1);
            quoted = if at == start { is_quoted(&bytes[start..end]) } else { quoted };
            // What begins with white space goes on with the line before it, and so does what stands behind a soft break.
            let soft = quoted && bytes[at..end].trim_ascii_end().ends_with(b"=") && !bytes[end..].starts_with(b"END:");
            let goes_on = soft || matches!(bytes.get(end), Some(b' ' | b'\t'));
            at = end;
            if end == bytes.len() || !goes_on {
                lines.push(Self::new(&bytes[start..end]));
                start = end;
            }
        }
        lines
    }

    fn new(raw: &'a [u8]) -> Self {
        let text = decoded(&unfolded(raw));
        let head = text.find([':', ';']).unwrap_or(0);
        let (group, name) = match text[..head].split_once('.') {
            Some((group, name)) => (Some(group.to_ascii_lowercase()), name.to_ascii_uppercase()),
            None => (None, text[..head].to_ascii_uppercase()),
        };
        let value = colon(&text).map_or(text.len(), |colon| colon + 1);
        Self { raw, text, group, name, value }
    }

    /// What stands behind the colon, with its escapes.
    pub fn value(&self) -> &str {
        &self.text[self.value..]
    }

    /// What stands between name and colon, with its first semicolon.
    pub fn parameters(&self) -> &str {
        let from = self.text.find([':', ';']).unwrap_or(self.text.len());
        self.text[..self.value].strip_suffix(':').and_then(|head| head.get(from..)).unwrap_or_default()
    }

    /// What it says, without the order and the letter case that formats don't care about.
    pub(crate) fn statement(&self) -> String {
        let group = self.group.as_ref().map(|group| format!("{group}.")).unwrap_or_default();
        let mut parameters: Vec<String> = self.parameters().split(';').map(str::to_ascii_uppercase).collect();
        parameters.sort();
        format!("{group}{}{}:{}", self.name, parameters.join(";"), self.value().trim_end())
    }

    pub fn begins(&self) -> Option<String> {
        (self.name == "BEGIN").then(|| self.value().trim().to_ascii_uppercase())
    }

    pub fn ends(&self) -> Option<String> {
        (self.name == "END").then(|| self.value().trim().to_ascii_uppercase())
    }
}

/// Whether the value of a line of vCard 2.1 is quoted-printable.
fn is_quoted(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|b| *b == b':') else { return false };
    line[..colon].split(|b| *b == b';').skip(1).any(|part| is_encoding(&String::from_utf8_lossy(part)))
}

/// Whether a parameter says that its value is quoted-printable, in either form of vCard 2.1.
pub(crate) fn is_encoding(parameter: &str) -> bool {
    ["QUOTED-PRINTABLE", "ENCODING=QUOTED-PRINTABLE"].iter().any(|form| parameter.eq_ignore_ascii_case(form))
}

pub(crate) fn charset_of(parameter: &str) -> Option<&str> {
    let (name, value) = parameter.split_once('=')?;
    name.trim().eq_ignore_ascii_case("CHARSET").then(|| value.trim().trim_matches('"'))
}

/// An unfolded line as text: its value out of its encoding and its character set, which cards of version 2.1 have. Text in
/// no known set is read as programs of their time wrote it.
fn decoded(line: &[u8]) -> String {
    let colon = line.iter().position(|b| *b == b':').map_or(line.len(), |at| at + 1);
    let (head, value) = (String::from_utf8_lossy(&line[..colon]), &line[colon..]);
    let named = head.trim_end_matches(':').split(';').find_map(charset_of);
    let decoder =
        named.filter(|set| !set.eq_ignore_ascii_case("UTF-8")).and_then(|set| charset_decoder(set.as_bytes()));
    let text = |bytes: &[u8]| match (decoder, std::str::from_utf8(bytes)) {
        (Some(decoder), _) => decoder(bytes),
        (None, Ok(text)) => text.to_owned(),
        (None, Err(_)) => charset_decoder(b"windows-1252")
            .map_or_else(|| String::from_utf8_lossy(bytes).into_owned(), |decoder| decoder(bytes)),
    };
    // As in later versions: ends of lines are escaped, and a backslash is one, but before a semicolon.
    let quoted = if is_quoted(line) { quoted_printable_decode(value) } else { None };
    let value = match quoted {
        Some(value) => {
            let plain = text(&value).replace('\\', "\\\\").replace("\\\\;", "\\;");
            plain.replace("\r\n", "\\n").replace(['\r', '\n'], "\\n")
        }
        None => text(value),
    };
    format!("{head}{value}")
}

fn unfolded(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    let quoted = raw.contains(&b'=') && is_quoted(raw);
    while let Some(n) = rest.iter().position(|b| *b == b'\n') {
        let line = &rest[..n];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(line) = line.trim_ascii_end().strip_suffix(b"=").filter(|_| quoted) {
            out.extend_from_slice(line);
            rest = &rest[n + 1..];
            continue;
        }
        out.extend_from_slice(line);
        // The white space of the fold.
        rest = rest.get(n + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// The colon before the value: not one within quotes.
fn colon(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == ':' && !quoted).then_some(at)
    })
}

/// A line of these formats as bytes: folded after 75 octets, never within a character.
pub fn folded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 32 + 2);
    let mut width = 0;
    for c in text.chars() {
        if width + c.len_utf8() > 75 {
            out.extend_from_slice(b"\r\n ");
            width = 1;
        }
        width += c.len_utf8();
        let mut buffer = [0; 4];
        out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Whether two texts say the same in the same order, however they are folded and end their lines.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    let texts = |bytes| {
        let lines = Line::all(bytes).into_iter().map(|line| line.text);
        lines.filter(|text| !text.is_empty()).collect::<Vec<_>>()
    };
    a == b || texts(a) == texts(b)
}

/// Components within components that are looked at; real ones have three.
const MOST_DEPTH: usize = 8;

/// Whether two items say the same in whatever order, but for properties and components of these names: a server may write
/// what it was sent in an order of its own. What is no whole component is like nothing.
pub(crate) fn alike(a: &[u8], b: &[u8], but: &[&str]) -> bool {
    let said = said(a, but);
    said.is_some() && said == self::said(b, but)
}

/// Each component in one form, whatever the order of what is in it.
fn said(bytes: &[u8], but: &[&str]) -> Option<Vec<String>> {
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    for line in Line::all(bytes) {
        if line.begins().is_some() && open.len() <= MOST_DEPTH {
            open.push(vec![line.statement()]);
        } else if line.begins().is_some() {
            return None;
        } else if line.ends().is_some() {
            let mut inner = open.pop()?;
            inner.sort();
            let outer = open.last_mut()?;
            if !line.ends().is_some_and(|name| but.contains(&name.as_str())) {
                outer.push(inner.join("\n"));
            }
        } else if !line.text.is_empty() && !but.contains(&line.name.as_str()) {
            open.last_mut()?.push(line.statement());
        }
    }
    let mut all = open.pop().filter(|_| open.is_empty())?;
    all.sort();
    Some(all)
}

/// What an item says, without the order and the letter case that formats don't care about.
pub(crate) fn statements(bytes: &[u8]) -> Vec<String> {
    let lines = Line::all(bytes).into_iter().filter(|line| !line.text.is_empty());
    let mut all: Vec<String> = lines.map(|line| line.statement()).collect();
    all.sort();
    all
}

/// The UID of an item: of its first component that has one.
pub fn uid(bytes: &[u8]) -> Option<String> {
    let lines = Line::all(bytes);
    let uid = lines.iter().find(|line| line.name == "UID")?.value().trim();
    (!uid.is_empty()).then(|| uid.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_bytes() {
        let text = b"BEGIN:VCARD\r\nitem1.TEL;TYPE=\"a:b\",c:+49\r\n 30\r\n\t1\nNOTE:x\n\nEND:VCARD";
        let lines = Line::all(text);
        assert_eq!(lines.iter().flat_map(|line| line.raw).copied().collect::<Vec<_>>(), text);
        let tel = &lines[1];
        assert_eq!((tel.name.as_str(), tel.group.as_deref(), tel.value()), ("TEL", Some("item1"), "+49301"));
        assert_eq!(tel.parameters(), ";TYPE=\"a:b\",c");
        assert_eq!((lines[0].begins().as_deref(), lines[4].ends().as_deref()), (Some("VCARD"), Some("VCARD")));
        assert_eq!((lines[2].parameters(), lines[3].name.as_str()), ("", ""));
    }

    #[test]
    fn folding_is_undone_and_breaks_no_character() {
        let text = format!("NOTE:{}", "ä€😀x".repeat(100));
        let bytes = folded(&text);
        assert!(bytes.split(|b| *b == b'\n').all(|line| line.len() <= 76));
        assert!(String::from_utf8(bytes.clone()).is_ok());
        assert_eq!(Line::all(&bytes)[0].text, text);
    }

    #[test]
    fn a_line_of_version_2_1_is_read_in_its_encoding() {
        let text = b"BEGIN:VCARD\r\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BC= \r\nller;J=C3=B6rg;;;\r\n\
            NOTE;QUOTED-PRINTABLE:a=0D=0Ab=3D=5Cc\r\nFN;CHARSET=ISO-8859-1:J\xf6rg\r\nORG:Stra\xdfe\r\nPHOTO;ENCODING=BASE64:aa=\r\n\
            TEL;HOME:+49\r\n";
        let lines = Line::all(text);
        assert_eq!(lines.iter().flat_map(|line| line.raw).copied().collect::<Vec<_>>(), text);
        let values: Vec<&str> = lines[1..].iter().map(Line::value).collect();
        assert_eq!(values, ["M\u{fc}ller;J\u{f6}rg;;;", "a\\nb=\\\\c", "J\u{f6}rg", "Stra\u{df}e", "aa=", "+49"]);
        // A soft break before the end is no reason to read on for ever.
        assert_eq!(Line::all(b"NOTE;QUOTED-PRINTABLE:a=").len(), 1);
    }

    #[test]
    fn another_order_says_the_same() {
        let event = |lines: &str| format!("BEGIN:VEVENT\r\n{lines}END:VEVENT\r\n");
        let (one, two) = (event("UID:1\r\nSUMMARY:a\r\n"), event("SUMMARY:b\r\nUID:1\r\n"));
        let like = |a: &str, b: &str| alike(a.as_bytes(), b.as_bytes(), &["REV"]);
        assert!(like(&event("UID:1\r\nX;A=1;B=2:y\r\n"), &event("REV:2\r\nX;b=2;A=1:y\r\nUID:1\r\n")));
        assert!(like(&format!("{one}{two}"), &format!("{two}{one}")));
        // The same lines in other components are something else.
        let (three, four) = (one.replace(":a", ":b"), two.replace(":b", ":a"));
        let apart = |a: &str, b: &str| (a.replace("UID:1", "UID:3"), b.to_owned());
        let ((a, b), (c, d)) = (apart(&one, &two), apart(&three, &four));
        assert!(!like(&format!("{a}{b}"), &format!("{c}{d}")));
        assert!(!like(&one, &two) && !like("UID:1", "END:X") && !like("BEGIN:X\r\n", "BEGIN:X\r\n"));
        let zoned = |id: &str| format!("BEGIN:REV\r\nTZID:{id}\r\nEND:REV\r\n{one}");
        assert!(like(&zoned("a"), &one) && like(&zoned("a"), &zoned("b")) && !like(&zoned("a"), &two));
        let deep = "BEGIN:X\r\n".repeat(50_000);
        assert!(!like(&deep, &deep));
    }

    #[test]
    fn the_same_is_the_same_however_folded() {
        assert!(same(b"A:1\r\n 2\r\n", b"A:12\n\n"));
        assert!(!same(b"A:1\r\nB:2\r\n", b"B:2\r\nA:1\r\n"));
        assert_eq!(uid(b"BEGIN:VCARD\nUID:a-\n 1\nEND:VCARD\n").as_deref(), Some("a-1"));
        assert_eq!((uid(b"UID:\n"), uid(b"")), (None, None));
    }
}
