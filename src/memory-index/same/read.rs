//! Reads a text as the tokens in it that carry something.

use std::sync::LazyLock;

use regex::Regex;

use super::numbers;
use super::token::{Kind, Tense, Token};
use super::words::{group, is_light, is_soft, negates, phrases, stem};

/// A word as it is written.
#[derive(Clone)]
struct Raw {
    word: String,
    name: bool,
    glued: bool,
    comma: bool,
}

/// The words of a text, numbers and signs of money apart from what is written right beside them.
fn raw(text: &str) -> Vec<Raw> {
    static WORD: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\+?\d(?:[\d.,:/-]*\d)?(?:st|nd|rd|th)?\b|\d+|\p{L}+(?:'\p{L}+)*|[%€$£°]").ok());
    static MONEY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"([€$£])\s?(\d[\d.,]*)").ok());
    let (Some(word), Some(money)) = (&*WORD, &*MONEY) else { return Vec::new() };
    let text = text.replace(['\u{2018}', '\u{2019}'], "'").replace("p.m.", "pm").replace("a.m.", "am");
    // $40 is 40 $.
    let text = money.replace_all(&text, "$2 $1");
    let mut end = 0;
    let mut words = Vec::new();
    for found in word.find_iter(&text) {
        let gap = &text[end..found.start()];
        let lower = found.as_str().to_lowercase();
        words.push(Raw {
            word: lower.strip_suffix("'s").unwrap_or(&lower).to_owned(),
            // At the beginning everything has a capital.
            name: end > 0 && found.as_str().starts_with(char::is_uppercase),
            glued: gap.trim().is_empty(),
            comma: gap.contains(','),
        });
        end = found.end();
    }
    words
}

/// Puts one word for those that belong together.
fn with_phrases(mut words: Vec<Raw>) -> Vec<Raw> {
    let mut at = 0;
    while at < words.len() {
        let stands_here = |from: &[&str]| {
            words[at..].len() >= from.len() && from.iter().zip(&words[at..]).all(|(phrase, raw)| *phrase == raw.word)
        };
        let Some((from, to)) = phrases().iter().find(|(from, _)| stands_here(from)) else {
            at += 1;
            continue;
        };
        let read = |word: &&str| Raw { word: (*word).to_owned(), ..words[at].clone() };
        let to: Vec<Raw> = to.iter().map(read).collect();
        let next = at + to.len();
        words.splice(at..at + from.len(), to);
        at = next;
    }
    words
}

/// What is left of a text when it doesn't matter how it is put.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let words = with_phrases(raw(text));
    let plain: Vec<String> = words.iter().map(|w| w.word.clone()).collect();
    let mut tokens: Vec<Token> = Vec::new();
    let (mut n, mut glued, mut listed) = (0, false, false);
    while n < words.len() {
        let raw = &words[n];
        listed |= raw.comma;
        let (read, used) = at(&words, &plain, n);
        if read.is_empty() {
            glued = false;
            listed |= matches!(&*raw.word, "and" | "or");
        }
        for token in read {
            let after = std::mem::replace(&mut glued, token.kind != Kind::Way);
            tokens.push(Token { glued: after && raw.glued, listed: std::mem::take(&mut listed), ..token });
        }
        n += used;
    }
    // Where something may not be it says as much whether it can, may or must not.
    if tokens.iter().any(|t| t.kind == Kind::Negation) {
        tokens.iter_mut().filter(|t| t.key == "can").for_each(|t| t.soft = true);
    }
    tokens
}

/// What stands at a place, and how many words it takes.
fn at(words: &[Raw], plain: &[String], n: usize) -> (Vec<Token>, usize) {
    let raw = &words[n];
    let word = &*raw.word;
    let before = n.checked_sub(1).map_or("", |b| &*plain[b]);
    let one = |token: Token| (vec![token], 1);
    if negates(word) {
        return one(Token::new(Kind::Negation, "not", word));
    }
    if let Some((values, used)) = numbers::read(&plain[n..]).filter(|_| !is_word(raw, before, plain.get(n + 1))) {
        // One dog is a dog.
        let soft = word == "one" && used == 1;
        let token = |(kind, key): &(Kind, String)| Token { soft, ..Token::new(*kind, key, word) };
        return (values.iter().map(token).collect(), used);
    }
    let helper = |key: &str, tense| Token {
        tense,
        turns: matches!(word, "is" | "are" | "was" | "were" | "by"),
        ..Token::new(Kind::Helper, key, word)
    };
    match word {
        "was" | "were" | "had" | "did" => return one(helper("be", Some(Tense::Past))),
        "is" | "are" | "am" | "has" | "have" => return one(helper("be", Some(Tense::Present))),
        "by" => return one(helper("by", None)),
        "from" | "to" => return one(Token::new(Kind::Way, word, word)),
        _ if is_light(word) => return (Vec::new(), 1),
        _ => {}
    }
    let stem = stem(word);
    let key = group(word, &stem).unwrap_or(&stem);
    let every_day = key == "day" && (word == "daily" || matches!(before, "every" | "each"));
    one(Token {
        name: raw.name,
        soft: is_soft(word) || every_day,
        tense: tense(word, before),
        ..Token::new(Kind::Word, key, word)
    })
}

/// Whether what reads like a month or a day is a word, by what stands around: may, wed.
fn is_word(raw: &Raw, before: &str, after: Option<&String>) -> bool {
    let number = |word: &str| numbers::read(&[word.to_owned()]).is_some();
    let dated = number(before) || after.is_some_and(|word| number(word)) || matches!(before, "of" | "in");
    let abbreviation = ["wed", "sun", "sat", "mon", "mar", "jun", "jan", "dec"].contains(&&*raw.word);
    !dated && !raw.name && (raw.word == "may" || abbreviation)
}

fn tense(word: &str, before: &str) -> Option<Tense> {
    const DESCRIBING: [&str; 12] = ["is", "are", "be", "been", "being", "gets", "get", "a", "an", "the", "of", "has"];
    if word.len() > 4 && word.ends_with("ed") {
        return (!DESCRIBING.contains(&before) && before != "have").then_some(Tense::Past);
    }
    (word.len() > 3 && word.ends_with('s') && !word.ends_with("ss")).then_some(Tense::Present)
}
