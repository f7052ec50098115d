//! Whether two texts about the same subject say the same. Pure, and careful: a wrong merge loses what was said, while
//! a model can still merge what is kept twice.
//!
//! A text is read as a list of tokens ([`read`]): numbers, dates and negations in one plain form, every other word by
//! its stem. Two texts say the same if each token of the one has a counterpart in the other: the same, a synonym
//! ([`words`]), or something that the subject and the predicate already say. Neither may speak of the past where the
//! other speaks of the present, and no two tokens may have changed places whose exchange changes the meaning
//! ([`order`]).

mod numbers;
mod order;
mod read;
#[cfg(test)]
mod tests;
mod token;
mod words;

use std::collections::BTreeSet;

use crate::text::normal;
use token::{Kind, Tense, Token};

pub use words::negates;

/// A text, read once to be compared with many.
#[derive(Debug)]
pub struct Said {
    plain: String,
    tokens: Vec<Token>,
}

impl Said {
    pub fn new(text: &str) -> Self {
        Self { plain: normal(text), tokens: read::tokens(text) }
    }

    /// Whether it says the same as `other` does of the same subject.
    pub fn means(&self, about: &About, other: &str) -> bool {
        self.plain == normal(other) || agree(about, &self.tokens, &read::tokens(other))
    }

    /// Whether it can say the same as `other` at all: both have the same numbers and dates. The rest is for somebody to
    /// decide who knows the world: who is deaf can't hear.
    pub fn may_mean(&self, other: &str) -> bool {
        fn values(tokens: &[Token]) -> BTreeSet<&str> {
            let value = |t: &&Token| !t.soft && matches!(t.kind, Kind::Number | Kind::Month | Kind::Day);
            tokens.iter().filter(value).map(|t| t.key.as_str()).collect()
        }
        values(&self.tokens) == values(&read::tokens(other))
    }
}

/// How alike two vectors are, from -1 to 1; none where they are of different lengths or have no direction.
pub fn cosine(a: &[i8], b: &[i8]) -> Option<f32> {
    let dot = |x: &[i8], y: &[i8]| -> i64 { x.iter().zip(y).map(|(x, y)| i64::from(*x) * i64::from(*y)).sum() };
    let (aa, bb) = (dot(a, a), dot(b, b));
    if a.len() != b.len() || aa == 0 || bb == 0 {
        return None;
    }
    // Sums of squares of bytes: far below what a float holds.
    #[allow(clippy::cast_precision_loss)]
    Some((dot(a, b) as f64 / ((aa as f64).sqrt() * (bb as f64).sqrt())) as f32)
}

/// What two texts are about: words that neither needs to say.
#[derive(Default, Debug)]
pub struct About {
    words: Vec<Token>,
}

impl About {
    /// What is told of `subject` under `predicate`.
    pub fn new(subject: &str, predicate: &str) -> Self {
        Self { words: read::tokens(&format!("{subject} {}", words::implied_by(predicate))) }
    }

    /// Whether it goes without saying here.
    fn covers(&self, token: &Token) -> bool {
        token.kind == Kind::Word && self.words.iter().any(|w| w.alike(token))
    }
}

/// Which token of the one text has which of the other as its counterpart, by their places.
type Pair = (usize, usize);

fn agree(about: &About, a: &[Token], b: &[Token]) -> bool {
    let pairs = pairs(a, b);
    let (left_a, left_b) = (unpaired(a, &pairs, |p| p.0), unpaired(b, &pairs, |p| p.1));
    let unsaid = |left: &[&Token]| left.iter().all(|t| t.soft || about.covers(t));
    let way = |left: &[&Token], way: &str| left.iter().any(|t| t.kind == Kind::Way && t.key == way);
    let opposite = |x: &[&Token], y: &[&Token]| way(x, "from") && way(y, "to");
    pairs.iter().any(|p| !a[p.0].soft)
        && unsaid(&left_a)
        && unsaid(&left_b)
        && !opposite(&left_a, &left_b)
        && !opposite(&left_b, &left_a)
        && !pairs.iter().any(|p| contradict(a[p.0].tense, b[p.1].tense))
        && !order::exchanged(a, b, &pairs)
}

/// Whether one speaks of what is over and the other of what is.
fn contradict(a: Option<Tense>, b: Option<Tense>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a != b)
}

/// The same words find one another first, then those that stand for one another.
fn pairs(a: &[Token], b: &[Token]) -> Vec<Pair> {
    let mut found: Vec<Pair> = Vec::new();
    for alike in [Token::same, Token::alike] {
        for (n, token) in a.iter().enumerate() {
            if found.iter().any(|p| p.0 == n) {
                continue;
            }
            let free = |m: &usize| !found.iter().any(|p| p.1 == *m);
            if let Some(m) = (0..b.len()).filter(free).find(|m| alike(token, &b[*m])) {
                found.push((n, m));
            }
        }
    }
    found.sort_unstable();
    found
}

fn unpaired<'a>(tokens: &'a [Token], pairs: &[Pair], side: fn(&Pair) -> usize) -> Vec<&'a Token> {
    let paired: BTreeSet<usize> = pairs.iter().map(side).collect();
    tokens.iter().enumerate().filter(|(n, _)| !paired.contains(n)).map(|(_, t)| t).collect()
}
