//! One question through the index.

use super::lexical::Weighed;
use super::rows::{ASKS, DATED, NONE};
use super::score::{self, Signals};
use super::types::{Hit, Kind, Mode, Parts, Query};
use super::{Index, time, words};

/// What is known of all rows with regard to one question. Rows that the filter leaves out are as if they were empty.
struct Found {
    mask: Vec<bool>,
    bm25: Vec<f32>,
    /// Which of the question's terms stand in the row.
    marks: Vec<u32>,
    cosine: Vec<f32>,
    /// By thread: the share of the question's words that stand in it, and its best cosine.
    threads: Vec<(f32, f32)>,
}

/// What is known of the question itself.
struct ParsedQuery {
    /// It consists of stop words: what is near its vector would be near by chance.
    empty: bool,
    shares: Shares,
    /// By number of `about`: how much of it the question names.
    abouts: Vec<f32>,
    entities: Vec<u32>,
    time: time::TimeQuery,
    /// [`score::length`] of so many words.
    lengths: Vec<f32>,
}

/// So many candidates are gathered before all but the best are dropped.
const BATCH: usize = 4 * score::GATE;

#[derive(Clone, Copy)]
struct Candidate {
    row: u32,
    sum: f32,
}

impl Index {
    /// The best entries for a question, the best first. The same rows and question give the same hits.
    pub fn search(&self, query: &Query) -> Vec<Hit> {
        let query = &Query { mode: with_vector(query), ..query.clone() };
        let (asked, found) = self.look(query);
        if asked.empty && matches!(query.mode, Mode::Hybrid | Mode::Keyword) {
            return Vec::new();
        }
        let minute = query.now.as_second() as f64 / 60.0;
        let mut candidates = self.candidates(query, &asked, &found, minute);
        candidates.sort_unstable_by(|a, b| self.order(a, b));
        candidates.truncate(score::GATE);
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

    fn look(&self, query: &Query) -> (ParsedQuery, Found) {
        let n = self.rows.rows.len();
        let mut found = Found {
            mask: self.rows.mask(&query.filter),
            bm25: vec![0.0; n],
            marks: vec![0; n],
            cosine: vec![0.0; n],
            threads: Vec::new(),
        };
        let terms = words::question(query.text);
        let abouts = self.rows.abouts.named(&terms);
        let empty = terms.is_empty();
        let terms = self.lexical.weigh(&terms);
        if !matches!(query.mode, Mode::Semantic | Mode::PlainMeaning) {
            self.lexical.scores(&terms, &mut found.bm25, &mut found.marks);
        }
        if !matches!(query.mode, Mode::Keyword | Mode::PlainWords) {
            self.vectors.cosines(query.vector, &mut found.cosine);
        }
        let mut threads = vec![(0, 0.0_f32); self.rows.threads()];
        // Rows of a thread mostly follow each other: what they have together is gathered beside the table.
        let (mut current, mut together) = (0, (0, 0.0));
        let columns = found.bm25.iter_mut().zip(&mut found.marks).zip(&mut found.cosine);
        for (((bm25, marks), cosine), (lets, thread)) in columns.zip(found.mask.iter().zip(&self.rows.thread)) {
            if !lets {
                (*bm25, *marks, *cosine) = (0.0, 0, 0.0);
                continue;
            }
            if *thread == 0 {
                continue;
            }
            if *thread != current {
                threads[current as usize] = together;
                current = *thread;
                together = threads[current as usize];
            }
            together = (together.0 | *marks, together.1.max(*cosine));
        }
        threads[current as usize] = together;
        let shares = Shares::of(&terms);
        found.threads = threads.into_iter().map(|(marks, cosine)| (shares.share(marks), cosine)).collect();
        let entities = query.entities.iter().filter_map(|id| self.rows.entities.find(id)).collect();
        let time = time::TimeQuery::read(query.text, query.now, &self.zone);
        let lengths = (0..=score::LONG).map(score::length).collect();
        (ParsedQuery { empty, shares, abouts, entities, time, lengths }, found)
    }

    /// The most relevant of the rows with some evidence and enough relevance, and some more.
    fn candidates(&self, query: &Query, asked: &ParsedQuery, found: &Found, minute: f64) -> Vec<Candidate> {
        let mut candidates = Vec::with_capacity(BATCH);
        let (mut least, _) = score::scale(query.mode);
        let about = if asked.entities.is_empty() { asked.abouts.iter().copied().fold(0.0, f32::max) } else { 1.0 };
        // A little more, because sums of the same numbers in another order differ in the last digits.
        let most = Signals::most(about, !asked.time.spans.is_empty(), asked.time.when) + 1e-5;
        let doubtful = |row| query.min_confidence > 0.0 && !self.trusted(query, row, minute);
        for row in (0..self.rows.rows.len()).filter(|row| found.mask[*row]) {
            let sum = if plain(query.mode) {
                found.bm25[row] + found.cosine[row]
            } else {
                match self.context(asked, found, row) {
                    Some(signals) if signals.sum() + most >= least => self.completed(signals, asked, row).sum(),
                    _ => continue,
                }
            };
            if sum <= 0.0 || sum < least || doubtful(row) {
                continue;
            }
            candidates.push(Candidate { row: row as u32, sum });
            if candidates.len() == BATCH {
                candidates.select_nth_unstable_by(score::GATE - 1, |a, b| self.order(a, b));
                candidates.truncate(score::GATE);
                least = candidates[score::GATE - 1].sum;
            }
        }
        candidates
    }

    /// The more relevant first, then the later.
    fn order(&self, a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
        b.sum.total_cmp(&a.sum).then_with(|| self.later(a.row, b.row))
    }

    fn trusted(&self, query: &Query, row: usize, minute: f64) -> bool {
        self.rows.kind(row) == Kind::Episode || self.rows.rows[row].confidence_at(minute) >= query.min_confidence
    }

    /// What a row and its surroundings have in common with the question; none without evidence.
    #[inline(always)]
    fn context(&self, asked: &ParsedQuery, found: &Found, row: usize) -> Option<Signals> {
        let (before, after) = self.rows.links[row];
        let meaning = found.cosine[row];
        let (mut near, mut meaning_near, mut answer) = (found.marks[row], meaning, 0.0);
        if before != NONE {
            let before = before as usize;
            near |= found.marks[before];
            meaning_near = (meaning + score::BEFORE * found.cosine[before]) * self.joint[row];
            if self.rows.form[before] & ASKS > 0 {
                answer = found.bm25[before];
            }
            let second = self.rows.links[before].0;
            if second != NONE {
                near |= found.marks[second as usize];
            }
        }
        if after != NONE {
            near |= found.marks[after as usize];
            let second = self.rows.links[after as usize].1;
            if second != NONE {
                near |= found.marks[second as usize];
            }
        }
        let words_near = asked.shares.share(near);
        if words_near < score::SOME_WORDS && meaning.max(meaning_near) < score::SOME_MEANING {
            return None;
        }
        let (words_thread, meaning_thread) = match self.rows.thread[row] {
            0 => (words_near, meaning),
            thread => found.threads[thread as usize],
        };
        let words = found.bm25[row];
        Some(Signals {
            words,
            words_near,
            words_thread,
            answer,
            meaning,
            meaning_near,
            meaning_thread,
            ..Signals::default()
        })
    }

    /// The same with what the row itself adds.
    #[inline(always)]
    fn completed(&self, context: Signals, asked: &ParsedQuery, row: usize) -> Signals {
        let form = self.rows.form[row];
        let named = !asked.entities.is_empty() && asked.entities.contains(&self.rows.rows[row].entity);
        Signals {
            about: if named { 1.0 } else { asked.abouts[self.rows.about[row] as usize] },
            span: asked.time.matches(self.rows.at[row]),
            when: f32::from(u8::from(asked.time.when && form & DATED > 0)),
            length: asked.lengths[self.lexical.length(row).min(score::LONG) as usize],
            asks: f32::from(u8::from(form & ASKS > 0)),
            ..context
        }
    }

    fn hit(
        &self,
        query: &Query,
        asked: &ParsedQuery,
        found: &Found,
        candidate: Candidate,
        scale: (f32, f32),
        minute: f64,
    ) -> Hit {
        let row = candidate.row as usize;
        let cold = &self.rows.rows[row];
        let (floor, whole) = scale;
        let context = self.context(asked, found, row).filter(|_| !plain(query.mode));
        let mut parts =
            context.map(|context| self.completed(context, asked, row).parts(floor, whole)).unwrap_or_else(|| Parts {
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

/// The share of a question's weight that marked terms have, read from a table for each eight terms.
struct Shares(Vec<[f32; 256]>);

impl Shares {
    fn of(terms: &[Weighed]) -> Self {
        let table = |terms: &[Weighed]| {
            let share = |marks: usize| {
                let marked = terms.iter().enumerate().filter(|(bit, _)| marks >> bit & 1 == 1);
                marked.map(|(_, term)| term.share).sum()
            };
            std::array::from_fn(share)
        };
        Self(terms.chunks(8).map(table).collect())
    }

    #[inline(always)]
    fn share(&self, marks: u32) -> f32 {
        let mut sum = 0.0;
        for (eight, table) in self.0.iter().enumerate() {
            sum += table[(marks >> (8 * eight)) as usize & 0xff];
        }
        sum.min(1.0)
    }
}

/// Without a vector, words must do.
fn with_vector(query: &Query) -> Mode {
    match query.mode {
        Mode::Hybrid if query.vector.is_empty() => Mode::Keyword,
        mode => mode,
    }
}

fn plain(mode: Mode) -> bool {
    matches!(mode, Mode::PlainWords | Mode::PlainMeaning)
}
