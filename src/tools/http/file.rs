//! `tools/<tool>.http`: a tool that is one request to somebody else's API, read and checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::answer::Shape;
use super::guard::Guard;
use super::plan::Plan;
use super::recorded::Recordings;
use super::template::{Place, places};
use crate::ToolFileError;
use crate::definition::{Definition, Effect, Meta};
use crate::header_parts::{line_of_key, load, reason, schema, tool_name};
use base::HumanDuration;

const TIMEOUT: Duration = Duration::from_secs(15);
/// Clients of a session's tools give up after a minute.
const LONGEST: Duration = Duration::from_secs(50);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    description: Option<String>,
    #[serde(default)]
    examples: Vec<String>,
    #[serde(default)]
    args: Map<String, Value>,
    #[serde(default)]
    meta: Map<String, Value>,
    method: Option<String>,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
    returns: Option<Shape>,
    #[serde(default)]
    secrets: Vec<String>,
    timeout: Option<HumanDuration>,
    cache: Option<HumanDuration>,
    #[serde(default)]
    allow_hosts: Vec<String>,
}

/// A file, read and checked.
#[derive(Debug)]
pub struct HttpTool {
    pub(super) definition: Definition,
    pub(super) plan: Plan,
    pub(super) recordings: Recordings,
}

impl HttpTool {
    /// Reads one file's text.
    ///
    /// # Errors
    /// What is wrong with it, and in which line.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ToolFileError> {
        let name = tool_name(file)?;
        let fail = |line: usize, problem: String| ToolFileError { file: file.to_owned(), line, problem };
        let inner = text.trim_start().strip_prefix("---\n");
        let inner = inner.ok_or_else(|| fail(1, "the file must begin with a line `---` and its header".into()))?;
        let (yaml, rest) = inner.split_once("\n---").ok_or_else(|| fail(1, "the header has no end: ---".into()))?;
        if !rest.trim().is_empty() {
            return Err(fail(yaml.matches('\n').count() + 3, "after the header nothing may follow".into()));
        }
        let raw: Raw = serde_saphyr::from_str(yaml).map_err(|e| {
            let line = e.location().map_or(1, |at| usize::try_from(at.line()).unwrap_or(1));
            fail(1 + line, format!("the header can't be read: {}", reason(&e.to_string())))
        })?;
        let read = read(&name, raw).map_err(|(key, problem)| fail(line_of_key(text, key), problem));
        read.map(|(definition, plan)| Self { definition, plan, recordings: Recordings::of(file) })
    }
}

/// The key that is wrong, and what about it.
type Wrong = (&'static str, String);

fn read(name: &str, raw: Raw) -> Result<(Definition, Plan), Wrong> {
    let description = raw.description.unwrap_or_default().trim().to_owned();
    if description.is_empty() {
        return Err(("description", "description: missing or empty; a model needs to know what the tool does".into()));
    }
    let (schema, args) = schema(raw.args).map_err(|(arg, problem)| ("args", format!("args.{arg}: {problem}")))?;
    let method: Method = raw.method.as_deref().unwrap_or("GET").parse().unwrap_or(Method::TRACE);
    if !matches!(method, Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE) {
        return Err(("method", "method: one of GET, HEAD, POST, PUT, PATCH and DELETE".into()));
    }
    let url = address(&raw.url).map_err(|problem| ("url", format!("url: {problem}")))?;
    let guard =
        Guard::new(&url, &raw.allow_hosts).map_err(|problem| ("allow_hosts", format!("allow_hosts: {problem}")))?;
    guard.admits(&url, None).map_err(|problem| ("url", format!("url: {problem}")))?;
    let mut headers = Vec::new();
    for (key, value) in &raw.headers {
        let named = HeaderName::try_from(key.as_str()).ok().filter(|name| !RESERVED.contains(&name.as_str()));
        let Some(named) = named.filter(|_| HeaderValue::from_str(value).is_ok()) else {
            return Err(("headers", format!("headers: `{key}` can't be sent")));
        };
        headers.push((named, value.clone()));
    }
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    let is_form = headers.iter().any(|(name, value)| *name == http::header::CONTENT_TYPE && form == **value);
    if is_form && !raw.body.as_ref().is_some_and(Value::is_object) {
        return Err(("body", "body: the fields of a form, by their names".into()));
    }
    if raw.body.is_some() && matches!(method, Method::GET | Method::HEAD) {
        return Err(("body", format!("body: a {method} has none")));
    }
    uses(&raw.url, &raw.headers, raw.body.as_ref(), &raw.secrets, &args)?;
    let returns = raw.returns.unwrap_or_else(|| Shape::Word("json".into()));
    returns.check().map_err(|problem| ("returns", format!("returns: {problem}")))?;
    let timeout = raw.timeout.map_or(TIMEOUT, |timeout| timeout.0);
    if timeout.is_zero() || timeout > LONGEST {
        return Err(("timeout", format!("timeout: at most {}", HumanDuration(LONGEST))));
    }
    if raw.cache.is_some() && method != Method::GET {
        return Err(("cache", "cache: for GET alone".into()));
    }
    let meta = meta(raw.meta, &method, !raw.secrets.is_empty() || guard.reaches_inside())?;
    let definition = Definition::new(name, &description, schema, meta).map_err(|e| ("args", e.to_string()))?;
    let plan = Plan {
        method,
        host: url.host_str().unwrap_or_default().to_owned(),
        url: raw.url,
        headers,
        body: raw.body,
        is_form,
        returns,
        secrets: raw.secrets,
        defaults: args.into_iter().filter_map(|(name, default)| Some((name, default?))).collect(),
        timeout,
        cache: raw.cache.map(|cache| cache.0),
        guard,
    };
    Ok((definition.with_examples(raw.examples), plan))
}

/// What the client itself says.
const RESERVED: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "connection", "upgrade", "accept-encoding", "proxy-authorization"];

/// The address with something in its places. Where it leads must not depend on them.
fn address(template: &str) -> Result<Url, String> {
    let rest =
        template.split_once("://").map(|(_, rest)| rest).ok_or("an address such as https://api.example.org/v1")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains(['{', '}']) || template.find('{').is_some_and(|at| at < template.find("://").unwrap_or(0)) {
        return Err("its host stands in the file; an argument can't choose it".to_owned());
    }
    let filled = super::template::filled_with(template, "x");
    Url::parse(&filled).map_err(|e| format!("`{template}`: {e}"))
}

/// Each argument and each secret has a place, and each place is known.
fn uses(
    url: &str,
    headers: &BTreeMap<String, String>,
    body: Option<&Value>,
    secrets: &[String],
    args: &[(String, Option<Value>)],
) -> Result<(), Wrong> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let texts =
        headers.values().map(|value| ("headers", value.as_str())).chain([("url", url), ("body", body.as_str())]);
    let mut used = BTreeSet::new();
    for (key, text) in texts {
        for place in places(text) {
            match &place {
                Place::Argument(name) if !args.iter().any(|(arg, _)| arg == name) => {
                    return Err((key, format!("{key}: `{{{name}}}` is not among the args")));
                }
                Place::Secret(name) if !secrets.contains(name) => {
                    return Err((key, format!("{key}: `{{secret.{name}}}` is not among the secrets")));
                }
                _ => used.insert(place),
            };
        }
    }
    let unused = args.iter().find(|(name, _)| !used.contains(&Place::Argument(name.clone())));
    if let Some((name, _)) = unused {
        return Err(("args", format!("args.{name} is not used by url, headers or body")));
    }
    match secrets.iter().find(|name| !used.contains(&Place::Secret((*name).clone()))) {
        Some(name) => Err(("secrets", format!("secrets: `{{secret.{name}}}` stands nowhere in url, headers or body"))),
        None => Ok(()),
    }
}

/// That it sends something out and shows a stranger's words, no file can deny. What a request changes its author knows best: some
/// services are asked by POST.
fn meta(mut declared: Map<String, Value>, method: &Method, of_household: bool) -> Result<Meta, Wrong> {
    // What somebody's account shows is theirs, and what a device in the house says.
    declared.entry("reads_private").or_insert(of_household.into());
    let read: Meta = serde_json::from_value(declared.into()).map_err(|e| ("meta", format!("meta: {e}")))?;
    let usual = match *method {
        Method::GET | Method::HEAD => Effect::None,
        Method::PUT | Method::DELETE => Effect::Idempotent,
        _ => Effect::Once,
    };
    Ok(Meta { sends_out: true, reads_untrusted: true, effect: Some(read.effect.unwrap_or(usual)), ..read })
}

/// Reads every `*.http` of a tools directory, in the order of the names. All mistakes are returned, not only the first.
///
/// # Errors
/// What is wrong, by file and line.
pub fn load_dir(dir: &Path) -> Result<Vec<HttpTool>, Vec<ToolFileError>> {
    load(dir, "http", HttpTool::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &str) -> Result<HttpTool, ToolFileError> {
        HttpTool::parse(Path::new("tools/weather.http"), &format!("---\ndescription: d\n{header}\n---\n"))
    }

    #[test]
    fn a_file_becomes_a_tool() {
        let tool = parse(
            "args: {city: {type: string, required: true}, n: {type: integer, default: 3}}\n\
             url: https://api.example.org/v1/{city}?n={n}\nheaders: {Authorization: 'Bearer {secret.KEY}'}\n\
             secrets: [KEY]\nreturns: /current\ncache: 10m\ntimeout: 5s",
        )
        .unwrap();
        let Meta { sends_out, reads_untrusted, reads_private, effect, .. } = tool.definition.meta;
        assert_eq!((sends_out, reads_untrusted, reads_private, effect), (true, true, true, Some(Effect::None)));
        assert_eq!((tool.plan.host.as_str(), tool.plan.defaults.len()), ("api.example.org", 1));
        let post = parse("method: POST\nurl: https://x.org/\nbody: {a: 1}").unwrap();
        assert_eq!((post.definition.effect(), post.definition.meta.reads_private), (Effect::Once, false));
        let device = parse("url: http://192.168.1.10/state\nallow_hosts: [192.168.1.10]").unwrap();
        assert!(device.definition.meta.reads_private);
        let open = parse("url: http://10.0.0.2/\nallow_hosts: [10.0.0.0/8]\nmeta: {reads_private: false}").unwrap();
        assert!(!open.definition.meta.reads_private);
        let sly = parse("url: https://x.org/\nmeta: {sends_out: false, reads_untrusted: false}").unwrap();
        assert!(sly.definition.meta.sends_out && sly.definition.meta.reads_untrusted);
    }

    #[test]
    fn the_example_of_the_docs_is_a_tool() {
        let page = include_str!("../../../docs/http-tools.md");
        let (_, rest) = page.split_once("```http\n").unwrap();
        let (file, _) = rest.split_once("```").unwrap();
        let tool = HttpTool::parse(Path::new("tools/forecast.http"), file).unwrap();
        assert_eq!((tool.secrets(), tool.plan.timeout), (&["WEATHER_KEY".to_owned()][..], Duration::from_secs(10)));
    }

    #[test]
    fn mistakes_name_their_line() {
        for (header, line, word) in [
            ("args: {}", 1, "url"),
            ("url: api.example.org", 3, "address such as"),
            ("url: ftp://x.org/", 3, "neither https"),
            ("args: {h: {type: string}}\nurl: https://{h}/", 4, "can't choose"),
            ("args: {h: {type: string}}\nurl: https://x.org:{h}/", 4, "can't choose"),
            ("url: https://u:p@x.org/", 3, "user name"),
            ("url: http://127.0.0.1:9/", 3, "inside"),
            ("url: http://[::1]/", 3, "inside"),
            ("url: https://x.org/{city}", 3, "not among the args"),
            ("url: https://x.org/{secret.KEY}", 3, "not among the secrets"),
            ("url: https://x.org/\nsecrets: [KEY]", 4, "stands nowhere"),
            ("args: {c: {type: string}}\nurl: https://x.org/", 3, "not used"),
            ("url: https://x.org/\nbody: {}", 4, "has none"),
            ("url: https://x.org/\nmethod: TRACE", 4, "one of GET"),
            ("url: https://x.org/\nheaders: {Host: y.org}", 4, "can't be sent"),
            ("url: https://x.org/\nreturns: a.b", 4, "pointer"),
            ("url: https://x.org/\ntimeout: 10m", 4, "at most"),
            ("url: https://x.org/\nallow_hosts: ['a b']", 4, "allow_hosts"),
            ("url: https://x.org/\nmeta: {quick: true}", 4, "quick"),
            ("url: https://x.org/\nretrys: 3", 4, "retrys"),
        ] {
            let e = parse(header).unwrap_err();
            assert!(e.problem.contains(word), "{header}: {}", e.problem);
            assert_eq!(e.line, if word == "url" { e.line } else { line }, "{header}: {}", e.problem);
        }
        let bare = |text: &str| HttpTool::parse(Path::new("tools/weather.http"), text).unwrap_err().problem;
        assert!(bare("GET https://x.org").contains("begin") && bare("---\nurl: x\n").contains("no end"));
        assert!(bare("---\nurl: x\n---\nmore").contains("nothing may follow"));
        assert!(HttpTool::parse(Path::new("tools/Bad-Name.http"), "---\n---").is_err());
    }
}
