//! One question through the index.

use super::lexical::Weighed;
use super::rows::{ASKS, DATED, NONE};
use super::score::{self, Parts, Signals};
use super::types::{Hit, Kind, Mode, Query};
use super::{Index, time, words};

/// What is known of all rows with regard to one question. Rows that the filter leaves out are as if they were empty.
struct Found {
    mask: Vec<bool>,
    bm25: Vec<f32>,
    /// Which of the question's terms stand in the row.
    marks: Vec<u32>,
    cosine: Vec<f32>,
    /// By thread: the terms that stand in it, and its best cosine.
    thread_marks: Vec<u32>,
    thread_cosine: Vec<f32>,
}

/// What is known of the question itself.
struct Asked {
    terms: Vec<Weighed>,
    /// By number of `about`: how much of it the question names.
    abouts: Vec<f32>,
    entities: Vec<u32>,
    time: time::Asked,
}

#[derive(Clone, Copy)]
struct Candidate {
    row: u32,
    sum: f32,
}

impl Index {
    /// The best entries for a question, the best first. The same rows and question give the same hits.
    pub fn search(&self, query: &Query) -> Vec<Hit> {
        let (asked, found) = self.look(query);
        let minute = query.now.as_second() as f64 / 60.0;
        let mut candidates = self.candidates(query, &asked, &found, minute);
        let order = |a: &Candidate, b: &Candidate| b.sum.total_cmp(&a.sum).then_with(|| self.later(a.row, b.row));
        if candidates.len() > score::GATE {
            candidates.select_nth_unstable_by(score::GATE - 1, order);
            candidates.truncate(score::GATE);
        }
        candidates.sort_unstable_by(order);
        let Some(best) = candidates.first() else { return Vec::new() };
        let (floor, good) = score::scale(query.mode);
        let whole = best.sum.max(good) - floor;
        let mut hits: Vec<_> = candidates
            .iter()
            .map(|candidate| (candidate.row, self.hit(query, &asked, &found, *candidate, (floor, whole), minute)))
            .collect();
        hits.sort_by(|(a, one), (b, other)| other.score.total_cmp(&one.score).then_with(|| self.later(*a, *b)));
        hits.truncate(query.limit);
        hits.into_iter().map(|(_, hit)| hit).collect()
    }

    /// What happened later comes first, then what was put in later.
    fn later(&self, a: u32, b: u32) -> std::cmp::Ordering {
        let key = |row: u32| {
            let row = row as usize;
            (self.rows.at[row], self.rows.rows[row].seq, self.rows.rows[row].id)
        };
        key(b).cmp(&key(a))
    }

    fn look(&self, query: &Query) -> (Asked, Found) {
        let n = self.rows.rows.len();
        let mut found = Found {
            mask: self.rows.mask(&query.filter),
            bm25: vec![0.0; n],
            marks: vec![0; n],
            cosine: vec![0.0; n],
            thread_marks: vec![0; self.rows.threads()],
            thread_cosine: vec![0.0; self.rows.threads()],
        };
        let terms = words::question(query.text);
        let abouts = self.abouts(&terms);
        let terms = self.lexical.weigh(&terms);
        if !matches!(query.mode, Mode::Semantic | Mode::PlainMeaning) {
            self.lexical.scores(&terms, &mut found.bm25, &mut found.marks);
        }
        if !matches!(query.mode, Mode::Keyword | Mode::PlainWords) {
            self.vectors.cosines(query.vector, &mut found.cosine);
        }
        for row in 0..n {
            if !found.mask[row] {
                (found.bm25[row], found.marks[row], found.cosine[row]) = (0.0, 0, 0.0);
            }
            let thread = self.rows.thread[row] as usize;
            found.thread_marks[thread] |= found.marks[row];
            found.thread_cosine[thread] = found.thread_cosine[thread].max(found.cosine[row]);
        }
        let entities = query.entities.iter().filter_map(|id| self.rows.entities.find(id)).collect();
        let time = time::Asked::read(query.text, query.now, &self.zone);
        (Asked { terms, abouts, entities, time }, found)
    }

    /// How much of each `about` the question names: 1 if every word of it.
    fn abouts(&self, question: &[words::Term]) -> Vec<f32> {
        let mut abouts = vec![0.0; self.rows.abouts.count()];
        for (name, number) in self.rows.abouts.iter() {
            let terms = words::question(name);
            let named = terms.iter().filter(|term| question.contains(term)).count();
            if named > 0 {
                abouts[number as usize] = named as f32 / terms.len() as f32;
            }
        }
        abouts
    }

    /// All rows with some evidence and enough relevance.
    fn candidates(&self, query: &Query, asked: &Asked, found: &Found, minute: f64) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        let (floor, _) = score::scale(query.mode);
        let doubtful = |row| query.min_confidence > 0.0 && !self.trusted(query, row, minute);
        for row in (0..self.rows.rows.len()).filter(|row| found.mask[*row]) {
            let sum = if plain(query.mode) {
                found.bm25[row] + found.cosine[row]
            } else {
                self.signals(asked, found, row).map_or(0.0, |signals| signals.sum())
            };
            if sum > floor && !doubtful(row) {
                candidates.push(Candidate { row: row as u32, sum });
            }
        }
        candidates
    }

    fn trusted(&self, query: &Query, row: usize, minute: f64) -> bool {
        self.rows.kind(row) == Kind::Episode || self.rows.rows[row].confidence_at(minute) >= query.min_confidence
    }

    /// The signals of a row; none without evidence.
    fn signals(&self, asked: &Asked, found: &Found, row: usize) -> Option<Signals> {
        let (before, after) = self.rows.links[row];
        let link = |row: u32, side: fn(&(u32, u32)) -> u32| {
            if row == NONE { NONE } else { side(&self.rows.links[row as usize]) }
        };
        let marks = |row: u32| if row == NONE { 0 } else { found.marks[row as usize] };
        let near = found.marks[row]
            | marks(before)
            | marks(after)
            | marks(link(before, |(before, _)| *before))
            | marks(link(after, |(_, after)| *after));
        let meaning = found.cosine[row];
        let meaning_near = match before {
            NONE => meaning,
            before => (meaning + score::BEFORE * found.cosine[before as usize]) * self.joint[row],
        };
        let words_near = share(&asked.terms, near);
        if words_near < score::SOME_WORDS && meaning.max(meaning_near) < score::SOME_MEANING {
            return None;
        }
        let thread = self.rows.thread[row] as usize;
        let (thread_marks, meaning_thread) = match thread {
            0 => (near, meaning),
            thread => (found.thread_marks[thread], found.thread_cosine[thread]),
        };
        let cold = &self.rows.rows[row];
        let form = self.rows.form[row];
        let answers = before != NONE && self.rows.form[before as usize] & ASKS > 0;
        let named = cold.entity > 0 && asked.entities.contains(&cold.entity);
        Some(Signals {
            words: found.bm25[row],
            words_near,
            words_thread: share(&asked.terms, thread_marks),
            answer: if answers { found.bm25[before as usize] } else { 0.0 },
            meaning,
            meaning_near,
            meaning_thread,
            about: if named { 1.0 } else { asked.abouts[cold.about as usize] },
            span: asked.time.matches(self.rows.at[row]),
            when: f32::from(u8::from(asked.time.when && form & DATED > 0)),
            length: f32::from(self.lexical.length(row).min(50)).ln_1p() / 4.0,
            asks: f32::from(u8::from(form & ASKS > 0)),
        })
    }

    fn hit(
        &self,
        query: &Query,
        asked: &Asked,
        found: &Found,
        candidate: Candidate,
        scale: (f32, f32),
        minute: f64,
    ) -> Hit {
        let row = candidate.row as usize;
        let cold = &self.rows.rows[row];
        let (floor, whole) = scale;
        let signals = self.signals(asked, found, row).filter(|_| !plain(query.mode));
        let mut parts = signals.map(|signals| signals.parts(floor, whole)).unwrap_or_else(|| Parts {
            bm25: found.bm25[row],
            cosine: found.cosine[row],
            words: found.bm25[row] / whole,
            meaning: found.cosine[row] / whole,
            ..Parts::default()
        });
        parts.relevance = (candidate.sum - floor) / whole;
        parts.importance = cold.importance;
        parts.recency = cold.recency_at(minute);
        parts.confidence = cold.confidence_at(minute);
        let weights = query.weights;
        let score = weights.relevance * parts.relevance
            + weights.importance * parts.importance
            + weights.recency * parts.recency
            + weights.confidence * parts.confidence;
        Hit { id: cold.id, kind: self.rows.kind(row), score, parts }
    }
}

/// The share of a question's weight that the marked terms have.
fn share(terms: &[Weighed], mut marks: u32) -> f32 {
    let mut sum = 0.0;
    while marks != 0 {
        sum += terms[marks.trailing_zeros() as usize].share;
        marks &= marks - 1;
    }
    sum.min(1.0)
}

fn plain(mode: Mode) -> bool {
    matches!(mode, Mode::PlainWords | Mode::PlainMeaning)
}
