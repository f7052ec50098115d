//! What all tools in files have alike: how they are found and named, their arguments, and where a mistake stands.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What is wrong with a tool's file, for its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {problem}", .file.display())]
pub struct ToolFileError {
    pub file: PathBuf,
    pub line: usize,
    pub problem: String,
}

/// Reads every file of a directory with this ending, in the order of the names. All mistakes are returned, not only the first; no
/// directory has no files.
pub(super) fn load<T>(
    dir: &Path,
    ending: &str,
    parse: impl Fn(&Path, &str) -> Result<T, ToolFileError>,
) -> Result<Vec<T>, Vec<ToolFileError>> {
    let unreadable =
        |file: &Path, e: io::Error| ToolFileError { file: file.to_owned(), line: 1, problem: e.to_string() };
    let mut files: Vec<PathBuf> = match fs::read_dir(dir) {
        Ok(entries) => entries.filter_map(|e| e.ok().map(|e| e.path())).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(vec![unreadable(dir, e)]),
    };
    files.retain(|path| path.extension().is_some_and(|e| e == ending));
    files.sort();
    let (mut read, mut wrong) = (Vec::new(), Vec::new());
    for file in files {
        match fs::read_to_string(&file).map_err(|e| unreadable(&file, e)).and_then(|text| parse(&file, &text)) {
            Ok(one) => read.push(one),
            Err(e) => wrong.push(e),
        }
    }
    if wrong.is_empty() { Ok(read) } else { Err(wrong) }
}

/// The name of the tool that a file makes.
pub(super) fn tool_name(file: &Path) -> Result<String, ToolFileError> {
    let name = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let right = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'.');
    if !right || name.is_empty() || name.len() > 64 {
        let problem = "the file is named in lower-case letters, digits and `_`, as the tool that it makes".to_owned();
        return Err(ToolFileError { file: file.to_owned(), line: 1, problem });
    }
    Ok(name.to_owned())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawArg {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default)]
    required: bool,
    description: Option<String>,
    format: Option<String>,
    #[serde(rename = "enum")]
    one_of: Option<Vec<Value>>,
    default: Option<Value>,
    minimum: Option<Value>,
    maximum: Option<Value>,
    #[serde(rename = "minLength")]
    min_length: Option<u64>,
    #[serde(rename = "maxLength")]
    max_length: Option<u64>,
    pattern: Option<String>,
    items: Option<Value>,
    properties: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    String,
    Integer,
    Number,
    Boolean,
    Object,
    Array,
    /// Any JSON value.
    Any,
}

/// The arguments' names in their order, with their defaults.
pub(super) type Args = Vec<(String, Option<Value>)>;

/// The schema that the `args` of a header declare.
///
/// # Errors
/// The argument that is wrong, and what about it.
pub(super) fn schema(args: Map<String, Value>) -> Result<(Value, Args), (String, String)> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut names = Vec::new();
    for (name, value) in args {
        let arg: RawArg = serde_json::from_value(value).map_err(|e| (name.clone(), e.to_string()))?;
        let word = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !word || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err((name, "names have lower-case letters, digits and `_`".to_owned()));
        }
        if arg.required && arg.default.is_some() {
            return Err((name, "a required argument has no default".to_owned()));
        }
        let mut p = Map::new();
        let kind = match arg.kind {
            Kind::Any => None,
            Kind::String => Some("string"),
            Kind::Integer => Some("integer"),
            Kind::Number => Some("number"),
            Kind::Boolean => Some("boolean"),
            Kind::Object => Some("object"),
            Kind::Array => Some("array"),
        };
        let entries = [
            ("type", kind.map(Value::from)),
            ("description", arg.description.map(Value::from)),
            ("format", arg.format.map(Value::from)),
            ("enum", arg.one_of.map(Value::from)),
            ("default", arg.default.clone()),
            ("minimum", arg.minimum),
            ("maximum", arg.maximum),
            ("minLength", arg.min_length.map(Value::from)),
            ("maxLength", arg.max_length.map(Value::from)),
            ("pattern", arg.pattern.map(Value::from)),
            ("items", arg.items),
            ("properties", arg.properties),
        ];
        p.extend(entries.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?))));
        if arg.required {
            required.push(name.clone());
        }
        names.push((name.clone(), arg.default));
        properties.insert(name, Value::Object(p));
    }
    let schema = json!({"type": "object", "properties": properties, "required": required,
                        "additionalProperties": false});
    Ok((schema, names))
}

/// The line of a header where a key stands, from 1; the first one, if it doesn't.
pub(super) fn line_of_key(header: &str, key: &str) -> usize {
    let stands =
        |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    header.lines().position(stands).map_or(1, |n| n + 1)
}

/// What a parser says, without where: that is told in our own way.
pub(super) fn reason(said: &str) -> &str {
    let first = said.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    match first.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((place, why)) if place.contains("column") => why,
        _ => first,
    }
}
