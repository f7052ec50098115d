//! Finding memories: one index in memory, made from rows, searched without a database.
//!
//! The index holds no text. It keeps terms, vectors and what filters and the score need, in step with the rows by
//! [`Index::put`] and [`Index::remove`]; it may vanish at any time and be made anew. [`score`] says what ranks what.

mod abouts;
mod lexical;
mod names;
mod rows;
pub mod score;
mod search;
#[cfg(test)]
mod tests;
mod texts;
mod time;
mod types;
mod varint;
mod vectors;
mod words;

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use uuid::Uuid;

pub use texts::Texts;
pub use types::{Entry, Facets, Filter, Hit, Kind, Mode, Parts, Query, Weights};

use lexical::Lexical;
use rows::{NONE, Rows};
use vectors::Vectors;
use words::{Stems, Term};

/// What one butler knows for one tenant, ready to be searched.
pub struct Index {
    zone: TimeZone,
    rows: Rows,
    lexical: Lexical,
    vectors: Vectors,
    /// For each row, one over the length of its vector and that of the row before added up.
    joint: Vec<f32>,
    places: HashMap<Uuid, u32>,
    last_seq: i64,
    stems: Stems,
    terms: Vec<Term>,
}

/// Removed rows are kept as gaps until there are so many.
const GAPS: usize = 1024;

impl Index {
    /// An empty index of vectors with `dim` numbers; days begin and end as in `zone`.
    pub fn new(dim: usize, zone: TimeZone) -> Self {
        Self {
            zone,
            rows: Rows::default(),
            lexical: Lexical::default(),
            vectors: Vectors::new(dim),
            joint: Vec::new(),
            places: HashMap::new(),
            last_seq: 0,
            stems: Stems::default(),
            terms: Vec::new(),
        }
    }

    /// Takes an entry in, in place of the one with the same id.
    pub fn put(&mut self, entry: &Entry) {
        self.remove(entry.id);
        self.last_seq = self.last_seq.max(entry.seq);
        self.stems.terms(&self.date(entry.at), &mut self.terms);
        if let Some(about) = entry.about {
            self.stems.terms(about, &mut self.terms);
        }
        self.stems.terms(entry.text, &mut self.terms);
        self.lexical.push(&mut self.terms);
        self.vectors.push(entry.vector);
        let row = self.rows.push(entry);
        add(&mut self.joint, 0.0);
        self.join(row as u32);
        self.join(self.rows.links[row].1);
        self.places.insert(entry.id, row as u32);
    }

    /// Takes an entry out; false if it wasn't there.
    pub fn remove(&mut self, id: Uuid) -> bool {
        let Some(row) = self.places.remove(&id) else { return false };
        let row = row as usize;
        let after = self.rows.links[row].1;
        self.lexical.remove(row);
        self.rows.remove(row);
        self.join(after);
        let gaps = self.rows.rows.len() - self.places.len();
        if gaps > GAPS && gaps > self.places.len() / 4 {
            self.pack();
        }
        true
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn contains(&self, id: Uuid) -> bool {
        self.places.contains_key(&id)
    }

    /// The highest sequence number ever put in: where reading on begins.
    pub fn last_seq(&self) -> i64 {
        self.last_seq
    }

    /// What the index takes in memory, about.
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
            + self.lexical.bytes()
            + self.vectors.bytes()
            + self.joint.capacity() * 4
            + self.places.capacity() * 8 / 7 * (size_of::<(Uuid, u32)>() + 1)
            + self.stems.bytes()
    }

    /// A day in words, as it is asked for: "5 March 2024".
    fn date(&self, at: Timestamp) -> String {
        self.zone.to_datetime(at).strftime("%-d %B %Y ").to_string()
    }

    /// Brings the joint length of a row and the one before it up to date.
    fn join(&mut self, row: u32) {
        if row == NONE {
            return;
        }
        let row = row as usize;
        self.joint[row] = match self.rows.links[row].0 {
            NONE => 1.0,
            before => {
                let cosine = self.vectors.between(row, before as usize);
                (1.0 + score::BEFORE * score::BEFORE + 2.0 * score::BEFORE * cosine).max(0.1).sqrt().recip()
            }
        };
    }

    fn pack(&mut self) {
        let kept: Vec<u32> =
            (0..self.rows.rows.len() as u32).filter(|row| self.rows.group[*row as usize] > 0).collect();
        self.rows = self.rows.packed(&kept);
        self.lexical = self.lexical.packed(&kept);
        self.vectors = self.vectors.packed(&kept);
        self.joint = kept.iter().map(|row| self.joint[*row as usize]).collect();
        for (new, row) in self.rows.rows.iter().enumerate() {
            self.places.insert(row.id, new as u32);
        }
    }
}

/// How many different words a question has, besides those that say nothing.
pub fn words_of(question: &str) -> usize {
    words::question(question).len()
}

/// What of an entry is embedded: the same words that are indexed, but the date.
pub fn spoken(about: Option<&str>, text: &str) -> String {
    match about {
        Some(about) => format!("{about}: {text}"),
        None => text.to_owned(),
    }
}

/// A fact's words, as they are indexed and embedded beside its subject.
pub fn fact_text(predicate: &str, content: &str) -> String {
    format!("{}: {content}", predicate.replace('_', " "))
}

/// What of a memory is embedded, of whatever kind: a fact has a predicate.
pub fn spoken_memory(about: Option<&str>, predicate: Option<&str>, content: &str) -> String {
    match predicate {
        Some(predicate) => spoken(about, &fact_text(predicate, content)),
        None => spoken(about, content),
    }
}

/// Makes room for `more`, by an eighth instead of double: an index is kept for long.
fn grow<T>(column: &mut Vec<T>, more: usize) {
    if column.capacity() - column.len() < more {
        column.reserve_exact((column.len() / 8).max(more).max(64));
    }
}

fn add<T>(column: &mut Vec<T>, value: T) {
    grow(column, 1);
    column.push(value);
}
