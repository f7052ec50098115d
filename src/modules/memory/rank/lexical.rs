//! Words: an inverted index with BM25.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::add;
use super::words::Term;

/// How soon repeating a term stops to help.
const K1: f32 = 0.9;
/// How much long texts are held back.
const B: f32 = 0.4;
/// A posting is a row and, in the lowest bits, how often the term stands there.
const COUNT_BITS: u32 = 4;
const MOST: u32 = (1 << COUNT_BITS) - 1;

/// A question is as heavy as its so many rarest terms: no memory answers every word of a long prompt.
const ENOUGH: usize = 8;
/// The rarest terms that are looked for; each has a bit.
const MARKS: usize = 32;

/// Postings of all terms. Rows are numbered by the caller, upwards.
#[derive(Default)]
pub struct Lexical {
    numbers: HashMap<Term, u32, BuildHasherDefault<Plain>>,
    lists: Vec<Vec<u32>>,
    /// In how many living rows each term stands.
    living: Vec<u32>,
    /// The distinct terms of each row, so that a removal can take them back.
    forward: Vec<u32>,
    starts: Vec<u32>,
    lengths: Vec<u16>,
    rows: u32,
    words: u64,
}

/// A term of a question that stands in some row.
#[derive(Debug, Clone, Copy)]
pub struct Weighed {
    number: u32,
    /// Its part of the question's weight.
    pub share: f32,
}

impl Lexical {
    /// Adds the next row. `terms` is used up.
    pub fn push(&mut self, terms: &mut Vec<Term>) {
        let row = self.lengths.len() as u32;
        let length = terms.len().min(usize::from(u16::MAX)) as u16;
        terms.sort_unstable();
        add(&mut self.starts, self.forward.len() as u32);
        for same in terms.chunk_by(|a, b| a == b) {
            let number = *self.numbers.entry(same[0]).or_insert_with(|| {
                self.lists.push(Vec::new());
                self.living.push(0);
                self.lists.len() as u32 - 1
            });
            let list = &mut self.lists[number as usize];
            if list.len() == list.capacity() {
                // By a quarter instead of double: most lists are short and there are many.
                list.reserve_exact((list.len() / 4).max(2));
            }
            list.push(row << COUNT_BITS | (same.len() as u32).min(MOST));
            self.living[number as usize] += 1;
            add(&mut self.forward, number);
        }
        terms.clear();
        add(&mut self.lengths, length);
        self.rows += 1;
        self.words += u64::from(length);
    }

    /// Takes a row out of the counts; its postings stay until the index is packed.
    pub fn remove(&mut self, row: usize) {
        for at in self.span(row) {
            self.living[self.forward[at] as usize] -= 1;
        }
        self.rows -= 1;
        self.words -= u64::from(self.lengths[row]);
    }

    /// The same with only the given rows, renumbered in their order.
    pub fn packed(&self, kept: &[u32]) -> Self {
        let mut to = vec![u32::MAX; self.lengths.len()];
        for (new, old) in kept.iter().enumerate() {
            to[*old as usize] = new as u32;
        }
        let mut packed = Self { rows: self.rows, words: self.words, ..Self::default() };
        let mut numbers = vec![u32::MAX; self.lists.len()];
        for (number, list) in self.lists.iter().enumerate().filter(|(number, _)| self.living[*number] > 0) {
            numbers[number] = packed.lists.len() as u32;
            let mut kept = Vec::with_capacity(self.living[number] as usize);
            let moved =
                list.iter().map(|p| (to[(p >> COUNT_BITS) as usize], p & MOST)).filter(|(row, _)| *row != u32::MAX);
            kept.extend(moved.map(|(row, count)| row << COUNT_BITS | count));
            packed.living.push(kept.len() as u32);
            packed.lists.push(kept);
        }
        packed.numbers = self
            .numbers
            .iter()
            .map(|(term, number)| (*term, numbers[*number as usize]))
            .filter(|(_, number)| *number != u32::MAX)
            .collect();
        for row in kept {
            packed.starts.push(packed.forward.len() as u32);
            packed.forward.extend(self.span(*row as usize).map(|at| numbers[self.forward[at] as usize]));
            packed.lengths.push(self.lengths[*row as usize]);
        }
        packed
    }

    /// Weighs a question's terms against the rows there are.
    pub fn weigh(&self, question: &[Term]) -> Vec<Weighed> {
        let weight = |term: &Term| {
            let number = self.numbers.get(term).copied().filter(|n| self.living[*n as usize] > 0);
            let living = number.map_or(0, |n| self.living[n as usize]) as f32;
            (number, (1.0 + (self.rows as f32 - living + 0.5) / (living + 0.5)).ln())
        };
        let mut weighed: Vec<_> = question.iter().map(weight).collect();
        weighed.sort_by(|a, b| b.1.total_cmp(&a.1));
        let whole: f32 = weighed.iter().take(ENOUGH).map(|(_, idf)| idf).sum();
        let found =
            weighed.into_iter().filter_map(|(number, idf)| Some(Weighed { number: number?, share: idf / whole }));
        found.take(MARKS).collect()
    }

    /// For every row: BM25 in shares of the question's weight (1 for a row of middling length that has every term
    /// once), and which terms stand in it, a bit for each.
    pub fn scores(&self, asked: &[Weighed], bm25: &mut [f32], marks: &mut [u32]) {
        let usual = (self.words as f32 / self.rows.max(1) as f32).max(1.0);
        for (bit, Weighed { number, share }) in asked.iter().enumerate() {
            for posting in &self.lists[*number as usize] {
                let row = (posting >> COUNT_BITS) as usize;
                let count = (posting & MOST) as f32;
                let long = f32::from(self.lengths[row]) / usual;
                bm25[row] += share * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * long));
                marks[row] |= 1 << bit;
            }
        }
    }

    /// How many words a row has, without stop words.
    pub fn length(&self, row: usize) -> u16 {
        self.lengths[row]
    }

    /// What it takes in memory, allocator's overhead included.
    pub fn bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(|l| (l.capacity() * 4).next_multiple_of(16) + 16).sum();
        let numbers = self.numbers.capacity() * 8 / 7 * (size_of::<(Term, u32)>() + 1);
        lists
            + numbers
            + self.lists.capacity() * size_of::<Vec<u32>>()
            + (self.living.capacity() + self.forward.capacity() + self.starts.capacity()) * 4
            + self.lengths.capacity() * 2
    }

    fn span(&self, row: usize) -> std::ops::Range<usize> {
        let end = self.starts.get(row + 1).map_or(self.forward.len(), |end| *end as usize);
        self.starts[row] as usize..end
    }
}

/// Terms are hashes already.
#[derive(Default)]
pub struct Plain(u64);

impl Hasher for Plain {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
