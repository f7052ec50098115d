//! Which of a butler's tools a session is shown: those that it needs for certain, then those that fit its prompt best,
//! until what their schemas cost is used up. The others are one call of `tool_find` away.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::definition::Definition;
use access::Detail;
use memory_index::embed::EmbedError;
use memory_index::rank::Texts;

/// The tool that looks for others.
pub const TOOL_FIND: &str = "tool_find";
/// The tool that calls one that is not shown.
pub const TOOL_CALL: &str = "tool_call";

/// What every session has: it answers, reads what it is pointed to, and finds the rest.
const ALWAYS: [&str; 6] = [TOOL_FIND, TOOL_CALL, "notify", "message_read", "skill_read", "memory_search"];

/// So many that fit the prompt best are told of in more than a sentence.
const WHOLE: usize = 6;
/// So many of those, and of those that fit what was said before it, come before all others that the session has no other
/// reason to be shown.
const FIRST: usize = 3;
/// This part of the budget is kept for what a conversation will speak of later: it loses none of the tools that it had.
const KEPT: u32 = 8;

/// Bytes of JSON a token, about, as vendors count schemas.
const BYTES_A_TOKEN: f64 = 3.5;
/// Bytes that runtimes add to each tool: their name of the server before the tool's, and a comma.
const PREFIX: usize = 14;

/// Why a tool is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Every session has it.
    Always,
    /// A skill that the prompt calls for names it.
    Skill,
    /// The conversation had it before.
    Conversation,
    /// It fits the prompt, or what was said before it.
    Prompt,
    /// All that the session may call are shown.
    All,
}

impl Reason {
    /// As people are told it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Skill => "by a skill",
            Self::Conversation => "had before",
            Self::Prompt => "for the prompt",
            Self::All => "all that it may call",
        }
    }
}

/// A tool that is shown, and what that costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ShownTool {
    pub name: String,
    pub reason: Reason,
    pub detail: Detail,
    /// Tokens of its name, description and schema, about.
    pub tokens: u32,
}

/// What speaks for tools in one session.
#[derive(Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// What is asked.
    pub prompt: &'a str,
    /// What was said last before it.
    pub last: Option<&'a str>,
    /// The texts of skills that the prompt calls for.
    pub skills: &'a [String],
    /// What the conversation was shown before, in that order.
    pub before: Option<&'a [(String, Detail)]>,
}

/// A butler's tools, to be looked for. What it needs for that is made once, at the first look.
pub struct Finder {
    tools: Vec<Arc<Definition>>,
    texts: OnceLock<Texts>,
    costs: OnceLock<Vec<Cost>>,
}

/// What a tool costs in tokens, by how much of it is told.
#[derive(Clone, Copy)]
struct Cost {
    whole: u32,
    terse: u32,
}

impl Cost {
    fn of(self, detail: Detail) -> u32 {
        match detail {
            Detail::Whole => self.whole,
            Detail::Terse => self.terse,
        }
    }
}

impl Finder {
    pub fn new(tools: Vec<Arc<Definition>>) -> Self {
        Self { tools, texts: OnceLock::new(), costs: OnceLock::new() }
    }

    /// The names of all, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name.as_str())
    }

    /// All of these, for a session that is shown whatever it may call.
    pub fn all(&self, names: &BTreeSet<String>) -> Vec<ShownTool> {
        let told = self.tools.iter().zip(self.costs()).filter(|(tool, _)| names.contains(&tool.name));
        let shown = |(tool, cost): (&Arc<Definition>, &Cost)| ShownTool {
            name: tool.name.clone(),
            reason: Reason::All,
            detail: Detail::Whole,
            tokens: cost.whole,
        };
        told.map(shown).collect()
    }

    /// What a session is shown of the tools that it may call: what its conversation had, in that order, then what is new in
    /// the order of the names. So vendors' caches of prompts hold whatever fits best. `None`: all of them cost no more than
    /// `budget` tokens, without those that look for others.
    ///
    /// # Errors
    /// The embedding model compiled in can't be read.
    pub fn choose(
        &self,
        may_call: &dyn Fn(&str) -> bool,
        budget: u32,
        wanted: Wanted<'_>,
    ) -> Result<Option<Vec<ShownTool>>, EmbedError> {
        let offered: Vec<usize> = (0..self.tools.len()).filter(|at| may_call(&self.tools[*at].name)).collect();
        let plain = offered.iter().filter(|at| !finds(&self.tools[**at].name));
        let costs = self.costs();
        if plain.map(|at| costs[*at].whole).sum::<u32>() <= budget {
            return Ok(None);
        }
        let best = self.best(&offered, wanted.prompt)?;
        // "And last week?" goes on with what was said before it.
        let mut said = wanted.last.map(|last| self.best(&offered, last)).transpose()?.unwrap_or_default();
        said.truncate(FIRST);
        let before = Before::new(wanted.before.unwrap_or_default());
        let reason = |at: usize| {
            let name = self.tools[at].name.as_str();
            match name {
                _ if ALWAYS.contains(&name) => Reason::Always,
                _ if before.has(name) => Reason::Conversation,
                _ if wanted.skills.iter().any(|text| speaks_of(text, name)) => Reason::Skill,
                _ => Reason::Prompt,
            }
        };
        let mut ranked: Vec<(usize, Reason, usize)> =
            best.into_iter().enumerate().map(|(rank, at)| (at, reason(at), rank)).collect();
        ranked.sort_by_key(|(at, reason, rank)| match reason {
            Reason::Always => (0, *rank),
            Reason::Conversation => (1, usize::MAX - before.place(&self.tools[*at].name)),
            Reason::Skill => (2, *rank),
            _ if *rank < FIRST => (3, *rank),
            _ if said.contains(at) => (4, *rank),
            _ => (5, *rank),
        });
        let mut left = budget;
        let mut shown = Vec::new();
        for (at, reason, rank) in ranked {
            let name = &self.tools[at].name;
            let asked = rank < FIRST || said.contains(&at);
            let free = match reason {
                // A conversation takes up nothing more that nobody asked for.
                Reason::Prompt if !asked && wanted.before.is_some() => break,
                Reason::Prompt if !asked => left.saturating_sub(budget / KEPT),
                _ => left,
            };
            let detail = if rank < WHOLE || asked { Detail::Whole } else { Detail::Terse };
            // One that is too large for what is left makes way for a smaller one.
            let cost = |detail| (detail, costs[at].of(detail));
            let mut details = before.detail(name).into_iter().chain([detail, Detail::Terse]).map(cost);
            let fits = details.find(|(_, tokens)| *tokens <= free);
            let fits = fits.or_else(|| (reason == Reason::Always).then(|| cost(Detail::Terse)));
            if let Some((detail, tokens)) = fits {
                left = left.saturating_sub(tokens);
                shown.push((at, ShownTool { name: name.clone(), reason, detail, tokens }));
            }
        }
        shown.sort_by_key(|(at, tool)| (before.place(&tool.name), *at));
        Ok(Some(shown.into_iter().map(|(_, tool)| tool).collect()))
    }

    /// The tools that `may` be found, those that fit a question best first. `may` is asked with whether the question says
    /// the tool's name.
    ///
    /// # Errors
    /// The embedding model compiled in can't be read.
    pub fn find(&self, may: &dyn Fn(&str, bool) -> bool, question: &str) -> Result<Vec<&Arc<Definition>>, EmbedError> {
        let scores = self.scores(question)?;
        let named = |at: usize| speaks_of(question, &self.tools[at].name);
        let may = |at: &usize| !finds(&self.tools[*at].name) && may(&self.tools[*at].name, named(*at));
        // A name that is said in full is meant.
        let score = |at: usize| scores[at] + if named(at) { 10.0 } else { 0.0 };
        let mut ranked: Vec<usize> = (0..self.tools.len()).filter(may).collect();
        ranked.sort_by(|a, b| score(*b).total_cmp(&score(*a)).then(a.cmp(b)));
        Ok(ranked.into_iter().map(|at| &self.tools[at]).collect())
    }

    /// Those of these places that fit a question best first.
    fn best(&self, offered: &[usize], question: &str) -> Result<Vec<usize>, EmbedError> {
        let scores = self.scores(question)?;
        let mut best = offered.to_vec();
        best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        Ok(best)
    }

    /// How well each tool fits a question.
    fn scores(&self, question: &str) -> Result<Vec<f32>, EmbedError> {
        self.texts()?.scores(question)
    }

    fn costs(&self) -> &[Cost] {
        self.costs.get_or_init(|| {
            let of = |tool: &Arc<Definition>| Cost {
                whole: tokens(tool, Detail::Whole),
                terse: tokens(tool, Detail::Terse),
            };
            self.tools.iter().map(of).collect()
        })
    }

    fn texts(&self) -> Result<&Texts, EmbedError> {
        if let Some(texts) = self.texts.get() {
            return Ok(texts);
        }
        let spoken: Vec<String> = self.tools.iter().map(|tool| spoken(tool)).collect();
        let said = self.tools.iter().map(|tool| examples(tool));
        let made = Texts::new(spoken.iter().map(String::as_str).zip(said))?;
        Ok(self.texts.get_or_init(|| made))
    }
}

/// What a conversation was shown before, by name.
struct Before<'a>(HashMap<&'a str, (usize, Detail)>);

impl<'a> Before<'a> {
    fn new(shown: &'a [(String, Detail)]) -> Self {
        Self(shown.iter().enumerate().map(|(place, (name, detail))| (name.as_str(), (place, *detail))).collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn detail(&self, name: &str) -> Option<Detail> {
        self.0.get(name).map(|(_, detail)| *detail)
    }

    /// Its place there; of one that was not there one after all others.
    fn place(&self, name: &str) -> usize {
        self.0.get(name).map_or(usize::MAX, |(place, _)| *place)
    }
}

/// Whether a tool only leads to others.
pub(super) fn finds(name: &str) -> bool {
    matches!(name, TOOL_FIND | TOOL_CALL)
}

/// A tool as a client is told of it.
pub(super) fn as_told(tool: &Definition, detail: Detail) -> Value {
    json!({"name": tool.name, "description": tool.told_description(detail), "inputSchema": tool.told_schema(detail)})
}

fn tokens(tool: &Definition, detail: Detail) -> u32 {
    ((as_told(tool, detail).to_string().len() + PREFIX) as f64 / BYTES_A_TOKEN).ceil() as u32
}

/// Whether a text has this name as a word.
fn speaks_of(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_none_or(|c| !part(c));
        before && text[at + name.len()..].chars().next().is_none_or(|c| !part(c) || c == '.')
    })
}

/// What people say when they need a tool: of a roster's tool its header tells, of the house's own a file beside this one.
fn examples(tool: &Definition) -> &[String] {
    static HOUSE: LazyLock<HashMap<&str, Vec<String>>> = LazyLock::new(|| {
        let line = |line: &'static str| {
            let (name, said) = line.split_once(": ")?;
            Some((name, said.split(" | ").map(str::to_owned).collect()))
        };
        include_str!("examples.txt").lines().filter_map(line).collect()
    });
    if tool.examples.is_empty() { HOUSE.get(tool.name.as_str()).map_or(&[], Vec::as_slice) } else { &tool.examples }
}

/// What is looked for in a tool: its name as words, twice, because it is short; what it does, and what it takes.
fn spoken(tool: &Definition) -> String {
    let name = tool.name.replace(['_', '.'], " ");
    let mut text = format!("{name}. {name}. {}", tool.description);
    for (name, about) in tool.schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        text.push('\n');
        text.push_str(&name.replace('_', " "));
        if let Some(about) = about.get("description").and_then(Value::as_str) {
            text.push_str(": ");
            text.push_str(about);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Meta;

    fn finder() -> Finder {
        let tool = |name: &str, about: &str| {
            let schema = json!({"type": "object", "additionalProperties": false,
                                "properties": {"note": {"type": "string", "description": "A word"}}});
            Arc::new(Definition::new(name, about, schema, Meta::read()).unwrap())
        };
        Finder::new(vec![
            tool("meal_log", "Log what somebody ate."),
            tool("medication_add", "Put a medicine on the list."),
            tool("notify", "Send a message to the owner."),
            tool("sleep_log", "Log how long somebody slept."),
            tool(TOOL_CALL, "Call a tool that is not shown."),
            tool(TOOL_FIND, "Find a tool."),
        ])
    }

    fn names(shown: &[ShownTool]) -> Vec<&str> {
        shown.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn what_fits_the_budget_is_shown_whole_without_the_way_to_more() {
        let all = finder();
        assert_eq!(all.choose(&|_| true, 10_000, Wanted::default()).unwrap(), None);
        assert_eq!(all.choose(&|name| name == "notify", 60, Wanted::default()).unwrap(), None);
    }

    #[test]
    fn a_small_budget_shows_what_is_always_needed_and_what_fits_best_in_one_order() {
        let all = finder();
        let few = [TOOL_FIND, TOOL_CALL, "notify", "meal_log"].map(str::to_owned);
        let budget = all.all(&few.into()).iter().map(|tool| tool.tokens).sum::<u32>() + 2;
        let of = |prompt: &str, skills: &[String]| {
            let wanted = Wanted { prompt, skills, ..Wanted::default() };
            let shown = all.choose(&|_| true, budget, wanted).unwrap().unwrap();
            assert!(shown.iter().map(|tool| tool.tokens).sum::<u32>() <= budget);
            names(&shown).join(" ")
        };
        assert_eq!(of("I had soup for lunch", &[]), "meal_log notify tool_call tool_find");
        assert_eq!(of("I slept badly", &[]), "notify sleep_log tool_call tool_find");
        let skill = ["Then call `meal_log` with it.".to_owned()];
        assert_eq!(of("I slept badly", &skill), "meal_log notify tool_call tool_find");
    }

    #[test]
    fn what_was_said_last_speaks_for_a_tool_after_the_prompt() {
        let tool = |n: usize| {
            let about = format!("Keep note {n} of the garden.");
            Arc::new(Definition::new(&format!("garden_{n}"), &about, json!({"type": "object"}), Meta::read()).unwrap())
        };
        let mut tools: Vec<_> = (0..30).map(tool).collect();
        tools.extend(finder().tools);
        let all = Finder::new(tools);
        let of = |prompt: &str, last: Option<&str>, before: Option<&[(String, Detail)]>| {
            let wanted = Wanted { prompt, last, before, ..Wanted::default() };
            all.choose(&|_| true, 600, wanted).unwrap().unwrap()
        };
        let garden = "and in the garden?";
        assert!(!names(&of(garden, None, None)).contains(&"sleep_log"), "{:?}", names(&of(garden, None, None)));
        let shown = of(garden, Some("How long did I sleep?"), None);
        assert!(names(&shown).contains(&"sleep_log"), "{:?}", names(&shown));
        let kept = |shown: &[ShownTool]| shown.iter().map(|tool| (tool.name.clone(), tool.detail)).collect::<Vec<_>>();
        let again = of(garden, None, Some(&kept(&shown)));
        assert_eq!(kept(&again), kept(&shown), "what was had before stays, and nothing else comes");
        // What is asked for later comes behind it, as far as there is room.
        let more = of("I had soup for lunch", None, Some(&kept(&shown)));
        assert_eq!(kept(&more)[..shown.len()], kept(&shown));
        assert!(names(&more[shown.len()..]).contains(&"meal_log"), "{:?}", names(&more));
        let full = of("I take a new medicine", None, Some(&kept(&more)));
        assert_eq!(kept(&full)[..more.len()], kept(&more));
        assert!(full.iter().map(|tool| tool.tokens).sum::<u32>() <= 600);
    }

    #[test]
    fn others_are_found_by_what_they_are_for_and_by_name() {
        let all = finder();
        let found = |question: &str| all.find(&|_, _| true, question).unwrap()[0].name.clone();
        assert_eq!(found("note a pill that I take"), "medication_add");
        assert_eq!(found("sleep_log"), "sleep_log");
        assert!(all.find(&|name, _| finds(name), "anything").unwrap().is_empty());
    }

    #[test]
    fn a_name_is_a_word_of_its_own() {
        assert!(speaks_of("call `meal_log`.", "meal_log") && speaks_of("meal_log", "meal_log"));
        assert!(!speaks_of("meal_log_all", "meal_log") && !speaks_of("a_meal_log", "meal_log"));
        assert!(!speaks_of("call module.status now", "status"));
    }
}
