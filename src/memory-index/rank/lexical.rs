//! Words: an inverted index with BM25.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::words::Term;
use super::{add, grow, varint};

/// How soon repeating a term stops to help.
const K1: f32 = 0.9;
/// How much long texts are held back.
const B: f32 = 0.4;
/// A question is as heavy as its so many rarest terms: no memory answers every word of a long prompt.
const ENOUGH: usize = 8;
/// A few rows say little about which words are common: terms are weighed as if there were at least so many.
const FEW: u32 = 200;
/// The rarest terms that are looked for; each has a bit.
const MARKS: usize = 32;
/// A posting is the distance from the posting before and, in the lowest bits, how often the term stands there, less
/// one.
const COUNT_BITS: u32 = 2;
const MOST: u32 = 1 << COUNT_BITS;

/// Postings of all terms. Rows are numbered by the caller, upwards.
#[derive(Default)]
pub struct Lexical {
    numbers: HashMap<Term, u32, BuildHasherDefault<Plain>>,
    lists: Vec<List>,
    /// The distinct terms of each row, ascending and as distances, so that a removal can take them back.
    forward: Vec<u8>,
    starts: Vec<u32>,
    lengths: Vec<u16>,
    rows: u32,
    words: u64,
    /// What all lists have allocated.
    postings: usize,
}

/// The rows in which one term stands.
#[derive(Default)]
struct List {
    postings: Vec<u8>,
    last: u32,
    /// In how many rows that are still there.
    living: u32,
}

/// A term of a question that stands in some row.
#[derive(Debug, Clone, Copy)]
pub struct Weighed {
    number: u32,
    /// Its part of the question's weight.
    pub share: f32,
}

impl List {
    fn push(&mut self, row: u32, count: u32) {
        if self.postings.capacity() - self.postings.len() < 5 {
            // By a quarter instead of double: most lists are short and there are many.
            self.postings.reserve_exact((self.postings.len() / 4).max(8));
        }
        varint::push(&mut self.postings, (row - self.last) << COUNT_BITS | (count.min(MOST) - 1));
        self.last = row;
        self.living += 1;
    }

    /// Its allocation, rounded as an allocator does.
    fn bytes(&self) -> usize {
        match self.postings.capacity() {
            0 => 0,
            capacity => (capacity + 8).next_multiple_of(16).max(32),
        }
    }

    /// Rows and counts.
    fn read(&self) -> impl Iterator<Item = (usize, u32)> {
        varint::read(&self.postings).scan(0, |row, posting| {
            *row += posting >> COUNT_BITS;
            Some((*row as usize, (posting & (MOST - 1)) + 1))
        })
    }
}

impl Lexical {
    /// Adds the next row. `terms` is used up.
    pub fn push(&mut self, terms: &mut Vec<Term>) {
        let row = self.lengths.len() as u32;
        let length = terms.len().min(usize::from(u16::MAX)) as u16;
        terms.sort_unstable();
        let mut numbers = Vec::with_capacity(terms.len());
        for same in terms.chunk_by(|a, b| a == b) {
            let number = *self.numbers.entry(same[0]).or_insert_with(|| {
                add(&mut self.lists, List::default());
                self.lists.len() as u32 - 1
            });
            let list = &mut self.lists[number as usize];
            self.postings -= list.bytes();
            list.push(row, same.len() as u32);
            self.postings += list.bytes();
            numbers.push(number);
        }
        terms.clear();
        self.close(numbers, length);
        self.rows += 1;
        self.words += u64::from(length);
    }

    /// Notes which terms a row has.
    fn close(&mut self, mut numbers: Vec<u32>, length: u16) {
        numbers.sort_unstable();
        add(&mut self.starts, self.forward.len() as u32);
        grow(&mut self.forward, numbers.len() * 5);
        let mut last = 0;
        for number in numbers {
            varint::push(&mut self.forward, number - last);
            last = number;
        }
        add(&mut self.lengths, length);
    }

    /// Takes a row out of the counts; its postings stay until the index is packed.
    pub fn remove(&mut self, row: usize) {
        for number in self.terms(row) {
            self.lists[number as usize].living -= 1;
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
        for (number, old) in self.lists.iter().enumerate().filter(|(_, list)| list.living > 0) {
            numbers[number] = packed.lists.len() as u32;
            let mut list = List::default();
            for (row, count) in old.read().filter(|(row, _)| to[*row] != u32::MAX) {
                list.push(to[row], count);
            }
            list.postings.shrink_to_fit();
            packed.postings += list.bytes();
            packed.lists.push(list);
        }
        let moved = self.numbers.iter().map(|(term, number)| (*term, numbers[*number as usize]));
        packed.numbers = moved.filter(|(_, number)| *number != u32::MAX).collect();
        for row in kept.iter().map(|row| *row as usize) {
            let terms = self.terms(row).into_iter().map(|number| numbers[number as usize]).collect();
            packed.close(terms, self.lengths[row]);
        }
        packed
    }

    /// Weighs a question's terms against the rows there are. Terms that stand nowhere count in its weight.
    pub fn weigh(&self, question: &[Term]) -> Vec<Weighed> {
        let weight = |term: &Term| {
            let number = self.numbers.get(term).copied();
            let living = number.map_or(0, |n| self.lists[n as usize].living);
            let rows = self.rows.max(FEW);
            let idf = (1.0 + ((rows - living) as f32 + 0.5) / (living as f32 + 0.5)).ln();
            (number.filter(|_| living > 0), idf)
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
            for (row, count) in self.lists[*number as usize].read() {
                let count = count as f32;
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
        let numbers = self.numbers.capacity() * 8 / 7 * (size_of::<(Term, u32)>() + 1);
        self.postings
            + numbers
            + self.lists.capacity() * size_of::<List>()
            + self.forward.capacity()
            + self.starts.capacity() * 4
            + self.lengths.capacity() * 2
    }

    fn terms(&self, row: usize) -> Vec<u32> {
        let end = self.starts.get(row + 1).map_or(self.forward.len(), |end| *end as usize);
        let bytes = &self.forward[self.starts[row] as usize..end];
        let absolute = |last: &mut u32, distance| {
            *last += distance;
            Some(*last)
        };
        varint::read(bytes).scan(0, absolute).collect()
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
