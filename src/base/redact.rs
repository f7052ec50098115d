//! Secrets that butlerd handed out, hidden wherever text is stored, logged or shown: as they are, and in base64,
//! hexadecimal, and as JSON and URLs write them.
//!
//! There is one [`household`] redactor in a process, as there is one log. Whoever hands a secret out tells it so; what
//! passes text on to a place where it stays asks it to clean the text first, before it is cut, because half a secret is
//! not found.

mod forms;
mod looks;
mod sieve;

use std::sync::{Arc, LazyLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::Value;
use zeroize::Zeroizing;

use self::forms::{Form, forms};
use self::sieve::Sieve;
use super::Secret;

pub use self::looks::{hide_secrets, may_hold_secret, secret_in};

/// What stands in a secret's place.
pub const HIDDEN: &str = "[hidden]";

/// So many characters behind a pattern may belong to it.
const EDGE: usize = 3;

/// Shorter texts are no secrets; replacing them everywhere would only spoil what is read.
const SHORTEST: usize = 8;

/// Knows secrets, and takes them out of texts. Cheap to clone; all clones know the same.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<KnownSecrets>>,
}

#[derive(Default)]
struct KnownSecrets {
    lasting: Vec<Zeroizing<Vec<u8>>>,
    lasting_net: Option<Net>,
    /// Each with the number of its guard.
    passing: Vec<(u64, Net)>,
    next: u64,
}

/// Keeps a secret hidden while it lives.
pub struct Passing {
    known: Arc<RwLock<KnownSecrets>>,
    number: u64,
}

/// The redactor of this process.
pub fn household() -> &'static Redactor {
    static HOUSEHOLD: LazyLock<Redactor> = LazyLock::new(Redactor::default);
    &HOUSEHOLD
}

/// Whether a variable of this name holds a secret: a key does, a time zone doesn't.
fn names_a_secret(name: &str) -> bool {
    const WORDS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "COOKIE"];
    let name = name.to_ascii_uppercase();
    WORDS.iter().any(|word| name.contains(word))
}

impl Redactor {
    /// From now on hides this secret, as long as the process lives.
    pub fn hide(&self, secret: &Secret<String>) {
        self.hide_bytes(secret.expose().trim().as_bytes());
    }

    /// Hides the value of a variable: all of it where the name says that it is a secret, of others the password in a
    /// URL.
    pub fn hide_variable(&self, name: &str, value: &str) {
        if names_a_secret(name) {
            self.hide_bytes(value.trim().as_bytes());
        } else if let Some((_, rest)) = value.split_once("://")
            && let Some((login, _)) = rest.split('/').next().unwrap_or_default().rsplit_once('@')
            && let Some((_, password)) = login.split_once(':')
        {
            self.hide_bytes(password.as_bytes());
        }
    }

    /// As [`Redactor::hide`], for a secret that is no text.
    pub fn hide_bytes(&self, secret: &[u8]) {
        let has = |known: &KnownSecrets| known.lasting.iter().any(|own| own.as_slice() == secret);
        if secret.len() < SHORTEST || has(&self.read()) {
            return;
        }
        let mut known = self.write();
        if has(&known) {
            return;
        }
        known.lasting.push(Zeroizing::new(secret.to_vec()));
        let all = known.lasting.iter().flat_map(|secret| forms(secret)).collect();
        known.lasting_net = Some(Net::new(all));
    }

    /// Hides this secret until the guard is dropped.
    pub fn hide_while(&self, secret: &Secret<String>) -> Passing {
        let bytes = secret.expose().trim().as_bytes();
        let mut known = self.write();
        known.next += 1;
        let number = known.next;
        if bytes.len() >= SHORTEST {
            let net = Net::new(forms(bytes));
            known.passing.push((number, net));
        }
        Passing { known: self.known.clone(), number }
    }

    /// The text without any of the secrets.
    pub fn clean(&self, text: String) -> String {
        match self.cleaned(text.as_bytes()) {
            None => text,
            Some(clean) => into_text(clean),
        }
    }

    /// Cleans every text in the value, names of members too.
    pub fn clean_json(&self, value: &mut Value) {
        self.read().clean_json(value);
    }

    /// As [`Redactor::clean_json`], and the value as JSON.
    ///
    /// A long answer is looked through as it is written, once: text by text, finding nothing in thousands of names and times
    /// takes longer than all else of it. What is written has each secret in a form that is looked for, unless the value has
    /// backslashes itself, which are two then.
    pub fn clean_and_write(&self, value: &mut Value) -> String {
        let known = self.read();
        let text = serde_json::to_string(value).unwrap_or_default();
        if known.nets().next().is_none() || !text.contains(r"\\") && known.cleaned(text.as_bytes()).is_none() {
            return text;
        }
        known.clean_json(value);
        serde_json::to_string(value).unwrap_or_default()
    }

    /// As [`Redactor::clean_json`], for the members of an object.
    pub fn clean_members(&self, members: &mut serde_json::Map<String, Value>) {
        self.read().clean_members(members);
    }

    /// The bytes without any of the secrets; `None` when none is in there.
    pub fn cleaned(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.read().cleaned(bytes)
    }

    /// How much of a text that goes on is settled: whatever follows, no secret begins before there and ends behind it.
    pub fn settled(&self, text: &str) -> usize {
        let known = self.read();
        let nets = || known.nets();
        let mut settled = nets().map(|net| net.settled(text.as_bytes())).min().unwrap_or(text.len());
        // Nor is one cut that is whole.
        while let Some(start) = nets().filter_map(|net| net.begin_of_one_around(text.as_bytes(), settled)).min() {
            settled = start;
        }
        (0..=settled).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
    }

    fn read(&self) -> RwLockReadGuard<'_, KnownSecrets> {
        self.known.read().unwrap_or_else(|e| e.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownSecrets> {
        self.known.write().unwrap_or_else(|e| e.into_inner())
    }
}

impl KnownSecrets {
    fn nets(&self) -> impl Iterator<Item = &Net> {
        self.lasting_net.iter().chain(self.passing.iter().map(|(_, net)| net))
    }

    fn cleaned(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.nets().fold(None, |clean, net| net.replace(clean.as_deref().unwrap_or(bytes)).or(clean))
    }

    fn clean_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(clean) = self.cleaned(text.as_bytes()) {
                    *text = into_text(clean);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_json(item)),
            Value::Object(members) => self.clean_members(members),
            Value::Number(number) if self.cleaned(number.to_string().as_bytes()).is_none() => {}
            Value::Number(_) => *value = HIDDEN.into(),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn clean_members(&self, members: &mut serde_json::Map<String, Value>) {
        members.values_mut().for_each(|value| self.clean_json(value));
        if members.keys().any(|name| self.cleaned(name.as_bytes()).is_some()) {
            let clean = |name: String| self.cleaned(name.as_bytes()).map_or(name, into_text);
            *members = std::mem::take(members).into_iter().map(|(name, value)| (clean(name), value)).collect();
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let mut known = self.known.write().unwrap_or_else(|e| e.into_inner());
        known.passing.retain(|(number, _)| *number != self.number);
    }
}

/// Matches begin and end at whole characters, so this replaces nothing but what was no text before.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Finds all forms of some secrets in one pass.
struct Net {
    sieve: Sieve,
    find: AhoCorasick,
    /// The patterns, sorted.
    patterns: Vec<Zeroizing<Vec<u8>>>,
    longest: usize,
    /// By the number of the pattern: whether the characters around it belong to it.
    edges: Vec<(bool, bool)>,
}

impl Net {
    fn new(mut all: Vec<Form>) -> Self {
        // Two secrets may share a form.
        all.sort_by(|a, b| a.text.cmp(&b.text));
        all.dedup_by(|a, b| {
            let same = a.text == b.text;
            if same {
                (b.before, b.after) = (a.before || b.before, a.after || b.after);
            }
            same
        });
        let find = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .match_kind(MatchKind::LeftmostLongest)
            .build(all.iter().map(|form| form.text.as_slice()))
            .expect("some hundred short patterns are far below the limits of the search");
        let sieve = Sieve::new(&all.iter().map(|form| form.text.as_slice()).collect::<Vec<_>>());
        let edges = all.iter().map(|form| (form.before, form.after)).collect();
        let longest = all.iter().map(|form| form.text.len()).max().unwrap_or_default();
        Self { sieve, find, edges, patterns: all.into_iter().map(|form| Zeroizing::new(form.text)).collect(), longest }
    }

    /// Where the first pattern may begin that the end of `text` begins or ends with, with the characters around it.
    fn settled(&self, text: &[u8]) -> usize {
        let may_begin = |at: &usize| {
            let tail = &text[*at..];
            let next = self.patterns.partition_point(|pattern| pattern.as_slice() < tail);
            let begun = self.patterns.get(next).is_some_and(|pattern| pattern.starts_with(tail));
            // One that is whole may have a character of its own behind it, and what fills up base64.
            let whole = (0..=EDGE).any(|edge| {
                let whole = &tail[..tail.len().saturating_sub(edge)];
                self.patterns.binary_search_by(|pattern| pattern.as_slice().cmp(whole)).is_ok()
            });
            begun || whole
        };
        let from = text.len().saturating_sub(self.longest + EDGE);
        // The character before it may be one of its own, and the next one may begin with what follows.
        (from..text.len()).find(may_begin).unwrap_or(text.len()).saturating_sub(1)
    }

    /// Where a pattern begins that is found around `at`, with the character before it.
    fn begin_of_one_around(&self, text: &[u8], at: usize) -> Option<usize> {
        let around = |start: usize, end: usize| start.saturating_sub(1) < at && at < (end + EDGE).min(text.len());
        self.find.find_iter(text).find(|m| around(m.start(), m.end())).map(|m| m.start().saturating_sub(1))
    }

    /// `text` without what is found in it; `None` when nothing is.
    fn replace(&self, text: &[u8]) -> Option<Vec<u8>> {
        // Most texts hold none, which the sieve sees in a fifth of the time.
        if !self.sieve.lets_through(text) {
            return None;
        }
        let base64 = |at: usize| text.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || b"+/-_".contains(b));
        let mut out: Option<Vec<u8>> = None;
        let mut done = 0;
        for found in self.find.find_iter(text) {
            let (before, after) = self.edges[found.pattern().as_usize()];
            let (mut from, mut to) = (found.start(), found.end());
            if before && from > done && base64(from - 1) {
                from -= 1;
            }
            if after && base64(to) {
                to += 1;
                to += text[to..].iter().take(2).take_while(|b| **b == b'=').count();
            }
            let out = out.get_or_insert_with(|| Vec::with_capacity(text.len()));
            if let Some(between) = text.get(done..from) {
                out.extend_from_slice(between);
            }
            out.extend_from_slice(HIDDEN.as_bytes());
            done = to;
        }
        let mut out = out?;
        out.extend_from_slice(&text[done.min(text.len())..]);
        Some(out)
    }
}

#[cfg(test)]
#[path = "redact/tests.rs"]
mod tests;
