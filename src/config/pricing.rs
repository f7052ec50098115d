//! What models cost: butlerd's own list, and the owner's `pricing.toml` beside `butlerd.toml`, whose entries win.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use base::Money;

use super::check::Checker;
use super::mistake::Mistake;
use super::node::{Node, Value};
use super::roster;
use super::schema::{MAX_TOKENS, Table, keys};

/// The list that is part of butlerd.
const OWN: &str = include_str!("../../config/pricing.toml");
/// The owner's file, beside `butlerd.toml`.
pub(super) const FILE: &str = "pricing.toml";

static PRICES: LazyLock<Table> = LazyLock::new(Table::of::<PricingFile>);

/// What models cost.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct PricingFile {
    /// US dollars for a million tokens, by the model's id.
    #[schemars(extend("propertyNames" = {"format": "model"}))]
    pub models: BTreeMap<String, ModelPrice>,
}

/// What one model costs, in US dollars for a million tokens.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct ModelPrice {
    /// Tokens that were neither read from a cache nor written to one.
    #[schemars(title = "US dollars for a million tokens,")]
    pub input: Money,
    /// Tokens that the model wrote.
    #[schemars(title = "US dollars for a million tokens,")]
    pub output: Money,
    /// Tokens that came from a cache.
    #[schemars(title = "US dollars for a million tokens,", extend("examples" = [0.30]))]
    pub cache_read: Option<Money>,
    /// Tokens that went into a cache.
    #[schemars(title = "US dollars for a million tokens,", extend("examples" = [3.75]))]
    pub cache_write: Option<Money>,
    /// How many tokens fit into one call, its answer included.
    #[schemars(title = "a number of tokens", range(min = 1, max = MAX_TOKENS), extend("examples" = [200000]))]
    pub context: Option<u64>,
    /// How many tokens one answer may have.
    #[schemars(title = "a number of tokens", range(min = 1, max = MAX_TOKENS), extend("examples" = [64000]))]
    pub max_output: Option<u64>,
    /// What a call costs whose prompt is long.
    #[schemars(extend("examples" = [{ "from": 200000, "input": 6, "output": 22.5 }]))]
    pub long: Option<LongPrice>,
}

/// What a call costs whose prompt is long: all of it, in US dollars for a million tokens.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct LongPrice {
    /// Prompts of more than so many tokens, those of caches included.
    #[schemars(title = "a number of tokens", range(min = 1, max = MAX_TOKENS))]
    pub from: u64,
    /// Tokens that were neither read from a cache nor written to one.
    #[schemars(title = "US dollars for a million tokens,")]
    pub input: Money,
    /// Tokens that the model wrote.
    #[schemars(title = "US dollars for a million tokens,")]
    pub output: Money,
    /// Tokens that came from a cache.
    #[schemars(title = "US dollars for a million tokens,", extend("examples" = [0.60]))]
    pub cache_read: Option<Money>,
    /// Tokens that went into a cache.
    #[schemars(title = "US dollars for a million tokens,", extend("examples" = [7.50]))]
    pub cache_write: Option<Money>,
}

/// The prices that hold for one call, in US dollars for a million tokens. `None` is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    pub input: Money,
    pub output: Money,
    pub cache_read: Option<Money>,
    pub cache_write: Option<Money>,
}

impl ModelPrice {
    /// The prices of a call whose prompt has so many tokens, those of caches included.
    pub fn rates(&self, prompt: u64) -> Rates {
        match &self.long {
            Some(long) if prompt > long.from => Rates {
                input: long.input,
                output: long.output,
                cache_read: long.cache_read,
                cache_write: long.cache_write,
            },
            _ => Rates {
                input: self.input,
                output: self.output,
                cache_read: self.cache_read,
                cache_write: self.cache_write,
            },
        }
    }
}

/// The price list: butlerd's own with the owner's entries in place of those of the same id.
#[derive(Debug, Clone)]
pub struct Pricing {
    models: BTreeMap<String, ModelPrice>,
    /// The ids of the models that the owner's file prices.
    own: BTreeSet<String>,
}

impl Default for Pricing {
    /// butlerd's own list.
    fn default() -> Self {
        static LIST: LazyLock<BTreeMap<String, ModelPrice>> = LazyLock::new(|| {
            let mut checker = Checker::new(Path::new(FILE), &PRICES);
            read(OWN.as_bytes(), &mut checker).expect("a test reads butlerd's own list")
        });
        Self { models: LIST.clone(), own: BTreeSet::new() }
    }
}

impl Pricing {
    /// The list with the owner's file, if there is one in `dir`; `shown` is that directory as mistakes name it.
    pub(super) fn load(dir: &Path, shown: &Path) -> (Self, Vec<Mistake>) {
        let mut list = Self::default();
        let mut checker = Checker::new(&shown.join(FILE), &PRICES);
        match std::fs::read(dir.join(FILE)) {
            Ok(bytes) => {
                let own = read(&bytes, &mut checker).unwrap_or_default();
                list.own.extend(own.keys().cloned());
                list.models.extend(own);
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => checker.note(None, "", format!("can't be read: {e}"), "a readable file of prices"),
        }
        (list, checker.mistakes)
    }

    /// The owner's entries alone. They hold for local servers, where a vendor's price for a model of the same name means
    /// nothing.
    #[must_use]
    pub fn own_entries(&self) -> Self {
        let models = self.models.iter().filter(|(id, _)| self.own.contains(*id));
        Self { models: models.map(|(id, price)| (id.clone(), price.clone())).collect(), own: self.own.clone() }
    }

    /// What the model costs; `None` is unknown. The id as it is comes first, then without what only says which edition
    /// of the model it is: a date, `-latest`, a version.
    pub fn find(&self, model: &str) -> Option<&ModelPrice> {
        // One vendor's API names its models so.
        let id = model.strip_prefix("models/").unwrap_or(model);
        self.models.get(id).or_else(|| self.models.get(without_edition(id)?))
    }
}

/// The models of a file; `None` if it has mistakes, which the checker then holds.
fn read(bytes: &[u8], checker: &mut Checker<'_>) -> Option<BTreeMap<String, ModelPrice>> {
    let node = roster::parse(bytes, checker)?;
    let map = checker.file(&node);
    long_above_context(&node, checker);
    if !checker.mistakes.is_empty() {
        return None;
    }
    match serde_json::from_value::<PricingFile>(Json::Object(map)) {
        Ok(file) => Some(file.models),
        // The walk has checked every value; this is for a table that contradicts its struct.
        Err(e) => {
            checker.note(None, "models", format!("can't be taken over: {e}"), "");
            None
        }
    }
}

/// An answer that is longer than all that fits into a call is a slip.
fn long_above_context(node: &Node, checker: &mut Checker<'_>) {
    let Some(Value::Table(models)) = node.at(&["models"]).map(|n| &n.value) else { return };
    for model in models {
        let number = |key: &str| match model.node.at(&[key]).map(|n| &n.value) {
            Some(Value::Int(n)) => Some(*n),
            _ => None,
        };
        if let (Some(context), Some(output)) = (number("context"), number("max_output"))
            && output > context
        {
            let line = model.node.line_of(&["max_output"]);
            let key = format!("models.{}.max_output", model.key);
            checker.note(line, &key, format!("found {output}, more than context ({context})"), "at most context");
        }
    }
}

/// The id without a date (`-20250929`, `-2025-08-07`, `@20250929`), `-latest` or a version of three digits at its end.
fn without_edition(id: &str) -> Option<&str> {
    let digits = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_digit());
    let dated = |s: &str| {
        let mut parts = s.split('-');
        let fits = [4, 2, 2].iter().all(|n| parts.next().is_some_and(|part| digits(part, *n)));
        fits && parts.next().is_none()
    };
    if let Some((stem, end)) = id.rsplit_once(['-', '@'])
        && (digits(end, 8) || digits(end, 3) || end == "latest")
    {
        return Some(stem);
    }
    let at = id.len().checked_sub("-2025-08-07".len())?;
    let (stem, end) = id.split_at_checked(at)?;
    end.strip_prefix('-').filter(|date| dated(date)).map(|_| stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(list: &Pricing, model: &str) -> Option<String> {
        list.find(model).map(|price| price.input.plain())
    }

    #[test]
    fn editions_are_looked_up_by_their_model() {
        let list = Pricing::default();
        for (model, price) in [
            ("claude-sonnet-4-5", Some("3")),
            ("claude-sonnet-4-5-20250929", Some("3")),
            ("claude-opus-4-20250514", Some("15")),
            ("claude-haiku-4-5@20251001", Some("1")),
            ("claude-3-7-sonnet-latest", Some("3")),
            ("gpt-5-mini-2025-08-07", Some("0.25")),
            ("models/gemini-2.5-flash", Some("0.3")),
            ("gemini-2.5-flash-001", Some("0.3")),
            // Another model, another price, or none that is known.
            ("gpt-5-pro", None),
            ("claude-sonnet-4-5-20250929[1m]", None),
            ("claude-sonnet-4-5-2025", None),
            ("scripted-1", None),
            ("", None),
        ] {
            assert_eq!(input(&list, model).as_deref(), price, "{model}");
        }
    }

    #[test]
    fn long_prompts_have_their_own_price() {
        let list = Pricing::default();
        let sonnet = list.find("claude-sonnet-4-5").unwrap();
        assert_eq!(sonnet.rates(200_000).output.plain(), "15");
        assert_eq!(sonnet.rates(200_001).output.plain(), "22.5");
        assert_eq!(list.find("gpt-5").unwrap().rates(u64::MAX).cache_write, None);
    }

    #[test]
    fn the_owners_entries_win_whole_and_mistakes_have_lines() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Pricing::load(dir.path(), Path::new("config")).1, []);
        let file = dir.path().join(FILE);
        let own = "[models]\n\"my-llama\" = { input = 0, output = 0 }\nclaude-sonnet-4-5 = { input = \"2.5\", output = 1.075 }\n";
        std::fs::write(&file, own).unwrap();
        let (list, mistakes) = Pricing::load(dir.path(), Path::new("config"));
        assert_eq!(mistakes, []);
        assert_eq!((input(&list, "my-llama"), input(&list, "gpt-5")), (Some("0".into()), Some("1.25".into())));
        let sonnet = list.find("claude-sonnet-4-5-20250929").unwrap();
        assert_eq!((sonnet.output.plain().as_str(), sonnet.cache_read), ("1.075", None));
        let wrong = "[models]\na = { input = -1, output = 1 }\nb = { input = 1, ouput = 1 }\n\n[models.c]\ninput = 1\noutput = 1\ncontext = 10\nmax_output = 11\n";
        std::fs::write(&file, wrong).unwrap();
        let told: Vec<String> =
            Pricing::load(dir.path(), Path::new("config")).1.iter().map(ToString::to_string).collect();
        let expected = [
            "config/pricing.toml:2: models.a.input: found -1, expected US dollars for a million tokens, such as 5 or \"0.50\", not negative",
            "config/pricing.toml:3: models.b.ouput: unknown key (did you mean `output`?), expected one of `input`, `output`, `cache_read`, `cache_write`, `context`, `max_output`, `long`",
            "config/pricing.toml:3: models.b.output: missing, expected US dollars for a million tokens, such as 5 or \"0.50\", not negative",
            "config/pricing.toml:9: models.c.max_output: found 11, more than context (10), expected at most context",
        ];
        assert_eq!(told, expected);
    }
}
