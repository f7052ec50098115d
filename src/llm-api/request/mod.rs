//! What a session may ask of its model's vendor: answers of a model, and nothing else.
//!
//! A vendor's API is more than a model. It searches the web, fetches addresses, runs programs, calls other servers,
//! keeps files and conversations; and each of these carries a session's words out of the house, past the gate that
//! looks at what leaves. So a request is read whole and judged by lists of what may stand in it. A key that no list has
//! is left out. What would have the vendor do more than answer is refused, unless the runtime's settings grant it.
//!
//! What goes on is written anew from what was judged: a vendor never reads what this did not.

mod anthropic;
mod gemini;
mod openai;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::api::{Api, Family, Purpose};
use tree::Node;

/// What a vendor does besides answering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum VendorTool {
    /// It searches the web.
    WebSearch,
    /// It fetches addresses.
    WebFetch,
    /// It runs programs on machines of its own.
    CodeExecution,
}

/// Why a request does not go on, for whoever made it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    #[error("the request's body is not JSON that can be passed on: {0}")]
    Unreadable(String),
    #[error("{what} is not passed on: {why}")]
    Never { what: String, why: &'static str },
    #[error(
        "{what} is not passed on: it would leave the house past its gate. The owner can allow it: [runtime] vendor_tools \
         = [\"{}\"] in butler.toml", <&str>::from(*.tool)
    )]
    NotGranted { what: String, tool: VendorTool },
}

/// A request that may go on.
#[derive(Debug, Default)]
pub struct Judged {
    /// Its body.
    pub body: Vec<u8>,
    /// The model that it names.
    pub model: Option<String>,
    /// How many tokens its answers may have together; `None`: it does not say, and asks for one.
    pub most_output: Option<u64>,
    /// The keys and headers that were left out.
    pub left_out: BTreeSet<String>,
}

/// Judges a request's body. `granted`: what the vendor may do for this session besides answering.
pub fn judge(family: Family, purpose: Purpose, body: &[u8], granted: &[VendorTool]) -> Result<Judged, Refused> {
    let mut document: Node = serde_json::from_slice(body).map_err(|e| Refused::Unreadable(e.to_string()))?;
    let mut judge = Judge { granted, left_out: BTreeSet::new() };
    let model = document.get("model").and_then(Node::text).map(str::to_owned);
    match (family, purpose) {
        (Family::Anthropic, _) => anthropic::body(&mut document, &mut judge)?,
        (Family::OpenAi, Purpose::Call(Api::Responses)) => openai::responses(&mut document, &mut judge)?,
        (Family::OpenAi, _) => openai::chat(&mut document, &mut judge)?,
        (Family::Gemini, _) => gemini::body(&mut document, &mut judge)?,
    }
    let body = serde_json::to_vec(&document).map_err(|e| Refused::Unreadable(e.to_string()))?;
    Ok(Judged { body, model, most_output: most_output(&document), left_out: judge.left_out })
}

/// Asked of what goes on: a limit that the vendor does not get limits nothing.
fn most_output(document: &Node) -> Option<u64> {
    let configs = document.spelled(&["generationConfig"]);
    // What is no plain number some vendor may read as one, or as no limit; nobody knows how large.
    let of = |names: &[&str]| {
        let all = configs.iter().flat_map(|config| config.spelled(names)).chain(document.spelled(names));
        all.map(|value| value.number().filter(|n| *n > 0).unwrap_or(u64::MAX)).max()
    };
    // Of a request for several answers each may be as long.
    let answers = of(&["n", "candidateCount"]).unwrap_or(1);
    match of(&["max_tokens", "max_completion_tokens", "max_output_tokens"]) {
        Some(most) => Some(most.saturating_mul(answers.max(1))),
        None => (answers > 1).then_some(u64::MAX),
    }
}

/// The headers of a request that go on: who asks and with what program, and the vendor's trial features that grant
/// nothing.
pub fn headers(
    family: Family,
    asked: &HeaderMap,
    granted: &[VendorTool],
    left_out: &mut BTreeSet<String>,
) -> Result<HeaderMap, Refused> {
    let mut kept = HeaderMap::new();
    for (name, value) in asked {
        let features = ["anthropic-beta", "openai-beta"].contains(&name.as_str());
        if features {
            let value = features_of(family, name, value, granted, left_out)?;
            if let Some(value) = value.and_then(|text| HeaderValue::from_str(&text).ok()) {
                kept.append(name.clone(), value);
            }
        } else if is_plain(name) {
            kept.append(name.clone(), value.clone());
        } else {
            left_out.insert(format!("the header {name}"));
        }
    }
    Ok(kept)
}

/// Whether a header only says what program asks, and in what form.
fn is_plain(name: &HeaderName) -> bool {
    const NAMES: &str = "accept accept-language anthropic-dangerous-direct-browser-access anthropic-version content-type \
        conversation_id idempotency-key originator session_id traceparent tracestate user-agent version x-app \
        x-goog-api-client";
    const BEGINNINGS: [&str; 5] = ["x-stainless-", "x-claude-", "x-codex-", "x-openai-", "x-gemini-"];
    NAMES.split(' ').any(|plain| plain == name.as_str())
        || BEGINNINGS.iter().any(|begin| name.as_str().starts_with(begin))
}

/// The trial features of a header's list that may go on.
fn features_of(
    family: Family,
    name: &HeaderName,
    value: &HeaderValue,
    granted: &[VendorTool],
    left_out: &mut BTreeSet<String>,
) -> Result<Option<String>, Refused> {
    let mut kept = Vec::new();
    for feature in value.to_str().unwrap_or_default().split(',').map(str::trim).filter(|f| !f.is_empty()) {
        let judged = match family {
            Family::Anthropic => anthropic::feature(feature),
            Family::OpenAi => openai::feature(feature),
            Family::Gemini => Feature::Unknown,
        };
        match judged {
            Feature::Harmless => kept.push(feature),
            Feature::Of(tool) if granted.contains(&tool) => kept.push(feature),
            Feature::Of(tool) => {
                return Err(Refused::NotGranted { what: format!("the feature \"{feature}\" ({name})"), tool });
            }
            Feature::Never(why) => {
                return Err(Refused::Never { what: format!("the feature \"{feature}\" ({name})"), why });
            }
            Feature::Unknown => {
                left_out.insert(format!("{name}: {feature}"));
            }
        }
    }
    Ok((!kept.is_empty()).then(|| kept.join(",")))
}

/// What a trial feature of a vendor's is good for.
enum Feature {
    Harmless,
    Of(VendorTool),
    Never(&'static str),
    Unknown,
}

/// What becomes of a part of a request.
enum Rule {
    /// It goes on as it is.
    Pass,
    /// It goes on if this has nothing against it.
    Check(Check),
    /// It is an object, of which goes on what these rules have. The text names it.
    Members(&'static str, Rules),
    /// It goes on where the vendor may do this.
    Of(VendorTool),
    /// It is refused for this reason. Where it says nothing it is left out.
    Never(&'static str),
}

type Rules = &'static [(&'static str, Rule)];
type Check = fn(&mut Node, &mut Judge<'_>) -> Result<(), Refused>;

const STORED: &str =
    "the vendor would keep or use something that is stored with it, and a session leaves nothing there";
const FETCHED: &str =
    "the vendor would fetch it, and the address could carry the household's data; send the content itself";
const SERVER: &str = "the vendor would call another server with the session's words";
const UNKNOWN_KIND: &str = "butlerd does not know this kind, and passes on what it knows";
const SHAPE: &str = "it has not the form that the API's documentation gives";

/// Judges one request.
struct Judge<'a> {
    granted: &'a [VendorTool],
    left_out: BTreeSet<String>,
}

impl Judge<'_> {
    fn apply(&mut self, rule: &Rule, what: &dyn Fn() -> String, node: &mut Node) -> Result<(), Refused> {
        match rule {
            Rule::Pass => Ok(()),
            Rule::Check(check) => check(node, self),
            Rule::Members(place, rules) => self.members(node, place, rules),
            Rule::Of(tool) if self.granted.contains(tool) => Ok(()),
            Rule::Of(tool) => Err(Refused::NotGranted { what: what(), tool: *tool }),
            Rule::Never(why) => Err(Refused::Never { what: what(), why }),
        }
    }

    /// Keeps of an object what the rules have, by exact name.
    fn members(&mut self, node: &mut Node, place: &str, rules: Rules) -> Result<(), Refused> {
        self.members_as(node, place, rules, |rule, key| rule == key)
    }

    /// The same where the API reads several spellings of a key.
    fn members_as(
        &mut self,
        node: &mut Node,
        place: &str,
        rules: Rules,
        same: fn(&str, &str) -> bool,
    ) -> Result<(), Refused> {
        let Node::Object(members) = node else {
            return Err(Refused::Never { what: place.to_owned(), why: SHAPE });
        };
        let mut kept: Vec<(String, Node)> = Vec::with_capacity(members.len());
        for (key, mut value) in std::mem::take(members) {
            let full = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            let rule = rules.iter().find(|(name, _)| same(name, &key)).map(|(_, rule)| rule);
            let Some(rule) = rule.filter(|rule| !matches!(rule, Rule::Of(_) | Rule::Never(_)) || !value.is_nothing())
            else {
                self.left_out.insert(full);
                continue;
            };
            self.apply(rule, &|| format!("`{full}`"), &mut value)?;
            if kept.iter().any(|(other, _)| same(other, &key)) {
                return Err(Refused::Never { what: format!("`{full}` in two spellings"), why: SHAPE });
            }
            kept.push((key, value));
        }
        *members = kept;
        Ok(())
    }

    /// Judges an object by the text of one member, which says its kind. `missing`: its kind where it has none.
    fn kind(
        &mut self,
        node: &mut Node,
        (what, key, missing): (&str, &str, Option<&'static str>),
        rules: Rules,
    ) -> Result<(), Refused> {
        if !matches!(node, Node::Object(_)) {
            return Err(Refused::Never { what: what.to_owned(), why: SHAPE });
        }
        let given = match (node.get(key), missing) {
            (None | Some(Node::Plain(serde_json::Value::Null)), Some(missing)) => missing.to_owned(),
            (Some(given), _) => given.text().unwrap_or_default().to_owned(),
            (None, None) => String::new(),
        };
        let named = || format!("{what} \"{}\"", base::text::truncate(&base::text::clean(&given), 60));
        // A name of the list that ends in `_` stands for all versions of a tool.
        let fits = |name: &str| {
            name == given
                || name.ends_with('_')
                    && given
                        .strip_prefix(name)
                        .is_some_and(|date| !date.is_empty() && date.bytes().all(|b| b.is_ascii_digit()))
        };
        match rules.iter().find(|(name, _)| fits(name)) {
            Some((_, rule)) => self.apply(rule, &named, node),
            None => Err(Refused::Never { what: named(), why: UNKNOWN_KIND }),
        }
    }
}

/// Judges each item of a list. Vendors take a single item for a list of one.
fn each(
    node: &mut Node,
    judge: &mut Judge<'_>,
    mut check: impl FnMut(&mut Node, &mut Judge<'_>) -> Result<(), Refused>,
) -> Result<(), Refused> {
    match node {
        Node::Array(items) => items.iter_mut().try_for_each(|item| check(item, judge)),
        Node::Object(_) => check(node, judge),
        Node::Plain(_) => Ok(()),
    }
}

/// Judges a member of an object by its name; what is no object has none.
fn member(node: &mut Node, key: &str, judge: &mut Judge<'_>, check: Check) -> Result<(), Refused> {
    let Node::Object(members) = node else { return Ok(()) };
    members.iter_mut().filter(|(name, _)| name == key).try_for_each(|(_, value)| check(value, judge))
}

/// A text, and nothing that would be read otherwise.
fn data_address(node: &mut Node, _: &mut Judge<'_>) -> Result<(), Refused> {
    let is_data =
        node.text().is_some_and(|text| text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("data:")));
    if is_data {
        Ok(())
    } else {
        Err(Refused::Never { what: "the address of a picture or file".to_owned(), why: FETCHED })
    }
}
