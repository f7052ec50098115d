//! Whether two texts about the same subject say the same. Pure, and careful: what is merged by mistake is lost, while what
//! is kept twice can be merged later.
//!
//! A text is read as the words in it that carry something (`read`): numbers, dates and negations in a plain form, of the
//! others the stem. Two texts say the same where each word of the one has its counterpart in the other, the same, a word of
//! the same group, or a synonym (`near`); what the subject and the predicate say already may be said or left out. Where
//! the order carries the meaning, it must agree: which number counts what, who does it to whom, what follows `not`, `over`
//! or `from`; and neither may speak of the past where the other speaks of the present. The embedding can only say no: texts
//! whose words agree and whose vectors are far apart.

mod groups;
mod near;
mod numbers;
mod order;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::gate::normal;
use near::{alike, taken_for_granted, undoes};
use read::{Role, Sense, Token};

/// Vectors that are less alike than this speak of different things, whatever their words are.
const FAR: f32 = 0.15;

/// Around a single value stand so many words at most.
const MOST_AROUND: usize = 3;

/// Whether `a` and `b` say the same of the same subject. `cosine`: how alike their vectors are, where both have one.
pub fn same_meaning(about: &About, a: &str, b: &str, cosine: Option<f32>) -> bool {
    Said::new(a).means(about, b, cosine)
}

/// A text, read once to be compared with many.
#[derive(Debug)]
pub struct Said {
    plain: String,
    sense: Sense,
}

impl Said {
    pub fn new(text: &str) -> Self {
        Self { plain: normal(text), sense: Sense::of(text) }
    }

    /// Whether it says the same as `other` does, as [`same_meaning`] takes it.
    pub fn means(&self, about: &About, other: &str, cosine: Option<f32>) -> bool {
        if self.plain == normal(other) {
            return true;
        }
        cosine.is_none_or(|c| c >= FAR) && agree(about, &self.sense, &Sense::of(other))
    }

    /// Whether it can say the same as `other` at all: the numbers and dates of the one stand in the other. To decide it
    /// somebody is needed who knows the world: who is deaf can't hear.
    pub fn may_mean(&self, other: &str) -> bool {
        let values = |sense: &Sense| -> BTreeSet<String> {
            let values = sense.tokens.iter().filter(|t| !t.soft && (t.is_number() || t.is_date()));
            values.map(|t| t.key.clone()).collect()
        };
        values(&self.sense) == values(&Sense::of(other))
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
    /// There is one value of it at a time.
    single: bool,
}

impl About {
    /// What is told of `subject` under `predicate`. `single`: one value of it holds at a time.
    pub fn new(subject: &str, predicate: &str, single: bool) -> Self {
        let text = format!("{subject} {}", taken_for_granted(predicate));
        Self { words: Sense::of(&text).tokens, single }
    }

    /// Whether it goes without saying here.
    fn covers(&self, token: &Token) -> bool {
        !token.is_firm() && self.words.iter().any(|w| alike(w, token))
    }
}

fn agree(about: &About, a: &Sense, b: &Sense) -> bool {
    if a.tokens.is_empty() || b.tokens.is_empty() || a.contradicts_time(b) {
        return false;
    }
    let pairs = pairs(&a.tokens, &b.tokens);
    let alone = |tokens: &[Token], of: fn(&(usize, usize)) -> usize| -> Vec<Token> {
        let paired: Vec<usize> = pairs.iter().map(of).collect();
        tokens.iter().enumerate().filter(|(n, _)| !paired.contains(n)).map(|(_, t)| t.clone()).collect()
    };
    let unsaid = |tokens: &[Token]| tokens.iter().all(|t| t.soft || about.covers(t));
    // Something must be left that both say.
    let said = pairs.iter().any(|(n, _)| a.tokens.get(*n).is_some_and(|t| !t.soft));
    let (left_a, left_b) = (alone(&a.tokens, |p| p.0), alone(&b.tokens, |p| p.1));
    if !said || !order::agrees(a, b, &pairs) {
        return false;
    }
    match (unsaid(&left_a), unsaid(&left_b)) {
        (true, true) => true,
        (true, false) => about.single && frames(&left_b) && (value(a, b, &pairs) || verbs(&left_b)),
        (false, true) => about.single && frames(&left_a) && (value(a, b, &pairs) || verbs(&left_a)),
        (false, false) => false,
    }
}

/// Whether these are but a few words around a value, none of which makes another value of it.
fn frames(left: &[Token]) -> bool {
    left.len() <= MOST_AROUND
        && left.iter().all(|t| !t.is_firm() && !t.name && !order::leads(t) && !undoes(&t.stem) && !undoes(&t.key))
}

/// Whether they only say how the value comes to be one.
fn verbs(left: &[Token]) -> bool {
    left.iter().all(|t| t.soft || near::verb(&t.stem))
}

/// Whether what both say holds a value that no other word could stand for: a number, a date, a name, unless it is but
/// somebody's in one of them.
fn value(a: &Sense, b: &Sense, pairs: &[(usize, usize)]) -> bool {
    let both = || pairs.iter().map(|(n, m)| (&a.tokens[*n], &b.tokens[*m]));
    let owns = |t: &Token| t.role == Role::Owner;
    both().all(|(x, y)| !x.name && !y.name || owns(x) == owns(y))
        && both().any(|(x, y)| x.is_number() || x.is_date() || x.name || y.name)
}

/// Which token of the one has which of the other as its counterpart: the same words first.
fn pairs(a: &[Token], b: &[Token]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for same in [|a: &Token, b: &Token| a.key == b.key, alike] {
        for (n, token) in a.iter().enumerate() {
            if found.iter().any(|(x, _)| *x == n) {
                continue;
            }
            let free = |m: &usize| !found.iter().any(|(_, y)| y == m);
            if let Some(m) = (0..b.len()).filter(free).find(|m| same(token, &b[*m])) {
                found.push((n, m));
            }
        }
    }
    found.sort_unstable();
    found
}
