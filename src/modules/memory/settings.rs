//! `[modules.memory]`, checked.

use std::path::PathBuf;
use std::time::Duration;

use config::{KeyMistake, Section, keys};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use base::{ByteSize, HumanDuration};
use memory_index::embed::LOCAL_FILES;
use memory_index::rank;
use sessions::RECALL_WITHIN;

/// `[modules.memory]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct Settings {
    /// Whether the butler remembers. Without it, it is as if the section were not there.
    #[schemars(extend("default" = false))]
    pub enabled: bool,
    /// How memories are looked for, and what a session is told of them.
    pub retrieval: Retrieval,
    /// What happened, as long as it is kept.
    pub episodes: Episodes,
    /// When episodes are made into facts and rules.
    pub consolidation: Consolidation,
    /// When what nobody confirms fades.
    pub decay: Sweep,
    /// When old episodes go.
    pub cleanup: Sweep,
    /// What makes vectors of texts.
    pub embedding: Embedding,
    /// Most memory that the butler's indexes may take before the one used longest ago is given up.
    #[schemars(range(min = 1 << 20), extend("default" = "256 MiB"))]
    pub index_size: ByteSize,
}

/// `[modules.memory.retrieval]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct Retrieval {
    /// The longest block that a session is told, in tokens.
    #[schemars(title = "a number of tokens", range(min = 100, max = 100_000), extend("default" = 3000))]
    pub context_token_budget: usize,
    /// How many memories a search finds that does not say how many it wants.
    #[schemars(range(min = 1, max = 100), extend("default" = 20))]
    pub default_limit: usize,
    /// How a search looks for them that does not say how.
    #[schemars(extend("default" = "hybrid"))]
    pub default_mode: Mode,
    /// What is believed less is not recalled.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0.2))]
    pub min_confidence: f32,
    /// What a memory's score is made of; the four sum to 1.
    #[schemars(extend(
        "default" = {"relevance": 0.4, "importance": 0.3, "recency": 0.2, "confidence": 0.1},
        "x-also" = ["score_weights"],
    ))]
    pub weights: Weights,
    /// How long a session waits for its memory.
    #[schemars(range(min = 0.01, max = 10.0), extend("default" = HumanDuration(RECALL_WITHIN)))]
    pub deadline: HumanDuration,
    /// Whether the block also tells what happened lately.
    #[schemars(extend("default" = false))]
    pub recent_episodes: bool,
    /// Whether the block also tells what other butlers have published.
    #[schemars(extend("default" = false))]
    pub fleet_knowledge: bool,
}

/// How memories are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Hybrid,
    Semantic,
    Keyword,
}

/// What a memory's score is made of; they sum to 1.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct Weights {
    /// How well it fits what is asked.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub relevance: f32,
    /// How much it matters.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub importance: f32,
    /// How new it is.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub recency: f32,
    /// How far it is believed.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f32,
}

/// `[modules.memory.episodes]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct Episodes {
    /// How long an episode is kept, where its retention class doesn't say.
    #[schemars(range(min = 3600), extend("default" = "7d"))]
    pub retention: HumanDuration,
    /// How many are kept at most.
    #[schemars(range(min = 1), extend("default" = 10_000))]
    pub capacity: u32,
}

/// `[modules.memory.consolidation]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct Consolidation {
    /// `false`: episodes stay episodes.
    #[schemars(extend("default" = true))]
    pub enabled: bool,
    /// When, in the owner's zone.
    #[schemars(extend("format" = "cron"))]
    pub cron: Option<String>,
    /// In the place of `cron`: every so many hours, from midnight on.
    #[schemars(range(min = 1, max = 24))]
    pub interval_hours: Option<u32>,
    /// So many episodes go into one run.
    #[schemars(range(min = 1, max = 1000), extend("default" = 100))]
    pub batch: u32,
    /// So many sessions may one run start.
    #[schemars(range(min = 1, max = 50), extend("default" = 4))]
    pub max_sessions: u32,
    /// 1 goes before ordinary messages, 3 after them.
    #[schemars(range(min = 1, max = 3), extend("default" = 3))]
    pub priority: u8,
}

/// `[modules.memory.decay]`, `[modules.memory.cleanup]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct Sweep {
    /// When, in the owner's zone.
    #[schemars(extend("format" = "cron"))]
    pub cron: Option<String>,
}

/// `[modules.memory.embedding]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct Embedding {
    /// Where vectors come from.
    #[schemars(extend("default" = "static"))]
    pub provider: Provider,
    /// Of an endpoint: `https://…/v1`.
    #[schemars(extend("format" = "url"))]
    pub url: Option<String>,
    /// Of an endpoint: the model's name.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Of an endpoint: the credential with its key.
    pub key: Option<String>,
    /// The environment variable that is asked where no such secret is stored; if not set, the one of the same name.
    #[schemars(extend("format" = "credential"))]
    pub token_env: Option<String>,
    /// Of an endpoint: how many numbers its vectors have.
    #[schemars(range(min = 16, max = 4096))]
    pub dimensions: Option<usize>,
    /// Of a local model: the directory of its `config.json`, `tokenizer.json` and `model.safetensors`.
    #[schemars(extend("format" = "path"))]
    pub model_dir: Option<PathBuf>,
}

/// Where vectors come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The model in the binary.
    Static,
    /// An OpenAI-compatible endpoint.
    Endpoint,
    /// A model such as all-MiniLM-L6-v2, run by the daemon: about 100 MB of memory, 15 ms for a text. Only in builds
    /// with the feature `local-embedding`.
    Local,
}

impl Settings {
    /// The keys of `[modules.memory]`.
    pub fn section() -> Section {
        Section::of::<Self>()
    }

    /// The settings, or all that is wrong with them.
    pub fn read(given: &Value) -> Result<Self, Vec<KeyMistake>> {
        Self::section().read_with(given, Self::check)
    }

    /// What shows only where several keys are seen together.
    fn check(&self) -> Vec<KeyMistake> {
        let mut wrong = Vec::new();
        let mut say = |key: &str, found: &str, expected: &str| wrong.push(KeyMistake::new(key, found, expected));
        let Weights { relevance, importance, recency, confidence } = self.retrieval.weights;
        let sum = relevance + importance + recency + confidence;
        if (sum - 1.0).abs() > 1e-3 {
            say("retrieval.weights", &format!("found a sum of {sum}"), "four numbers from 0 to 1 that sum to 1");
        }
        if self.consolidation.cron.is_some() && self.consolidation.interval_hours.is_some() {
            say("consolidation.interval_hours", "found beside cron", "only one of the two");
        }
        let e = &self.embedding;
        match e.provider {
            Provider::Endpoint => {
                let needed = [
                    ("embedding.url", e.url.is_none(), "an address such as \"https://api.example.org/v1\""),
                    ("embedding.model", e.model.is_none(), "the name of the endpoint's model"),
                    ("embedding.dimensions", e.dimensions.is_none(), "how many numbers its vectors have"),
                ];
                for (key, _, expected) in needed.into_iter().filter(|(_, missing, _)| *missing) {
                    say(key, "missing", expected);
                }
            }
            Provider::Local if !cfg!(feature = "local-embedding") => say(
                "embedding.provider",
                "found \"local\", which this build lacks",
                "\"static\" or \"endpoint\", or butlerd built with `--features local-embedding`",
            ),
            Provider::Local => match &e.model_dir {
                Some(dir) if dir.is_absolute() => {
                    for file in LOCAL_FILES.iter().filter(|file| !dir.join(file).is_file()) {
                        let found = format!("found no {file} in {}", dir.display());
                        say("embedding.model_dir", &found, "the files of a model");
                    }
                }
                _ => say("embedding.model_dir", "found no whole path", "the directory of the model, from `/` on"),
            },
            Provider::Static => {}
        }
        wrong
    }

    /// How long a session waits for its memory.
    pub fn recall_within(&self) -> Duration {
        self.retrieval.deadline.0
    }

    /// When episodes are made into facts.
    pub fn consolidation_cron(&self) -> String {
        let c = &self.consolidation;
        match (&c.cron, c.interval_hours) {
            (Some(cron), _) => cron.clone(),
            (None, Some(24)) => "0 0 * * *".to_owned(),
            (None, hours) => format!("0 */{} * * *", hours.unwrap_or(6)),
        }
    }

    /// When what is not confirmed fades.
    pub fn decay_cron(&self) -> String {
        self.decay.cron.clone().unwrap_or_else(|| "30 3 * * *".to_owned())
    }

    /// When old episodes go.
    pub fn cleanup_cron(&self) -> String {
        self.cleanup.cron.clone().unwrap_or_else(|| "45 3 * * *".to_owned())
    }
}

impl From<Weights> for rank::Weights {
    fn from(given: Weights) -> Self {
        let Weights { relevance, importance, recency, confidence } = given;
        Self { relevance, importance, recency, confidence }
    }
}

impl From<Mode> for rank::Mode {
    fn from(given: Mode) -> Self {
        match given {
            Mode::Hybrid => Self::Hybrid,
            Mode::Semantic => Self::Semantic,
            Mode::Keyword => Self::Keyword,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_section_has_the_documented_defaults() {
        let s = Settings::read(&json!({})).unwrap();
        assert!(!s.enabled, "as the specification has it");
        assert_eq!((s.retrieval.context_token_budget, s.retrieval.default_limit), (3000, 20));
        assert_eq!(s.retrieval.weights, Weights { relevance: 0.4, importance: 0.3, recency: 0.2, confidence: 0.1 });
        assert_eq!(s.consolidation_cron(), "0 */6 * * *");
    }

    #[test]
    fn every_mistake_is_told_with_its_key() {
        let told = |given: Value| {
            let wrong = Settings::read(&given).unwrap_err();
            wrong.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let wrong = told(json!({
            "retrieval": {"weights": {"relevance": 1.0, "importance": 0.3, "recency": 0.2, "confidence": 0.1},
                          "min_confidence": 2, "deadline": "1ms"},
            "consolidation": {"cron": "every day", "batch": 0},
            "embedding": {"provider": "endpoint"}
        }));
        for key in [
            "retrieval.weights",
            "retrieval.min_confidence",
            "retrieval.deadline",
            "consolidation.cron",
            "consolidation.batch",
            "embedding.url",
            "embedding.model",
            "embedding.dimensions",
        ] {
            assert!(wrong.iter().any(|w| w.starts_with(&format!("{key}:"))), "{key}: {wrong:?}");
        }
        let local = |given: Value| told(json!({"embedding": given})).join("\n");
        let wrong = local(json!({"provider": "local", "model_dir": "/nowhere"}));
        if cfg!(feature = "local-embedding") {
            assert!(wrong.contains("embedding.model_dir: found no tokenizer.json in /nowhere"), "{wrong}");
            assert!(local(json!({"provider": "local", "model_dir": "here"})).contains("from `/` on"));
        } else {
            assert!(
                wrong.contains("embedding.provider: found \"local\"") && wrong.contains("--features local-"),
                "{wrong}"
            );
        }
        let wrong = told(json!({"retrieval": {"wieghts": {}}, "episodes": {"capacity": "many"}}));
        let wanted = [
            "retrieval.wieghts: unknown key (did you mean `weights`?), expected one of `context_token_budget`,",
            "episodes.capacity: found \"many\", expected a whole number from 1 on",
        ];
        for begin in wanted {
            assert!(wrong.iter().any(|w| w.starts_with(begin)), "{begin}: {wrong:?}");
        }
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }
}
