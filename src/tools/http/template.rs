//! An address, headers and a body with places for arguments (`{city}`) and secrets (`{secret.WEATHER_KEY}`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use base::Secret;

static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{(?:secret\.(?<secret>[A-Za-z_][A-Za-z0-9_]*)|(?<arg>[a-z_][a-z0-9_]*))\}").expect("a right pattern")
});

/// What stands in a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Argument(String),
    Secret(String),
}

fn place(found: &Captures<'_>) -> Place {
    match found.name("secret") {
        Some(name) => Place::Secret(name.as_str().to_owned()),
        None => Place::Argument(found["arg"].to_owned()),
    }
}

/// The places of a text.
pub(super) fn places(text: &str) -> impl Iterator<Item = Place> {
    PLACE.captures_iter(text).map(|found| place(&found))
}

/// A text with the same in all its places.
pub(super) fn filled_with(text: &str, value: &str) -> String {
    PLACE.replace_all(text, value).into_owned()
}

/// What goes into the places.
pub(super) struct Values<'a> {
    pub arguments: &'a Map<String, Value>,
    pub secrets: &'a BTreeMap<String, Secret<String>>,
}

/// Why a request can't be made of these values: for the model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FillError {
    #[error("{0} is needed")]
    Absent(String),
    #[error("{0} can't be {1:?}")]
    Wrong(String, String),
    #[error("the secret {0} is not set; the owner sets it with `butlerd secret set {0}`")]
    NoSecret(String),
}

impl Values<'_> {
    /// The text of one place; `None`: an optional argument that was left out.
    fn text(&self, place: &Place) -> Result<Option<String>, FillError> {
        match place {
            Place::Secret(name) => match self.secrets.get(name) {
                Some(secret) => Ok(Some(secret.expose().clone())),
                None => Err(FillError::NoSecret(name.clone())),
            },
            Place::Argument(name) => Ok(self.arguments.get(name).and_then(as_text)),
        }
    }

    /// A text with all its places filled by `written`; `None`: an argument in it was left out.
    fn fill(
        &self,
        text: &str,
        written: impl Fn(&Place, &str) -> Result<String, FillError>,
    ) -> Result<Option<String>, FillError> {
        let (mut filled, mut from) = (String::with_capacity(text.len()), 0);
        for found in PLACE.captures_iter(text) {
            let (at, place) = (found.get_match(), place(&found));
            let Some(value) = self.text(&place)? else { return Ok(None) };
            filled.push_str(&text[from..at.start()]);
            filled.push_str(&written(&place, &value)?);
            from = at.end();
        }
        filled.push_str(&text[from..]);
        Ok(Some(filled))
    }

    /// The address. What stands in a path is one segment of it, whatever it holds; a pair of the query goes with its argument.
    pub fn url(&self, template: &str) -> Result<String, FillError> {
        let (template, _) = template.split_once('#').unwrap_or((template, ""));
        let (path, query) = template.split_once('?').map_or((template, None), |(path, query)| (path, Some(query)));
        let segment = |place: &Place, value: &str| match (place, value) {
            // The parser of addresses takes these for steps, encoded or not.
            (Place::Argument(name), "" | "." | "..") => Err(FillError::Wrong(name.clone(), value.to_owned())),
            _ => Ok(encoded(value)),
        };
        let absent = || {
            places(path).find_map(|place| match place {
                Place::Argument(name) if !self.arguments.contains_key(&name) => Some(name),
                _ => None,
            })
        };
        let mut url = self.fill(path, segment)?.ok_or_else(|| FillError::Absent(absent().unwrap_or_default()))?;
        let mut before = '?';
        for pair in query.into_iter().flat_map(|query| query.split('&')) {
            if let Some(pair) = self.fill(pair, |_, value| Ok(encoded(value)))? {
                url.push(before);
                url.push_str(&pair);
                before = '&';
            }
        }
        Ok(url)
    }

    /// A header's value; `None`: it goes with its argument.
    pub fn header(&self, template: &str) -> Result<Option<String>, FillError> {
        self.fill(template, |place, value| match place {
            Place::Argument(name) if value.chars().any(char::is_control) => {
                Err(FillError::Wrong(name.clone(), value.to_owned()))
            }
            _ => Ok(value.to_owned()),
        })
    }

    /// A body's value. A text that is nothing but a place takes the argument's type; what was left out is left out.
    pub fn body(&self, template: &Value) -> Result<Option<Value>, FillError> {
        Ok(Some(match template {
            Value::String(text) => {
                match PLACE.captures(text).filter(|found| found[0].len() == text.len()).map(|f| place(&f)) {
                    Some(Place::Argument(name)) => return Ok(self.arguments.get(&name).cloned()),
                    _ => return Ok(self.fill(text, |_, value| Ok(value.to_owned()))?.map(Value::String)),
                }
            }
            Value::Array(all) => {
                let filled: Result<Vec<_>, _> = all.iter().map(|one| self.body(one)).collect();
                filled?.into_iter().flatten().collect()
            }
            Value::Object(all) => {
                let mut filled = Map::new();
                for (key, one) in all {
                    if let Some(one) = self.body(one)? {
                        filled.insert(key.clone(), one);
                    }
                }
                filled.into()
            }
            plain => plain.clone(),
        }))
    }
}

/// A place in a header that is for no secret.
#[derive(Debug, thiserror::Error)]
#[error("{{{0}}}")]
pub struct Misplaced(pub String);

/// The name of a secret that is not set.
#[derive(Debug, thiserror::Error)]
#[error("the secret {0} is not set")]
pub struct NoSuchSecret(pub String);

/// A header's value with places for secrets alone.
pub struct HeaderTemplate<'a>(pub &'a str);

impl HeaderTemplate<'_> {
    /// The names of its secrets.
    ///
    /// # Errors
    /// What else it has a place for.
    pub fn secrets(&self) -> Result<Vec<String>, Misplaced> {
        let name = |place| match place {
            Place::Secret(name) => Ok(name),
            Place::Argument(name) => Err(Misplaced(name)),
        };
        places(self.0).map(name).collect()
    }

    /// The value with these secrets in their places.
    ///
    /// # Errors
    /// One of them is absent.
    pub fn fill(&self, secrets: &BTreeMap<String, Secret<String>>) -> Result<Secret<String>, NoSuchSecret> {
        let filled = Values { arguments: &Map::new(), secrets }.header(self.0);
        filled.map(|value| Secret::new(value.unwrap_or_default())).map_err(|e| match e {
            FillError::NoSecret(name) | FillError::Absent(name) | FillError::Wrong(name, _) => NoSuchSecret(name),
        })
    }
}

/// An argument as it stands in an address or a header.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(all) => Some(all.iter().filter_map(as_text).collect::<Vec<_>>().join(",")),
        other => Some(other.to_string()),
    }
}

/// Percent-encoded, all but the unreserved characters of RFC 3986.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with<R>(arguments: Value, run: impl FnOnce(&Values<'_>) -> R) -> R {
        let secrets = BTreeMap::from([("KEY".to_owned(), Secret::new("s3cret/ä".to_owned()))]);
        run(&Values { arguments: arguments.as_object().unwrap(), secrets: &secrets })
    }

    #[test]
    fn an_argument_is_one_part_of_an_address_whatever_it_holds() {
        let url = |template: &str, arguments: Value| with(arguments, |v| v.url(template));
        let of = |city: &str| url("https://x.org/a/{city}/b?q={city}&k={secret.KEY}&l={lang}", json!({"city": city}));
        assert_eq!(of("Bad Tölz").unwrap(), "https://x.org/a/Bad%20T%C3%B6lz/b?q=Bad%20T%C3%B6lz&k=s3cret%2F%C3%A4");
        for sly in ["../../admin", "a/b", "a?x=1", "a#b", "a&k=1", "@evil.net", "a\r\nHost: evil", "%2e%2e", "\\..\\"] {
            let made = reqwest::Url::parse(&of(sly).unwrap()).unwrap();
            assert_eq!(made.host_str(), Some("x.org"), "{sly}");
            assert_eq!(made.path_segments().unwrap().count(), 3, "{sly}: {made}");
            assert_eq!(made.query_pairs().count(), 2, "{sly}: {made}");
            assert!(made.fragment().is_none(), "{sly}");
        }
        for step in ["..", ".", ""] {
            assert_eq!(of(step), Err(FillError::Wrong("city".into(), step.into())));
        }
        assert_eq!(url("https://x.org/{city}", json!({})), Err(FillError::Absent("city".into())));
        assert_eq!(
            url("https://x.org/?n={n}&all={tags}", json!({"n": 2.5, "tags": ["a", "b"]})).unwrap(),
            "https://x.org/?n=2.5&all=a%2Cb"
        );
        assert_eq!(url("https://x.org/?k={secret.NONE}", json!({})), Err(FillError::NoSecret("NONE".into())));
    }

    #[test]
    fn headers_have_one_line_and_bodies_keep_types() {
        with(json!({"n": 3, "name": "Bea", "bad": "a\r\nX: y"}), |v| {
            assert_eq!(v.header("Bearer {secret.KEY}").unwrap().unwrap(), "Bearer s3cret/ä");
            assert!(v.header("{bad}").is_err());
            assert_eq!(v.header("{absent}").unwrap(), None);
            let body = json!({"count": "{n}", "text": "for {name}", "gone": "{absent}", "fixed": [1, "{n}", "{absent}"], "deep": {"a": "{name}"}});
            let filled = json!({"count": 3, "text": "for Bea", "fixed": [1, 3], "deep": {"a": "Bea"}});
            assert_eq!(v.body(&body).unwrap().unwrap(), filled);
        });
    }
}
