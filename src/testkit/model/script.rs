//! What the scripted model says: data, usually JSON.

use std::collections::BTreeMap;

use llm_api::Usage;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All that a scripted model knows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The first whose `when` fits is played.
    pub conversations: Vec<Conversation>,
    /// Said where no conversation fits, or the fitting one has no more steps. Without it that is answered with 400,
    /// which a test notices.
    #[serde(default)]
    pub fallback: Option<String>,
    /// What each turn claims to have used, unless the step says otherwise.
    #[serde(default)]
    pub usage: StepUsage,
    /// `false`: like servers that never speak of usage.
    #[serde(default = "yes")]
    pub report_usage: bool,
    /// Listed under `/v1/models`. Requests may name any model.
    #[serde(default = "default_models")]
    pub models: Vec<String>,
}

fn yes() -> bool {
    true
}

fn default_models() -> Vec<String> {
    vec!["scripted-1".to_owned()]
}

/// One thread that the model can follow.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// Fits anywhere in a user's text.
    #[serde(deserialize_with = "pattern")]
    pub when: Regex,
    pub steps: Vec<Step>,
}

fn pattern<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Regex, D::Error> {
    Regex::new(&String::deserialize(d)?).map_err(serde::de::Error::custom)
}

/// Tokens of one turn. The four kinds do not overlap; the APIs that count cached input as input get the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
}

impl Default for StepUsage {
    fn default() -> Self {
        Self { input_tokens: 1100, output_tokens: 20, cache_read_tokens: 0, cache_write_tokens: 0 }
    }
}

impl From<StepUsage> for Usage {
    fn from(told: StepUsage) -> Self {
        Self {
            input: Some(told.input_tokens),
            output: Some(told.output_tokens),
            cache_read: Some(told.cache_read_tokens),
            cache_write: Some(told.cache_write_tokens),
        }
    }
}

/// One step: a turn of the model, or a hurdle in front of the next turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "StepForm")]
pub enum Step {
    Turn {
        say: Option<String>,
        calls: Vec<ScriptCall>,
        usage: Option<StepUsage>,
        /// Taken again and again until the client offers this tool.
        until: Option<String>,
    },
    Hurdle {
        kind: Hurdle,
        times: Option<u32>,
    },
}

/// What keeps a client from its answer, for ever or some times.
#[derive(Debug, Clone)]
pub enum Hurdle {
    Fail(Fail),
    /// No answer at all, until the client gives up.
    Hang,
    /// The connection closes in the middle of the answer.
    Cut,
    /// The answer begins, and no more of it comes until the client gives up.
    Stall,
    /// The answer begins and never ends.
    Endless,
}

/// An answer with an error status.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    pub status: u16,
    /// How often before the next step is reached; always, where absent.
    #[serde(default)]
    pub times: Option<u32>,
    /// A text becomes the message of the API's own error form; anything else is sent as it is.
    #[serde(default)]
    pub body: Option<Value>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A tool call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    /// The tool's name as the client offers it, or its end (`state_set` finds `mcp__butler__state_set`).
    pub tool: String,
    /// Texts in it may refer to earlier results, as in `say`.
    #[serde(default)]
    pub arguments: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepForm {
    say: Option<String>,
    call: Option<ScriptCall>,
    #[serde(default)]
    calls: Vec<ScriptCall>,
    usage: Option<StepUsage>,
    until: Option<String>,
    fail: Option<Fail>,
    hang: Option<Often>,
    cut: Option<Often>,
    stall: Option<Often>,
    endless: Option<Often>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Often {
    Always(bool),
    Times { times: u32 },
}

impl TryFrom<StepForm> for Step {
    type Error = String;

    fn try_from(form: StepForm) -> Result<Self, String> {
        let StepForm { say, call, calls, usage, until, fail, hang, cut, stall, endless } = form;
        let calls: Vec<ScriptCall> = call.into_iter().chain(calls).collect();
        let is_turn = say.is_some() || !calls.is_empty();
        let often = |often: Often| match often {
            Often::Always(true) => Ok(None),
            Often::Always(false) => Err("`hang`, `cut`, `stall` and `endless` are true or {\"times\": n}".to_owned()),
            Often::Times { times } => Ok(Some(times)),
        };
        let mut hurdles = Vec::new();
        if let Some(fail) = fail {
            hurdles.push((fail.times, Hurdle::Fail(fail)));
        }
        let others = [(hang, Hurdle::Hang), (cut, Hurdle::Cut), (stall, Hurdle::Stall), (endless, Hurdle::Endless)];
        for (given, kind) in others {
            if let Some(given) = given {
                hurdles.push((often(given)?, kind));
            }
        }
        match (is_turn, hurdles.len(), hurdles.pop()) {
            (true, 0, _) => Ok(Step::Turn { say, calls, usage, until }),
            (false, 1, Some((times, kind))) if usage.is_none() && until.is_none() => Ok(Step::Hurdle { kind, times }),
            _ => Err("a step is either `say`, `call` or `calls` (with `usage` and `until` if wanted), or one of `fail`, `hang`, \
                      `cut`, `stall` and `endless`"
                .to_owned()),
        }
    }
}

/// A script that cannot be played.
#[derive(Debug, thiserror::Error)]
#[error("the model's script is wrong")]
pub struct ScriptError(#[from] serde_json::Error);

impl Script {
    /// Reads a script.
    pub fn parse(json: &str) -> Result<Self, ScriptError> {
        Ok(serde_json::from_str(json)?)
    }

    /// Takes a script as a JSON value.
    pub fn from_value(value: Value) -> Result<Self, ScriptError> {
        Ok(serde_json::from_value(value)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_read_in_all_their_forms() {
        let script = Script::from_value(json!({"conversations": [{"when": "(?i)weigh", "steps": [
            {"fail": {"status": 529, "times": 2}},
            {"hang": true},
            {"cut": {"times": 1}},
            {"say": "a", "call": {"tool": "t"}},
            {"calls": [{"tool": "t", "arguments": {"n": 1}}, {"tool": "u"}], "usage": {"input_tokens": 5}}
        ]}]}))
        .unwrap();
        let steps = &script.conversations[0].steps;
        assert!(matches!(&steps[0], Step::Hurdle { kind: Hurdle::Fail(f), times: Some(2) } if f.status == 529));
        assert!(matches!(&steps[1], Step::Hurdle { kind: Hurdle::Hang, times: None }));
        assert!(matches!(&steps[2], Step::Hurdle { kind: Hurdle::Cut, times: Some(1) }));
        assert!(matches!(&steps[3], Step::Turn { say: Some(_), calls, .. } if calls.len() == 1));
        assert!(matches!(&steps[4], Step::Turn { usage: Some(u), .. } if u.input_tokens == 5 && u.output_tokens == 20));
    }

    #[test]
    fn wrong_steps_are_refused() {
        for step in [
            json!({}),
            json!({"hang": false}),
            json!({"say": "a", "hang": true}),
            json!({"fail": {"status": 500}, "cut": true}),
            json!({"tell": "a"}),
        ] {
            let script = json!({"conversations": [{"when": "x", "steps": [step]}]});
            assert!(Script::from_value(script.clone()).is_err(), "{script}");
        }
        assert!(Script::from_value(json!({"conversations": [{"when": "(", "steps": []}]})).is_err());
    }
}
