//! The ranking: what makes a memory relevant, and what becomes of that.
//!
//! **Relevance** is a weighted sum of signals, each from 0 to about 1 by itself and not by comparison with the other
//! rows: a question that nothing answers finds nothing, instead of the least bad. Signals look at the entry, at the
//! two before and after it in its thread, and at the whole thread; an entry without a thread is its own context. A row
//! needs some evidence (a share of the question's words around it, or a cosine) to be looked at at all.
//!
//! `relevance = (sum of signals - floor) / (that of the best row, but at least good, - floor)`, see [`scale`]
//!
//! The [`GATE`] most relevant rows go on, so that nothing irrelevant is carried by its importance:
//!
//! `score = weights · (relevance, importance / 10, recency, effective confidence)`
//!
//! Ties are broken by what happened later, then by order of insertion, then by id.
//!
//! The weights of the signals were found by logistic regression over questions about dialogues, confirmed on dialogues
//! left out, and rounded. The plateau is wide: with all of them changed at random by up to 30 %, recall of the evidence
//! among ten stays within 0.6 points, and no single signal is worth more than three.

use super::types::{Mode, Parts};

/// So many of the most relevant rows are scored.
pub const GATE: usize = 200;
/// How much the row before counts in the vector of both.
pub const BEFORE: f32 = 0.6;
/// Evidence: this share of the question's words, in the row or near it, …
pub const SOME_WORDS: f32 = 0.12;
/// … or this cosine.
pub const SOME_MEANING: f32 = 0.3;

/// Where relevance begins, and the sum of signals from which on it is 1 even if nothing has more. What answers a
/// question about what is there sums to 0.45 to 0.8, what comes nearest to a question about something else to 0.35.
pub fn scale(mode: Mode) -> (f32, f32) {
    match mode {
        Mode::Hybrid => (0.25, 0.55),
        Mode::Keyword => (0.15, 0.4),
        Mode::Semantic => (0.18, 0.4),
        Mode::PlainWords | Mode::PlainMeaning => (0.0, f32::MIN_POSITIVE),
    }
}

/// BM25 of the row.
const WORDS: f32 = 0.108;
/// The share of the question's words that stand in the row or one of the four around it.
const WORDS_NEAR: f32 = 0.19;
/// The share of the question's words that stand anywhere in the thread.
const WORDS_THREAD: f32 = 0.07;
/// BM25 of the row before, if that was a question: then this is the answer.
const ANSWER: f32 = 0.112;
/// The cosine of the row.
const MEANING: f32 = 0.096;
/// The cosine of the row and the one before together.
const MEANING_NEAR: f32 = 0.15;
/// The best cosine in the thread.
const MEANING_THREAD: f32 = 0.09;
/// The question names whom or what the row is about.
const ABOUT: f32 = 0.11;
/// The question names a time, and the row is of that time.
const SPAN: f32 = 0.07;
/// The question asks when, and the row says when.
const WHEN: f32 = 0.08;
/// How much the row says: the logarithm of its words.
const LENGTH: f32 = 0.075;
/// The row asks, instead of telling.
const ASKS: f32 = -0.026;

/// What was found out about one row and a question.
#[derive(Debug, Clone, Copy, Default)]
pub struct Signals {
    pub words: f32,
    pub words_near: f32,
    pub words_thread: f32,
    pub answer: f32,
    pub meaning: f32,
    pub meaning_near: f32,
    pub meaning_thread: f32,
    pub about: f32,
    pub span: f32,
    pub when: f32,
    pub length: f32,
    pub asks: f32,
}

/// The signal `LENGTH` weighs: little is gained past fifty words.
pub fn length(words: u16) -> f32 {
    f32::from(words.min(LONG)).ln_1p() / 4.0
}

/// Longer is not better.
pub const LONG: u16 = 50;

impl Signals {
    /// The most that what looks at the row alone can add: about, span, when, length.
    pub fn most(about: f32, span: bool, when: bool) -> f32 {
        let most = Self {
            about,
            span: f32::from(u8::from(span)),
            when: f32::from(u8::from(when)),
            length: length(LONG),
            ..Self::default()
        };
        most.sum()
    }

    /// The weighted sum.
    #[inline(always)]
    pub fn sum(&self) -> f32 {
        WORDS * self.words
            + WORDS_NEAR * self.words_near
            + WORDS_THREAD * self.words_thread
            + ANSWER * self.answer
            + MEANING * self.meaning
            + MEANING_NEAR * self.meaning_near
            + MEANING_THREAD * self.meaning_thread
            + ABOUT * self.about
            + SPAN * self.span
            + WHEN * self.when
            + LENGTH * self.length
            + ASKS * self.asks
    }

    /// The same sum in named parts, each divided by `whole`.
    pub fn parts(&self, floor: f32, whole: f32) -> Parts {
        Parts {
            bm25: self.words,
            cosine: self.meaning,
            words: WORDS * self.words / whole,
            meaning: MEANING * self.meaning / whole,
            neighbours: (WORDS_NEAR * self.words_near + ANSWER * self.answer + MEANING_NEAR * self.meaning_near)
                / whole,
            thread: (WORDS_THREAD * self.words_thread + MEANING_THREAD * self.meaning_thread) / whole,
            about: ABOUT * self.about / whole,
            time: (SPAN * self.span + WHEN * self.when) / whole,
            form: (LENGTH * self.length + ASKS * self.asks) / whole,
            floor: -floor / whole,
            ..Parts::default()
        }
    }
}
