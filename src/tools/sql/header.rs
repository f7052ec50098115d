//! The YAML header of an SQL tool.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::card::Card;
use crate::definition::{Effect, Meta};
use crate::header_parts::{line_of_key, reason, schema};
use base::Priority;

/// What a tool answers with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Returns {
    /// One object; none found is a result of its own.
    Row,
    /// A list of objects.
    Rows,
    /// The first column of the first row.
    Value,
    /// Only that it was done.
    None,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    description: Option<String>,
    #[serde(default)]
    examples: Vec<String>,
    #[serde(default)]
    args: Map<String, Value>,
    returns: Option<Returns>,
    #[serde(default)]
    meta: Meta,
    notify: Option<Notify>,
    prompt: Option<String>,
    method: Option<String>,
    path: Option<String>,
    card: Option<Map<String, Value>>,
}

/// What a file in SQL is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// A model calls it and gets its result.
    Tool,
    /// A schedule runs it, and something is done with its rows.
    Job,
    /// A person looks at its rows.
    Page,
}

/// Where a page is found, and what stands on the butler's page of it.
#[derive(Clone, PartialEq, Debug)]
pub struct PageHead {
    /// Below the butler's own address: words between slashes.
    pub path: String,
    pub card: Option<Card>,
}

/// A job's message to the owner. `{column}` stands for a column of the row.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// A line for each row.
    pub template: String,
    /// A line before the rows'.
    pub head: Option<String>,
    /// A message for each row, in the place of one for all.
    #[serde(default)]
    pub each: bool,
    #[serde(default)]
    pub priority: Priority,
}

/// What a job does with its rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Then {
    Notify(Notify),
    /// A session with this prompt gets the rows as data.
    Prompt(String),
}

/// A header, read and checked.
#[derive(Debug)]
pub struct Header {
    pub description: String,
    /// What people say when they need it.
    pub examples: Vec<String>,
    /// JSON Schema of the arguments.
    pub schema: Value,
    /// Names of the arguments in the order of their names, with their defaults.
    pub args: Vec<(String, Option<Value>)>,
    pub returns: Returns,
    /// What is done with the rows; of jobs, and of them always.
    pub then: Option<Then>,
    /// Of pages, and of them always.
    pub page: Option<PageHead>,
    pub meta: Meta,
    /// Number of lines before the statement.
    pub lines: usize,
    /// The statement.
    pub sql: String,
    /// The header's own text, from the file's first line on.
    text: String,
}

impl Raw {
    /// What it answers with, and what is done with that.
    fn result(&mut self, of: Use) -> Result<(Returns, Option<Then>), String> {
        let said = match (of, self.returns, self.notify.take(), self.prompt.take()) {
            (Use::Tool | Use::Page, Some(returns), None, None) => return Ok((returns, None)),
            (Use::Tool, None, ..) => "returns: missing; it is one of row, rows, value and none",
            (Use::Page, None, ..) => "returns: missing; it is one of row, rows and value",
            (Use::Tool | Use::Page, ..) => "notify and prompt are for jobs",
            (Use::Job, None, Some(notify), None) => return Ok((Returns::Rows, Some(Then::Notify(notify)))),
            (Use::Job, None, None, Some(prompt)) if !prompt.trim().is_empty() => {
                return Ok((Returns::Rows, Some(Then::Prompt(prompt))));
            }
            (Use::Job, Some(_), ..) => "returns: a job returns rows, always",
            (Use::Job, ..) => "a job has either notify or prompt: what is done with its rows",
        };
        Err(said.to_owned())
    }

    /// What a page has besides. The error: the key, and what about it.
    fn page(&mut self, of: Use) -> Result<Option<PageHead>, (String, String)> {
        let (method, path, card) = (self.method.take(), self.path.take(), self.card.take());
        let wrong = |key: &str, problem: String| Err((key.to_owned(), problem));
        if of != Use::Page {
            let none = method.is_none() && path.is_none() && card.is_none();
            return if none { Ok(None) } else { wrong("path", "method, path and card are for pages".to_owned()) };
        }
        match method.as_deref() {
            Some("get") => {}
            Some(other) => {
                return wrong("method", format!("found {other}; a page only reads, so it is `get`. Tools change rows"));
            }
            None => return wrong("method", "missing; write `method: get`".to_owned()),
        }
        let Some(path) = path else {
            return wrong("path", "missing; it is where the page is found, such as `measurements`".to_owned());
        };
        if !is_path(&path) {
            let why =
                "is words of lower-case letters, digits, `-` and `_` with `/` between them, at most 100 characters";
            return wrong("path", format!("found {path:?}; a path {why}"));
        }
        if self.returns == Some(Returns::None) {
            return wrong("returns", "found none; a page shows something: row, rows or value".to_owned());
        }
        if self.meta.effect.is_some_and(|effect| effect != Effect::None) {
            return wrong("meta", "effect: a page only reads; changes go through tools".to_owned());
        }
        let card = card.map(Card::parse).transpose();
        let card = card.map_err(|(key, problem)| match key {
            "" => ("card".to_owned(), problem),
            key => (format!("card.{key}"), problem),
        })?;
        Ok(Some(PageHead { path, card }))
    }
}

/// `trips`, `trips/next`
fn is_path(path: &str) -> bool {
    let word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
    };
    path.len() <= 100 && path.split('/').all(word)
}

/// The line of a key, which may stand within another as in `card.title`; then it is looked for below that one.
fn line_within(head: &str, key: &str) -> usize {
    let Some((outer, inner)) = key.split_once('.') else { return line_of_key(head, key) };
    let begin = line_of_key(head, outer);
    let below = head.lines().skip(begin).take_while(|line| line.starts_with(' ') || line.trim().is_empty());
    let stands = |line: &str| line.trim_start().strip_prefix(inner).is_some_and(|rest| rest.starts_with(':'));
    below.into_iter().position(stands).map_or(begin, |n| begin + n + 1)
}

/// A problem of the header and the line where it was found, from 1.
pub type Problem = (usize, String);

impl Header {
    /// Splits a file into its header and its statement and checks the header.
    pub fn parse(text: &str, of: Use) -> Result<Self, Problem> {
        let inner = text
            .trim_start()
            .strip_prefix("/*---")
            .ok_or((1, "the file must begin with a header: /*--- … ---*/".to_owned()))?;
        let (yaml, sql) = inner.split_once("---*/").ok_or((1, "the header has no end: ---*/".to_owned()))?;
        let lead = text.len() - text.trim_start().len();
        let before = text[..lead].matches('\n').count();
        let lines = before + yaml.matches('\n').count();
        let head = &text[..text.len() - sql.len()];
        // In what is drawn `y` and `n` are names, and not what they once were in YAML.
        let options = serde_saphyr::options! { strict_booleans: of == Use::Page };
        let mut raw: Raw = serde_saphyr::from_str_with_options(yaml, options).map_err(|e| {
            let line = e.location().map_or(1, |l| usize::try_from(l.line()).unwrap_or(1));
            (before + line, format!("the header can't be read: {}", reason(&e.to_string())))
        })?;
        let at_top = |problem: String| (before + 1, problem);
        let page = raw.page(of).map_err(|(key, problem)| match of {
            Use::Page => (line_within(head, &key), format!("{key}: {problem}")),
            _ => at_top(problem),
        })?;
        let (returns, then) = raw.result(of).map_err(at_top)?;
        let description = raw.description.unwrap_or_default().trim().to_owned();
        if description.is_empty() {
            let why = match of {
                Use::Page => "description: missing or empty; people need to know what the page shows",
                _ => "description: missing or empty; a model needs to know what the tool does",
            };
            return Err((line_of_key(head, "description"), why.to_owned()));
        }
        let (schema, args) = schema(raw.args).map_err(|(name, problem)| {
            let line = yaml.lines().position(|l| l.trim_start().starts_with(&format!("{name}:")));
            (before + line.unwrap_or(0) + 1, format!("args.{name}: {problem}"))
        })?;
        if let Some((name, _)) = args.iter().find(|(_, default)| of == Use::Page && default.is_none())
            && page.as_ref().is_some_and(|page| page.card.is_some())
        {
            let why = format!("args.{name}: a card is shown before anybody is asked, so it needs a default");
            return Err((line_of_key(head, name), why));
        }
        for name in &raw.meta.sensitive {
            if !args.iter().any(|(a, _)| a == name) {
                return Err((before + 1, format!("meta.sensitive: there is no argument `{name}`")));
            }
        }
        Ok(Self {
            description,
            examples: raw.examples,
            schema,
            args,
            returns,
            then,
            page,
            meta: raw.meta,
            lines,
            sql: sql.to_owned(),
            text: head.to_owned(),
        })
    }

    /// The line of the file where a key of the header stands; the first one, if it doesn't.
    pub fn line_of(&self, key: &str) -> usize {
        line_of_key(&self.text, key)
    }

    /// As [`Header::line_of`], for a key within another; where it has no line of its own, that of the other.
    pub(super) fn line_in(&self, outer: &str, key: &str) -> usize {
        line_within(&self.text, &format!("{outer}.{key}"))
    }

    /// The line of the file in which the statement begins.
    pub fn begin(&self) -> usize {
        let lead = self.sql.len() - self.sql.trim_start().len();
        self.lines + 1 + self.sql[..lead].matches('\n').count()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::card::CardKind;
    use super::*;

    #[test]
    fn a_header_becomes_a_schema() {
        let text = "/*---\ndescription: Log it.\nargs:\n  kind: {type: string, enum: [a, b], required: true}\n  \
                    n: {type: integer, default: 5, minimum: 1}\nreturns: row\nmeta: {reads_private: true}\n---*/\nSELECT 1";
        let h = Header::parse(text, Use::Tool).unwrap();
        assert_eq!(h.lines, 7);
        assert_eq!(h.schema["required"], json!(["kind"]));
        assert_eq!(h.schema["properties"]["n"]["default"], json!(5));
        assert_eq!(h.returns, Returns::Row);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, line, word) in [
            ("SELECT 1", 1, "header"),
            ("/*---\ndescription: x\nreturns: row\n", 1, "no end"),
            ("/*---\ndescription: x\nreturns: many\n---*/", 3, "many"),
            ("/*---\ndescription: x\nreturns: row\nargs:\n  a: {}\n---*/", 5, "type"),
            ("/*---\ndescription: x\nreturns: row\nargs:\n  a: {type: strin}\n---*/", 5, "strin"),
            ("/*---\ndescription: ''\nreturns: row\n---*/", 2, "description"),
            ("/*---\nreturns: row\n---*/", 1, "description: missing"),
            ("/*---\ndescription: x\n---*/", 1, "returns: missing"),
            ("/*---\ndescription: x\nreturns: row\nprompt: y\n---*/", 1, "for jobs"),
        ] {
            let (at, problem) = Header::parse(text, Use::Tool).unwrap_err();
            assert!(problem.contains(word), "{text}: {problem}");
            assert_eq!(at, line, "{text}: {problem}");
        }
    }

    #[test]
    fn a_page_says_where_it_is_found_and_a_card_what_it_shows() {
        let head = |more: &str| format!("/*---\ndescription: d\nreturns: rows\n{more}\n---*/\nSELECT 1");
        let page = |more: &str| Header::parse(&head(more), Use::Page);
        let found = page("method: get\npath: trips/next").unwrap().page;
        assert_eq!(found, Some(PageHead { path: "trips/next".to_owned(), card: None }));
        let get = |more: &str| format!("method: get\npath: p\n{more}");
        let card = "card: {kind: table, title: T, columns: [a]}";
        for (more, line, word) in [
            ("path: p".to_owned(), 1, "method: missing"),
            ("path: p\nmethod: post".to_owned(), 5, "Tools change rows"),
            ("method: get".to_owned(), 1, "path: missing"),
            ("method: get\npath: /p".to_owned(), 5, "path: found \"/p\""),
            ("method: get\npath: a/../b".to_owned(), 5, "a path is words"),
            (get("meta: {effect: once}"), 6, "changes go through tools"),
            (get("notify: {template: x}"), 1, "for jobs"),
            (get("card: {kind: pie, title: T}"), 6, "card.kind: found pie; it is one of number, table, line, bar"),
            (get("card:\n  kind: table\n  title: ''\n  columns: [a]"), 8, "card.title: is empty"),
            (get("card: {kind: table, columns: [a]}"), 6, "card.title: missing"),
            (get("card: {kind: line, title: T, x: a}"), 6, "card.y: missing"),
            (get("card: {kind: line, title: T, x: [a], y: b}"), 6, "card.x: is the name of a column"),
            (get("card: {kind: table, title: T, columns: []}"), 6, "card.columns: is the name of a column, or a list"),
            (
                get("card: {kind: table, title: T, columns: [a], unit: kg}"),
                6,
                "card.unit: a card of the kind table has",
            ),
            (get(&format!("{card}\nargs:\n  days: {{type: integer}}")), 8, "args.days: a card is shown before"),
        ] {
            let (at, problem) = page(&more).unwrap_err();
            assert!(problem.contains(word), "{more}: {problem}");
            assert_eq!(at, line, "{more}: {problem}");
        }
        let drawn = page(&get("card: {kind: bar, title: T, x: n, y: [y, on]}")).unwrap().page.unwrap().card;
        assert!(matches!(drawn.unwrap().shows, CardKind::Bar { x, y, .. } if x == "n" && y == ["y", "on"]));
        assert!(page(&get(&format!("{card}\nargs:\n  days: {{type: integer, default: 7}}"))).is_ok());
        let tool = Header::parse(&head("path: p"), Use::Tool).unwrap_err();
        assert!(tool.1.contains("are for pages"), "{tool:?}");
    }

    #[test]
    fn a_job_says_what_is_done_with_its_rows() {
        let head = |more: &str| format!("/*---\ndescription: d\n{more}\n---*/\nSELECT 1");
        let job = |more: &str| Header::parse(&head(more), Use::Job);
        let then = job("notify: {template: '{name} is due', priority: high}").unwrap().then;
        assert!(matches!(then, Some(Then::Notify(Notify { priority: Priority::High, each: false, .. }))), "{then:?}");
        assert_eq!(job("prompt: Look at these.").unwrap().then, Some(Then::Prompt("Look at these.".to_owned())));
        for bad in ["", "returns: rows\nprompt: x", "prompt: x\nnotify: {template: y}", "notify: {text: y}"] {
            assert!(job(bad).is_err(), "{bad}");
        }
    }
}
