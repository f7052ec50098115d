//! Whether two tokens have changed places whose exchange makes another statement of the same words: tea over coffee is
//! not coffee over tea, but a red guitar is a guitar, red.

use super::token::{Kind, Token};
use super::{Pair, cosine};
use crate::embed::Fixed;

/// Words whose vectors are so much alike are of one sort: tea and coffee, summer and winter.
const ONE_SORT: f32 = 0.36;

/// Whether what `a` and `b` have in common differs in its order where the order counts.
pub(super) fn exchanged(a: &[Token], b: &[Token], pairs: &[Pair]) -> bool {
    // Anna is the boss, the boss is Anna; Bea wrote it, it was written by Bea.
    let turns = a.iter().chain(b).any(|t| t.turns);
    pairs.iter().enumerate().any(|(n, x)| {
        let inverted = |y: &&Pair| x.1 > y.1 && !within_list(a, x.0, y.0) | !within_list(b, y.1, x.1);
        pairs[n + 1..].iter().filter(inverted).any(|y| {
            one_sort((a, b), *x, *y)
                || denied((a, b), *x, *y)
                || denied((a, b), *y, *x)
                || !turns && (acts((a, b), *x, *y) || acts((a, b), *y, *x))
                || rejoined((a, b), pairs, *x, *y)
        })
    })
}

/// Whether these stand in one enumeration: Ida and Max, Max and Ida.
fn within_list(tokens: &[Token], first: usize, last: usize) -> bool {
    tokens[first + 1..=last].iter().all(|t| t.listed)
}

/// Both numbers, both names, or words of one sort: each could stand in the other's place.
fn one_sort((a, b): (&[Token], &[Token]), x: Pair, y: Pair) -> bool {
    let (one, other) = (&a[x.0], &a[y.0]);
    let name = |p: Pair| a[p.0].name || b[p.1].name;
    match (one.kind, other.kind) {
        (Kind::Word, Kind::Word) => name(x) && name(y) || near(&one.word, &other.word),
        (Kind::Number | Kind::Month | Kind::Day, kind) => kind == one.kind && !one.soft && !other.soft,
        _ => false,
    }
}

fn near(one: &str, other: &str) -> bool {
    match (Fixed::vector(one), Fixed::vector(other)) {
        (Ok(one), Ok(other)) => cosine(&one, &other).unwrap_or_default() >= ONE_SORT,
        // Who can't tell keeps them apart.
        _ => true,
    }
}

/// Whether the one denies the other here and something else there. Eats no meat, does not eat meat: it stands beside
/// what is done, which is all the same.
fn denied((a, b): (&[Token], &[Token]), not: Pair, what: Pair) -> bool {
    let beside = not.0.abs_diff(what.0) == 1 && not.1.abs_diff(what.1) == 1;
    let done = a[what.0].is_finite() || b[what.1].is_finite();
    a[not.0].kind == Kind::Negation && a[what.0].kind == Kind::Word && !(beside && done)
}

/// Whether somebody does here what is done to them there: owes Bea, Bea owes.
fn acts((a, b): (&[Token], &[Token]), who: Pair, what: Pair) -> bool {
    let name = a[who.0].name || b[who.1].name;
    name && (who.0 == 0 || who.1 == 0) && a[what.0].is_finite() && b[what.1].is_finite()
}

/// Whether a word stands right before another one than it did: the tall man with the dog, the man with the tall dog.
fn rejoined((a, b): (&[Token], &[Token]), pairs: &[Pair], x: Pair, y: Pair) -> bool {
    let there = |n: usize| pairs.iter().find(|p| p.0 == n).map(|p| p.1);
    let here = |m: usize| pairs.iter().find(|p| p.1 == m).map(|p| p.0);
    let follows = |tokens: &[Token], n: usize| {
        let glued = |t: &&Token| t.glued && t.is_plain() && tokens[n].is_plain();
        tokens.get(n + 1).filter(glued).map(|_| n + 1)
    };
    let follows_a = |n: usize| follows(a, n);
    let follows_b = |m: usize| follows(b, m);
    follows_a(x.0) == Some(y.0) && follows_b(x.1).and_then(here).is_some_and(|n| n != y.0)
        || follows_b(y.1) == Some(x.1) && follows_a(y.0).and_then(there).is_some_and(|m| m != x.1)
}
