//! Whom and what entries are about: which of them a question names.

use std::collections::HashMap;

use super::names::Names;
use super::words::{Term, question};

/// Every speaker and subject once, found by their words.
#[derive(Default)]
pub struct Abouts {
    names: Names<String>,
    /// By number: how many distinct terms the name has.
    lengths: Vec<u8>,
    /// In which names a term stands.
    places: HashMap<Term, Vec<u32>>,
}

impl Abouts {
    pub fn number(&mut self, name: &str) -> u32 {
        let number = self.names.number(name);
        if number as usize >= self.lengths.len() {
            self.lengths.resize(number as usize, 0);
            let terms = question(name);
            self.lengths.push(terms.len().min(255) as u8);
            for term in terms {
                self.places.entry(term).or_default().push(number);
            }
        }
        number
    }

    /// By number: how much of the name stands in the question, 1 if every word of it.
    pub fn named(&self, question: &[Term]) -> Vec<f32> {
        let mut named = vec![0.0; self.lengths.len().max(1)];
        for number in question.iter().filter_map(|term| self.places.get(term)).flatten() {
            named[*number as usize] += 1.0 / f32::from(self.lengths[*number as usize]);
        }
        named
    }

    pub fn bytes(&self) -> usize {
        // A name and its terms' places are small allocations of some 100 bytes together.
        self.names.bytes() + self.lengths.capacity() + self.places.capacity() * 8 / 7 * 33 + self.lengths.len() * 100
    }
}
