//! A few texts that stay as they are, ranked by words and meaning for a question.

use crate::embed::{EmbedError, Embedder, Fixed};

use super::lexical::Lexical;
use super::vectors::Vectors;
use super::words::{self, Stems};

/// How much meaning counts beside words, which each count up to about 1: questions that use a text's own words are right
/// more often than vectors are.
const MEANING: f32 = 1.2;

/// Texts by their places, ready to be ranked. Built in microseconds a text.
pub struct Texts {
    lexical: Lexical,
    vectors: Vectors,
    /// Of which text each vector is.
    of: Vec<u32>,
}

impl Texts {
    /// Each text, with further sentences that mean the same.
    ///
    /// # Errors
    /// The model compiled in can't be read.
    pub fn new<'a>(texts: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Result<Self, EmbedError> {
        let mut all = Self { lexical: Lexical::default(), vectors: Vectors::new(Fixed.dim()), of: Vec::new() };
        let (mut stems, mut terms) = (Stems::default(), Vec::new());
        for (place, (text, sentences)) in (0..).zip(texts) {
            let words = sentences.iter().fold(text.to_owned(), |words, more| words + "\n" + more);
            stems.terms(&words, &mut terms);
            all.lexical.push(&mut terms);
            for meant in [text].into_iter().chain(sentences.iter().map(String::as_str)) {
                all.vectors.push(&Fixed::vector(meant)?);
                all.of.push(place);
            }
        }
        Ok(all)
    }

    /// How well each text fits a question, by its place: 0 and less for one that has nothing to do with it.
    ///
    /// # Errors
    /// The model compiled in can't be read.
    pub fn scores(&self, question: &str) -> Result<Vec<f32>, EmbedError> {
        let texts = self.of.last().map_or(0, |last| *last as usize + 1);
        let (mut words, mut marks) = (vec![0.0; texts], vec![0; texts]);
        self.lexical.scores(&self.lexical.weigh(&words::question(question)), &mut words, &mut marks);
        let mut cosines = vec![0.0; self.of.len()];
        self.vectors.cosines(&Fixed::vector(question)?, &mut cosines);
        let mut meaning = vec![f32::MIN; texts];
        for (of, cosine) in self.of.iter().zip(cosines) {
            let best = &mut meaning[*of as usize];
            *best = best.max(cosine);
        }
        Ok(words.iter().zip(meaning).map(|(words, meaning)| words + MEANING * meaning).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_meaning_find_a_text() {
        let texts = ["Log a meal with its calories", "Put a medicine on the list", "Send a letter to somebody"];
        let index = Texts::new(texts.map(|text| (text, [].as_slice()))).unwrap();
        let best = |question: &str| {
            let scores = index.scores(question).unwrap();
            (0..texts.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap()
        };
        assert_eq!(best("which medicines are on my list?"), 1, "its words");
        assert_eq!(best("I ate a sandwich for lunch"), 0, "its meaning");
        assert_eq!(best("mail this to Bea"), 2, "its meaning");
        assert!(Texts::new([]).unwrap().scores("x").unwrap().is_empty());
        let said = ["I had a bite".to_owned(), "the postman waits".to_owned()];
        let index = Texts::new([(texts[0], [].as_slice()), (texts[2], &said)]).unwrap();
        let scores = index.scores("the postman is at the door").unwrap();
        assert!(scores[1] > scores[0], "by one of its sentences: {scores:?}");
    }
}
