//! What looks like a secret, whoever gave it out: keys and tokens by the shape that their issuers gave them, passwords
//! by what is said of them. Memory keeps none, no branch of git gets one, and nothing is made of a sentence that may
//! hold one.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use uuid::Uuid;

use super::HIDDEN;

const KEY: &str = "a key or a token";
const PASSWORD: &str = "a password";

/// Keys and tokens that their issuers gave a shape, and what they are.
const SHAPES: &[(&str, &str)] = &[
    (
        "a private key",
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----(.*?-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----)?",
    ),
    (
        KEY,
        r"(?x)\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}
             |\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}
             |\bxox[abeoprs]-[A-Za-z0-9_-]{10,}|\bxapp-[0-9]-[A-Za-z0-9_-]{10,}
             |\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}|\bya29\.[A-Za-z0-9_-]{20,}|\bhf_[A-Za-z0-9]{20,}
             |\bnpm_[A-Za-z0-9]{20,}|\bpypi-[A-Za-z0-9_-]{20,}|\bdop_v1_[a-f0-9]{64}\b|\bSG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}
             |\bAGE-SECRET-KEY-1[A-Z0-9]{20,}|\b\d{8,10}:AA[A-Za-z0-9_-]{30,}
             |\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
             |(?i:\bhooks\.slack\.com/services/\S{8,}|\bdiscord(?:app)?\.com/api/webhooks/\S{8,})",
    ),
    (PASSWORD, r"\s(?:-u|--user)[ =]?[^\s:]+:[^\s:]{4,}|\bmysql\b.*\s-p[^\s-]\S{3,}"),
    ("an account with a password", r"(?i)\b(?:log ?in|credentials?)\b[^.\n]{0,30}?\b\S+\s*/\s*\S*\d\S*"),
];

/// What may be a word or a name instead: the first group is what is looked at.
const DOUBTED: &[(&str, &str, Doubt)] = &[
    (KEY, r"\b(?:sk|pk|rk)[-_]([A-Za-z0-9_-]{16,})", Doubt::Words),
    (KEY, r"(?i)\b(?:authorization\s*:\s*)?(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{16,})", Doubt::Words),
    ("a password in an address", r"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@]*:([^\s/@]+)@", Doubt::Placeholder),
    (
        PASSWORD,
        r#"(?ix)\b(?:pass(?:word|wort|phrase|code)|passwd|pwd|kennwort|
             (?:api|access|secret|private|auth|recovery|encryption|license)[\ _-]?(?:key|token|code|secret)|
             client[\ _-]?secret|token|pin(?:[\ _-]?(?:code|number))?|cvv|cvc|otp|tan|seed\ phrase|
             (?:door|alarm|safe|lock|gate|unlock|security)[\ _-]?code)\b
             [^.\n]{0,40}?(?:\bis\b|\bare\b|\bwas\b|=|:|\bto\b|\blautet\b|\bist\b)\s*["'`]?
             ([^\s"'`]*\d[^\s"'`]*|[^\s"'`]*[!@\#$%^&*+=~?][^\s"'`.,]+)"#,
        Doubt::Placeholder,
    ),
    (
        PASSWORD,
        r#"(?ix)\b[a-z0-9_-]*
             (?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|
             credentials?)["'`]?\s*(?:(?:=|:=|:\s*["'`])\s*["'`]?)([^\s"'`,;]{4,})"#,
        Doubt::Placeholder,
    ),
    // Behind a colon alone it may be prose.
    (
        PASSWORD,
        r#"(?ix)\b[a-z0-9_-]*
             (?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|
             credentials?)["'`]?\s*:\s*([^\s"'`,;=][^\s"'`,;]{3,})"#,
        Doubt::Word,
    ),
];

/// Numbers of payment cards, most of them.
const CARDS: &str = r"\b[3-6]\d{3}(?:[ -]?\d){8,15}\b";
/// What stands between white space, quotes and brackets.
const WORD: &str = r#"[^\s"'`(),;<>]+"#;
/// What a sentence says of a secret without certainly giving it away.
const SAID: &str = r"(?i)\b(password|passwd|passphrase|secret|token|api[\s_-]?key|credentials?)\s*(is|was|are|:|=)\s*\S+|\bBearer\s+\S{8,}|\b(sk|pk|ghp|gho|xox[bp]|AKIA)[-_A-Z0-9a-z]{16,}|-----BEGIN";

/// Why something that looks like a secret may be none.
#[derive(Clone, Copy)]
enum Doubt {
    /// Words with hyphens between them.
    Words,
    /// It only says where a value goes.
    Placeholder,
    /// That, or one word.
    Word,
}

impl Doubt {
    fn holds(self, value: &str) -> bool {
        match self {
            Self::Words => value.split(['-', '_']).all(is_lower_word),
            Self::Placeholder => stands_for_another(value),
            Self::Word => {
                stands_for_another(value)
                    || value.trim_end_matches(['.', '!', '?', ')']).chars().all(char::is_alphabetic)
            }
        }
    }
}

/// The longest of words that people write has fewer letters.
fn is_lower_word(part: &str) -> bool {
    part.len() < 16 && part.bytes().all(|b| b.is_ascii_lowercase())
}

/// Whether a text only says where a value goes, or from where it comes: `<token>`, `$TOKEN`, `process.env.TOKEN`, `***`.
fn stands_for_another(value: &str) -> bool {
    let lower = value.to_lowercase();
    let starts =
        ["$", "<", "{", "%", "...", "…", "env.", "env(", "env[", "os.", "process.", "std::", "settings.", "config."];
    starts.iter().any(|start| lower.starts_with(start))
        || value.contains('(')
        || value.chars().all(|c| matches!(c, '*' | 'x' | 'X' | '.' | '-' | '_' | '='))
}

struct Patterns {
    shapes: Vec<(&'static str, Regex)>,
    doubted: Vec<(&'static str, Regex, Doubt)>,
    cards: Regex,
    word: Regex,
    said: Regex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let re = |pattern: &str| Regex::new(pattern).expect("the pattern is right");
    Patterns {
        shapes: SHAPES.iter().map(|(what, pattern)| (*what, re(pattern))).collect(),
        doubted: DOUBTED.iter().map(|(what, pattern, doubt)| (*what, re(pattern), *doubt)).collect(),
        cards: re(CARDS),
        word: re(WORD),
        said: re(SAID),
    }
});

/// The kind of secret that the text seems to hold, for people: `a password`.
///
/// ```
/// assert_eq!(base::redact::secret_in("password = hunter2"), Some("a password"));
/// assert_eq!(base::redact::secret_in("password = $PASSWORD"), None);
/// ```
pub fn secret_in(text: &str) -> Option<&'static str> {
    if text.contains(HIDDEN) {
        return Some("a secret of the household's");
    }
    secrets(text).next().map(|(what, _)| what)
}

/// Whether a text holds a secret, or says something of one that may be it. For what nobody misses if it is left out.
pub fn may_hold_secret(text: &str) -> bool {
    PATTERNS.said.is_match(text) || secret_in(text).is_some()
}

/// The text with [`HIDDEN`] in the place of what looks like a secret: of what is kept for the record.
pub fn hide_secrets(text: &str) -> String {
    let mut found: Vec<Range<usize>> = secrets(text).map(|(_, range)| range).collect();
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let (mut hidden, mut done) = (String::with_capacity(text.len()), 0);
    for range in found {
        if range.start >= done {
            hidden.push_str(&text[done..range.start]);
            hidden.push_str(HIDDEN);
        }
        done = done.max(range.end);
    }
    hidden.push_str(&text[done..]);
    hidden
}

/// What looks like a secret in a text, and where; it may be found twice.
fn secrets(text: &str) -> impl Iterator<Item = (&'static str, Range<usize>)> {
    let patterns = &*PATTERNS;
    let shaped = patterns.shapes.iter().flat_map(move |(what, re)| re.find_iter(text).map(|m| (*what, m.range())));
    let doubted = patterns.doubted.iter().flat_map(move |(what, re, doubt)| {
        let certain = |found: &Captures<'_>| found.get(1).is_some_and(|value| !doubt.holds(value.as_str()));
        let all = re.captures_iter(text).filter(certain);
        all.filter_map(|found| found.get(0).map(|m| (*what, m.range())))
    });
    let cards = patterns.cards.find_iter(text).filter(|m| is_card(m.as_str()));
    let cards = cards.map(|m| ("the number of a payment card", m.range()));
    let random = patterns.word.find_iter(text).filter(|m| is_random(m.as_str())).map(|m| (KEY, m.range()));
    shaped.chain(doubted).chain(cards).chain(random)
}

/// Thirteen to nineteen digits whose check digit is right.
fn is_card(found: &str) -> bool {
    let digits: Vec<u32> = found.chars().filter_map(|c| c.to_digit(10)).collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(n, d)| match n % 2 {
            0 => *d,
            _ if *d > 4 => d * 2 - 9,
            _ => d * 2,
        })
        .sum();
    (13..=19).contains(&digits.len()) && sum.is_multiple_of(10) && digits.iter().any(|d| *d != digits[0])
}

/// A word that no person would write: long, and of all kinds of characters. Addresses of pages are none, nor are ids.
fn is_random(word: &str) -> bool {
    if word.len() < 24 || word.contains("://") || word.contains('@') || Uuid::try_parse(word).is_ok() {
        return false;
    }
    let word = word.trim_end_matches(['.', ':', '?', '!']);
    if !word.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=_-.".contains(&b)) {
        return false;
    }
    let kinds = [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit];
    let has = kinds.iter().filter(|is| word.bytes().any(|b| is(&b))).count();
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let hexadecimal = word.len() >= 32 && word.bytes().all(|b| b.is_ascii_hexdigit()) && digits >= 4;
    // Letters and digits change places often where nobody chose them.
    let class = |b: u8| (b.is_ascii_digit(), b.is_ascii_uppercase());
    let changes = word.bytes().zip(word.bytes().skip(1)).filter(|(a, b)| class(*a) != class(*b)).count();
    hexadecimal || has == 3 && digits >= 3 && changes * 4 > word.len()
}

#[cfg(test)]
#[path = "looks_tests.rs"]
mod tests;
