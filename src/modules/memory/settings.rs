//! `[modules.memory]`, checked.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::embed::LOCAL_FILES;
use base::{ByteSize, HumanDuration};
use schedule::CronTimes;
use sessions::RECALL_WITHIN;

/// `[modules.memory]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub enabled: bool,
    pub retrieval: Retrieval,
    pub episodes: Episodes,
    pub consolidation: Consolidation,
    pub decay: Sweep,
    pub cleanup: Sweep,
    pub embedding: Embedding,
    /// Most memory that the butler's indexes may take before the one used longest ago is given up.
    pub index_size: ByteSize,
}

/// `[modules.memory.retrieval]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retrieval {
    /// Of the block that a session is told, in tokens.
    pub context_token_budget: usize,
    pub default_limit: usize,
    pub default_mode: Mode,
    /// What is believed less is not recalled.
    pub min_confidence: f32,
    #[serde(alias = "score_weights")]
    pub weights: Weights,
    /// How long a session waits for its memory.
    pub deadline: HumanDuration,
    /// Whether the block also tells what happened lately.
    pub recent_episodes: bool,
    /// Whether the block also tells what other butlers have published.
    pub fleet_knowledge: bool,
}

/// How memories are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Hybrid,
    Semantic,
    Keyword,
}

/// What a memory's score is made of; they sum to 1.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    pub relevance: f32,
    pub importance: f32,
    pub recency: f32,
    pub confidence: f32,
}

/// `[modules.memory.episodes]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Episodes {
    /// How long an episode is kept, where its retention class doesn't say.
    pub retention: HumanDuration,
    /// How many are kept at most.
    pub capacity: u32,
}

/// `[modules.memory.consolidation]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Consolidation {
    pub enabled: bool,
    /// In the owner's zone.
    pub cron: Option<String>,
    /// In the place of `cron`: every so many hours, from midnight on.
    pub interval_hours: Option<u32>,
    /// So many episodes go into one run.
    pub batch: u32,
    /// So many sessions may one run start.
    pub max_sessions: u32,
    /// 1 goes before ordinary messages, 3 after them.
    pub priority: u8,
}

/// `[modules.memory.decay]`, `[modules.memory.cleanup]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sweep {
    /// In the owner's zone.
    pub cron: Option<String>,
}

/// `[modules.memory.embedding]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Embedding {
    pub provider: Provider,
    /// Of an endpoint: `https://…/v1`.
    pub url: Option<String>,
    /// Of an endpoint: the model's name.
    pub model: Option<String>,
    /// Of an endpoint: the credential with its key.
    pub key: Option<String>,
    /// Of an endpoint: how many numbers its vectors have.
    pub dimensions: Option<usize>,
    /// Of a local model: the directory of its `config.json`, `tokenizer.json` and `model.safetensors`.
    pub model_dir: Option<PathBuf>,
}

/// Where vectors come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The model in the binary.
    #[default]
    Static,
    /// An OpenAI-compatible endpoint.
    Endpoint,
    /// A model such as all-MiniLM-L6-v2, run by the daemon: about 100 MB of memory, 15 ms for a text. Only in builds with
    /// the feature `local-embedding`.
    Local,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            retrieval: Retrieval::default(),
            episodes: Episodes::default(),
            consolidation: Consolidation::default(),
            decay: Sweep::default(),
            cleanup: Sweep::default(),
            embedding: Embedding::default(),
            index_size: ByteSize(256 << 20),
        }
    }
}

impl Default for Retrieval {
    fn default() -> Self {
        Self {
            context_token_budget: 3000,
            default_limit: 20,
            default_mode: Mode::Hybrid,
            min_confidence: 0.2,
            weights: Weights::default(),
            deadline: HumanDuration(RECALL_WITHIN),
            recent_episodes: false,
            fleet_knowledge: false,
        }
    }
}

impl Default for Weights {
    fn default() -> Self {
        Self { relevance: 0.4, importance: 0.3, recency: 0.2, confidence: 0.1 }
    }
}

impl Default for Episodes {
    fn default() -> Self {
        Self { retention: HumanDuration::from_secs(7 * 86_400), capacity: 10_000 }
    }
}

impl Default for Consolidation {
    fn default() -> Self {
        Self { enabled: true, cron: None, interval_hours: None, batch: 100, max_sessions: 4, priority: 3 }
    }
}

/// The tables of the section, which are read one by one so that the mistakes of each are told.
const TABLES: &[&str] = &["retrieval", "episodes", "consolidation", "decay", "cleanup", "embedding"];

impl Settings {
    /// The settings, or all that is wrong with them, each with its key.
    pub fn read(config: &Value) -> Result<Self, Vec<String>> {
        let mut wrong = Vec::new();
        for table in TABLES {
            let Some(part) = config.get(*table) else { continue };
            let alone = serde_json::json!({ *table: part });
            if let Err(e) = serde_json::from_value::<Self>(alone) {
                wrong.push(format!("{table}: {e}"));
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let settings: Self = serde_json::from_value(config.clone()).map_err(|e| vec![e.to_string()])?;
        settings.check(&mut wrong);
        if wrong.is_empty() { Ok(settings) } else { Err(wrong) }
    }

    fn check(&self, wrong: &mut Vec<String>) {
        let mut say = |key: &str, what: &str| wrong.push(format!("{key}: {what}"));
        let (r, w, c, e) = (&self.retrieval, &self.retrieval.weights, &self.consolidation, &self.embedding);
        let all = [w.relevance, w.importance, w.recency, w.confidence];
        let sum: f32 = all.iter().sum();
        if all.iter().any(|w| !(0.0..=1.0).contains(w)) || (sum - 1.0).abs() > 1e-3 {
            say("retrieval.weights", "expected four numbers from 0 to 1 that sum to 1");
        }
        if !(0.0..=1.0).contains(&r.min_confidence) {
            say("retrieval.min_confidence", "expected a number from 0 to 1");
        }
        if !(100..=100_000).contains(&r.context_token_budget) {
            say("retrieval.context_token_budget", "expected a number of tokens from 100 to 100000");
        }
        if !(1..=100).contains(&r.default_limit) {
            say("retrieval.default_limit", "expected a number from 1 to 100");
        }
        if !(Duration::from_millis(10)..=Duration::from_secs(10)).contains(&r.deadline.0) {
            say("retrieval.deadline", "expected a duration from \"10ms\" to \"10s\"");
        }
        if self.episodes.retention.0 < Duration::from_secs(3600) {
            say("episodes.retention", "expected at least \"1h\"");
        }
        if self.episodes.capacity == 0 {
            say("episodes.capacity", "expected a number from 1 on");
        }
        if self.index_size.0 < 1 << 20 {
            say("index_size", "expected at least \"1 MiB\"");
        }
        if c.cron.is_some() && c.interval_hours.is_some() {
            say("consolidation", "expected either cron or interval_hours, not both");
        }
        if c.interval_hours.is_some_and(|h| !(1..=24).contains(&h)) {
            say("consolidation.interval_hours", "expected a number from 1 to 24");
        }
        if !(1..=1000).contains(&c.batch) {
            say("consolidation.batch", "expected a number from 1 to 1000");
        }
        if !(1..=50).contains(&c.max_sessions) {
            say("consolidation.max_sessions", "expected a number from 1 to 50");
        }
        if !(1..=3).contains(&c.priority) {
            say("consolidation.priority", "expected 1, 2 or 3");
        }
        let crons =
            [("consolidation.cron", &c.cron), ("decay.cron", &self.decay.cron), ("cleanup.cron", &self.cleanup.cron)];
        for (key, cron) in crons {
            if let Some(Err(e)) = cron.as_deref().map(|cron| CronTimes::parse(cron, "UTC")) {
                say(key, &e.to_string());
            }
        }
        match e.provider {
            Provider::Endpoint => {
                let url = e.url.as_deref().and_then(|url| reqwest::Url::parse(url).ok());
                if !url.is_some_and(|u| ["http", "https"].contains(&u.scheme()) && u.host_str().is_some()) {
                    say("embedding.url", "expected an address such as \"https://api.example.org/v1\"");
                }
                if e.model.as_deref().is_none_or(str::is_empty) {
                    say("embedding.model", "expected the name of the endpoint's model");
                }
                if !e.dimensions.is_some_and(|d| (16..=4096).contains(&d)) {
                    say("embedding.dimensions", "expected how many numbers its vectors have, from 16 to 4096");
                }
            }
            Provider::Local if !cfg!(feature = "local-embedding") => say(
                "embedding.provider",
                "found \"local\", which this build lacks; build butlerd with `--features local-embedding`, or say \
                 \"static\" or \"endpoint\"",
            ),
            Provider::Local => match &e.model_dir {
                Some(dir) if dir.is_absolute() => {
                    let missing = |file: &&&str| !dir.join(file).is_file();
                    for file in LOCAL_FILES.iter().filter(missing) {
                        let found = format!("found no {file} in {}, expected the files of a model", dir.display());
                        say("embedding.model_dir", &found);
                    }
                }
                _ => say("embedding.model_dir", "expected the directory of the model, from `/` on"),
            },
            Provider::Static => {}
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_section_has_the_documented_defaults() {
        let s = Settings::read(&json!({})).unwrap();
        assert!(s.enabled);
        assert_eq!((s.retrieval.context_token_budget, s.retrieval.default_limit), (3000, 20));
        assert_eq!(s.retrieval.weights, Weights { relevance: 0.4, importance: 0.3, recency: 0.2, confidence: 0.1 });
        assert_eq!(s.consolidation_cron(), "0 */6 * * *");
    }

    #[test]
    fn every_mistake_is_told_with_its_key() {
        let wrong = Settings::read(&json!({
            "retrieval": {"weights": {"relevance": 1.0, "importance": 0.3, "recency": 0.2, "confidence": 0.1},
                          "min_confidence": 2, "deadline": "1ms"},
            "consolidation": {"cron": "every day", "batch": 0},
            "embedding": {"provider": "endpoint"}
        }))
        .unwrap_err();
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
        let local = |given: Value| Settings::read(&json!({"embedding": given})).unwrap_err().join("\n");
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
        let wrong =
            Settings::read(&json!({"retrieval": {"wieghts": {}}, "episodes": {"capacity": "many"}})).unwrap_err();
        assert!(
            wrong.iter().any(|w| w.contains("wieghts")) && wrong.iter().any(|w| w.starts_with("episodes:")),
            "{wrong:?}"
        );
    }
}
