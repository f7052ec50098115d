//! Whether two texts of the same words say the same: where it matters which stands by which.

use super::near::verb;
use super::read::{NEGATION, Role, Sense, Token};

/// Tokens that speak of what follows them.
const LEADING: &[&str] =
    &["over", "than", "~under", "befor", "after", "abov", "between", "against", "at least", "at most"];

/// `pairs`: which token of `a` has which of `b` as its counterpart, in the order of `a`.
pub(super) fn agrees(a: &Sense, b: &Sense, pairs: &[(usize, usize)]) -> bool {
    if pairs.iter().is_sorted_by_key(|(_, m)| m) && pairs.len() == a.tokens.len().min(b.tokens.len()) {
        return roles(a, b, pairs);
    }
    roles(a, b, pairs)
        && leaders(a, b, pairs)
        && counts(a, b, pairs)
        && names(a, b, pairs)
        && !swapped(a, b, pairs)
        && !rejoined(a, b, pairs)
        && !passed(a, b, pairs)
}

/// From is not to.
fn roles(a: &Sense, b: &Sense, pairs: &[(usize, usize)]) -> bool {
    pairs.iter().all(|(n, m)| {
        let contrary = |x: Role, y: Role| {
            matches!((x, y), (Role::From | Role::Since, Role::To | Role::Until))
                || matches!((x, y), (Role::By | Role::For, Role::From))
                || matches!((x, y), (Role::By, Role::To))
        };
        let (x, y) = (a.tokens[*n].role, b.tokens[*m].role);
        !contrary(x, y) && !contrary(y, x)
    })
}

/// What follows `not` or `over` in the one follows it in the other.
fn leaders(a: &Sense, b: &Sense, pairs: &[(usize, usize)]) -> bool {
    pairs.iter().all(|(n, m)| {
        if !leads(&a.tokens[*n]) {
            return true;
        }
        match (next(&a.tokens, *n), next(&b.tokens, *m)) {
            (Some(x), Some(y)) => pairs.contains(&(x, y)) || beside(a, pairs, (*n, *m), (x, y)),
            // At the end it speaks of what is before.
            _ => true,
        }
    })
}

/// Eats no meat, does not eat meat: what the negation stands by are the same two.
fn beside(a: &Sense, pairs: &[(usize, usize)], no: (usize, usize), next: (usize, usize)) -> bool {
    let within = |doing: usize, done: usize, no: usize| doing + 1 == no && done == no + 1;
    if a.tokens[no.0].key != NEGATION {
        return false;
    }
    let there = |n: usize| pairs.iter().find(|(x, _)| *x == n).map(|(_, y)| *y);
    let here = |m: usize| pairs.iter().find(|(_, y)| *y == m).map(|(x, _)| *x);
    there(next.0).is_some_and(|doing| within(doing, next.1, no.1)) && here(next.1) == Some(next.0 + 1)
        || here(next.1).is_some_and(|doing| within(doing, next.0, no.0)) && there(next.0) == Some(next.1 + 1)
}

/// Whether it makes something else of what follows it.
pub(super) fn leads(token: &Token) -> bool {
    token.key == NEGATION || LEADING.contains(&&*token.key)
}

/// The next token after this one that is not merely soft.
fn next(tokens: &[Token], at: usize) -> Option<usize> {
    (at + 1..tokens.len()).find(|n| !tokens[*n].soft)
}

/// Each number counts the same.
fn counts(a: &Sense, b: &Sense, pairs: &[(usize, usize)]) -> bool {
    let numbers = |tokens: &[Token]| tokens.iter().filter(|t| t.is_number()).count();
    if numbers(&a.tokens) < 2 || numbers(&b.tokens) < 2 {
        return true;
    }
    let (of_a, of_b) = (counted(&a.tokens), counted(&b.tokens));
    pairs.iter().filter(|(n, _)| a.tokens[*n].is_number()).all(|(n, m)| match (of_a[*n], of_b[*m]) {
        (Some(x), Some(y)) => {
            let other = |counted: &[Option<usize>], tokens: &[Token], what: usize, not: usize| {
                counted.iter().enumerate().any(|(k, c)| k != not && *c == Some(what) && tokens[k].is_number())
            };
            match (pairs.iter().find(|(p, _)| *p == x), pairs.iter().find(|(_, q)| *q == y)) {
                (Some((_, q)), _) if *q == y => true,
                // What it counts here is counted by another number there.
                (Some((_, q)), _) if other(&of_b, &b.tokens, *q, *m) => false,
                (_, Some((p, _))) if other(&of_a, &a.tokens, *p, *n) => false,
                _ => true,
            }
        }
        _ => true,
    })
}

/// What each number counts: the next word, or else the one before. Days and years of a date count nothing.
fn counted(tokens: &[Token]) -> Vec<Option<usize>> {
    let word = |n: &usize| tokens.get(*n).is_some_and(|t| !t.is_number() && !t.is_date());
    let dated = |n: usize| {
        let near = [n.checked_sub(1), Some(n + 1)].into_iter().flatten();
        near.filter_map(|k| tokens.get(k)).any(Token::is_date)
    };
    (0..tokens.len())
        .map(|n| match tokens[n].is_number() && !dated(n) {
            true => Some(n + 1).filter(word).or_else(|| n.checked_sub(1).filter(word)),
            false => None,
        })
        .collect()
}

/// Nobody does to another what the other does to them.
fn names(a: &Sense, b: &Sense, pairs: &[(usize, usize)]) -> bool {
    let named: Vec<&(usize, usize)> = pairs.iter().filter(|(n, m)| a.tokens[*n].name || b.tokens[*m].name).collect();
    named.iter().enumerate().all(|(k, one)| {
        named[k + 1..].iter().filter(|two| one.1 > two.1).all(|two| {
            let roles = |p: &(usize, usize)| (a.tokens[p.0].role, b.tokens[p.1].role);
            let ((one_a, one_b), (two_a, two_b)) = (roles(one), roles(two));
            if one_a != two_a && one_a == two_b && two_a == one_b {
                return false;
            }
            let between = |tokens: &[Token], x: usize, y: usize| tokens[x.min(y) + 1..x.max(y)].iter().any(does);
            let apart = between(&a.tokens, one.0, two.0) || between(&b.tokens, one.1, two.1);
            let marked = |(x, y): (Role, Role)| x == y && x != Role::Plain || x == Role::By || y == Role::By;
            !apart || marked((one_a, one_b)) || marked((two_a, two_b))
        })
    })
}

/// Whether it says what somebody does, by the form of a verb.
fn does(token: &Token) -> bool {
    !token.is_firm() && !token.name && !token.soft && verb(&token.stem) && token.is_finite()
}

/// The blue key and the red door are not the red key and the blue door.
fn swapped(a: &Sense, b: &Sense, pairs: &[(usize, usize)]) -> bool {
    let there = |n: usize| pairs.iter().find(|(x, _)| *x == n).map(|(_, y)| *y);
    let here = |m: usize| pairs.iter().find(|(_, y)| *y == m).map(|(x, _)| *x);
    let before = |tokens: &[Token], n: usize| n.checked_sub(1).filter(|_| tokens[n].glued);
    pairs.iter().any(|(y, y2)| {
        let (Some(x), Some(p2)) = (before(&a.tokens, *y), before(&b.tokens, *y2)) else { return false };
        let (Some(x2), Some(p)) = (there(x), here(p2)) else { return false };
        let follows = |tokens: &[Token], n: usize| Some(n + 1).filter(|m| tokens.get(*m).is_some_and(|t| t.glued));
        let (q, q2) = (follows(&a.tokens, p), follows(&b.tokens, x2));
        x != p && q.is_some() && q.and_then(there) == q2
    })
}

/// The tall man with the dog is not the man with the tall dog: a word before another than it was.
fn rejoined(a: &Sense, b: &Sense, pairs: &[(usize, usize)]) -> bool {
    let there = |n: usize| pairs.iter().find(|(x, _)| *x == n).map(|(_, y)| *y);
    let here = |m: usize| pairs.iter().find(|(_, y)| *y == m).map(|(x, _)| *x);
    let plain = |t: &Token| !t.is_firm() && !t.soft && !t.name && !does(t);
    pairs.iter().filter(|(x, x2)| plain(&a.tokens[*x]) && plain(&b.tokens[*x2])).any(|(x, x2)| {
        let (one, two) = (run(&a.tokens, *x), run(&b.tokens, *x2));
        let lost = Some(x + 1).filter(|y| one.contains(y) && plain(&a.tokens[*y])).and_then(there);
        let won = Some(x2 + 1).filter(|y2| two.contains(y2) && plain(&b.tokens[*y2])).and_then(here);
        lost.is_some_and(|y2| !two.contains(&y2)) && won.is_some_and(|y| !one.contains(&y))
    })
}

/// The words that stand right beside one another around this one.
fn run(tokens: &[Token], at: usize) -> std::ops::Range<usize> {
    let first = (0..=at).rev().find(|n| !tokens[*n].glued).unwrap_or(0);
    let end = (at + 1..tokens.len()).find(|n| !tokens[*n].glued).unwrap_or(tokens.len());
    first..end
}

/// A name that does in the one what is done to it in the other.
fn passed(a: &Sense, b: &Sense, pairs: &[(usize, usize)]) -> bool {
    if a.turns || b.turns {
        return false;
    }
    let bare = |t: &Token| t.role == Role::Plain;
    pairs.iter().filter(|(n, m)| a.tokens[*n].name || b.tokens[*m].name).any(|name| {
        bare(&a.tokens[name.0])
            && bare(&b.tokens[name.1])
            && pairs.iter().any(|other| {
                does(&a.tokens[other.0]) && does(&b.tokens[other.1]) && (name.0 < other.0) != (name.1 < other.1)
            })
    })
}
