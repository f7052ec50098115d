//! Reads a text as the words in it that carry something.

use super::near::{dictionary, group, light, soft, stem};
use super::numbers;

/// What is left of a text when it doesn't matter how it is put.
#[derive(Clone, Debug, Default)]
pub(super) struct Sense {
    pub tokens: Vec<Token>,
    past: bool,
    present: bool,
    /// It says that something is something: what is on the sides of its `is` may change places.
    pub turns: bool,
}

/// A word that carries something, or a number.
#[derive(Clone, Debug)]
pub(super) struct Token {
    /// The same where the words are the same or stand for one another by their group.
    pub key: String,
    pub stem: String,
    /// As it stands in the text, in lower case.
    pub word: String,
    /// It is written as a name is.
    pub name: bool,
    /// It may be said or left out.
    pub soft: bool,
    pub role: Role,
    /// It stands with `'s`.
    pub owner: bool,
    /// It stands right behind the token before it.
    pub glued: bool,
    /// It is put in the past by its own form.
    past: bool,
}

/// What the small words around a word make of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Role {
    #[default]
    Plain,
    /// `of Bea`, `Bea's`.
    Owner,
    By,
    /// In, at, on, with, as.
    At,
    For,
    From,
    To,
    Until,
    Since,
}

pub(super) const NEGATION: &str = "¬";

impl Token {
    fn new(key: String, word: &str) -> Self {
        Self {
            stem: stem(dictionary(word)),
            word: word.to_owned(),
            key,
            name: false,
            soft: false,
            role: Role::Plain,
            owner: false,
            glued: false,
            past: false,
        }
    }

    /// Numbers, dates and negations: nothing stands for them, and nothing makes up for them.
    pub fn is_firm(&self) -> bool {
        self.is_number() || self.is_date() || self.key == NEGATION || self.key.starts_with("at ")
    }

    pub fn is_number(&self) -> bool {
        self.key.starts_with('#') || ["half", "quarter"].contains(&&*self.key)
    }

    /// Whether it is a verb with its person or its time, if it is a verb.
    pub fn is_finite(&self) -> bool {
        self.past || is_past(&self.word) || is_present(&self.word)
    }

    pub fn is_date(&self) -> bool {
        self.key.starts_with("month ") || self.key.starts_with("day ")
    }
}

impl Sense {
    pub fn of(text: &str) -> Self {
        let said = words(text);
        let lower: Vec<String> = said.iter().map(|w| w.text.to_lowercase()).collect();
        let mut sense = Self::default();
        let mut role = Role::Plain;
        let mut glued = false;
        let mut n = 0;
        while n < said.len() {
            let (word, next) = (&*lower[n], lower.get(n + 1).map_or("", String::as_str));
            let before = n.checked_sub(1).map_or("", |b| &*lower[b]);
            sense.past |= is_past(word) && !word.ends_with("ed");
            sense.turns |= matches!(word, "is" | "are" | "was" | "were");
            sense.present |= matches!(word, "is" | "are" | "am" | "has" | "have");
            // Beside a number it is the month, however it is written.
            let number_at = |at: Option<usize>| {
                at.and_then(|at| lower.get(at..=at)).is_some_and(|word| numbers::read(word).is_some())
            };
            let dated =
                number_at(n.checked_sub(1)) || before == "of" && number_at(n.checked_sub(2)) || number_at(Some(n + 1));
            let modal = word == "may" && said[n].text == "may" && !dated;
            let stands_by =
                (word, next) == ("by", "the") && !["ed", "en", "wn"].iter().any(|end| before.ends_with(end));
            let (keys, used) = match phrase(word, next) {
                None if stands_by => (vec!["~near".to_owned()], 1),
                Some(read) => read,
                None if negates(word) => (vec![NEGATION.to_owned()], 1),
                None => match numbers::read(&lower[n..]).filter(|_| !modal && !abbreviates(&said[n].text)) {
                    Some(read) => read,
                    None if light(word) => (Vec::new(), 1),
                    None => (vec![key(word)], 1),
                },
            };
            if keys.is_empty() {
                glued = false;
                role = small_word(word).unwrap_or(match word {
                    "a" | "an" | "the" | "this" | "my" | "our" | "his" | "her" | "their" | "its" | "mr" | "mrs"
                    | "ms" => role,
                    _ => Role::Plain,
                });
            }
            for key in keys {
                let mut token = Token::new(key, word);
                token.name = n > 0 && said[n].text.starts_with(char::is_uppercase) && !token.is_firm();
                token.soft = soft(word) && used == 1
                    || ["every", "each"].contains(&before) && token.key == "~day"
                    || word == "daily";
                token.glued = std::mem::replace(&mut glued, true);
                // By the lake is at the lake; one dog is a dog.
                token.soft |= stands_by || word == "one" && used == 1;
                token.owner = said[n].owner;
                token.role = if said[n].owner { Role::Owner } else { role };
                token.past = is_past(word) && !participle(before, word);
                sense.tokens.push(token);
            }
            if !lower[n..(n + used).min(lower.len())].iter().all(|w| light(w)) {
                role = small_word(word).unwrap_or_default();
            }
            n += used;
        }
        // Where something may not be it says as much whether it can, may or must not.
        if sense.tokens.iter().any(|t| t.key == NEGATION) {
            for token in &mut sense.tokens {
                token.soft |= token.key == "~can" || token.word == "must";
            }
        }
        sense
    }

    /// Whether one speaks of what is over and the other of what is.
    pub fn contradicts_time(&self, other: &Self) -> bool {
        let over = |a: &Self, b: &Self| a.past && !a.present && b.present && !b.past;
        let forms = |a: &Self, b: &Self| {
            let past = || a.tokens.iter().filter(|t| t.past);
            past().any(|t| b.tokens.iter().any(|o| o.key == t.key && !o.past && is_present(&o.word)))
        };
        over(self, other) || over(other, self) || forms(self, other) || forms(other, self)
    }
}

fn key(word: &str) -> String {
    let base = dictionary(word);
    let stem = stem(base);
    group(word).or_else(|| group(base)).or_else(|| group(&stem)).unwrap_or(stem)
}

fn small_word(word: &str) -> Option<Role> {
    Some(match word {
        "of" => Role::Owner,
        "by" | "via" => Role::By,
        "from" => Role::From,
        "to" | "into" => Role::To,
        "in" | "on" | "at" | "with" | "as" => Role::At,
        "for" => Role::For,
        "until" | "till" => Role::Until,
        "since" => Role::Since,
        _ => return None,
    })
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

fn is_present(word: &str) -> bool {
    word.len() > 3 && word.ends_with('s') && !word.ends_with("ss")
}

/// `is closed`, `a painted wall`: no past.
fn participle(before: &str, word: &str) -> bool {
    word.ends_with("ed")
        && !matches!(before, "was" | "were" | "had" | "he" | "she" | "they" | "we" | "i")
        && (matches!(
            before,
            "is" | "are" | "be" | "been" | "being" | "gets" | "get" | "a" | "an" | "the" | "of" | "has" | "have"
        ))
}

/// Words that belong together: what they are read as, and how many there are.
fn phrase(word: &str, next: &str) -> Option<(Vec<String>, usize)> {
    let token = |key: &str| Some((vec![key.to_owned()], 2));
    match (word, next) {
        ("no", "longer") | ("any", "more") | ("used", "to") | ("gave" | "given" | "gives" | "giving", "up") => {
            token(NEGATION)
        }
        ("cannot" | "can't" | "couldn't", "stand" | "bear" | "abide") => token("~hate"),
        (negation, "like" | "enjoy") if negates(negation) => token("~dislike"),
        ("instead", "of") | ("rather", "than") => token("instead"),
        ("because", "of") | ("due" | "owing" | "thanks", "to") => Some((Vec::new(), 2)),
        ("at", "least") => token("at least"),
        ("at", "most") => token("at most"),
        ("more", "than") => token("over"),
        ("less" | "fewer", "than") => token("~under"),
        ("going", "to") => token("will"),
        ("has" | "have" | "had", "to") => token("~need"),
        ("next" | "close", "to") => token("~near"),
        ("end", "of") => token("late"),
        ("beginning" | "start", "of") => token("earli"),
        ("per", "cent") => token("~percent"),
        ("wake" | "wakes" | "woke" | "waking", "up") => token("~wake"),
        ("by", "himself" | "herself" | "itself" | "themselves" | "myself") => token("alon"),
        ("runs" | "run" | "ran" | "running", "out") => token("expir"),
        ("gets" | "get" | "got" | "are" | "is" | "were" | "was", "married") => token("~marry"),
        ("go" | "goes" | "going" | "went", verb) if verb.len() > 5 && verb.ends_with("ing") => Some((Vec::new(), 1)),
        ("out", "of") => Some((Vec::new(), 1)),
        ("every" | "each", "day" | "night" | "morning" | "evening" | "hour" | "week" | "month" | "year") => {
            Some((Vec::new(), 1))
        }
        ("not", "only")
        | ("right", "now")
        | ("a", "lot" | "bit" | "little" | "few")
        | ("as" | "at", "well" | "all")
        | ("of", "course")
        | ("these", "days")
        | ("on", "top") => Some((Vec::new(), 2)),
        _ => None,
    }
}

fn negates(word: &str) -> bool {
    const NO: &[&str] = &[
        "not",
        "no",
        "never",
        "none",
        "nobody",
        "nothing",
        "neither",
        "nor",
        "without",
        "cannot",
        "anymore",
        "stopped",
        "stops",
        "stop",
        "quit",
        "quits",
        "former",
        "formerly",
        "ex",
        "lacks",
        "lack",
        "refuses",
        "refused",
        "avoids",
        "avoid",
        "hardly",
        "barely",
        "failed",
        "fails",
        "except",
        "declined",
        "declines",
        "cancelled",
        "canceled",
        "kein",
        "keine",
        "nicht",
        "nie",
    ];
    NO.contains(&word) || word.ends_with("n't")
}

/// Three letters that are a day or a month only where they are written like one.
fn abbreviates(word: &str) -> bool {
    ["wed", "sun", "sat", "mon", "mar", "jun", "jan", "dec"].contains(&word)
}

struct Word {
    text: String,
    /// It stood with `'s`.
    owner: bool,
}

/// The words of a text, with what belongs into numbers and times kept together.
fn words(text: &str) -> Vec<Word> {
    let text = text.replace(['\u{2018}', '\u{2019}'], "'").replace("m²", " square metre ").replace("p.m.", "pm");
    let chars: Vec<char> = text.chars().collect();
    let mut out: Vec<Word> = Vec::new();
    let mut word = String::new();
    let mut currency = None;
    let push = |word: &mut String, currency: &mut Option<char>, out: &mut Vec<Word>| {
        if word.is_empty() {
            return;
        }
        let whole = std::mem::take(word);
        let bare = whole.strip_suffix("'s").or_else(|| whole.strip_suffix("'S"));
        let owner = bare.is_some();
        out.push(Word { text: bare.unwrap_or(&whole).to_owned(), owner });
        out.extend(currency.take().map(|c| Word { text: c.to_string(), owner: false }));
    };
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
        if !within || c.is_alphabetic() && figures(&word) && !nth(&chars[n..]) {
            push(&mut word, &mut currency, &mut out);
        }
        if within {
            word.push(*c);
        } else if "€$£".contains(*c) && after.is_some_and(char::is_ascii_digit) {
            // $40 is 40 $.
            currency = Some(*c);
        } else if "%€$£°".contains(*c) {
            out.push(Word { text: c.to_string(), owner: false });
        } else if *c == '\'' && before.is_some_and(|c| *c == 's') {
            // The Adeyemis' place.
            if let Some(last) = out.last_mut() {
                last.owner = true;
            }
        }
    }
    push(&mut word, &mut currency, &mut out);
    out
}

/// Whether here stands the end of `3rd`.
fn nth(rest: &[char]) -> bool {
    let end: String = rest.iter().take_while(|c| c.is_alphanumeric()).collect();
    matches!(end.to_lowercase().as_str(), "st" | "nd" | "rd" | "th")
}
