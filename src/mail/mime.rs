//! A letter's parts: which there are, of what kind, and where each begins and ends.
//!
//! The library that reads mail keeps nested letters in each other, and looks for every border from where it is to the
//! letter's end: a letter made for it would take all stack, or a square of the time. Here depth and number are bounded.

use std::borrow::Cow;

use mail_parser::parsers::MessageStream;
use mail_parser::{ContentType, HeaderValue};

use super::decode;
use super::fields::{Fields, line};

/// Parts within parts; deeper ones stay one file.
const MOST_DEPTH: usize = 16;
/// Parts of one letter; of the others only how many there are.
const MOST_PARTS: usize = 1_000;
/// Bytes of a field that says what a part is.
const MOST_VALUE: usize = 4 * 1024;

/// What a field such as `Content-Type` says.
#[derive(Clone, Default)]
pub(crate) struct Kind {
    /// In lower case; for `Content-Disposition` the only word.
    pub main: String,
    pub sub: String,
    parameters: Vec<(String, String)>,
}

/// A part that holds no others.
pub(crate) struct Leaf<'a> {
    pub fields: Fields<'a>,
    pub kind: Kind,
    pub disposition: Option<Kind>,
    /// Still in its transfer encoding.
    pub body: &'a [u8],
    /// Its end was there.
    pub whole: bool,
}

pub(crate) enum Node<'a> {
    Leaf(Leaf<'a>),
    Many { kind: Kind, children: Vec<Node<'a>> },
}

pub(crate) struct Tree<'a> {
    pub root: Node<'a>,
    /// Parts that were not looked at.
    pub more: usize,
}

impl Kind {
    /// Reads the value of `Content-Type` or `Content-Disposition`.
    pub fn parse(value: &str) -> Option<Self> {
        let mut value: String = super::clean::cut(value, MOST_VALUE).replace(['\n', '\r'], " ");
        value.push('\n');
        let HeaderValue::ContentType(read) = MessageStream::new(value.as_bytes()).parse_content_type() else {
            return None;
        };
        let parameters = read.attributes().unwrap_or_default();
        let parameters = parameters.iter().map(|one| (one.name.to_string(), one.value.trim().to_owned())).collect();
        let sub = ContentType::subtype(&read).unwrap_or_default().trim().to_ascii_lowercase();
        Some(Self { main: read.ctype().trim().to_ascii_lowercase(), sub, parameters })
    }

    fn new(main: &str, sub: &str) -> Self {
        Self { main: main.to_owned(), sub: sub.to_owned(), parameters: Vec::new() }
    }

    /// The first parameter of that name, unless it is empty.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub fn is(&self, main: &str, sub: &str) -> bool {
        self.main == main && self.sub == sub
    }

    /// As it may stand in a file's description.
    pub fn media_type(&self) -> String {
        let plain = |word: &str| {
            (1..=100).contains(&word.len())
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$&^_.+-".contains(&b))
        };
        match plain(&self.main) && plain(&self.sub) {
            true => format!("{}/{}", self.main, self.sub),
            false => "application/octet-stream".to_owned(),
        }
    }
}

impl Leaf<'_> {
    pub fn content(&self) -> Cow<'_, [u8]> {
        let encoding = self.fields.text("content-transfer-encoding").unwrap_or_default().to_ascii_lowercase();
        decode::body(self.body, encoding.split([';', ' ', '(']).next().unwrap_or_default())
    }

    pub fn text(&self) -> String {
        decode::text(&self.content(), self.kind.parameter("charset"))
    }

    /// As the sender named the file.
    pub fn file_name(&self) -> Option<&str> {
        let disposition = self.disposition.as_ref().and_then(|kind| kind.parameter("filename"));
        disposition.or_else(|| self.kind.parameter("name"))
    }

    pub fn is_attachment(&self) -> bool {
        self.disposition.as_ref().is_some_and(|kind| kind.main == "attachment")
    }

    /// Another letter, passed on.
    pub fn is_letter(&self) -> bool {
        self.kind.is("message", "rfc822") || self.kind.is("message", "global")
    }
}

impl<'a> Tree<'a> {
    pub fn of(fields: Fields<'a>, body: &'a [u8]) -> Self {
        let mut reader = Reader { parts: 0, more: 0 };
        let root = reader.node(fields, body, Place { depth: 0, whole: true, digest: false });
        Self { root, more: reader.more }
    }

    /// All parts that hold no others, in their order.
    pub fn leaves(&self) -> Vec<&Leaf<'a>> {
        let mut leaves = Vec::new();
        self.root.gather(&mut leaves);
        leaves
    }
}

impl<'a> Node<'a> {
    pub fn gather<'b>(&'b self, leaves: &mut Vec<&'b Leaf<'a>>) {
        match self {
            Self::Leaf(leaf) => leaves.push(leaf),
            Self::Many { children, .. } => children.iter().for_each(|child| child.gather(leaves)),
        }
    }
}

/// Where a part stands.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    whole: bool,
    /// In a digest, parts that say nothing else are letters.
    digest: bool,
}

struct Reader {
    parts: usize,
    more: usize,
}

impl Reader {
    fn node<'a>(&mut self, fields: Fields<'a>, body: &'a [u8], place: Place) -> Node<'a> {
        let said = fields.text("content-type").and_then(|value| Kind::parse(&value));
        let mut kind = match said.filter(|kind| !kind.sub.is_empty()) {
            Some(kind) => kind,
            None if place.digest => Kind::new("message", "rfc822"),
            None => Kind::new("text", "plain"),
        };
        if kind.main == "multipart" && place.depth >= MOST_DEPTH {
            kind = Kind::new("application", "octet-stream");
        } else if kind.main == "multipart" {
            let pieces = kind.parameter("boundary").map(|boundary| self.split(body, boundary)).unwrap_or_default();
            if !pieces.is_empty() {
                let inner = |(piece, whole): (&'a [u8], bool)| {
                    let (fields, body) = Fields::parse(piece);
                    let whole = whole && place.whole;
                    self.node(fields, body, Place { depth: place.depth + 1, whole, digest: kind.sub == "digest" })
                };
                let children = pieces.into_iter().map(inner).collect();
                return Node::Many { kind, children };
            }
            // No border is in it: mail programs show what is there.
            kind = Kind::new("text", "plain");
        }
        let disposition = fields.text("content-disposition").and_then(|value| Kind::parse(&value));
        Node::Leaf(Leaf { fields, kind, disposition, body, whole: place.whole })
    }

    /// The pieces between the borders, and whether each has an end.
    fn split<'a>(&mut self, body: &'a [u8], boundary: &str) -> Vec<(&'a [u8], bool)> {
        let border = format!("--{boundary}");
        let mut pieces = Vec::new();
        let mut begin: Option<usize> = None;
        let mut at = 0;
        while at < body.len() {
            let (this, _) = line(&body[at..]);
            let end = this.strip_prefix(border.as_bytes()).map(<[u8]>::trim_ascii_end);
            let last = end.is_some_and(|end| end.starts_with(b"--"));
            if last || end.is_some_and(<[u8]>::is_empty) {
                if let Some(begin) = begin {
                    self.piece(&mut pieces, without_end(&body[begin..at]), true);
                }
                begin = (!last).then_some(at + this.len());
                if last {
                    break;
                }
            }
            at += this.len();
        }
        if let Some(begin) = begin.filter(|begin| *begin < body.len()) {
            self.piece(&mut pieces, &body[begin..], false);
        }
        pieces
    }

    fn piece<'a>(&mut self, pieces: &mut Vec<(&'a [u8], bool)>, piece: &'a [u8], whole: bool) {
        if self.parts >= MOST_PARTS {
            self.more += 1;
            return;
        }
        self.parts += 1;
        pieces.push((piece, whole));
    }
}

/// The line's end in front of a border belongs to the border.
fn without_end(piece: &[u8]) -> &[u8] {
    let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
    piece.strip_suffix(b"\r").unwrap_or(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(raw: &str) -> String {
        let (fields, body) = Fields::parse(raw.as_bytes());
        let tree = Tree::of(fields, body);
        let one = |leaf: &&Leaf<'_>| {
            format!("{}:{:?}{}", leaf.kind.media_type(), leaf.text(), if leaf.whole { "" } else { " cut" })
        };
        tree.leaves().iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn parts_are_found_where_their_borders_are() {
        let head = "Content-Type: multipart/mixed; boundary=\"b\"\n\n";
        for (body, wanted) in [
            ("x\n--b\n\na\n--b\nContent-Type: IMAGE/Png\n\nb\n--b--\ny", "text/plain:\"a\" image/png:\"b\""),
            ("--b\r\n\r\na\r\n--b--", "text/plain:\"a\""),
            ("--b \t\n\na--b\n--bc\n --b\n--b\n\n\n--b-- \n", "text/plain:\"a--b\\n--bc\\n --b\" text/plain:\"\""),
            ("--b\n\na", "text/plain:\"a\" cut"),
            ("no border", "text/plain:\"no border\""),
            ("--b\nContent-Type: a/b c\n\na\n--b--", "application/octet-stream:\"a\""),
            ("--b--\n", "text/plain:\"--b--\\n\""),
        ] {
            assert_eq!(shape(&format!("{head}{body}")), wanted, "{body:?}");
        }
        assert_eq!(shape("Content-Type: multipart/mixed\n\na"), "text/plain:\"a\"");
        assert_eq!(shape("Content-Type: nonsense\n\na"), "text/plain:\"a\"");
        assert_eq!(
            shape("Content-Type: multipart/digest; boundary=b\n\n--b\n\nFrom: a\n\nb\n--b--"),
            "message/rfc822:\"From: a\\n\\nb\""
        );
    }

    #[test]
    fn an_outer_border_ends_inner_parts() {
        let raw = "Content-Type: multipart/mixed; boundary=o\n\n--o\nContent-Type: multipart/mixed; boundary=i\n\n\
            --i\n\na\n--o\n\nb\n--i--\n--o--";
        assert_eq!(shape(raw), "text/plain:\"a\" cut text/plain:\"b\\n--i--\"");
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let mut raw = String::new();
        for depth in 0..1_000 {
            raw.push_str(&format!("Content-Type: multipart/mixed; boundary=b{depth}\n\n--b{depth}\n"));
        }
        let (fields, body) = Fields::parse(raw.as_bytes());
        let tree = Tree::of(fields, body);
        assert_eq!(tree.leaves().len(), 1);
        assert_eq!(tree.leaves()[0].kind.media_type(), "application/octet-stream");
        let raw = format!("Content-Type: multipart/mixed; boundary=b\n\n{}", "--b\n\na\n".repeat(5_000));
        let (fields, body) = Fields::parse(raw.as_bytes());
        let tree = Tree::of(fields, body);
        assert_eq!((tree.leaves().len(), tree.more), (1_000, 4_000));
    }
}
