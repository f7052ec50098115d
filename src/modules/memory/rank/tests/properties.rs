//! Properties over many random lives of an index, from fixed seeds.

use super::super::*;
use super::{NOW, fact, id, now};
use base::Trust;

/// A small generator, the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

const WORDS: &[&str] = &[
    "tea",
    "boiler",
    "train",
    "garden",
    "hose",
    "ticket",
    "doctor",
    "March",
    "yesterday",
    "picnic",
    "leaks",
    "school",
    "the",
    "is",
    "with",
    "likes",
    "paints",
    "platform",
    "2023",
    "invoice",
];
const PEOPLE: &[&str] = &["Ada", "Berta Blum", "boiler"];
const SCOPES: &[&str] = &["global", "health", "house"];
const QUESTIONS: &[&str] = &[
    "When does the train leave?",
    "Which doctor did Ada see in March?",
    "boiler leaks",
    "picnic school garden tea invoice hose platform ticket paints 2023 yesterday",
    "zeppelin",
];

/// An entry that owns what it is made of.
#[derive(Clone)]
struct OwnedEntry {
    id: u128,
    seq: i64,
    thread: Option<u128>,
    about: Option<&'static str>,
    text: String,
    vector: Vec<i8>,
    hours: i64,
    grade: u64,
    scope: &'static str,
    sensitivity: u8,
    trust: Trust,
    over: bool,
}

impl OwnedEntry {
    fn thrown(dice: &mut Dice, seq: i64) -> Self {
        let words: Vec<_> = (0..1 + dice.below(9)).map(|_| dice.pick(WORDS)).collect();
        let mark = if dice.below(3) == 0 { "?" } else { "." };
        Self {
            id: u128::from(dice.below(60)),
            seq,
            thread: (dice.below(3) > 0).then(|| u128::from(dice.below(4))),
            about: (dice.below(3) > 0).then(|| dice.pick(PEOPLE)),
            text: words.join(" ") + mark,
            vector: (0..4).map(|_| dice.below(255) as u8 as i8).collect(),
            hours: dice.below(24 * 600) as i64,
            grade: dice.below(10),
            scope: dice.pick(SCOPES),
            sensitivity: dice.below(3) as u8,
            trust: if dice.below(4) == 0 { Trust::Stranger } else { Trust::Owner },
            over: dice.below(5) == 0,
        }
    }

    fn entry(&self) -> Entry<'_> {
        let at = now() - jiff::SignedDuration::from_hours(self.hours);
        Entry {
            kind: if self.thread.is_some() { Kind::Episode } else { Kind::Fact },
            seq: self.seq,
            thread: self.thread.map(id),
            about: self.about,
            at,
            vector: &self.vector,
            importance: self.grade as f32,
            decay: if self.grade > 5 { 0.01 } else { 0.0 },
            confirmed_at: self.grade.is_multiple_of(2).then_some(at),
            used_at: self.grade.is_multiple_of(3).then_some(at),
            facets: Facets {
                scope: self.scope,
                sensitivity: self.sensitivity,
                trust: self.trust,
                valid_to: self.over.then(|| at + jiff::SignedDuration::from_hours(1)),
                ..Facets::default()
            },
            ..fact(self.id, &self.text)
        }
    }
}

/// Some life: what is in the index at its end, and the index that went through it.
fn lived(seed: u64, steps: i64) -> (Vec<OwnedEntry>, Index) {
    let mut dice = Dice(seed);
    let mut there: Vec<OwnedEntry> = Vec::new();
    let mut index = Index::new(4, TimeZone::UTC);
    for step in 0..steps {
        let life = OwnedEntry::thrown(&mut dice, step);
        let known = there.iter().any(|other| other.id == life.id);
        there.retain(|other| other.id != life.id);
        match dice.below(4) {
            0 => assert_eq!(index.remove(id(life.id)), known),
            _ => {
                index.put(&life.entry());
                there.push(life);
            }
        }
        if dice.below(50) == 0 {
            index.pack();
        }
    }
    (there, index)
}

fn queries<'a>(vector: &'a [i8], filter: &Filter<'a>) -> Vec<Query<'a>> {
    let modes = [Mode::Hybrid, Mode::Semantic, Mode::Keyword, Mode::PlainWords, Mode::PlainMeaning];
    let of = |text: &'a str| {
        modes.map(|mode| Query { mode, filter: filter.clone(), limit: 30, ..Query::new(text, vector, now()) })
    };
    QUESTIONS.iter().flat_map(|text| of(text)).collect()
}

#[test]
fn an_index_kept_in_step_is_as_one_made_anew() {
    for seed in 1..=12 {
        let (mut there, index) = lived(seed, 250);
        // In another order, too: the order of a thread is that of `seq`.
        there.reverse();
        let mut anew = Index::new(4, TimeZone::UTC);
        there.iter().for_each(|life| anew.put(&life.entry()));
        assert_eq!(index.len(), anew.len());
        let vector = [40, -90, 10, 70];
        for query in queries(&vector, &Filter::default()) {
            assert_eq!(index.search(&query), anew.search(&query), "seed {seed}, {:?} {}", query.mode, query.text);
        }
    }
}

#[test]
fn the_same_question_has_the_same_answer() {
    let (_, index) = lived(99, 400);
    for query in queries(&[40, -90, 10, 70], &Filter::default()) {
        let bits = |hits: Vec<Hit>| hits.iter().map(|hit| (hit.id, hit.score.to_bits())).collect::<Vec<_>>();
        assert_eq!(bits(index.search(&query)), bits(index.search(&query)));
    }
}

#[test]
fn filters_let_nothing_through() {
    let from = "2023-06-01T00:00:00Z".parse().unwrap();
    let to = "2024-03-01T00:00:00Z".parse().unwrap();
    let filters = [
        Filter { kinds: &[Kind::Fact], ..Filter::default() },
        Filter { scopes: &["health", "no such scope"], ..Filter::default() },
        Filter { scopes: &["no such scope"], ..Filter::default() },
        Filter { max_sensitivity: Some(1), least_trust: Some(Trust::Known), ..Filter::default() },
        Filter { time_from: Some(from), time_to: Some(to), ..Filter::default() },
        Filter { valid_at: Some(to), ..Filter::default() },
        Filter { entity: Some(id(1)), ..Filter::default() },
        Filter { predicate: Some("likes"), ..Filter::default() },
    ];
    let mut hits = [0; 8];
    for seed in 1..=6 {
        let (there, index) = lived(seed, 250);
        for (n, filter) in filters.iter().enumerate() {
            for query in queries(&[40, -90, 10, 70], filter) {
                for hit in index.search(&query) {
                    hits[n] += 1;
                    let life = there.iter().find(|life| id(life.id) == hit.id).unwrap();
                    let entry = life.entry();
                    let until = entry.facets.valid_to;
                    let lets = match n {
                        0 => entry.kind == Kind::Fact,
                        1 => life.scope == "health",
                        3 => life.sensitivity <= 1 && life.trust >= Trust::Known,
                        4 => (from..=to).contains(&entry.at),
                        5 => entry.at <= to && until.is_none_or(|until| to < until),
                        _ => false,
                    };
                    assert!(lets, "filter {n} let {:?} of seed {seed} through", life.id);
                }
            }
        }
    }
    assert!([0, 1, 3, 4, 5].iter().all(|n| hits[*n] > 0), "{hits:?}");
}

#[test]
fn parts_sum_to_the_score() {
    let near = |a: f32, b: f32| (a - b).abs() < 1e-4;
    for seed in 1..=6 {
        let (_, index) = lived(seed, 200);
        for query in queries(&[40, -90, 10, 70], &Filter::default()) {
            for hit in index.search(&query) {
                let p = hit.parts;
                let relevance = p.words + p.meaning + p.neighbours + p.thread + p.about + p.time + p.form + p.floor;
                assert!(near(relevance, p.relevance), "{hit:?}");
                assert!((0.0..=1.0001).contains(&p.relevance), "{hit:?}");
                let w = query.weights;
                let score = w.relevance * p.relevance
                    + w.importance * p.importance
                    + w.recency * p.recency
                    + w.confidence * p.confidence;
                assert!(near(score, hit.score), "{hit:?}");
            }
        }
    }
}

#[test]
fn many_gaps_are_packed_and_memory_stays() {
    let mut index = Index::new(4, TimeZone::UTC);
    let text: Vec<String> = (0..600).map(|n| format!("tea number {n} at {NOW}")).collect();
    for round in 0..6 {
        for (n, text) in text.iter().enumerate() {
            index.put(&Entry { seq: round * 600 + n as i64, vector: &[1, 2, 3, 4], ..fact(n as u128, text) });
        }
    }
    assert_eq!(index.len(), 600);
    assert!(index.rows.rows.len() <= 600 + GAPS + 1, "{} rows", index.rows.rows.len());
    let hits = index.search(&Query { limit: 3, ..Query::new("tea number 17", &[], now()) });
    assert_eq!(hits[0].id, id(17));
}
