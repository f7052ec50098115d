//! Plays a script: finds the conversation and the step that a request has come to.
//!
//! Nothing is remembered between requests but how often a hurdle was met and which turns were taken again: the request
//! itself holds the whole conversation, so a client that repeats a request gets the same answer.

use std::collections::{BTreeSet, HashMap};
use std::sync::{LazyLock, Mutex, PoisonError};

use llm_api::Usage;
use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::dialog::{Dialog, Item, instance};
use super::script::{Hurdle, Script, ScriptCall, Step, StepUsage};

/// What the client gets, and a word for the log.
#[derive(Debug, Clone)]
pub enum Reply {
    Turn(TurnReply),
    Fail {
        status: u16,
        body: Option<Value>,
        headers: Vec<(String, String)>,
    },
    Hang,
    Cut(TurnReply),
    Stall(TurnReply),
    /// A text without end.
    Endless(TurnReply),
}

/// One turn of the model.
#[derive(Debug, Clone, Default)]
pub struct TurnReply {
    pub text: Option<String>,
    pub calls: Vec<ReplyCall>,
    /// `None`: the server says nothing of usage.
    pub usage: Option<Usage>,
}

/// One call of the turn.
#[derive(Debug, Clone)]
pub struct ReplyCall {
    /// Unique in its conversation. Each API puts its own prefix in front.
    pub id: String,
    pub name: String,
    pub namespace: Option<String>,
    pub arguments: Map<String, Value>,
}

/// Says something to a user's text that no script can know beforehand; `None`: the script answers.
pub type Responder = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A script and how often its hurdles were met.
pub struct Player {
    script: Script,
    responder: Option<Responder>,
    met: Mutex<HashMap<(usize, usize), u32>>,
    /// Conversations, and which of their turns their step had `until` and waits for more.
    again: Mutex<BTreeSet<(usize, usize)>>,
}

/// What a request without tools gets where the script expects tools: clients ask for titles and summaries that way.
const SIDE_TEXT: &str = "A scripted conversation";

impl Player {
    pub fn new(script: Script, responder: Option<Responder>) -> Self {
        Self { script, responder, met: Mutex::default(), again: Mutex::default() }
    }

    pub fn script(&self) -> &Script {
        &self.script
    }

    /// The reply to this request and what the log calls it.
    pub fn play(&self, dialog: &Dialog) -> (Reply, String) {
        let says = |text: &str| Reply::Turn(self.turn(Some(text.to_owned()), Vec::new(), None));
        if let (Some(schema), true) = (&dialog.schema, dialog.tools.is_empty()) {
            return (says(&instance(schema).to_string()), "schema".to_owned());
        }
        let newest = dialog.items.last();
        if let (Some(responder), Some(Item::User(text))) = (&self.responder, newest)
            && let Some(said) = responder(text)
        {
            return (says(&said), "thought".to_owned());
        }
        let Some((number, at)) = self.find(dialog) else {
            return if dialog.tools.is_empty() {
                (says(SIDE_TEXT), "side".to_owned())
            } else {
                self.lost("no conversation for this text")
            };
        };
        let steps = &self.script.conversations[number].steps;
        let wants_tools = steps.iter().any(|step| matches!(step, Step::Turn { calls, .. } if !calls.is_empty()));
        if dialog.tools.is_empty() && wants_tools {
            return (says(SIDE_TEXT), "side".to_owned());
        }
        let since = &dialog.items[at..];
        let taken = since.iter().filter(|item| **item == Item::Model).count();
        let results: Vec<&str> = since
            .iter()
            .filter_map(|item| if let Item::Result(text) = item { Some(text.as_str()) } else { None })
            .collect();
        let matched = match since.first() {
            Some(Item::User(text)) => self.script.conversations[number].when.captures(text),
            _ => None,
        };
        let said = Said { results: &results, matched: matched.as_ref() };
        let next = self.next(number, taken - self.taken_again(number, taken));
        let turn = match next.turn {
            Some(Step::Turn { say, calls, usage, until }) => {
                if until.as_ref().is_some_and(|tool| offered(tool, dialog).is_none()) {
                    self.again.lock().unwrap_or_else(PoisonError::into_inner).insert((number, taken));
                }
                let text = say.as_ref().map(|text| fill(text, &said));
                let calls = calls.iter().enumerate().map(|(n, call)| reply_call(call, n, dialog, &said)).collect();
                Ok(self.turn(text, calls, *usage))
            }
            _ => Err(self.lost("no more steps in this conversation")),
        };
        match (next.hurdle, turn) {
            (Some(Hurdle::Hang), _) => (Reply::Hang, "hang".to_owned()),
            (Some(Hurdle::Fail(fail)), _) => {
                let headers = fail.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                let label = format!("fail {}", fail.status);
                (Reply::Fail { status: fail.status, body: fail.body.clone(), headers }, label)
            }
            (Some(Hurdle::Endless), _) => {
                let turn = self.turn(Some("and so on, ".repeat(400)), Vec::new(), None);
                (Reply::Endless(turn), "endless".to_owned())
            }
            (Some(Hurdle::Stall), turn) => {
                let turn = turn.unwrap_or_else(|_| self.turn(Some("It begins and".to_owned()), Vec::new(), None));
                (Reply::Stall(turn), "stall".to_owned())
            }
            (Some(Hurdle::Cut), turn) => {
                let turn = turn.unwrap_or_else(|_| self.turn(Some("Cut".to_owned()), Vec::new(), None));
                (Reply::Cut(turn), "cut".to_owned())
            }
            (None, Ok(turn)) => {
                let label = match turn.calls.is_empty() {
                    true => "say".to_owned(),
                    false => turn.calls.iter().map(|call| format!("call {}", call.name)).collect::<Vec<_>>().join(", "),
                };
                (Reply::Turn(turn), label)
            }
            (None, Err(lost)) => lost,
        }
    }

    fn turn(&self, text: Option<String>, calls: Vec<ReplyCall>, usage: Option<StepUsage>) -> TurnReply {
        let usage = self.script.report_usage.then(|| usage.unwrap_or(self.script.usage).into());
        TurnReply { text, calls, usage }
    }

    fn lost(&self, why: &str) -> (Reply, String) {
        match &self.script.fallback {
            Some(text) => (Reply::Turn(self.turn(Some(text.clone()), Vec::new(), None)), "fallback".to_owned()),
            None => {
                let body = Some(Value::String(format!("the script has {why}")));
                (Reply::Fail { status: 400, body, headers: Vec::new() }, "lost".to_owned())
            }
        }
    }

    /// The conversation of the newest user text that fits one, and where in the dialog that text stands.
    fn find(&self, dialog: &Dialog) -> Option<(usize, usize)> {
        dialog.items.iter().enumerate().rev().find_map(|(at, item)| {
            let Item::User(text) = item else { return None };
            let number = self.script.conversations.iter().position(|c| c.when.is_match(text))?;
            Some((number, at))
        })
    }

    /// How many of a conversation's first turns will have been taken again.
    fn taken_again(&self, conversation: usize, turns: usize) -> usize {
        let again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        again.range((conversation, 0)..(conversation, turns)).count()
    }

    /// The turn after `taken` turns, and the hurdle that still stands in front of it. Meeting it counts.
    fn next(&self, conversation: usize, taken: usize) -> Next<'_> {
        let steps = &self.script.conversations[conversation].steps;
        let mut turns = 0;
        let mut hurdles = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Turn { .. } if turns == taken => return self.pass(conversation, hurdles, Some(step)),
                Step::Turn { .. } => {
                    turns += 1;
                    hurdles.clear();
                }
                Step::Hurdle { kind, times } => hurdles.push((number, kind, *times)),
            }
        }
        // Behind the last step its hurdles stand for ever.
        let hurdles = if turns == taken { hurdles } else { Vec::new() };
        self.pass(conversation, hurdles, None)
    }

    fn pass<'a>(
        &self,
        conversation: usize,
        hurdles: Vec<(usize, &'a Hurdle, Option<u32>)>,
        turn: Option<&'a Step>,
    ) -> Next<'a> {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, kind, times) in hurdles {
            let count = met.entry((conversation, number)).or_default();
            if times.is_none_or(|times| *count < times) {
                *count += 1;
                return Next { hurdle: Some(kind), turn };
            }
        }
        Next { hurdle: None, turn }
    }
}

struct Next<'a> {
    hurdle: Option<&'a Hurdle>,
    turn: Option<&'a Step>,
}

/// What references may speak of.
struct Said<'a> {
    results: &'a [&'a str],
    /// What the conversation's pattern found in the user's text.
    matched: Option<&'a Captures<'a>>,
}

fn reply_call(call: &ScriptCall, number: usize, dialog: &Dialog, said: &Said<'_>) -> ReplyCall {
    let mut arguments = match fill_value(&call.arguments, said) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let (name, namespace) = match (offered(&call.tool, dialog), offered(TOOL_CALL, dialog)) {
        (Some(tool), _) => tool,
        (None, Some(through)) => {
            let inner = [("name", call.tool.clone().into()), ("arguments", arguments.into())];
            arguments = inner.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            through
        }
        (None, None) => (call.tool.clone(), None),
    };
    ReplyCall { id: format!("{:02}x{number}", dialog.turns()), name, namespace, arguments }
}

/// The way to tools that are not offered. One is called by its own name, as a model might, only where there is no such
/// way.
const TOOL_CALL: &str = "tool_call";

/// The offered tool of this name or end.
fn offered(wanted: &str, dialog: &Dialog) -> Option<(String, Option<String>)> {
    // Names of MCP tools may hold characters that some clients replace.
    let plain = wanted.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
    let forms = [wanted, plain.as_str()];
    let fits = |name: &str, before: &str| {
        forms.iter().any(|form| name.strip_suffix(form).is_some_and(|rest| rest.ends_with(before)))
    };
    let tests: [&dyn Fn(&str) -> bool; 3] =
        [&|name| forms.contains(&name), &|name| fits(name, "_"), &|name| fits(name, "")];
    let found = tests.iter().find_map(|test| dialog.tools.iter().find(|tool| test(&tool.name)));
    found.map(|tool| (tool.name.clone(), tool.namespace.clone()))
}

/// `{{last_result}}`, `{{result.0}}`, `{{result.0./json/pointer}}`, and `{{match.1}}` for a group of the conversation's
/// pattern, or `{{number.1}}` where an argument is to be a number; each with `|otherwise` if wanted.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{\s*(?:last_result|result\.(\d+)|(?:match|(?<number>number))\.(?<group>\d+))(?:\.?(?<pointer>/[^}|\s]*))?\s*(?:\|(?<otherwise>[^}]*))?\}\}")
        .expect("the pattern is fixed and tested")
});

/// Texts with references get the results' values. A text that is nothing but one reference takes the value's type.
fn fill_value(value: &Value, said: &Said<'_>) -> Value {
    match value {
        Value::String(text) => match REFERENCE.captures(text) {
            Some(found) if found[0].len() == text.len() => refer(&found, said).unwrap_or_else(Value::String),
            _ => Value::String(fill(text, said)),
        },
        Value::Array(list) => list.iter().map(|inner| fill_value(inner, said)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, inner)| (key.clone(), fill_value(inner, said))).collect())
        }
        other => other.clone(),
    }
}

fn fill(text: &str, said: &Said<'_>) -> String {
    REFERENCE
        .replace_all(text, |found: &Captures<'_>| match refer(found, said) {
            Ok(Value::String(text)) => text,
            Ok(value) => value.to_string(),
            Err(missing) => missing,
        })
        .into_owned()
}

fn refer(found: &Captures<'_>, said: &Said<'_>) -> Result<Value, String> {
    let number = |of: Option<regex::Match<'_>>| of.and_then(|n| n.as_str().parse::<usize>().ok());
    let result = match (found.name("group"), found.get(1)) {
        (None, None) => said.results.last().copied(),
        (None, given) => number(given).and_then(|n| said.results.get(n).copied()),
        (given, _) => number(given).and_then(|n| Some(said.matched?.get(n)?.as_str())),
    };
    let value = result.and_then(|text| match found.name("pointer") {
        None if found.name("number").is_some() => text.parse::<i64>().ok().map(Value::from),
        None => Some(Value::String(text.to_owned())),
        Some(pointer) => serde_json::from_str::<Value>(text).ok()?.pointer(pointer.as_str()).cloned(),
    });
    match (value.filter(|value| !value.is_null()), found.name("otherwise")) {
        (Some(value), _) => Ok(value),
        (None, Some(otherwise)) => Ok(Value::String(otherwise.as_str().trim().to_owned())),
        (None, None) => Err(format!("[nothing at {}]", found[0].trim_matches(['{', '}']))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn player(script: Value) -> Player {
        Player::new(Script::from_value(script).unwrap(), None)
    }

    fn dialog(items: &[Item], tools: &[&str]) -> Dialog {
        let mut dialog = Dialog { items: items.to_vec(), ..Dialog::default() };
        for tool in tools {
            dialog.offer(&json!({"name": tool}), None);
        }
        dialog
    }

    fn user(text: &str) -> Item {
        Item::User(text.into())
    }

    #[test]
    fn a_step_is_taken_until_a_tool_is_offered() {
        let steps = json!([{"call": {"tool": "look"}, "until": "found"}, {"call": {"tool": "found"}}, {"say": "done"}]);
        let player = player(json!({"conversations": [{"when": "go", "steps": steps}]}));
        let reply = |turns: usize, tools: &[&str]| {
            let items: Vec<Item> = [user("go")].into_iter().chain(vec![Item::Model; turns]).collect();
            player.play(&dialog(&items, tools)).1
        };
        assert_eq!([reply(0, &["look"]), reply(0, &["look"]), reply(1, &["look"])], ["call look"; 3]);
        assert_eq!(reply(2, &["look", "found"]), "call look");
        assert_eq!(reply(3, &["look", "found"]), "call found");
        assert_eq!(reply(4, &["look", "found"]), "say");
    }

    #[test]
    fn references_take_values_and_types() {
        let results = ["{\"value\":{\"kg\":81.4},\"none\":null}", "plain"];
        let matched = Regex::new("go to (\\w+)(?: at (\\d+))?").unwrap();
        let matched = matched.captures("please go to bed at 9");
        let results = Said { results: &results, matched: matched.as_ref() };
        assert_eq!(fill("off to {{match.1}}, {{match.3|now}}", &results), "off to bed, now");
        assert_eq!(
            fill_value(&json!({"at": "{{number.2}}", "text": "{{match.2}}"}), &results),
            json!({"at": 9, "text": "9"})
        );
        assert_eq!(fill("{{last_result}} / {{ result.1 }}", &results), "plain / plain");
        assert_eq!(fill("{{result.0./value/kg}} kg", &results), "81.4 kg");
        assert_eq!(fill("{{result.0/value/kg}}", &results), "81.4");
        assert_eq!(fill("{{result.0./none|not known}}", &results), "not known");
        assert_eq!(fill("{{result.7}}", &results), "[nothing at result.7]");
        assert_eq!(fill("{{else}}", &results), "{{else}}");
        let arguments = json!({"a": "{{result.0./value/kg}}", "b": ["x {{result.1}}"]});
        assert_eq!(fill_value(&arguments, &results), json!({"a": 81.4, "b": ["x plain"]}));
    }

    #[test]
    fn the_step_follows_from_the_request_alone() {
        let player = player(json!({"conversations": [
            {"when": "go", "steps": [{"call": {"tool": "state_set"}}, {"say": "done {{last_result}}"}]},
            {"when": "again", "steps": [{"say": "second"}]}]}));
        let tools = ["mcp__butler__state_set", "other_state_setter"];
        let first = [user("please go")];
        let second = [user("please go"), Item::Model, Item::Result("ok".into())];
        let third = [&second[..], &[Item::Model, user("and again")]].concat();
        let unknown = [&second[..], &[user("a note of the client")]].concat();
        for _ in 0..2 {
            assert_eq!(player.play(&dialog(&first, &tools)).1, "call mcp__butler__state_set");
            let (reply, label) = player.play(&dialog(&second, &tools));
            assert_eq!(label, "say");
            assert!(matches!(reply, Reply::Turn(turn) if turn.text.as_deref() == Some("done ok")));
            assert_eq!(player.play(&dialog(&third, &tools)).1, "say");
            assert_eq!(player.play(&dialog(&unknown, &tools)).1, "say", "a text that fits nothing changes nothing");
        }
        assert_eq!(player.play(&dialog(&first, &[])).1, "side", "a title is asked for without tools");
        assert_eq!(player.play(&dialog(&[user("hello")], &tools)).1, "lost");
    }

    #[test]
    fn hurdles_stand_as_often_as_they_say() {
        let player = player(json!({"fallback": "I only know my script.", "conversations": [{"when": "go", "steps": [
            {"fail": {"status": 529, "times": 2}}, {"cut": {"times": 1}}, {"say": "a"}, {"hang": true}]}]}));
        let start = dialog(&[user("go")], &["t"]);
        let labels: Vec<String> = (0..5).map(|_| player.play(&start).1).collect();
        assert_eq!(labels, ["fail 529", "fail 529", "cut", "say", "say"]);
        let behind = dialog(&[user("go"), Item::Model, Item::Result(String::new())], &["t"]);
        assert_eq!((player.play(&behind).1, player.play(&behind).1), ("hang".into(), "hang".into()));
        assert_eq!(player.play(&dialog(&[user("hello")], &["t"])).1, "fallback");
    }

    #[test]
    fn tools_are_found_by_their_end() {
        let with =
            |tools: &[&str], wanted: &str| offered(wanted, &dialog(&[], tools)).map_or_else(String::new, |t| t.0);
        assert_eq!(with(&["reset_state_set", "state_set"], "state_set"), "state_set");
        assert_eq!(with(&["mcp__butler__module_states"], "module.states"), "mcp__butler__module_states");
        assert_eq!(with(&["mcp_butler_module.states"], "module.states"), "mcp_butler_module.states");
        assert_eq!(with(&["unstate_set", "mcp_state_set"], "state_set"), "mcp_state_set");
        assert_eq!(with(&["a"], "shell"), "");
    }
}
