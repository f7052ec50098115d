//! Answers without names: who wrote one can be seen neither by its letter nor in its words.
//!
//! The rule: a judge is shown nothing that depends on who wrote an answer, but the answer's own thoughts. So letters are
//! given anew for each judge, in an order drawn from the question's seed, and each answer loses every word by which its
//! author could be known: all names that this council's members have, in whatever spelling, and every sentence part in
//! which somebody says which model he is.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};
use sha2::{Digest, Sha256};

/// What stands in the place of a name.
pub const NOBODY: &str = "[a model]";

/// The letters of answers: at most so many members are ranked.
pub const MOST: usize = 26;

/// Names that models, their programs and their makers go by, and that mean nothing else. Each line is one house: whose
/// model or program has a word of it in its name may be known by all of them.
const HOUSES: [&[&str]; 12] = [
    &["claude", "anthropic"],
    &["gpt", "chatgpt", "openai", "codex"],
    &["gemini", "deepmind"],
    &["llama"],
    &["mistral", "mixtral", "magistral", "ministral", "devstral"],
    &["qwen", "qwq", "tongyi"],
    &["deepseek"],
    &["grok", "xai"],
    &["kimi", "moonshot"],
    &["command-r", "cohere"],
    &["copilot"],
    &["glm", "chatglm", "zhipu"],
];

/// Words that name a maker or a model only where somebody says who he is, or with a version behind them.
const ONLY_OF_ONESELF: [&str; 17] = [
    "google",
    "meta",
    "microsoft",
    "amazon",
    "ibm",
    "alibaba",
    "apple",
    "nvidia",
    "bard",
    "gemma",
    "palm",
    "opus",
    "sonnet",
    "haiku",
    "o1",
    "o3",
    "o4",
];

/// A model with its version, which needs no house in front of it.
const VERSIONED: &str = r"(?:opus|sonnet|haiku|gemma|palm)[-_. ]?[0-9]+(?:[.-][0-9]+)*";

/// A letter and the index of the member whose answer it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Labelled {
    pub label: char,
    pub member: usize,
}

/// The letters for one judge: all of `members` but the judge itself, in an order that depends on the seed and the judge
/// alone.
pub fn labels_for(seed: u64, judge: usize, members: &[usize]) -> Vec<Labelled> {
    let mut others: Vec<usize> = members.iter().copied().filter(|member| *member != judge).collect();
    others.truncate(MOST);
    // Each member's draw is a hash, so that an order can be made again from what is recorded, by any version.
    others.sort_by_cached_key(|member| draw(seed, judge, *member));
    ('A'..='Z').zip(others).map(|(label, member)| Labelled { label, member }).collect()
}

fn draw(seed: u64, judge: usize, member: usize) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(seed.to_be_bytes());
    hash.update((judge as u64).to_be_bytes());
    hash.update((member as u64).to_be_bytes());
    hash.finalize().into()
}

/// All words by which the members of a council could be known.
#[derive(Clone, Debug)]
pub struct Names {
    named: Regex,
}

/// The members' names are more than a pattern can hold, so nothing could be told without them.
#[derive(Debug, thiserror::Error)]
#[error("the names of the council's models are too long to be taken out of answers: {0}")]
pub struct NamesError(#[from] regex::Error);

impl Names {
    /// `known_as`: of each member its model and its program. Its name in the settings it does not know. What the question
    /// itself speaks of stays, or nobody could judge what is said of it.
    pub fn of<'a>(known_as: impl IntoIterator<Item = &'a str>, question: &str) -> Result<Self, NamesError> {
        let mut words = BTreeSet::new();
        for name in known_as {
            let name = name.trim().to_lowercase();
            // A server's model may be named with its maker, its tag or its path.
            for part in name.split(['/', ':', '@']).filter(|part| telling(part)) {
                words.insert(part.to_owned());
                let family = letters(part.split(['-', '_', ' ', '.']).next().unwrap_or_default());
                words.extend(Some(family).filter(|family| telling(family)).map(str::to_owned));
            }
            words.extend(telling(&name).then_some(name));
        }
        let known: Vec<&str> = HOUSES.iter().flat_map(|house| house.iter().copied()).collect();
        words.extend(known.into_iter().map(str::to_owned));
        let question = plain(question).to_lowercase();
        words.retain(|word| !question.contains(word.as_str()));
        let mut longest_first: Vec<String> = words.iter().map(|word| spelled(word)).collect();
        longest_first.sort_by_key(|word| std::cmp::Reverse(word.len()));
        let houses = longest_first.join("|");
        let version = r"(?:[-_. ]?(?:opus|sonnet|haiku|instant|code|pro|flash|ultra|nano|mini|max|coder))*(?:[-_. ]?v?[0-9]+(?:[.-][0-9]+)*[a-z]*)?(?:[-_. ]?(?:opus|sonnet|haiku|pro|flash|mini|nano|turbo))?";
        let pattern = format!(r"(?:(?:{houses}){version}|{VERSIONED})");
        Ok(Self { named: RegexBuilder::new(&pattern).case_insensitive(true).build()? })
    }

    /// The text without them. What a person may be called, as in "Claude Monet", stays.
    pub fn without(&self, text: &str) -> String {
        let unsigned = unsigned(text);
        let mut clean = String::with_capacity(unsigned.len());
        let mut at = 0;
        for found in self.named.find_iter(&unsigned) {
            let (before, after) = (&unsigned[..found.start()], &unsigned[found.end()..]);
            let mut next = after.chars();
            // One of several may have an s.
            let plural = after.starts_with('s') && !after[1..].starts_with(char::is_alphanumeric);
            let inside = before.chars().next_back().is_some_and(char::is_alphanumeric)
                || next.next().is_some_and(char::is_alphanumeric) && !plural;
            if inside || is_person(found.as_str(), after) {
                continue;
            }
            clean.push_str(&unsigned[at..found.start()]);
            clean.push_str(NOBODY);
            at = found.end() + usize::from(plural);
        }
        clean.push_str(&unsigned[at..]);
        clean
    }
}

/// The text in which nobody says which model he is.
pub fn unsigned(text: &str) -> String {
    SELF.replace_all(&plain(text), |found: &regex::Captures<'_>| format!("{}{NOBODY}", &found["as"])).into_owned()
}

/// Whether nobody would see anything of it.
pub fn says_nothing(text: &str) -> bool {
    plain(text).trim().is_empty()
}

/// The text without characters that nobody sees, and with wide letters as plain ones.
fn plain(text: &str) -> String {
    let one = |c: char| match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => None,
        c => Some(c),
    };
    text.chars().filter_map(one).collect()
}

/// Parts of models' names that say nothing of whose they are, and would be missed in an answer.
const COMMON: [&str; 22] = [
    "pro",
    "mini",
    "max",
    "nano",
    "flash",
    "lite",
    "large",
    "small",
    "medium",
    "latest",
    "preview",
    "instruct",
    "chat",
    "code",
    "native",
    "model",
    "turbo",
    "base",
    "cli",
    "fast",
    "thinking",
    "experimental",
];

/// Where somebody says which model he is: `As Claude, I`, `I am GPT-5`, `— Gemini`, `I'm an AI made by OpenAI`.
static SELF: LazyLock<Regex> = LazyLock::new(|| {
    let houses = HOUSES.iter().flat_map(|house| house.iter()).chain(&ONLY_OF_ONESELF);
    let mut all: Vec<String> = houses.map(|word| spelled(word)).collect();
    all.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let pattern = format!(
        r"(?m)(?P<as>\b(?:as|i am|i'm|i’m|this is|my name is|called|made by|built by|trained by|created by|developed by|signed|yours,?)\s+(?:an?\s+|the\s+)?(?:ai\s+|language\s+|large\s+)*(?:model\s+|assistant\s+)?[*_`]*|^\s*(?:—|–|--?|~)\s*[*_`]*)(?:{})(?:[-_. ]?[0-9a-z]+(?:[-.][0-9a-z]+)*)?\b",
        all.join("|")
    );
    RegexBuilder::new(&pattern).case_insensitive(true).build().expect("a pattern in the source is right")
});

/// A word with whatever people put between its parts.
fn spelled(word: &str) -> String {
    let parts: Vec<String> = word.split(['-', '_', ' ', '.']).filter(|p| !p.is_empty()).map(regex::escape).collect();
    parts.join(r"[-_. ]?")
}

/// The letters that a part of a model's name begins with.
fn letters(part: &str) -> &str {
    let end = part.find(|c: char| !c.is_alphabetic()).unwrap_or(part.len());
    &part[..end]
}

fn telling(part: &str) -> bool {
    part.len() > 2 && !COMMON.contains(&part) && part.chars().any(char::is_alphabetic)
}

/// Whether a first name is followed by a family name, and by none of the words that models have there.
fn is_person(name: &str, after: &str) -> bool {
    const PRODUCTS: [&str; 10] =
        ["Opus", "Sonnet", "Haiku", "Instant", "Code", "Pro", "Flash", "Ultra", "Nano", "Desktop"];
    if !name.eq_ignore_ascii_case("claude") || !name.starts_with('C') {
        return false;
    }
    let Some(after) = after.strip_prefix(' ') else { return false };
    let next: String = after.chars().take_while(|c| c.is_alphabetic()).collect();
    let mut letters = next.chars();
    letters.next().is_some_and(char::is_uppercase)
        && letters.clone().count() > 1
        && letters.all(char::is_lowercase)
        && !PRODUCTS.contains(&next.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::of(
            ["claude-opus-4-1", "claude-code", "openai/gpt-5-mini", "codex", "qwen3:8b", "native", "fast-1"],
            "Rent or buy?",
        )
        .unwrap()
    }

    #[test]
    fn nobody_signs() {
        for signed in [
            "As Claude, I would wait.",
            "I'm GPT-5 and I would wait.",
            "Wait.\n— Gemini 2.5 Pro",
            "I am an AI assistant made by Anthropic. Wait.",
            "Cl\u{200b}aude says: wait.",
            "claude_opus_4.1 says wait",
            "**Claude Opus**: wait",
            "(gpt-5-mini) wait",
            "QWEN3 says: wait",
            "Yours, ChatGPT",
            "Claude's view: wait.",
            "openai/gpt-5-mini: wait",
            "I am a large language model, trained by Google.",
            "Claude3Opus and Qwen2.5VL agree",
            "We Claudes wait",
            "\u{ff23}\u{ff4c}\u{ff41}\u{ff55}\u{ff44}\u{ff45} waits",
            "Sonnet 4.5 waits",
        ] {
            let clean = names().without(signed).to_lowercase();
            let left = ["claude", "gpt", "gemini", "anthropic", "opus", "qwen", "openai", "google", "sonnet"]
                .iter()
                .find(|word| clean.contains(**word));
            assert_eq!(left, None, "{signed:?} became {clean:?}");
            assert!(clean.contains(NOBODY), "{clean}");
        }
    }

    #[test]
    fn what_nobody_sees_says_nothing() {
        for nothing in ["", " \n\t", "\u{200b}", " \u{feff}\n\u{2060} "] {
            assert!(says_nothing(nothing), "{nothing:?}");
        }
        assert!(!says_nothing("\u{200b}\u{1f44d}") && !says_nothing("0"));
    }

    #[test]
    fn what_is_said_stays() {
        for said in [
            "Claude Monet painted water lilies, and Claude Debussy heard them.",
            "The Pro plan is native and fast; chat with the base team about the code.",
            "Use a model of the problem.",
            "Opuscule, haikus, a sonnet and exclaude are words; Google it, or ask a palm.",
            "Deep research is fast and reasoning is slow.",
        ] {
            assert_eq!(names().without(said), said);
        }
    }

    #[test]
    fn names_that_can_not_be_taken_out_are_an_error() {
        let long: Vec<String> = (0..26).map(|n| format!("m{n}-{}", "ä".repeat(1 << 16))).collect();
        assert!(Names::of(long.iter().map(String::as_str), "").is_err());
    }

    #[test]
    fn what_is_asked_about_stays() {
        let names = Names::of(["gpt-5"], "Is OpenAI dearer than a llama?").unwrap();
        assert_eq!(names.without("OpenAI is; I am GPT-5."), format!("OpenAI is; I am {NOBODY}."));
        assert_eq!(names.without("Llamas live in the Andes."), "Llamas live in the Andes.");
    }

    #[test]
    fn each_judge_has_letters_of_its_own_and_never_its_own_answer() {
        let answered = [0, 2, 3, 5, 6];
        let mut orders = BTreeSet::new();
        for judge in answered {
            let labels = labels_for(7, judge, &answered);
            assert_eq!(labels.len(), 4);
            assert!(labels.iter().all(|labelled| labelled.member != judge));
            assert_eq!(labels.iter().map(|l| l.label).collect::<String>(), "ABCD");
            assert_eq!(labels, labels_for(7, judge, &answered), "it can be made again");
            orders.insert(labels.iter().map(|l| l.member).filter(|m| ![0, judge].contains(m)).collect::<Vec<_>>());
        }
        assert!(orders.len() > 3, "{orders:?}");
        // No place tells anything: over many seeds each member is first as often as any other.
        let first = |seed| labels_for(seed, 0, &[0, 1, 2, 3])[0].member;
        let firsts: Vec<usize> = (0..3000).map(first).collect();
        for member in 1..4 {
            let times = firsts.iter().filter(|first| **first == member).count();
            assert!((850..1150).contains(&times), "{member} was first {times} times of 3000");
        }
    }
}
