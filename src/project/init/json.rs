//! JSON with the places where its parts stand, so that one part of a file can be changed and the rest stays as it is.

use std::ops::Range;

use serde_json::Value;

/// Deeper than this nothing nests that a program wants to be configured by.
const DEEPEST: usize = 100;

/// What is wrong with a text, and in which line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SyntaxError {
    pub line: usize,
    pub what: String,
}

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    pub span: Range<usize>,
    pub kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Object(Vec<Member>),
    List(Vec<Node>),
    /// A string, a number, or a name such as `true`.
    Scalar(Value),
}

#[derive(Debug)]
pub(super) struct Member {
    pub name: String,
    /// Where the name begins.
    pub start: usize,
    pub value: Node,
}

impl Node {
    /// The member of this name. Of several, programs take the last.
    pub fn member(&self, name: &str) -> Option<&Member> {
        match &self.kind {
            Kind::Object(members) => members.iter().rev().find(|member| member.name == name),
            _ => None,
        }
    }

    pub fn item(&self, n: usize) -> Option<&Self> {
        match &self.kind {
            Kind::List(items) => items.get(n),
            _ => None,
        }
    }

    /// Where the parts of an object or a list stand, names included.
    pub fn parts(&self) -> Vec<Range<usize>> {
        match &self.kind {
            Kind::Object(members) => members.iter().map(|member| member.start..member.value.span.end).collect(),
            Kind::List(items) => items.iter().map(|item| item.span.clone()).collect(),
            Kind::Scalar(_) => Vec::new(),
        }
    }

    pub fn value(&self) -> Value {
        match &self.kind {
            Kind::Object(members) => {
                Value::Object(members.iter().map(|member| (member.name.clone(), member.value.value())).collect())
            }
            Kind::List(items) => Value::Array(items.iter().map(Self::value).collect()),
            Kind::Scalar(value) => value.clone(),
        }
    }
}

/// Reads a text. `comments` says whether its program lets `//` and `/* */` stand between values.
pub(super) fn parse(text: &str, comments: bool) -> Result<Node, SyntaxError> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut parser = Parser { text, at: start, comments };
    let node = parser.value(0)?;
    parser.skip()?;
    if parser.at < text.len() {
        return Err(parser.error("something stands after its end"));
    }
    Ok(node)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    comments: bool,
}

impl Parser<'_> {
    fn error(&self, what: impl Into<String>) -> SyntaxError {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        SyntaxError { line: before.iter().filter(|byte| **byte == b'\n').count() + 1, what: what.into() }
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes past white space and comments.
    fn skip(&mut self) -> Result<(), SyntaxError> {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.at += blank;
            let rest = &rest[blank..];
            let comment = if !self.comments {
                None
            } else if rest.starts_with("//") {
                Some(rest.find('\n').unwrap_or(rest.len()))
            } else if let Some(inner) = rest.strip_prefix("/*") {
                let end = inner.find("*/").ok_or_else(|| self.error("a comment does not end"))?;
                Some(end + 4)
            } else {
                None
            };
            match comment {
                Some(length) => self.at += length,
                None => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, SyntaxError> {
        self.skip()?;
        if depth > DEEPEST {
            return Err(self.error("it nests too deep"));
        }
        let start = self.at;
        let kind = match self.next() {
            None => return Err(self.error("a value is missing")),
            Some(b'{') => Kind::Object(self.parts(b'}', |parser| parser.member(depth))?),
            Some(b'[') => Kind::List(self.parts(b']', |parser| parser.value(depth + 1))?),
            Some(b'"') => Kind::Scalar(Value::String(self.string()?)),
            Some(_) => Kind::Scalar(self.plain()?),
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn member(&mut self, depth: usize) -> Result<Member, SyntaxError> {
        let start = self.at;
        if self.next() != Some(b'"') {
            return Err(self.error("a name in quotation marks is missing"));
        }
        let name = self.string()?;
        self.skip()?;
        if self.next() != Some(b':') {
            return Err(self.error(format!("a colon is missing after \"{name}\"")));
        }
        self.at += 1;
        Ok(Member { name, start, value: self.value(depth + 1)? })
    }

    /// What stands between two brackets, with commas between.
    fn parts<T>(
        &mut self,
        close: u8,
        mut part: impl FnMut(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<Vec<T>, SyntaxError> {
        self.at += 1;
        let mut parts = Vec::new();
        self.skip()?;
        if self.next() == Some(close) {
            self.at += 1;
            return Ok(parts);
        }
        loop {
            self.skip()?;
            parts.push(part(self)?);
            self.skip()?;
            match self.next() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => {
                    self.at += 1;
                    return Ok(parts);
                }
                _ => return Err(self.error(format!("a comma or `{}` is missing", char::from(close)))),
            }
        }
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        let mut escaped = false;
        let end = self.text.as_bytes()[start + 1..].iter().position(|byte| {
            let ends = *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            ends
        });
        let end = start + 2 + end.ok_or_else(|| self.error("a quotation mark is missing"))?;
        let read = serde_json::from_str(&self.text[start..end]);
        let string = read.map_err(|_| self.error("this string holds what has to be escaped, or a wrong escape"))?;
        self.at = end;
        Ok(string)
    }

    fn plain(&mut self) -> Result<Value, SyntaxError> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| c.is_whitespace() || ",]}[{:\"/".contains(c)).unwrap_or(rest.len());
        let shown: String = rest.chars().take(end.clamp(1, 20)).collect();
        let value = serde_json::from_str(&rest[..end]).map_err(|_| self.error(format!("`{shown}` is no value")))?;
        self.at += end;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_valid_is_read_and_what_is_not_names_its_line() {
        let text = "{\"a\": [1, -2.5e3, true, null], \"b\\\"\": {\"c\": \"x\\\\\"}, \"d\": []}\n";
        let read = parse(text, false).unwrap();
        assert_eq!(read.value(), json!({"a": [1, -2500.0, true, null], "b\"": {"c": "x\\"}, "d": []}));
        assert_eq!(&text[read.member("a").unwrap().value.item(1).unwrap().span.clone()], "-2.5e3");
        let wrong = [
            ("", 1),
            ("{", 1),
            ("{\n\"a\": 1,\n}", 3),
            ("{\"a\": 1}\nx", 2),
            ("[\n1\n2]", 3),
            ("{\"a\" 1}", 1),
            ("[\"a]", 1),
            ("[nul]", 1),
            ("{a: 1}", 1),
            ("// x\n{}", 1),
            ("[\"a\tb\"]", 1),
            ("[\"\\x\"]", 1),
        ];
        for (text, line) in wrong {
            assert_eq!(parse(text, false).map_err(|e| e.line).unwrap_err(), line, "{text}");
        }
        assert!(parse(&"[".repeat(100_000), false).is_err());
        let read = parse("// x\n{ /* y */ \"a\": 1 /* z */, // \"b\": 2\n \"c\": 3 }", true).unwrap();
        assert_eq!(read.value(), json!({"a": 1, "c": 3}));
    }
}
