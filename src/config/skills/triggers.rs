//! What in a prompt calls for a skill: words, which fit as whole words, or regular expressions. Upper and lower case are
//! alike.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

/// Bytes that all expressions of a skill may take when compiled, and again while they are matched.
const MAX_COMPILED: usize = 1 << 20;

/// The trigger patterns of a skill.
#[derive(Debug, Clone, Default)]
pub(super) struct Triggers {
    /// As [`plain`] puts them: a compiled expression for each would take a hundred kilobytes.
    words: Vec<String>,
    expressions: Option<Regex>,
}

impl Triggers {
    /// None where they are too large together, or one of them is none; [`mistake`] says why.
    pub fn new(patterns: &[String]) -> Option<Self> {
        let (words, expressions): (Vec<&String>, Vec<&String>) = patterns.iter().partition(|p| is_words(p));
        let expressions: Vec<String> = expressions.into_iter().cloned().collect();
        let expressions = match expressions.is_empty() {
            true => None,
            false => Some(compile(&expressions)?),
        };
        Some(Self { words: words.into_iter().map(|words| plain(words)).collect(), expressions })
    }

    /// How many of them fit. Linear in the text.
    pub fn matches(&self, text: &str) -> usize {
        let said = plain(text);
        let words = self.words.iter().filter(|words| stands_in(words, &said)).count();
        let expressions = self.expressions.as_ref().map_or(0, |all| {
            let mut found = PatternSet::new(all.pattern_len());
            all.which_overlapping_matches(&Input::new(text), &mut found);
            found.len()
        });
        words + expressions
    }
}

/// Letters, digits, blanks, `'` and `-` alone are words.
fn is_words(pattern: &str) -> bool {
    pattern.chars().all(|c| c.is_alphanumeric() || c == ' ' || c == '\'' || c == '-')
}

/// In lower case, with single blanks between words.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_whitespace() {
            true if plain.ends_with(' ') => {}
            true => plain.push(' '),
            false => plain.extend(c.to_lowercase()),
        }
    }
    plain
}

fn stands_in(words: &str, said: &str) -> bool {
    let of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    said.match_indices(words).any(|(at, found)| {
        let (before, after) = (said[..at].chars().next_back(), said[at + found.len()..].chars().next());
        !(of_word(before) && of_word(words.chars().next()) || of_word(after) && of_word(words.chars().next_back()))
    })
}

/// Why a pattern can't be one, as people read it.
pub(super) fn mistake(pattern: &str) -> Option<String> {
    if is_words(pattern) {
        return None;
    }
    match regex::RegexBuilder::new(pattern).case_insensitive(true).size_limit(MAX_COMPILED).build() {
        Ok(one) => one.is_match("").then(|| ", which fits everything".to_owned()),
        Err(e) => {
            let reason = e.to_string();
            let reason = reason.lines().rfind(|l| !l.trim().is_empty()).unwrap_or_default().trim();
            Some(format!(" ({})", reason.trim_start_matches("error: ")))
        }
    }
}

/// What is kept, so that a skill that many butlers share is compiled once, and a reload compiles what is new.
static COMPILED: Mutex<BTreeMap<Vec<String>, Regex>> = Mutex::new(BTreeMap::new());
/// How many; a household has some dozen.
const MAX_KEPT: usize = 500;

/// The engine's time is linear in the text, and its memory is bounded here. Tables of literals would make it quicker, and
/// take some hundred kilobytes for each skill.
fn compile(sources: &[String]) -> Option<Regex> {
    let mut kept = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(sources) {
        return Some(known.clone());
    }
    let bounds = Regex::config()
        .match_kind(MatchKind::All)
        .auto_prefilter(false)
        .nfa_size_limit(Some(MAX_COMPILED))
        .hybrid_cache_capacity(MAX_COMPILED);
    let upper_as_lower = syntax::Config::new().case_insensitive(true);
    let all = Regex::builder().configure(bounds).syntax(upper_as_lower).build_many(sources).ok()?;
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(sources.to_vec(), all.clone());
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fit_as_whole_words_in_any_case_and_over_line_breaks() {
        let fits = |pattern: &str, text: &str| Triggers::new(&[pattern.to_owned()]).unwrap().matches(text) == 1;
        for (pattern, text) in [
            ("I ate", "so i  ATE\nlunch"),
            ("Müsli", "ein MÜSLI, bitte"),
            ("what's", "What's new"),
            ("log-in", "my log-in fails"),
            ("log", "my log-in fails"),
            ("tea", "steam, tea"),
        ] {
            assert!(fits(pattern, text), "{pattern} in {text}");
        }
        for (pattern, text) in [("lunch", "lunchbox"), ("weight", "overweight"), ("tea", "tea_time"), ("I ate", "iate")]
        {
            assert!(!fits(pattern, text), "{pattern} in {text}");
        }
        let both = Triggers::new(&["kg".to_owned(), r"\d+ ?kg".to_owned(), "lb".to_owned()]).unwrap();
        assert_eq!((both.matches("81 kg"), both.matches("81kg"), both.matches("")), (2, 1, 0));
    }
}
