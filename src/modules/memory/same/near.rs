//! Which words stand for one another.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

use super::super::predicates::aliases;
use super::groups::{FORMS, GROUPS, IMPLIED, LIGHT, SOFT, UNDOING};
use super::read::Token;

/// Stems that are synonyms or derived from one another in one of their usual senses, a line for each sense: out of WordNet,
/// see `NOTICE` beside it.
const SYNONYMS: &str = include_str!("synonyms.txt");

/// Stems that are verbs before they are anything else, from the same source.
const VERBS: &str = include_str!("verbs.txt");

/// Whether it says what somebody does.
pub(super) fn verb(stem: &str) -> bool {
    static STEMS: LazyLock<HashSet<&str>> = LazyLock::new(|| VERBS.split_whitespace().collect());
    STEMS.contains(stem)
}

/// Who collects is a collector, and who plays the violin a violinist.
fn doer(who: &str, what: &str) -> bool {
    what.len() >= 5 && who.strip_prefix(what).is_some_and(|end| ["er", "or", "ist"].contains(&end))
}

pub(super) fn stem(word: &str) -> String {
    Stemmer::create(Algorithm::English).stem(word).into_owned()
}

/// Whether one may stand for the other.
pub(super) fn alike(a: &Token, b: &Token) -> bool {
    a.key == b.key
        || !a.is_firm()
            && !b.is_firm()
            && (synonyms(&a.stem, &b.stem) || doer(&a.stem, &b.stem) || doer(&b.stem, &a.stem))
}

/// The form in which an irregular one stands in a dictionary.
pub(super) fn dictionary(word: &str) -> &str {
    static OF: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let mut of = HashMap::new();
        for line in FORMS.lines() {
            let mut words = line.split_whitespace();
            if let Some(base) = words.next() {
                of.extend(words.map(|form| (form, base)));
            }
        }
        of
    });
    OF.get(word).copied().unwrap_or(word)
}

pub(super) fn light(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| LIGHT.split_whitespace().collect());
    WORDS.contains(word)
}

/// Whether it may be said or left out, though it is no mere particle.
pub(super) fn soft(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| SOFT.split_whitespace().collect());
    WORDS.contains(word)
}

/// Whether it says of a value that it is none, not yet or no more.
pub(super) fn undoes(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| UNDOING.split_whitespace().collect());
    WORDS.contains(word)
}

/// The group of words that stand for one another to which this one belongs.
pub(super) fn group(word: &str) -> Option<String> {
    static OF: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
        let mut of = HashMap::new();
        for line in GROUPS.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let name = line.split_whitespace().next().unwrap_or_default();
            for word in line.split_whitespace() {
                of.entry(stem(word)).or_insert(name);
                of.entry(word.to_owned()).or_insert(name);
            }
        }
        of
    });
    OF.get(word).map(|name| format!("~{name}"))
}

/// The words that a predicate says by itself: its own, its other names, and what is usually said along with it.
pub(super) fn taken_for_granted(predicate: &str) -> String {
    let mut text = predicate.replace('_', " ");
    for alias in aliases(predicate) {
        text.push(' ');
        text.push_str(&alias.replace('_', " "));
    }
    // Each word of `favourite_drink` or `phone_number` says what kind of thing it is.
    let parts = predicate.split('_');
    for line in IMPLIED.lines() {
        if let Some((names, words)) = line.split_once(':')
            && names.split_whitespace().any(|n| n == predicate || parts.clone().any(|part| part == n))
        {
            text.push_str(words);
        }
    }
    text
}

fn synonyms(a: &str, b: &str) -> bool {
    static LINES: LazyLock<HashMap<&str, Vec<u16>>> = LazyLock::new(|| {
        let mut of: HashMap<&str, Vec<u16>> = HashMap::new();
        for (line, n) in SYNONYMS.lines().zip(0u16..) {
            for word in line.split(' ') {
                of.entry(word).or_default().push(n);
            }
        }
        of
    });
    match (LINES.get(a), LINES.get(b)) {
        (Some(a), Some(b)) => a.iter().any(|n| b.contains(n)),
        _ => false,
    }
}
