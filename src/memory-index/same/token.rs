//! What a text is read as: words that carry something, numbers, dates.

use super::words::{are_synonyms, relates, stem};

/// A word that carries something, or a number.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    /// The same where two tokens are the same, or stand for one another by their group.
    pub key: String,
    /// As it stands in the text, in lower case.
    pub word: String,
    pub stem: String,
    /// It is written as a name is.
    pub name: bool,
    /// It may be said or left out.
    pub soft: bool,
    /// Nothing stands between it and the token before.
    pub glued: bool,
    /// It follows an `and` or a comma.
    pub listed: bool,
    /// What is on its sides may change places.
    pub turns: bool,
    pub tense: Option<Tense>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Word,
    Number,
    Month,
    Day,
    Negation,
    /// `is` and `has`, `by`: read for their tense and their order.
    Helper,
    /// `from` and `to`.
    Way,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tense {
    Past,
    Present,
}

impl Token {
    pub fn new(kind: Kind, key: &str, word: &str) -> Self {
        Self {
            kind,
            key: key.to_owned(),
            word: word.to_owned(),
            stem: stem(word),
            name: false,
            soft: matches!(kind, Kind::Helper | Kind::Way),
            glued: false,
            listed: false,
            turns: false,
            tense: None,
        }
    }

    pub fn same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.key == other.key
    }

    /// Whether the one may stand for the other. Nothing stands for a number, a date or a negation.
    pub fn alike(&self, other: &Self) -> bool {
        self.same(other) || (self.kind, other.kind) == (Kind::Word, Kind::Word) && are_synonyms(&self.stem, &other.stem)
    }

    /// Whether it has the form of a verb with its person or its time.
    pub fn is_finite(&self) -> bool {
        self.kind == Kind::Word && !self.soft && !self.name && self.tense.is_some()
    }

    /// A word that says what something is, and no name.
    pub fn is_plain(&self) -> bool {
        self.kind == Kind::Word && !self.soft && !self.name && !relates(&self.word)
    }
}
