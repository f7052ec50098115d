//! A few texts that stay as they are, ranked by words and meaning for a question.

use crate::embed::{EmbedError, Embedder, Fixed, quantised};

use super::lexical::Lexical;
use super::vectors::Vectors;
use super::words::{self, Stems};

/// How much meaning counts beside words, which each count up to about 1.
const MEANING: f32 = 1.8;

/// Texts by their places, ready to be ranked. Built in under a millisecond a text.
pub struct Texts {
    lexical: Lexical,
    vectors: Vectors,
    /// Of which text each vector is.
    of: Vec<u32>,
    usual: Usual,
}

/// What all texts have in common: that they say what a tool does, or are orders. It tells none of them from the others,
/// and without it vectors find what is meant more often.
struct Usual(Vec<f32>);

impl Usual {
    fn of(vectors: &[Vec<i8>]) -> Self {
        let mut mean = vec![0.0; Fixed.dim()];
        for vector in vectors {
            let scale = 1.0 / (length(vector) * vectors.len() as f32);
            mean.iter_mut().zip(vector).for_each(|(mean, n)| *mean += f32::from(*n) * scale);
        }
        Self(mean)
    }

    /// What is a vector's own.
    fn leave_out(&self, vector: &[i8]) -> Vec<i8> {
        let scale = 1.0 / length(vector);
        let own: Vec<f32> = vector.iter().zip(&self.0).map(|(n, usual)| f32::from(*n) * scale - usual).collect();
        quantised(&own)
    }
}

fn length(vector: &[i8]) -> f32 {
    vector.iter().map(|n| f32::from(*n) * f32::from(*n)).sum::<f32>().sqrt().max(1.0)
}

impl Texts {
    /// Each text, with further sentences that mean the same.
    ///
    /// # Errors
    /// The model compiled in can't be read.
    pub fn new<'a>(texts: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Result<Self, EmbedError> {
        let (mut lexical, mut stems, mut terms) = (Lexical::default(), Stems::default(), Vec::new());
        let (mut meant, mut of) = (Vec::new(), Vec::new());
        for (place, (text, sentences)) in (0..).zip(texts) {
            let words = sentences.iter().fold(text.to_owned(), |words, more| words + "\n" + more);
            stems.terms(&words, &mut terms);
            lexical.push(&mut terms);
            for text in [text].into_iter().chain(sentences.iter().map(String::as_str)) {
                meant.push(Fixed::vector(text)?);
                of.push(place);
            }
        }
        let usual = Usual::of(&meant);
        let mut vectors = Vectors::new(Fixed.dim());
        meant.iter().for_each(|vector| vectors.push(&usual.leave_out(vector)));
        Ok(Self { lexical, vectors, of, usual })
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
        self.vectors.cosines(&self.usual.leave_out(&Fixed::vector(question)?), &mut cosines);
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
