//! What must hold of the index as a whole.

mod properties;

use jiff::{SignedDuration, Timestamp};

use super::*;

pub(super) const NOW: &str = "2024-06-15T12:00:00Z";

const NOTHING: [u128; 0] = [];

pub(super) fn now() -> Timestamp {
    NOW.parse().unwrap()
}

pub(super) fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// A fact of today that stands alone.
pub(super) fn fact<'a>(n: u128, text: &'a str) -> Entry<'a> {
    Entry {
        id: id(n),
        kind: Kind::Fact,
        seq: n as i64,
        thread: None,
        about: None,
        at: now(),
        text,
        vector: &[],
        importance: 5.0,
        confidence: 1.0,
        decay: 0.0,
        confirmed_at: None,
        used_at: None,
        facets: Facets::default(),
    }
}

/// A turn of the conversation `thread`.
fn turn<'a>(n: u128, thread: u128, text: &'a str) -> Entry<'a> {
    Entry { kind: Kind::Episode, thread: Some(id(thread)), ..fact(n, text) }
}

fn index<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> Index {
    let mut index = Index::new(4, TimeZone::UTC);
    entries.into_iter().for_each(|entry| index.put(&entry));
    index
}

fn ask(text: &str) -> Query<'_> {
    Query::new(text, &[], now())
}

fn found(hits: &[Hit]) -> Vec<u128> {
    hits.iter().map(|hit| hit.id.as_u128()).collect()
}

#[test]
fn what_answers_is_found_and_what_does_not_is_not() {
    let index = index([
        fact(1, "Ada drinks jasmine tea in the morning"),
        fact(2, "The boiler is serviced every autumn"),
        fact(3, "Ada's train leaves from platform nine"),
    ]);
    assert_eq!(found(&index.search(&ask("Which tea does Ada drink?")))[0], 1);
    assert_eq!(found(&index.search(&ask("When was the boiler serviced?"))), [2]);
    assert_eq!(found(&index.search(&ask("quarterly tariffs on semiconductors"))), NOTHING);
    assert_eq!(found(&index.search(&ask("what is it about?"))), NOTHING);
    assert_eq!(found(&index.search(&ask(""))), NOTHING);
    assert_eq!(found(&super::tests::index([]).search(&ask("tea"))), NOTHING);
}

#[test]
fn meaning_finds_what_words_do_not_and_noise_is_not_fabricated() {
    let index = index([
        Entry { vector: &[100, 0, 0, 0], ..fact(1, "automobile") },
        Entry { vector: &[0, 100, 20, 0], ..fact(2, "banana") },
        Entry { vector: &[-100, 0, 0, 0], ..fact(3, "hovercraft") },
    ]);
    let hits = index.search(&Query { vector: &[90, 0, 10, 0], ..ask("car") });
    assert_eq!(found(&hits), [1]);
    assert!(hits[0].parts.cosine > 0.9 && hits[0].parts.bm25 == 0.0, "{hits:?}");
    assert_eq!(found(&index.search(&Query { vector: &[0, 10, 0, 100], ..ask("car") })), NOTHING);
    let nothing_asked = Query { vector: &[90, 0, 10, 0], ..ask("what is it?") };
    assert_eq!(found(&index.search(&nothing_asked)), NOTHING);
    let words = Query { vector: &[90, 0, 10, 0], mode: Mode::Keyword, ..ask("car") };
    assert_eq!(found(&index.search(&words)), NOTHING);
    let meaning = Query { vector: &[0, 90, 0, 0], mode: Mode::Semantic, ..ask("automobile") };
    assert_eq!(found(&index.search(&meaning)), [2]);
}

#[test]
fn an_answer_is_found_by_its_question() {
    let index = index([
        turn(1, 9, "Good morning!"),
        turn(2, 9, "Which platform does the train leave from?"),
        turn(3, 9, "Number nine, as always, next to the little bakery"),
        turn(4, 9, "Thanks a lot"),
        turn(5, 8, "I bought new shoes yesterday in the big shop"),
    ]);
    let hits = found(&index.search(&ask("From which platform does the train leave?")));
    assert_eq!(hits[..2], [3, 2]);
    assert!(!hits.contains(&5), "{hits:?}");
}

#[test]
fn importance_carries_only_what_is_relevant() {
    let text: Vec<String> = (0..300).map(|n| format!("the garden hose number {n} leaks")).collect();
    let mut entries: Vec<_> = text.iter().enumerate().map(|(n, text)| fact(n as u128, text)).collect();
    entries.push(Entry { importance: 10.0, ..fact(999, "the passport expires in March") });
    entries.push(Entry { importance: 9.0, ..fact(998, "a leaking hose ruined the garden wall") });
    let index = index(entries);
    let hits = index.search(&Query { limit: 1000, ..ask("which garden hose leaks?") });
    assert_eq!(hits.len(), score::GATE);
    assert!(!found(&hits).contains(&999));
    let unimportant = Weights { relevance: 1.0, importance: 0.0, recency: 0.0, confidence: 0.0 };
    assert_ne!(hits, index.search(&Query { limit: 1000, weights: unimportant, ..ask("which garden hose leaks?") }));
}

#[test]
fn weights_change_the_order() {
    let index = index([
        Entry { importance: 9.0, ..fact(1, "Ada likes tea, and many other things that are drunk in a pot") },
        Entry { importance: 1.0, used_at: Some(now()), ..fact(2, "Ada likes tea") },
    ]);
    let by = |relevance, importance, recency| {
        let weights = Weights { relevance, importance, recency, confidence: 0.0 };
        found(&index.search(&Query { weights, ..ask("Does Ada like tea?") }))
    };
    assert_eq!(by(0.0, 1.0, 0.0), [1, 2]);
    assert_eq!(by(0.0, 0.0, 1.0), [2, 1]);
    assert_eq!(by(1.0, 0.0, 0.0)[0], 2);
}

#[test]
fn confidence_fades_unless_confirmed() {
    let days = |n: i64| Some(now() - SignedDuration::from_hours(24 * n));
    let index = index([
        Entry { confidence: 0.8, ..fact(1, "tea never fades") },
        Entry { confidence: 0.8, decay: 0.1, ..fact(2, "tea was never confirmed") },
        Entry { confidence: 0.8, decay: 0.1, confirmed_at: days(10), used_at: days(7), ..fact(3, "tea was confirmed") },
        Entry { confidence: 0.0, ..turn(4, 1, "tea was spoken of") },
    ]);
    let hits = index.search(&ask("tea"));
    let parts = |n: u128| hits.iter().find(|hit| hit.id == id(n)).unwrap().parts;
    assert_eq!(parts(1).confidence, 0.8);
    assert_eq!(parts(2).confidence, 0.0);
    assert!((parts(3).confidence - 0.8 * (-1.0_f32).exp()).abs() < 1e-4, "{:?}", parts(3));
    assert!((parts(3).recency - 0.5).abs() < 1e-4 && parts(1).recency == 0.0, "{:?}", parts(3));
    let mut sure = found(&index.search(&Query { min_confidence: 0.3, ..ask("tea") }));
    sure.sort_unstable();
    assert_eq!(sure, [1, 4], "episodes are exempt");
}

#[test]
fn who_and_when_count() {
    let month = |m: &str| format!("2024-{m}-10T08:00:00Z").parse().unwrap();
    let index = index([
        Entry { about: Some("Ada"), at: month("02"), ..fact(1, "went hiking with friends") },
        Entry { about: Some("Berta"), at: month("02"), ..fact(2, "went hiking with friends") },
        Entry { about: Some("Ada"), at: month("04"), ..fact(3, "went hiking with friends") },
    ]);
    assert_eq!(found(&index.search(&ask("Did Berta go hiking?")))[0], 2);
    assert_eq!(found(&index.search(&ask("Where did Ada go hiking in February?")))[0], 1);
    assert_eq!(found(&index.search(&ask("Did Ada go hiking two months ago?")))[0], 3);
}

#[test]
fn entities_that_the_caller_knows_count_as_named() {
    let of = |n| Facets { entity: Some(id(n)), ..Facets::default() };
    let index = index([
        Entry { about: Some("Ada Lovelace"), facets: of(70), ..fact(1, "likes hiking") },
        Entry { about: Some("Charles"), facets: of(71), ..fact(2, "likes hiking") },
    ]);
    let hits = index.search(&Query { entities: &[id(71)], ..ask("Does my uncle like hiking?") });
    assert_eq!(found(&hits)[0], 2);
    assert!(hits[0].parts.about > 0.0 && hits[1].parts.about == 0.0, "{hits:?}");
}

#[test]
fn ties_are_broken_by_what_is_later() {
    let later = now() + SignedDuration::from_hours(1);
    let index = index([fact(1, "tea"), Entry { at: later, ..fact(2, "tea") }, fact(3, "tea")]);
    assert_eq!(found(&index.search(&ask("tea"))), [2, 3, 1]);
}

#[test]
fn a_replaced_or_removed_entry_is_gone() {
    let mut index = index([fact(1, "the key is under the mat"), fact(2, "milk is in the fridge")]);
    index.put(&Entry { seq: 7, ..fact(1, "the key is in the drawer") });
    assert_eq!((index.len(), index.last_seq()), (2, 7));
    assert_eq!(found(&index.search(&ask("mat"))), NOTHING);
    assert_eq!(found(&index.search(&ask("drawer"))), [1]);
    assert!(index.remove(id(1)) && !index.remove(id(1)));
    assert_eq!(found(&index.search(&ask("drawer"))), NOTHING);
    assert!(index.contains(id(2)) && !index.contains(id(1)));
}

#[test]
fn what_is_left_out_lends_nothing_to_its_neighbours() {
    let secret = Facets { sensitivity: 2, ..Facets::default() };
    let index = index([
        Entry { facets: secret.clone(), ..turn(1, 5, "Does the diagnosis of diabetes worry the doctor?") },
        turn(2, 5, "Let us see what tomorrow brings, shall we"),
        Entry { facets: secret, ..turn(3, 5, "The diagnosis is diabetes") },
    ]);
    let open = Filter { max_sensitivity: Some(0), ..Filter::default() };
    assert!(found(&index.search(&ask("diabetes diagnosis"))).contains(&2), "by its neighbours");
    assert_eq!(found(&index.search(&Query { filter: open, ..ask("diabetes diagnosis") })), NOTHING);
}

#[test]
fn long_prompts_find_what_they_touch() {
    let index = index([
        Entry { about: Some("Ada"), ..fact(1, "prefers jasmine tea") },
        Entry { about: Some("boiler"), ..fact(2, "is serviced in autumn by Miller") },
        Entry { about: Some("Charles"), ..fact(3, "collects old railway timetables") },
    ]);
    let prompt = "Good morning, tomorrow afternoon we expect guests and I have not prepared anything. Please write a \
        shopping list for the market with bread, cheese, tomatoes, olives, grapes and something sweet, and add the \
        jasmine tea that Ada prefers. Then remind me at ten to call the plumber, because the kitchen tap drips again.";
    assert_eq!(found(&index.search(&ask(prompt))), [1]);
}
