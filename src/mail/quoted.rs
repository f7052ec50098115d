//! Whose words are whose in a text.
//!
//! Mail programs quote in three ways. Lines behind `>` are others' words, and what stands between them is an answer.
//! A block of headers, or a line that says that a letter is passed on, makes all that follows others' words. Before
//! quoted lines stands a line that says whose they are. In doubt words are others': those are trusted less.

mod marks;

use super::letter::Words;
use marks::{Header, attributes, begins_attribution, header, is_cut, is_passed_on, is_rule, is_sent_from};

/// Lines that a sentence which says who wrote may be wrapped over.
const MOST_WRAPPED: usize = 4;
/// The longest such sentence, in bytes.
const LONGEST: usize = 400;
/// Quoted lines of as many bytes may have been wrapped.
const WIDE: usize = 60;
/// Lines of a signature behind a mark that is not certain.
const MOST_SIGNED: usize = 10;
/// Lines of a block of headers that are looked at.
const MOST_HEADERS: usize = 12;

/// Whose a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    New,
    Quoted,
    Signature,
}

/// Tells the new words from quoted history and from the signature.
pub fn split(text: &str) -> Words {
    let lines: Vec<&str> = text.lines().collect();
    let of = |line: &&str| if is_quoted(line) { Whose::Quoted } else { Whose::New };
    let mut whose: Vec<Whose> = lines.iter().map(of).collect();
    if let Some(at) = (0..lines.len()).find(|at| begins_history(&lines, *at)) {
        whose[at..].fill(Whose::Quoted);
    }
    mend(&lines, &mut whose);
    attribute(&lines, &mut whose);
    sign(&lines, &mut whose);
    let of = |one: Whose| join(&lines, &whose, one);
    Words { new: of(Whose::New), quoted: of(Whose::Quoted), signature: of(Whose::Signature), hidden: 0, cut: false }
}

fn is_quoted(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with('>')
}

fn is_empty(line: &str) -> bool {
    line.trim().is_empty()
}

/// Whether all from this line on is others' words.
fn begins_history(lines: &[&str], at: usize) -> bool {
    let line = lines[at].trim();
    if line.is_empty() || is_quoted(line) {
        return false;
    }
    if is_passed_on(line) || is_cut(line) {
        return true;
    }
    if is_rule(line) {
        let next = lines[at + 1..].iter().take(3).position(|line| !is_empty(line));
        return next.is_some_and(|next| is_header_block(lines, at + 1 + next));
    }
    is_header_block(lines, at)
}

/// Whether a block of headers begins there, as Outlook puts it before a letter: from whom it is, when it was sent or to
/// whom, and what about.
fn is_header_block(lines: &[&str], at: usize) -> bool {
    let Some(first) = header(lines[at]) else { return false };
    // Some begin with the subject or the date.
    let mut kinds = vec![first];
    let mut wrapped = 0;
    for line in lines[at + 1..].iter().take(MOST_HEADERS) {
        match header(line) {
            Some(kind) => {
                kinds.push(kind);
                wrapped = 0;
            }
            None if is_empty(line) && kinds.len() > 1 => break,
            // A long list of recipients goes on in the next line, and some programs leave lines empty.
            None if wrapped < 2 => wrapped += 1,
            None => break,
        }
    }
    let has = |kind: Header| kinds.contains(&kind);
    let named = kinds.iter().any(|kind| matches!(kind, Header::From { .. }));
    // Without a subject only with an address: from and to may be places in a person's own words.
    (has(Header::Sent) || has(Header::To)) && (named && has(Header::Subject) || has(Header::From { address: true }))
}

/// Gives lines to the quoted ones that are broken off from those: the end of a long line, wrapped without a mark.
fn mend(lines: &[&str], whose: &mut [Whose]) {
    for at in 1..lines.len().saturating_sub(1) {
        let between = is_quoted(lines[at - 1]) && is_quoted(lines[at + 1]) && whose[at] == Whose::New;
        let wrapped = lines[at - 1].len() >= WIDE && lines[at].len() < lines[at - 1].len();
        if between && wrapped && !is_empty(lines[at]) {
            whose[at] = Whose::Quoted;
        }
    }
}

/// Gives the sentences that say who wrote to what they stand before.
fn attribute(lines: &[&str], whose: &mut [Whose]) {
    // Where the quoted lines begin that come next, with nothing but empty lines before them.
    let mut next = None;
    for at in (0..lines.len()).rev() {
        if whose[at] == Whose::Quoted {
            next = Some(at);
        } else if !is_empty(lines[at])
            && let Some(quoted) = next.take()
            && let Some(start) = attribution_before(lines, whose, at)
        {
            whose[start..quoted].fill(Whose::Quoted);
        }
    }
    // Some programs mark no lines: then all behind the sentence is others' words.
    if let Some(start) = (0..lines.len()).find(|at| whose[*at] == Whose::New && begins_unmarked(lines, *at)) {
        whose[start..].fill(Whose::Quoted);
    }
}

/// Where the sentence begins that says who wrote, and that ends with this line.
fn attribution_before(lines: &[&str], whose: &[Whose], end: usize) -> Option<usize> {
    let mut sentence = String::new();
    for at in (0..=end).rev().take(MOST_WRAPPED) {
        if whose[at] != Whose::New || is_empty(lines[at]) {
            break;
        }
        sentence =
            if sentence.is_empty() { lines[at].trim().to_owned() } else { format!("{} {sentence}", lines[at].trim()) };
        if sentence.len() > LONGEST {
            break;
        }
        if attributes(&sentence) {
            return Some(begin_of(lines, whose, at, &sentence));
        }
    }
    None
}

/// The sentence may begin a line before: with the date and the time, when who wrote stands on a line of their own.
fn begin_of(lines: &[&str], whose: &[Whose], at: usize, sentence: &str) -> usize {
    let before = at.checked_sub(1).filter(|before| whose[*before] == Whose::New && begins_attribution(lines[*before]));
    match before {
        Some(before) if !begins_attribution(sentence) => before,
        _ => at,
    }
}

/// Whether a sentence that says who wrote, and when, begins there.
fn begins_unmarked(lines: &[&str], at: usize) -> bool {
    let mut sentence = String::new();
    for line in lines[at..].iter().take(MOST_WRAPPED) {
        if is_empty(line) || line.len() > LONGEST {
            return false;
        }
        sentence = format!("{sentence} {}", line.trim());
        if attributes(&sentence) {
            return begins_attribution(&sentence);
        }
    }
    false
}

/// Tells the signature from the sender's words.
fn sign(lines: &[&str], whose: &mut [Whose]) {
    let mut at = 0;
    while at < lines.len() {
        let many = whose[at..].iter().take_while(|one| **one == Whose::New).count();
        if many > 0 {
            sign_part(&lines[at..at + many], &mut whose[at..at + many]);
        }
        at += many.max(1);
    }
}

/// In a stretch of the sender's words: what stands behind `-- `, and last lines in which a device names itself.
fn sign_part(lines: &[&str], whose: &mut [Whose]) {
    let exact = lines.iter().position(|line| *line == "-- ");
    // White space at the end of a line is often lost; what looks like a mark then may as well part two paragraphs.
    let trimmed = lines.iter().rposition(|line| line.trim_end() == "--");
    let short = trimmed.filter(|at| lines[*at..].iter().filter(|line| !is_empty(line)).count() <= MOST_SIGNED);
    if let Some(start) = exact.or(short) {
        whose[start..].fill(Whose::Signature);
    }
    for at in (0..lines.len()).rev() {
        if whose[at] == Whose::New && is_sent_from(lines[at]) {
            whose[at] = Whose::Signature;
        } else if whose[at] == Whose::New && !is_empty(lines[at]) {
            break;
        }
    }
}

/// The lines that are somebody's; an empty line between parts that stood apart, and none at the ends.
fn join(lines: &[&str], whose: &[Whose], one: Whose) -> String {
    let mut text = String::new();
    let mut apart = false;
    let mut empty = 0;
    for (line, of) in lines.iter().zip(whose) {
        if *of != one {
            apart = !text.is_empty();
        } else if is_empty(line) {
            empty += 1;
        } else {
            if !text.is_empty() {
                let gap = if apart { 2 } else { 1 + empty.min(1) };
                text.extend(std::iter::repeat_n('\n', gap));
            }
            (apart, empty) = (false, 0);
            text.push_str(line.trim_end());
        }
    }
    text
}

#[cfg(test)]
#[path = "quoted_tests.rs"]
mod tests;
