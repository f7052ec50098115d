//! What Google's own description of a service says of a request: whether there is such a method, and whether all that is
//! sent may stand there. What a service does, it does not say: that is the stand-in's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use what_was_left_out::left_out;

/// A description, as `calendar.v3` or `people.v1`.
pub struct Discovery {
    document: Value,
    /// What the description calls read-only and a method wants all the same, as `Person.metadata`.
    writable: BTreeSet<String>,
}

/// A request that may be made.
#[derive(Clone, Debug)]
pub struct Call {
    /// As `calendar.events.insert`.
    pub id: String,
    /// Of path and query, unescaped; several where one is repeated.
    pub parameters: BTreeMap<String, Vec<String>>,
    /// `null` where there is none.
    pub body: Value,
    /// By their names in lower case.
    pub headers: BTreeMap<String, String>,
}

impl Call {
    /// A parameter that is there at most once.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).and_then(|all| all.first()).map(String::as_str)
    }
}

impl Discovery {
    /// Reads the installed description; `None` where there is none, which is told in the name of `test`.
    pub fn open(test: &str, service: &str, writable: &[&str]) -> Option<Self> {
        let Some(folder) = std::env::var_os("BUTLERD_TEST_GOOGLE") else {
            let why = "BUTLERD_TEST_GOOGLE is not set; `eval \"$(.ci/run clients)\"` installs Google's descriptions";
            left_out(test, why);
            return None;
        };
        let file = std::path::Path::new(&folder).join(format!("{service}.json"));
        let text = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let document = serde_json::from_slice(&text).expect("a description");
        Some(Self { document, writable: writable.iter().map(|name| (*name).to_owned()).collect() })
    }

    /// Where all of the service is.
    fn base(&self) -> String {
        format!("/{}", self.document["servicePath"].as_str().unwrap_or_default())
    }

    /// Whether what is asked for is the service's.
    pub fn serves(&self, target: &str) -> bool {
        target.starts_with(&self.base())
    }

    /// What a request is, or why there is no such request. `target` is its path with its query, as it was sent.
    pub fn check(
        &self,
        method: &str,
        target: &str,
        headers: BTreeMap<String, String>,
        body: &str,
    ) -> Result<Call, String> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let base = self.base();
        let inner = path.strip_prefix(&base).ok_or_else(|| format!("{path} is not below {base}"))?;
        let mut methods = Vec::new();
        collect(&self.document, &mut methods);
        let fits = |one: &&Value| one["httpMethod"] == method;
        let found = methods.into_iter().filter(fits).find_map(|one| Some((one, self.in_path(one, inner)?)));
        let (described, mut parameters) = found.ok_or_else(|| format!("there is no method {method} {path}"))?;
        let id = described["id"].as_str().unwrap_or_default().to_owned();
        let wrong = |why: String| format!("{id} ({method} {target}): {why}");
        self.read_query(described, query, &mut parameters).map_err(&wrong)?;
        let body = match (described.get("request"), body.trim()) {
            (None, "") => Value::Null,
            (None, _) => return Err(wrong("it has no body".to_owned())),
            (Some(_), "") => return Err(wrong("its body is missing".to_owned())),
            (Some(schema), text) => {
                let body: Value = serde_json::from_str(text).map_err(|e| wrong(format!("its body: {e}")))?;
                self.value(schema, &body, &Place { id: &id, patch: method == "PATCH", at: String::new() })
                    .map_err(&wrong)?;
                body
            }
        };
        Ok(Call { id, parameters, body, headers })
    }

    /// The parameters of a path, if it is of this method.
    fn in_path(&self, method: &Value, path: &str) -> Option<BTreeMap<String, Vec<String>>> {
        let mut found = BTreeMap::new();
        matched(method["path"].as_str()?, path, &mut found).then_some(())?;
        for (name, value) in &found {
            let described = &method["parameters"][name];
            let pattern = described["pattern"].as_str();
            if pattern.is_some_and(|pattern| !fits(pattern, value)) {
                return None;
            }
        }
        Some(found.into_iter().map(|(name, value)| (name, vec![value])).collect())
    }

    fn read_query(
        &self,
        method: &Value,
        query: &str,
        parameters: &mut BTreeMap<String, Vec<String>>,
    ) -> Result<(), String> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (unescaped(name, true)?, unescaped(value, true)?);
            let own = method["parameters"].get(&name).filter(|own| own["location"] == "query");
            let described = own.or_else(|| self.document["parameters"].get(&name));
            let described = described.ok_or_else(|| format!("it has no parameter `{name}`"))?;
            scalar(described, &value).map_err(|why| format!("`{name}`: {why}"))?;
            let all = parameters.entry(name.clone()).or_default();
            if !all.is_empty() && described["repeated"] != true {
                return Err(format!("`{name}` stands there twice"));
            }
            all.push(value);
        }
        for (name, described) in method["parameters"].as_object().into_iter().flatten() {
            if described["required"] == true && !parameters.contains_key(name) {
                return Err(format!("`{name}` is missing"));
            }
        }
        Ok(())
    }

    /// Whether a value may stand where this schema is.
    fn value(&self, schema: &Value, value: &Value, place: &Place<'_>) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("`{}` is {value}, not {what}", place.at));
        if let Some(name) = schema["$ref"].as_str() {
            let inner = &self.document["schemas"][name];
            let at = if place.at.is_empty() { name.to_owned() } else { place.at.clone() };
            return self.object(name, inner, value, &Place { at, ..*place });
        }
        // What is cleared is written as null, where not all is written.
        if place.patch && value.is_null() {
            return Ok(());
        }
        match schema["type"].as_str().unwrap_or("any") {
            "any" => Ok(()),
            "object" => self.object("", schema, value, place),
            "array" => {
                let Some(items) = value.as_array() else { return wrong("a list") };
                items.iter().enumerate().try_for_each(|(n, item)| {
                    let at = format!("{}[{n}]", place.at);
                    self.value(&schema["items"], item, &Place { at, ..*place })
                })
            }
            "boolean" => {
                if value.is_boolean() {
                    Ok(())
                } else {
                    wrong("true or false")
                }
            }
            "integer" => {
                if value.as_i64().is_some() {
                    Ok(())
                } else {
                    wrong("a whole number")
                }
            }
            "number" => {
                if value.is_number() {
                    Ok(())
                } else {
                    wrong("a number")
                }
            }
            "string" => match value.as_str() {
                Some(text) => scalar(schema, text).map_err(|why| format!("`{}`: {why}", place.at)),
                None => wrong("a text"),
            },
            other => Err(format!("`{}` is of the unknown type {other}", place.at)),
        }
    }

    /// `name`: of a schema that has one.
    fn object(&self, name: &str, schema: &Value, value: &Value, place: &Place<'_>) -> Result<(), String> {
        if place.patch && value.is_null() {
            return Ok(());
        }
        let Some(fields) = value.as_object() else { return Err(format!("`{}` is {value}, not an object", place.at)) };
        let empty = Map::new();
        let known = schema["properties"].as_object().unwrap_or(&empty);
        for (field, inner) in fields {
            let at = format!("{}.{field}", place.at);
            let described = known.get(field).or_else(|| schema.get("additionalProperties"));
            let described = described.ok_or_else(|| format!("`{at}` is not known"))?;
            let writable = [&at, &format!("{name}.{field}")].into_iter().any(|one| self.writable.contains(one));
            if read_only(described) && !writable {
                return Err(format!("`{at}` is read-only"));
            }
            self.value(described, inner, &Place { at, ..*place })?;
        }
        let wanted = |described: &Value| {
            let of = described["annotations"]["required"].as_array();
            of.is_some_and(|ids| ids.iter().any(|id| id == place.id))
        };
        match known.iter().find(|(field, described)| wanted(described) && !fields.contains_key(*field)) {
            Some((field, _)) => Err(format!("`{}.{field}` is missing", place.at)),
            None => Ok(()),
        }
    }
}

/// Where in a body something stands.
struct Place<'a> {
    id: &'a str,
    patch: bool,
    at: String,
}

/// Some descriptions have a mark for it, others only say it.
fn read_only(described: &Value) -> bool {
    let words = described["description"].as_str().unwrap_or_default();
    described["readOnly"] == true || words.starts_with("Output only") || words.contains("Read-only")
}

/// All methods below this.
fn collect<'d>(at: &'d Value, methods: &mut Vec<&'d Value>) {
    methods.extend(at["methods"].as_object().into_iter().flat_map(|all| all.values()));
    for inner in at["resources"].as_object().into_iter().flat_map(|all| all.values()) {
        collect(inner, methods);
    }
}

/// Whether a path is of a template such as `calendars/{calendarId}/events` or `v1/{+resourceName}:updateContact`.
fn matched(template: &str, path: &str, found: &mut BTreeMap<String, String>) -> bool {
    let Some(begin) = template.find('{') else { return template == path };
    let (Some(path), Some(end)) = (path.strip_prefix(&template[..begin]), template.find('}')) else { return false };
    let (name, rest) = (&template[begin + 1..end], &template[end + 1..]);
    let (several, name) = name.strip_prefix('+').map_or((false, name), |name| (true, name));
    let ends = (1..=path.len()).filter(|end| path.is_char_boundary(*end));
    let ends: Vec<usize> = ends.take_while(|end| several || !path[..*end].ends_with('/')).collect();
    ends.into_iter().rev().any(|end| {
        let mut inner = found.clone();
        let Ok(value) = unescaped(&path[..end], false) else { return false };
        inner.insert(name.to_owned(), value);
        let is_it = matched(rest, &path[end..], &mut inner);
        if is_it {
            *found = inner;
        }
        is_it
    })
}

/// Whether a text is as the descriptions' patterns say, which are parts that are given, or any: `^people/[^/]+$`.
fn fits(pattern: &str, text: &str) -> bool {
    let parts: Vec<&str> = pattern.trim_start_matches('^').trim_end_matches('$').split("/[^/]+").collect();
    let wanted = parts.len() - 1;
    let rest = parts.iter().all(|part| !part.contains(['[', '(', '*', '+', '\\']));
    assert!(rest, "the pattern {pattern} is of a kind that is not read here");
    let given: Vec<&str> = text.split('/').collect();
    let begins = parts[0].split('/').zip(&given).all(|(wanted, given)| wanted == *given);
    begins && given.len() == parts[0].split('/').count() + wanted && given.iter().all(|part| !part.is_empty())
}

/// Whether a text may stand for a parameter, or a string, that is described so.
fn scalar(described: &Value, text: &str) -> Result<(), String> {
    let wrong = |what: String| Err(format!("`{text}` is not {what}"));
    if let Some(allowed) = described["enum"].as_array()
        && !allowed.iter().any(|one| one == text)
    {
        return wrong(format!("one of {}", described["enum"]));
    }
    let bound = |name: &str| described[name].as_str().and_then(|bound| bound.parse::<i64>().ok());
    let kind = (described["type"].as_str().unwrap_or("string"), described["format"].as_str().unwrap_or_default());
    let good = match kind {
        ("boolean", _) => matches!(text, "true" | "false"),
        ("integer", _) | ("string", "int64") => text.parse::<i64>().is_ok_and(|number| {
            bound("minimum").is_none_or(|least| number >= least) && bound("maximum").is_none_or(|most| number <= most)
        }),
        ("string", "uint64") => text.parse::<u64>().is_ok(),
        ("number", _) => text.parse::<f64>().is_ok(),
        ("string", "date") => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        // A time without an offset is one of the zone that stands beside it.
        ("string", "date-time") => {
            text.contains('T')
                && (text.parse::<jiff::Timestamp>().is_ok() || text.parse::<jiff::civil::DateTime>().is_ok())
        }
        ("string", "google-datetime") => text.parse::<jiff::Timestamp>().is_ok(),
        ("string", "google-fieldmask") => {
            let word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            text.split(',').all(|field| field.split('.').all(word))
        }
        _ => true,
    };
    if good { Ok(()) } else { wrong(format!("{} {}", kind.0, kind.1)) }
}

fn unescaped(text: &str, form: bool) -> Result<String, String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                let hex = std::str::from_utf8(&digits).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
                out.push(hex.ok_or_else(|| format!("{text} is escaped wrongly"))?);
            }
            b'+' if form => out.push(b' '),
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).map_err(|_| format!("{text} is not UTF-8"))
}

#[test]
fn a_request_is_what_the_description_says() {
    let test = "google::discovery";
    let Some(calendar) = Discovery::open(test, "calendar.v3", &[]) else { return };
    let check = |method: &str, target: &str, body: &str| calendar.check(method, target, BTreeMap::new(), body);
    let events = "/calendar/v3/calendars/a%40b%2Fc/events";
    let listed = check("GET", &format!("{events}?maxResults=250&showDeleted=true"), "").unwrap();
    assert_eq!((listed.id.as_str(), listed.parameter("calendarId")), ("calendar.events.list", Some("a@b/c")));
    let new = r#"{"summary": "x", "start": {"date": "2027-03-01"}, "end": {"date": "2027-03-02"}, "extendedProperties":
                  {"private": {"any": "word"}}}"#;
    assert_eq!(check("POST", &format!("{events}?sendUpdates=none"), new).unwrap().id, "calendar.events.insert");
    assert!(check("PATCH", &format!("{events}/e1"), r#"{"location": null}"#).is_ok());
    let bad = [
        ("GET", format!("{events}?maxResults=0"), ""),
        ("GET", format!("{events}?maxResults=some"), ""),
        ("GET", format!("{events}?showdeleted=true"), ""),
        ("GET", format!("{events}?showDeleted=true&showDeleted=true"), ""),
        ("GET", events.to_owned(), "{}"),
        ("GET", "/calendar/v3/calendars/a/b/events".to_owned(), ""),
        ("GET", "/calendar/v2/calendars/a/events".to_owned(), ""),
        ("POST", format!("{events}?sendUpdates=nobody"), new),
        ("POST", events.to_owned(), ""),
        ("POST", events.to_owned(), r#"{"summary": "x", "start": {"date": "2027-03-01"}}"#),
        ("PATCH", format!("{events}/e1"), r#"{"begin": {}}"#),
        ("PATCH", format!("{events}/e1"), r#"{"start": {"dateTime": 5}}"#),
        ("PATCH", format!("{events}/e1"), r#"{"start": {"date": "2027-03-01T10:00:00Z"}}"#),
        ("PATCH", format!("{events}/e1"), r#"{"sequence": "1"}"#),
        ("PATCH", format!("{events}/e1"), r#"{"organizer": {"email": "eve@example.org"}}"#),
    ];
    for (method, target, body) in bad {
        assert!(check(method, &target, body).is_err(), "{method} {target} {body}");
    }
    let Some(people) = Discovery::open(test, "people.v1", &["Person.metadata"]) else { return };
    let check = |method: &str, target: &str, body: &str| people.check(method, target, BTreeMap::new(), body);
    let listed = check("GET", "/v1/people/me/connections?personFields=names,emailAddresses", "").unwrap();
    assert_eq!(
        (listed.id.as_str(), listed.parameter("resourceName")),
        ("people.people.connections.list", Some("people/me"))
    );
    let target = "/v1/people/c1:updateContact?updatePersonFields=names";
    assert_eq!(check("PATCH", target, r#"{"etag": "e"}"#).unwrap().parameter("resourceName"), Some("people/c1"));
    assert!(check("PATCH", target, r#"{"names": [{"displayName": 5}]}"#).is_err());
    assert!(check("GET", "/v1/people/me/connections?personFields=a b", "").is_err());
}
