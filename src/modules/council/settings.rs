//! `[modules.council]`

use std::collections::BTreeSet;

use base::{HumanDuration, Money, is_loopback};
use config::{KeyMistake, RuntimeKind, Section};
use council::gate::Bounds;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use sessions::ModelServer;

/// `[modules.council]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct Settings {
    /// Whether questions go to the council; otherwise the butler's own model answers them.
    #[schemars(extend("default" = true))]
    pub enabled: bool,
    /// Who answers each question, and judges the others' answers: at least two.
    #[schemars(extend("default" = []))]
    pub members: Vec<Model>,
    /// Members may all be one model.
    #[schemars(extend("default" = false))]
    pub allow_same_model: bool,
    /// Who writes the council's answer; if not set, the butler's own model.
    #[schemars(extend("default" = {}))]
    pub chairman: Model,
    /// Who decides whether a question needs the council; without a `model`, all do.
    #[schemars(extend("default" = {}))]
    pub router: Model,
    /// Who decides whether memory is enough; without a `model`, the chairman.
    #[schemars(extend("default" = {}))]
    pub confidence: Model,
    /// Who gives questions a title; without a `model`, they have none.
    #[schemars(extend("default" = {}))]
    pub title: Model,
    /// Judging goes on until the ranking is stable, at most so many rounds; with 0 nobody judges.
    #[schemars(range(min = 0, max = 5), extend("default" = 2))]
    pub rounds: u32,
    /// So many questions are worked on at once; others wait.
    #[schemars(range(min = 1, max = 32), extend("default" = 2))]
    pub at_once: u32,
    /// One model has so long, from when it has its place; then it is left out.
    #[schemars(extend("default" = "2m"))]
    pub member_timeout: HumanDuration,
    /// What all models together may cost for one question.
    pub max_usd: Option<Money>,
    /// How many tokens of all kinds, cached ones too, all models together may use for one question.
    #[schemars(range(min = 1000))]
    pub max_tokens: Option<u64>,
    #[schemars(extend("default" = {}))]
    pub memory: GateSettings,
    /// The knowledge graph that all is told to.
    #[schemars(extend("default" = {}))]
    pub graphiti: GraphitiSettings,
}

/// A model of the council.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct Model {
    /// How people read of it. Its model does not learn it.
    pub name: Option<String>,
    /// Its program: `native`, `claude-code`, `codex` or `gemini`; if not set, the butler's own.
    pub runtime: Option<RuntimeKind>,
    /// If not set, the butler's own.
    pub model: Option<String>,
    /// Its model server, which speaks the protocol of its program; if not set, the butler's own.
    #[schemars(extend("format" = "url"))]
    pub endpoint: Option<String>,
    /// The secret that is its server's key (`butlerd secret set NAME`), if that wants one. Only with an endpoint.
    pub key: Option<String>,
    /// Tools of this butler that it may call; of a member alone.
    #[schemars(extend("default" = []))]
    pub tools: BTreeSet<String>,
}

impl Model {
    /// This, if it is set.
    pub fn set(&self) -> Option<&Self> {
        self.model.is_some().then_some(self)
    }

    /// Which model it is, in one spelling: without the maker or the server that may stand in front of its name, and the tag
    /// that means the same as none.
    fn is_of(&self) -> Option<String> {
        let named = self.model.as_deref()?.trim().to_lowercase();
        let named = named.strip_suffix(":latest").unwrap_or(&named);
        let named = named.rsplit('/').next().unwrap_or_default();
        Some(named.split(['-', '_', '.', ' ']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-"))
    }

    pub fn server(&self) -> Option<ModelServer> {
        self.endpoint.as_ref().map(|url| ModelServer { url: url.clone(), key: self.key.clone() })
    }
}

/// `[modules.council.memory]`: when what is remembered is the answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct GateSettings {
    /// Whether memory may answer in the place of the council.
    #[schemars(extend("default" = true))]
    pub enabled: bool,
    /// It answers where its confidence is above this. What the house itself remembers is worth 0.8 at most.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0.6))]
    pub threshold: f64,
    /// A memory that is older says nothing any more; the weight of younger ones falls to it in a straight line.
    #[schemars(range(min = 1.0, max = 36_500.0), extend("default" = 30.0))]
    pub max_age_days: f64,
}

impl GateSettings {
    pub fn bounds(&self) -> Bounds {
        Bounds { threshold: self.threshold, max_age_days: self.max_age_days }
    }
}

/// `[modules.council.graphiti]`: a server of Graphiti's tools, by MCP over HTTP.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct GraphitiSettings {
    /// Its address, such as `http://127.0.0.1:8000/mcp`; if not set, there is none.
    #[schemars(extend("format" = "url"))]
    pub url: Option<String>,
    /// The secret that lets the household in (`butlerd secret set NAME`), if it wants one.
    pub token: Option<String>,
    /// All that is asked and answered leaves this machine; without this a server elsewhere is refused.
    #[schemars(extend("default" = false))]
    pub allow_remote: bool,
    /// Whose facts may answer. What strangers and contacts say goes into a group of its own, with `_others` behind it.
    #[schemars(extend("default" = "llm_council"))]
    pub group_id: String,
    /// What people ask is told.
    #[schemars(extend("default" = true))]
    pub record_user: bool,
    /// What members answer is told.
    #[schemars(extend("default" = true))]
    pub record_council: bool,
    /// What the chairman answers, and whoever answers alone, is told.
    #[schemars(extend("default" = true))]
    pub record_chairman: bool,
    /// A call has so long.
    #[schemars(extend("default" = "30s"))]
    pub call_timeout: HumanDuration,
    /// The memory check waits so long for it.
    #[schemars(extend("default" = "2s"))]
    pub search_within: HumanDuration,
}

/// How people read of a member without a name.
pub(super) fn default_name(at: usize) -> String {
    format!("member {}", at + 1)
}

impl Settings {
    pub fn section() -> Section {
        Section::of::<Self>()
    }

    /// Reads and checks a configuration.
    pub fn read(config: &Value) -> Result<Self, Vec<KeyMistake>> {
        let settings: Self = Self::section().read(config)?;
        let wrong = settings.mistakes();
        if wrong.is_empty() { Ok(settings) } else { Err(wrong) }
    }

    pub fn mistakes(&self) -> Vec<KeyMistake> {
        let mut wrong = Vec::new();
        let mut say = |key: &str, found: &str, expected: &str| wrong.push(KeyMistake::new(key, found, expected));
        if self.enabled {
            let models: BTreeSet<_> = self.members.iter().map(Model::is_of).collect();
            match self.members.len() {
                0 | 1 => say(
                    "members",
                    &format!("found {}", self.members.len()),
                    "at least two models, each with its `model`",
                ),
                2..=26 if models.len() == 1 && !self.allow_same_model => {
                    say("members", "they are all one model", "several models, or allow_same_model = true");
                }
                2..=26 => {}
                n => say("members", &format!("found {n}"), "at most 26"),
            }
        }
        let named = self.members.iter().enumerate();
        let named: Vec<String> =
            named.map(|(at, member)| member.name.clone().unwrap_or_else(|| default_name(at))).collect();
        if named.iter().collect::<BTreeSet<_>>().len() < named.len() {
            say("members", "two have the same name", "a name of its own for each");
        }
        for at in (0..self.members.len()).filter(|at| self.members[*at].model.is_none()) {
            say(&format!("members.{at}.model"), "not set", "the model's name");
        }
        let others = [("router", &self.router), ("confidence", &self.confidence), ("title", &self.title)];
        let others = others.into_iter().map(|(key, model)| (key.to_owned(), model));
        let seats = self.members.iter().enumerate().map(|(at, member)| (format!("members.{at}"), member));
        let all: Vec<(String, &Model)> = seats.chain([("chairman".to_owned(), &self.chairman)]).chain(others).collect();
        for (key, model) in all {
            if model.key.is_some() && model.endpoint.is_none() {
                say(&format!("{key}.key"), "found without endpoint", "an endpoint that it is the key of");
            }
            let tells = |tool: &String| tool.starts_with("council_") || tool.starts_with("sessions_");
            if !model.tools.is_empty() && !key.starts_with("members") {
                say(&format!("{key}.tools"), "found tools", "tools of members alone");
            } else if let Some(tool) = model.tools.iter().find(|tool| tells(tool)) {
                say(&format!("{key}.tools"), &format!("found {tool}"), "no tool that tells what other members say");
            }
        }
        let graphiti = &self.graphiti;
        if let Some(url) = graphiti.url.as_deref().filter(|url| !graphiti.allow_remote && !is_loopback(url)) {
            let expected = "an address on this machine, or graphiti.allow_remote = true: all that is asked and answered \
                leaves the household for it";
            say("graphiti.url", &format!("found {url}"), expected);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if graphiti.group_id.is_empty() || !graphiti.group_id.chars().all(plain) {
            say("graphiti.group_id", &format!("found {:?}", graphiti.group_id), "ASCII letters, digits, - and _");
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(models: &[&str]) -> Vec<String> {
        let members: Vec<Value> = models.iter().map(|model| json!({"model": model})).collect();
        let read = Settings::read(&json!({"members": members}));
        read.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_model_in_several_spellings_is_one() {
        for same in [
            ["gpt-5", "GPT-5"],
            ["gpt-5", "openai/gpt-5"],
            ["gpt-5", " gpt_5 "],
            ["qwen3", "qwen3:latest"],
            ["glm-4-6", "Z-AI/glm-4.6"],
        ] {
            let wrong = wrong(&same);
            assert!(wrong.iter().any(|why| why.contains("they are all one model")), "{same:?}: {wrong:?}");
        }
        for others in [["gpt-5", "gpt-5-mini"], ["qwen3:8b", "qwen3:14b"], ["gpt-5", "gpt-51"]] {
            assert_eq!(wrong(&others), [""; 0], "{others:?}");
        }
    }
}
