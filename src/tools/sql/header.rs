//! The YAML header of an SQL tool.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::definition::Meta;
use crate::header_parts::{line_of_key, reason, schema};
use base::Priority;

/// What a tool answers with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
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
}

/// What a file in SQL is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// A model calls it and gets its result.
    Tool,
    /// A schedule runs it, and something is done with its rows.
    Job,
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
    pub meta: Meta,
    /// Number of lines before the statement.
    pub lines: usize,
    /// The statement.
    pub sql: String,
    /// The header's own text, from the file's first line on.
    text: String,
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
        let raw: Raw = serde_saphyr::from_str(yaml).map_err(|e| {
            let line = e.location().map_or(1, |l| usize::try_from(l.line()).unwrap_or(1));
            (before + line, format!("the header can't be read: {}", reason(&e.to_string())))
        })?;
        let description = raw.description.unwrap_or_default().trim().to_owned();
        if description.is_empty() {
            let why = "description: missing or empty; a model needs to know what the tool does";
            return Err((line_of_key(head, "description"), why.to_owned()));
        }
        let (returns, then) = match (of, raw.returns, raw.notify, raw.prompt) {
            (Use::Tool, Some(returns), None, None) => (returns, None),
            (Use::Tool, None, ..) => {
                return Err((before + 1, "returns: missing; it is one of row, rows, value and none".to_owned()));
            }
            (Use::Tool, ..) => return Err((before + 1, "notify and prompt are for jobs".to_owned())),
            (Use::Job, None, Some(notify), None) => (Returns::Rows, Some(Then::Notify(notify))),
            (Use::Job, None, None, Some(prompt)) if !prompt.trim().is_empty() => {
                (Returns::Rows, Some(Then::Prompt(prompt)))
            }
            (Use::Job, Some(_), ..) => return Err((before + 1, "returns: a job returns rows, always".to_owned())),
            (Use::Job, ..) => {
                return Err((before + 1, "a job has either notify or prompt: what is done with its rows".to_owned()));
            }
        };
        let (schema, args) = schema(raw.args).map_err(|(name, problem)| {
            let line = yaml.lines().position(|l| l.trim_start().starts_with(&format!("{name}:")));
            (before + line.unwrap_or(0) + 1, format!("args.{name}: {problem}"))
        })?;
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

    /// The line of the file in which the statement begins.
    pub fn begin(&self) -> usize {
        let lead = self.sql.len() - self.sql.trim_start().len();
        self.lines + 1 + self.sql[..lead].matches('\n').count()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
