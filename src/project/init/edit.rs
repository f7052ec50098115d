//! Changes to a JSON file that leave the rest of it byte for byte as it was.

use std::ops::Range;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::json::{Node, SyntaxError, parse};

/// One step on the way to a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

/// A JSON file that is being changed.
#[derive(Debug)]
pub(super) struct Document {
    text: String,
    root: Node,
    comments: bool,
}

impl Document {
    /// A file's text; of a file that is missing or empty, an empty object. `comments`: see [`parse`].
    pub fn read(text: Option<&str>, comments: bool) -> Result<Self, SyntaxError> {
        let text = text.filter(|text| !text.trim().is_empty()).unwrap_or("{}\n");
        Ok(Self { text: text.to_owned(), root: parse(text, comments)?, comments })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value at the end of `path`.
    pub fn value(&self, path: &[Step<'_>]) -> Option<Value> {
        self.node(path).map(Node::value)
    }

    /// The names of an object's members.
    pub fn names(&self, path: &[Step<'_>]) -> Vec<String> {
        match self.value(path) {
            Some(Value::Object(members)) => members.into_iter().map(|(name, _)| name).collect(),
            _ => Vec::new(),
        }
    }

    /// Sets a member of the object at `path`, in its place or as the last one.
    pub fn set(&mut self, path: &[Step<'_>], name: &str, value: &impl Serialize) -> Result<(), SyntaxError> {
        let Some(object) = self.node(path) else { return Ok(()) };
        let Some(member) = object.member(name) else { return self.append(path, Some(name), value) };
        let (start, span) = (member.start, member.value.span.clone());
        let (indent, pretty) = (self.indent_at(start).to_owned(), self.is_spread());
        let rendered = self.render(value, &indent, pretty)?;
        self.replace(span, &rendered)
    }

    /// Adds an item to the end of the list at `path`.
    pub fn push(&mut self, path: &[Step<'_>], value: &impl Serialize) -> Result<(), SyntaxError> {
        self.append(path, None, value)
    }

    /// Adds an item to the beginning of the list at `path`.
    pub fn push_first(&mut self, path: &[Step<'_>], value: &impl Serialize) -> Result<(), SyntaxError> {
        let Some(node) = self.node(path) else { return Ok(()) };
        let open = node.span.start + 1;
        let Some(first) = node.parts().first().map(|part| part.start) else { return self.push(path, value) };
        // A comment between belongs to what follows.
        let before = &self.text[open..first];
        let blank = &before[before.trim_end_matches([' ', '\t', '\r', '\n']).len()..];
        let indent = blank.rfind('\n').map(|at| blank[at + 1..].to_owned());
        let blank = if blank.is_empty() && self.text.contains(": ") { " " } else { blank };
        let item = self.render(value, indent.as_deref().unwrap_or_default(), indent.is_some())?;
        self.replace(first..first, &format!("{item},{blank}"))
    }

    /// Takes out the value at the end of `path`, its name and one comma with it.
    pub fn remove(&mut self, path: &[Step<'_>]) -> Result<(), SyntaxError> {
        let Some((last, above)) = path.split_last() else { return Ok(()) };
        let (Some(node), Some(target)) = (self.node(above), self.node(path)) else { return Ok(()) };
        let end = target.span.end;
        let parts = node.parts();
        let Some(n) = parts.iter().position(|part| part.end == end) else { return Ok(()) };
        debug_assert!(matches!(last, Step::Member(_)) || matches!(last, Step::Item(at) if *at == n));
        let before = match n {
            0 => node.span.start + 1,
            _ => parts[n - 1].end,
        };
        let span = match parts.get(n + 1) {
            // A comment after the comma is not part of what goes.
            Some(next) if self.text[end..next.start].trim_matches([' ', '\t', '\r', '\n', ',']).is_empty() => {
                parts[n].start..next.start
            }
            Some(_) => parts[n].start..end + self.text[end..].find(',').map_or(0, |comma| comma + 1),
            None if n > 0 => {
                // Without the comma, but with the comments around it.
                let between = &self.text[before..parts[n].start];
                let bare = between.trim_matches([' ', '\t', '\r', '\n', ',']).is_empty();
                let kept = if bare { String::new() } else { between.replacen(',', "", 1).trim_end().to_owned() };
                return self.replace(before..end, &kept);
            }
            None if self.text[before..node.span.end - 1].trim().len() == end - parts[n].start => {
                before..node.span.end - 1
            }
            None => parts[n].clone(),
        };
        self.replace(span, "")
    }

    fn node(&self, path: &[Step<'_>]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| match step {
            Step::Member(name) => node.member(name).map(|member| &member.value),
            Step::Item(n) => node.item(*n),
        })
    }

    fn append(&mut self, path: &[Step<'_>], name: Option<&str>, value: &impl Serialize) -> Result<(), SyntaxError> {
        let Some(node) = self.node(path) else { return Ok(()) };
        let (open, close) = (node.span.start, node.span.end - 1);
        let (parts, line) = (node.parts(), self.line_end());
        let (span, lead, indent, trail) = match parts.last() {
            Some(last) => {
                let before = &self.text[..last.start];
                let blank = &before[before.trim_end_matches([' ', '\t', '\r', '\n']).len()..];
                let blank = if blank.is_empty() && self.text.contains(": ") { " " } else { blank };
                let indent = blank.rfind('\n').map(|at| blank[at + 1..].to_owned());
                (last.end..last.end, format!(",{blank}"), indent, String::new())
            }
            None if self.is_spread() => {
                let outer = self.indent_at(open).to_owned();
                let inner = format!("{outer}{}", self.unit());
                let kept = self.text[open + 1..close].trim_end().len();
                (open + 1 + kept..close, format!("{line}{inner}"), Some(inner), format!("{line}{outer}"))
            }
            None => (close..close, String::new(), None, String::new()),
        };
        let pretty = indent.is_some();
        let mut item = self.render(value, indent.as_deref().unwrap_or_default(), pretty)?;
        if let Some(name) = name {
            let space = if pretty || self.text.contains(": ") { " " } else { "" };
            item = format!("{}:{space}{item}", Value::from(name));
        }
        self.replace(span, &format!("{lead}{item}{trail}"))
    }

    /// A value as text: over several lines that all but the first are indented, or in one.
    fn render(&self, value: &impl Serialize, indent: &str, pretty: bool) -> Result<String, SyntaxError> {
        let failed = |error: serde_json::Error| SyntaxError { line: 1, what: error.to_string() };
        if !pretty {
            return serde_json::to_string(value).map_err(failed);
        }
        let mut bytes = Vec::new();
        let unit = self.unit();
        value
            .serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(unit.as_bytes())))
            .map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().collect::<Vec<_>>().join(&format!("{}{indent}", self.line_end())))
    }

    fn replace(&mut self, span: Range<usize>, with: &str) -> Result<(), SyntaxError> {
        let mut text = self.text.clone();
        text.replace_range(span, with);
        self.root = parse(&text, self.comments)?;
        self.text = text;
        Ok(())
    }

    /// Whether the file puts its values on lines of their own; an empty one will.
    fn is_spread(&self) -> bool {
        self.root.parts().is_empty() || self.text.trim_end().contains('\n')
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// By what the file indents its first member; two spaces where that can't be seen.
    fn unit(&self) -> String {
        let first = self.root.parts().first().map(|part| self.indent_at(part.start));
        first.filter(|indent| !indent.is_empty()).unwrap_or("  ").to_owned()
    }

    /// The white space at the beginning of the line of this place.
    fn indent_at(&self, at: usize) -> &str {
        let start = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = &self.text[start..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Step::{Item, Member};
    use super::*;

    /// Adds and takes away again, which is to give the same bytes.
    fn there_and_back(text: &str) -> String {
        let mut file = Document::read(Some(text), true).unwrap();
        file.set(&[], "new", &json!({"x": [1]})).unwrap();
        let with = file.text().to_owned();
        file.remove(&[Member("new")]).unwrap();
        assert_eq!(file.text(), text);
        with
    }

    #[test]
    fn what_is_added_looks_like_the_rest_and_leaves_no_trace() {
        assert_eq!(there_and_back("{}\n"), "{\n  \"new\": {\n    \"x\": [\n      1\n    ]\n  }\n}\n");
        let tabs = "{\r\n\t\"b\": 1,\r\n\t\"a\": {}\r\n}";
        let with = "{\r\n\t\"b\": 1,\r\n\t\"a\": {},\r\n\t\"new\": {\r\n\t\t\"x\": [\r\n\t\t\t1\r\n\t\t]\r\n\t}\r\n}";
        assert_eq!(there_and_back(tabs), with);
        assert_eq!(there_and_back(r#"{"b":1}"#), r#"{"b":1,"new":{"x":[1]}}"#);
        assert_eq!(there_and_back(r#"{"b": 1}"#), r#"{"b": 1, "new": {"x":[1]}}"#);
        assert!(there_and_back("{\n  // mine\n  \"b\": 1 // too\n}\n").contains("// mine"));
    }

    #[test]
    fn what_is_put_first_leaves_no_trace_either() {
        let spread = "{\n  \"a\": [\n    {\"b\": 1},\n    2\n  ]\n}\n";
        let with = "{\n  \"a\": [\n    {\n      \"x\": 1\n    },\n    {\"b\": 1},\n    2\n  ]\n}\n";
        for (text, with) in [
            (spread, with),
            ("{\"a\":[2]}", "{\"a\":[{\"x\":1},2]}"),
            ("{\"a\": [2]}", "{\"a\": [{\"x\":1}, 2]}"),
            ("{\"a\": []}", "{\"a\": [{\"x\":1}]}"),
        ] {
            let mut file = Document::read(Some(text), false).unwrap();
            file.push_first(&[Member("a")], &json!({"x": 1})).unwrap();
            assert_eq!(file.text(), with);
            file.remove(&[Member("a"), Item(0)]).unwrap();
            assert_eq!(file.text(), text);
        }
    }

    #[test]
    fn any_part_can_be_taken_out_or_replaced() {
        let text = "{\n  \"z\": [\n    1,\n    {\"a\": 2},\n    3\n  ],\n  \"y\": 1\n}\n";
        for (n, left) in [json!([{"a": 2}, 3]), json!([1, 3]), json!([1, {"a": 2}])].into_iter().enumerate() {
            let mut file = Document::read(Some(text), false).unwrap();
            file.remove(&[Member("z"), Item(n)]).unwrap();
            assert_eq!(file.value(&[Member("z")]).unwrap(), left);
        }
        let mut file = Document::read(Some(text), false).unwrap();
        file.set(&[], "y", &json!({"k": 1})).unwrap();
        file.push(&[Member("z")], &json!(4)).unwrap();
        let want = "{\n  \"z\": [\n    1,\n    {\"a\": 2},\n    3,\n    4\n  ],\n  \"y\": {\n    \"k\": 1\n  }\n}\n";
        assert_eq!(file.text(), want);
        file.remove(&[Member("z")]).unwrap();
        file.remove(&[Member("y")]).unwrap();
        assert_eq!(file.text(), "{}\n");
    }

    #[test]
    fn comments_stay() {
        let text = "{\n  \"a\": 1, // of a\n  // of b\n  \"b\": 2\n}\n";
        let mut file = Document::read(Some(text), true).unwrap();
        file.remove(&[Member("a")]).unwrap();
        assert_eq!(file.text(), "{\n   // of a\n  // of b\n  \"b\": 2\n}\n");
        let mut file = Document::read(Some(text), true).unwrap();
        file.remove(&[Member("b")]).unwrap();
        assert_eq!(file.text(), "{\n  \"a\": 1 // of a\n  // of b\n}\n");
    }
}
