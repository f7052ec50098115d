//! Whether two texts about the same subject say the same. Pure, and careful: what is merged by mistake is lost, while what
//! is kept twice can be merged later.
//!
//! A text is read as the sequence of its words that carry something: numbers, dates and negations in a plain form, of the
//! others the stem, or the small group of words that stand for one another. Two texts say the same where these sequences
//! are the same, but for phrases that may stand anywhere ("on Monday", "with Bea"), and where both speak of the past or
//! neither does. The embedding can only say no: texts whose words agree and whose vectors are far apart.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

use super::gate::normal;
use super::groups::{GROUPS, LIGHT};

/// Vectors that are less alike than this speak of different things, whatever their words are.
const FAR: f32 = 0.15;

/// Whether `a` and `b` say the same of the same subject. `cosine`: how alike their vectors are, where both have one.
pub fn same_meaning(a: &str, b: &str, cosine: Option<f32>) -> bool {
    if normal(a) == normal(b) {
        return true;
    }
    if cosine.is_some_and(|c| c < FAR) {
        return false;
    }
    Sense::of(a).agrees(&Sense::of(b))
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

/// What is left of a text when it doesn't matter how it is put.
#[derive(PartialEq, Eq, Debug)]
struct Sense {
    tokens: Vec<Token>,
    /// Where the first `is` stands: what is on its sides may change places.
    turn: Option<usize>,
    past: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Token {
    key: String,
    /// The word that ties it to the rest; with one it may stand anywhere.
    tie: Option<String>,
}

const NEGATION: &str = "¬";
/// What stands between a tie and its word.
const BETWEEN: &[&str] = &[
    "a", "an", "the", "this", "that", "these", "those", "my", "our", "your", "his", "her", "its", "their", "mr", "mrs",
    "ms",
];
const TIES: &[&str] = &[
    "in", "on", "at", "with", "for", "from", "to", "by", "of", "as", "since", "until", "till", "during", "every",
    "near",
];
/// Ties of a date that say more than that it is then.
const TELLING: &[&str] = &["from", "to", "since", "until", "till", "by", "every"];

impl Sense {
    fn of(text: &str) -> Self {
        let mut sense = Self { tokens: Vec::new(), turn: None, past: false };
        let (mut past, mut present) = (false, false);
        let mut tie: Option<String> = None;
        let words = words(text);
        let mut skip = 0;
        for (n, word) in words.iter().enumerate() {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let word = word.to_lowercase();
            let next = words.get(n + 1).map(|w| w.to_lowercase()).unwrap_or_default();
            past |= is_past(&word);
            present |= matches!(&*word, "is" | "are" | "am");
            if matches!(&*word, "is" | "are" | "am" | "was" | "were") && sense.turn.is_none() {
                sense.turn = Some(sense.tokens.len());
            }
            let (key, used) = match read(&word, &next) {
                Read::Token(key, used) => (key, used),
                Read::Nothing(used) => {
                    skip = used;
                    if TIES.contains(&&*word) {
                        tie = Some(word);
                    } else if !BETWEEN.contains(&&*word) {
                        tie = None;
                    }
                    continue;
                }
            };
            skip = used;
            let dated = key.starts_with("day ")
                || key.starts_with("month ")
                || key.starts_with('#') && key.contains([':', '-', '/']);
            let held = match tie.clone() {
                Some(tie) if dated && !TELLING.contains(&&*tie) => Some(String::new()),
                None if dated => Some(String::new()),
                tie => tie,
            };
            if TIES.contains(&&*word) {
                tie = Some(word);
            }
            sense.tokens.push(Token { key, tie: held });
        }
        // A day of a month stands where its month does.
        for n in 0..sense.tokens.len() {
            let day = sense.tokens[n].key.starts_with('#') && !sense.tokens[n].key.contains(':');
            let beside = [n.checked_sub(1), Some(n + 1)].into_iter().flatten();
            let month = beside.filter_map(|m| sense.tokens.get(m)).find(|t| t.key.starts_with("month "));
            if let Some(tie) = month.filter(|_| day).map(|m| m.tie.clone()) {
                sense.tokens[n].tie = tie;
            }
        }
        sense.past = past && !present;
        sense
    }

    fn agrees(&self, other: &Self) -> bool {
        if self.tokens.is_empty() || self.past != other.past || self.tokens.len() != other.tokens.len() {
            return false;
        }
        let (one, two): (HashSet<&Token>, HashSet<&Token>) =
            (self.tokens.iter().collect(), other.tokens.iter().collect());
        let fixed = |tokens: &[Token], others: &HashSet<&Token>| -> Vec<String> {
            tokens.iter().filter(|t| t.tie.is_none() || !others.contains(t)).map(|t| t.key.clone()).collect()
        };
        let loose = |tokens: &[Token], others: &HashSet<&Token>| -> Vec<String> {
            let mut keys: Vec<String> =
                tokens.iter().filter(|t| t.tie.is_some() && others.contains(t)).map(|t| t.key.clone()).collect();
            keys.sort();
            keys
        };
        let agree = |a: &[Token], b: &[Token]| fixed(a, &two) == fixed(b, &one) && loose(a, &two) == loose(b, &one);
        agree(&self.tokens, &other.tokens)
            || agree(&self.turned(), &other.tokens)
            || agree(&self.tokens, &other.turned())
    }

    /// With the sides of its `is` in each other's place: `Bea is the friend`, `the friend is Bea`.
    fn turned(&self) -> Vec<Token> {
        let mut tokens = self.tokens.clone();
        tokens.rotate_left(self.turn.filter(|at| *at <= self.tokens.len()).unwrap_or(0));
        tokens
    }
}

enum Read {
    /// And how many words after this one it takes.
    Token(String, usize),
    Nothing(usize),
}

fn read(word: &str, next: &str) -> Read {
    if let Some(read) = phrase(word, next) {
        return read;
    }
    if negates(word) {
        return Read::Token(NEGATION.to_owned(), 0);
    }
    if let Some((number, used)) = number(word, next) {
        return Read::Token(number, used);
    }
    let stem = stem(word);
    if light(word) {
        return Read::Nothing(0);
    }
    match group(word).or_else(|| group(&stem)) {
        Some(group) => Read::Token(group, 0),
        None => Read::Token(stem, 0),
    }
}

/// Words that tell of what is over.
fn is_past(word: &str) -> bool {
    const PAST: &[&str] = &[
        "was",
        "were",
        "had",
        "did",
        "ago",
        "went",
        "got",
        "bought",
        "met",
        "ate",
        "ran",
        "wrote",
        "drove",
        "flew",
        "left",
        "made",
        "taught",
        "spoke",
        "gave",
        "took",
        "came",
        "saw",
        "won",
        "lost",
        "sold",
        "grew",
        "began",
        "knew",
        "kept",
        "paid",
        "broke",
        "chose",
        "slept",
        "told",
        "said",
        "thought",
        "felt",
        "found",
        "held",
        "led",
        "spent",
        "stood",
        "swam",
        "wore",
        "formerly",
        "previously",
    ];
    PAST.contains(&word)
        || word.len() > 4 && word.ends_with("ed") && !matches!(word, "named" | "called" | "need" | "speed")
}

/// The words of a text, with what belongs into numbers and times kept together.
fn words(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.replace(['\u{2018}', '\u{2019}'], "'").chars().collect();
    let mut out: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut currency = None;
    for (n, c) in chars.iter().enumerate() {
        let (before, after) = (n.checked_sub(1).and_then(|p| chars.get(p)), chars.get(n + 1));
        let between_digits = before.is_some_and(char::is_ascii_digit) && after.is_some_and(char::is_ascii_digit);
        let within = match c {
            '\'' => before.is_some_and(|c| c.is_alphabetic()) && after.is_some_and(|c| c.is_alphabetic()),
            '.' | ',' | ':' | '/' | '-' => between_digits,
            '+' => word.is_empty() && after.is_some_and(char::is_ascii_digit),
            c => c.is_alphanumeric(),
        };
        // 80kg is 80 kg.
        let figures = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || ".,:".contains(c));
        let ends = !within || c.is_alphabetic() && figures(&word) && !nth(&chars[n..]);
        if ends && !word.is_empty() {
            let whole = std::mem::take(&mut word);
            let bare = whole.strip_suffix("'s").or_else(|| whole.strip_suffix("'S")).map(str::to_owned);
            out.push(bare.unwrap_or(whole));
            out.extend(currency.take().map(String::from));
        }
        if within {
            word.push(*c);
        } else if "€$£".contains(*c) && after.is_some_and(char::is_ascii_digit) {
            // $40 is 40 $.
            currency = Some(*c);
        } else if "%€$£°".contains(*c) {
            out.push(c.to_string());
        }
    }
    if !word.is_empty() {
        let bare = word.strip_suffix("'s").map(str::to_owned);
        out.push(bare.unwrap_or(word));
    }
    out.extend(currency.map(String::from));
    out
}

/// Whether here stands the end of `3rd`.
fn nth(rest: &[char]) -> bool {
    let end: String = rest.iter().take_while(|c| c.is_alphanumeric()).collect();
    matches!(end.to_lowercase().as_str(), "st" | "nd" | "rd" | "th")
}

/// Two words that belong together.
fn phrase(word: &str, next: &str) -> Option<Read> {
    let token = |key: &str| Some(Read::Token(key.to_owned(), 1));
    match (word, next) {
        ("no", "longer") | ("any", "more") | ("used", "to") | ("gave" | "given" | "gives" | "giving", "up") => {
            token(NEGATION)
        }
        ("at", "least") => token("at least"),
        ("at", "most") => token("at most"),
        ("going", "to") => token("will"),
        ("every" | "each" | "per", "day" | "night" | "morning" | "evening" | "hour" | "week" | "month" | "year") => {
            Some(Read::Nothing(0))
        }
        ("wake" | "wakes" | "woke" | "waking", "up") => token("~wake"),
        ("go" | "goes" | "going" | "went", verb) if verb.len() > 5 && verb.ends_with("ing") => Some(Read::Nothing(0)),
        ("not", "only") | ("right", "now") | ("a", "lot") | ("as", "well") | ("of", "course") | ("these", "days") => {
            Some(Read::Nothing(1))
        }
        _ => None,
    }
}

fn negates(word: &str) -> bool {
    matches!(
        word,
        "not"
            | "no"
            | "never"
            | "none"
            | "nobody"
            | "nothing"
            | "neither"
            | "nor"
            | "without"
            | "cannot"
            | "anymore"
            | "stopped"
            | "stops"
            | "stop"
            | "quit"
            | "quits"
            | "former"
            | "formerly"
            | "ex"
            | "lacks"
            | "lack"
            | "refuses"
            | "refused"
            | "avoids"
            | "avoid"
            | "hardly"
            | "barely"
            | "failed"
            | "fails"
            | "except"
            | "declined"
            | "declines"
            | "cancelled"
            | "canceled"
            | "kein"
            | "keine"
            | "nicht"
            | "nie"
    ) || word.ends_with("n't")
}

/// A number in its plain form, and how many words after this one belong to it.
fn number(word: &str, next: &str) -> Option<(String, usize)> {
    const SMALL: [&str; 21] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    const TENS: [(&str, usize); 8] = [
        ("twenty", 20),
        ("thirty", 30),
        ("forty", 40),
        ("fifty", 50),
        ("sixty", 60),
        ("seventy", 70),
        ("eighty", 80),
        ("ninety", 90),
    ];
    const NTH: [&str; 13] = [
        "zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
        "eleventh", "twelfth",
    ];
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    if word.starts_with(|c: char| c.is_ascii_digit() || c == '+') {
        return Some((format!("#{}", figures(word)), usize::from(next == "times")));
    }
    if let Some((_, tens)) = TENS.iter().find(|(name, _)| *name == word) {
        let ones = SMALL.iter().skip(1).take(9).position(|s| *s == next);
        return Some(match ones {
            Some(n) => (format!("#{}", tens + 1 + n), 1),
            None => (format!("#{tens}"), 0),
        });
    }
    if let Some(n) = SMALL.iter().position(|s| *s == word) {
        return Some((format!("#{n}"), usize::from(next == "times")));
    }
    if let Some(n) = NTH.iter().position(|s| *s == word) {
        return Some((format!("#{n}"), 0));
    }
    let known = |names: &[&str], word: &str, least: usize| {
        names.iter().position(|name| *name == word || word.len() >= least && word.len() < 5 && name.starts_with(word))
    };
    // `may` and `march` are dates only where a number stands beside; alone they weigh the same either way.
    if let Some(n) = known(&MONTHS, word, 3) {
        return Some((format!("month {n}"), 0));
    }
    if let Some(n) = known(&DAYS, word.strip_suffix('s').unwrap_or(word), 3).filter(|_| word != "sun" && word != "sat")
    {
        return Some((format!("day {n}"), 0));
    }
    Some(match word {
        "once" => ("#1".into(), 0),
        "twice" => ("#2".into(), 0),
        "half" => ("half".into(), 0),
        "quarter" => ("quarter".into(), 0),
        "dozen" => ("#12".into(), 0),
        "hundred" => ("hundred".into(), 0),
        "thousand" => ("thousand".into(), 0),
        "million" => ("million".into(), 0),
        "noon" | "midday" => ("#12".into(), 0),
        "midnight" => ("#0".into(), 0),
        _ => return None,
    })
}

/// 1,200.50 and 1200.5 are one number, 3rd is 3, and 07:30 is 7:30.
fn figures(word: &str) -> String {
    let word = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    let plain = word.trim_start_matches('+');
    // A comma before three figures parts thousands.
    let mut parts = plain.split(',');
    let head = parts.next().unwrap_or_default();
    let tail: Vec<&str> = parts.collect();
    let thousands = !tail.is_empty() && tail.iter().all(|p| p.split('.').next().is_some_and(|p| p.len() == 3));
    let mut text = if thousands { format!("{head}{}", tail.concat()) } else { plain.replace(',', ".") };
    if text.contains('.') && !text.contains([':', '/', '-']) && text.matches('.').count() == 1 {
        text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    if let Some((hour, rest)) = text.split_once(':') {
        let hour = hour.trim_start_matches('0');
        let hour = if hour.is_empty() { "0" } else { hour };
        return if rest == "00" { hour.to_owned() } else { format!("{hour}:{rest}") };
    }
    text
}

fn stem(word: &str) -> String {
    Stemmer::create(Algorithm::English).stem(word).into_owned()
}

fn light(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| LIGHT.split_whitespace().collect());
    WORDS.contains(word)
}

/// The group of words that stand for one another to which this one belongs.
fn group(word: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::memory::embed::Fixed;

    #[test]
    fn groups_do_not_share_words() {
        let mut seen = HashSet::new();
        for word in GROUPS.split_whitespace() {
            assert!(seen.insert(word), "{word} stands in two groups");
            assert!(!light(word), "{word} is light");
        }
    }

    #[test]
    fn what_must_agree_agrees() {
        for (a, b) in [
            ("My sister lives in Lyon", "Her sister's home is Lyon"),
            ("weight 80 kg", "Weighs 80kg."),
            ("The 3rd of May", "third of may"),
            ("Chess with Bea on Friday", "on Friday chess with Bea"),
            ("The meeting is on Monday at 09:00", "Appointment at 9:00 on monday"),
            ("has three kids", "He has 3 children"),
        ] {
            assert!(same_meaning(a, b, None), "{a:?} and {b:?}: {:?} {:?}", Sense::of(a), Sense::of(b));
        }
        for (a, b) in [
            ("weight 80 kg", "weight 82 kg"),
            ("My sister lives in Lyon", "My sister lives in Paris"),
            ("likes tea", "does not like tea"),
            ("likes tea", "likes green tea"),
            ("drinks coffee in the morning", "drinks coffee in the evening"),
            ("Tom is the boss of Ann in Rome", "Ann is the boss of Tom in Rome"),
            ("no longer smokes", "smokes"),
            ("prefers tea over coffee", "prefers coffee over tea"),
            ("from Lyon to Paris", "from Paris to Lyon"),
            ("two dogs and three cats", "three dogs and two cats"),
            ("lived in Lyon", "lives in Lyon"),
            ("not tea but coffee", "tea but not coffee"),
            ("may move to Lyon", "moves to Lyon"),
        ] {
            assert!(!same_meaning(a, b, None), "{a:?} and {b:?}: {:?} {:?}", Sense::of(a), Sense::of(b));
        }
        assert!(!same_meaning("has three kids", "He has 3 children", Some(0.1)));
    }

    /// Pairs of texts about one subject: paraphrases, and near misses that are not to be merged.
    #[test]
    fn paraphrases_are_found_and_near_misses_are_not() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/memory_pairs.jsonl");
        let text = std::fs::read_to_string(path).unwrap();
        let pairs: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let vector = |text: &str| Fixed::vector(text).unwrap();
        let (mut all, mut missed, mut merged) = ([0, 0], Vec::new(), Vec::new());
        let mut least: f32 = 1.0;
        for pair in &pairs {
            let (a, b) = (pair["a"].as_str().unwrap(), pair["b"].as_str().unwrap());
            let same = pair["same"].as_bool().unwrap();
            let alike = cosine(&vector(a), &vector(b));
            all[usize::from(same)] += 1;
            if same {
                least = least.min(alike.unwrap_or_default());
            }
            let why = || format!("{a} | {b} | {:.2} | {:?} | {:?}", alike.unwrap_or_default(), keys(a), keys(b));
            match (same, same_meaning(a, b, alike)) {
                (true, false) => missed.push(why()),
                (false, true) => merged.push(why()),
                _ => {}
            }
        }
        println!("{} paraphrases, {} missed:\n{}", all[1], missed.len(), missed.join("\n"));
        println!("{} near misses, {} merged; paraphrases are alike by {least} at least", all[0], merged.len());
        assert!(all[0] >= 60 && all[1] >= 60, "{all:?}");
        assert!(merged.is_empty(), "merged by mistake:\n{}", merged.join("\n"));
        assert!(missed.len() * 2 < all[1], "{} of {} paraphrases missed", missed.len(), all[1]);
    }

    fn keys(text: &str) -> Vec<String> {
        Sense::of(text).tokens.into_iter().map(|t| t.key).collect()
    }

    #[test]
    fn vectors_are_compared_by_their_direction() {
        assert_eq!(cosine(&[1, 0], &[5, 0]), Some(1.0));
        assert_eq!(cosine(&[1, 0], &[0, 0]), None);
        assert_eq!(cosine(&[1], &[1, 2]), None);
    }
}
