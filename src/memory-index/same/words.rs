//! What is known of words. All of it is data: `words.txt`, written by hand, and `synonyms.txt`, out of WordNet
//! (`NOTICE`).

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

use crate::predicates::aliases;

const WORDS: &str = include_str!("words.txt");
/// Stems that stand for one another in one of their usual senses, a line for each sense.
const SYNONYMS: &str = include_str!("synonyms.txt");

/// The lines of a section of `words.txt`.
fn section(name: &str) -> impl Iterator<Item = &'static str> {
    let head = format!("[{name}]");
    let lines = WORDS.lines().skip_while(move |line| *line != head).skip(1).take_while(|line| !line.starts_with('['));
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn set(name: &str) -> HashSet<&'static str> {
    section(name).flat_map(str::split_whitespace).collect()
}

pub(super) fn stem(word: &str) -> String {
    Stemmer::create(Algorithm::English).stem(word).into_owned()
}

/// The first word of the group to which this one or its stem belongs.
pub(super) fn group(word: &str, stem_of: &str) -> Option<&'static str> {
    static GROUPS: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
        let mut groups = HashMap::new();
        for line in section("alike") {
            let name = line.split(' ').next().unwrap_or_default();
            for word in line.split(' ') {
                groups.entry(stem(word)).or_insert(name);
                groups.entry(word.to_owned()).or_insert(name);
            }
        }
        groups
    });
    GROUPS.get(word).or_else(|| GROUPS.get(stem_of)).copied()
}

/// All words that stand in groups, for the test that none stands in two.
#[cfg(test)]
pub(super) fn grouped() -> impl Iterator<Item = &'static str> {
    section("alike").flat_map(str::split_whitespace)
}

/// Whether it carries nothing.
pub(super) fn is_light(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| set("light"));
    WORDS.contains(word)
}

/// Whether it may stand on one side alone, though it says a little.
pub(super) fn is_soft(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| set("soft"));
    WORDS.contains(word)
}

/// Whether it says that something is not so, or no more.
pub fn negates(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| set("not"));
    WORDS.contains(word) || word.ends_with("n't")
}

/// Whether it tells how what is before stands to what follows.
pub(super) fn relates(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| set("relating"));
    WORDS.contains(word)
}

/// Words that belong together, and what they are read as.
pub(super) fn phrases() -> &'static [(Vec<&'static str>, Vec<&'static str>)] {
    static PHRASES: LazyLock<Vec<(Vec<&str>, Vec<&str>)>> = LazyLock::new(|| {
        let words = |part: &'static str| part.split_whitespace().collect();
        section("phrases").filter_map(|line| line.split_once('>')).map(|(from, to)| (words(from), words(to))).collect()
    });
    &PHRASES
}

pub(super) fn are_synonyms(a: &str, b: &str) -> bool {
    static LINES: LazyLock<HashMap<&str, Vec<usize>>> = LazyLock::new(|| {
        let mut lines: HashMap<&str, Vec<usize>> = HashMap::new();
        for (n, line) in SYNONYMS.lines().enumerate() {
            for word in line.split(' ') {
                lines.entry(word).or_default().push(n);
            }
        }
        lines
    });
    match (LINES.get(a), LINES.get(b)) {
        (Some(a), Some(b)) => a.iter().any(|n| b.contains(n)),
        _ => false,
    }
}

/// The words that a predicate says by itself: its own, its other names, and what is usually said along with it.
pub(super) fn implied_by(predicate: &str) -> String {
    let mut text = predicate.replace('_', " ");
    for alias in aliases(predicate) {
        text.push(' ');
        text.push_str(&alias.replace('_', " "));
    }
    for line in section("implied") {
        // Each word of `favourite_drink` or `phone_number` says what kind of thing it is.
        if let Some((names, words)) = line.split_once(':')
            && names.split_whitespace().any(|n| n == predicate || predicate.split('_').any(|part| part == n))
        {
            text.push_str(words);
        }
    }
    text
}
