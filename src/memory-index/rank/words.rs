//! Text to terms: lower case, without stop words, stemmed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use rust_stemmers::{Algorithm, Stemmer};

/// Words that say nothing about what a text is about. Halves of contractions ("didn", "ll") are among them.
#[rustfmt::skip]
const STOP: &[&str] = &[
    "a", "about", "above", "after", "again", "against", "ain", "all", "am", "an", "and", "any", "are", "aren", "as", "at",
    "be", "because", "been", "before", "being", "below", "between", "both", "but", "by",
    "can", "could", "couldn", "d", "did", "didn", "do", "does", "doesn", "doing", "don", "down", "during",
    "each", "few", "for", "from", "further", "had", "hadn", "has", "hasn", "have", "haven", "having", "he", "her", "here",
    "hers", "herself", "him", "himself", "his", "how", "i", "if", "in", "into", "is", "isn", "it", "its", "itself",
    "just", "ll", "m", "me", "might", "mightn", "more", "most", "must", "mustn", "my", "myself",
    "needn", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other", "our", "ours", "ourselves",
    "out", "over", "own", "re", "s", "same", "shan", "she", "should", "shouldn", "so", "some", "such",
    "t", "than", "that", "the", "their", "theirs", "them", "themselves", "then", "there", "these", "they", "this",
    "those", "through", "to", "too", "under", "until", "up", "ve", "very", "was", "wasn", "we", "were", "weren", "what",
    "when", "where", "which", "while", "who", "whom", "whose", "why", "will", "with", "won", "would", "wouldn",
    "you", "your", "yours", "yourself", "yourselves",
];

/// A term as the index knows it: the hash of its stem. Two of fifty thousand terms share one in 1 of 10^10 indexes.
pub type Term = u64;

/// How many spellings are remembered with their stems; stemming is the dearest part of taking in a text.
const REMEMBERED: usize = 1 << 13;
/// Longer "words" are keys and encodings; their beginning will do.
const LONGEST: usize = 40;

/// Makes terms of words.
pub struct Stems {
    stemmer: Stemmer,
    known: HashMap<Box<str>, Option<Term>>,
}

impl Default for Stems {
    fn default() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), known: HashMap::new() }
    }
}

impl Stems {
    /// Adds the terms of a text to `terms`, in its order and with repetitions.
    pub fn terms(&mut self, text: &str, terms: &mut Vec<Term>) {
        each_word(text, |word| {
            let term = match self.known.get(word) {
                Some(term) => *term,
                None => {
                    if self.known.len() >= REMEMBERED {
                        self.known.clear();
                    }
                    let term = term(&self.stemmer, word);
                    self.known.insert(word.into(), term);
                    term
                }
            };
            terms.extend(term);
        });
    }

    /// What the memory of spellings takes, about.
    pub fn bytes(&self) -> usize {
        self.known.capacity() * (size_of::<(Box<str>, Option<Term>)>() + 1) + self.known.len() * 32
    }
}

/// The distinct terms of a question, in its order.
pub fn question(text: &str) -> Vec<Term> {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut terms = Vec::new();
    each_word(text, |word| {
        if let Some(term) = term(&stemmer, word)
            && !terms.contains(&term)
        {
            terms.push(term);
        }
    });
    terms
}

/// The term of a word in lower case, none for a stop word.
fn term(stemmer: &Stemmer, word: &str) -> Option<Term> {
    if STOP.binary_search(&word).is_ok() {
        return None;
    }
    let mut hash = DefaultHasher::new();
    hash.write(stemmer.stem(word).as_bytes());
    Some(hash.finish())
}

/// Calls `each` with the words of a text in lower case: runs of letters and digits. Scripts without spaces give one
/// word for each character, so that a part of a sentence finds it.
pub fn each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut word = String::with_capacity(LONGEST);
    for c in text.chars() {
        if c.is_ascii() {
            if c.is_ascii_alphanumeric() {
                if word.len() < LONGEST {
                    word.push(c.to_ascii_lowercase());
                }
                continue;
            }
        } else if c.is_alphanumeric() {
            if unspaced(c) {
                if !word.is_empty() {
                    each(&word);
                    word.clear();
                }
                word.push(c);
            } else {
                if word.len() < LONGEST {
                    word.extend(c.to_lowercase());
                }
                continue;
            }
        }
        if !word.is_empty() {
            each(&word);
            word.clear();
        }
    }
    if !word.is_empty() {
        each(&word);
    }
}

/// Kana, Han, Hangul is spaced, Thai is not.
fn unspaced(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        each_word(text, |word| all.push(word.to_owned()));
        all
    }

    #[test]
    fn stop_words_are_in_order_because_they_are_searched_so() {
        assert!(STOP.is_sorted());
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(words("Don't call +49-30, Zoë!"), ["don", "t", "call", "49", "30", "zoë"]);
        assert_eq!(words("東京 tower"), ["東", "京", "tower"]);
        assert_eq!(words(&"x".repeat(500)), ["x".repeat(LONGEST)]);
        assert_eq!(words(" .,"), [] as [&str; 0]);
    }

    #[test]
    fn forms_of_a_word_are_one_term_and_stop_words_none() {
        assert_eq!(question("running runs"), question("run"));
        assert!(question("What did she do about it?").is_empty());
        assert_eq!(question("tea TEA teas").len(), 1);
        let mut stems = Stems::default();
        let mut terms = Vec::new();
        stems.terms("He runs, she runs", &mut terms);
        assert_eq!(terms, [question("run")[0]; 2]);
    }
}
