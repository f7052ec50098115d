//! The same in other words, and what is only nearly the same.

use std::collections::HashSet;

use super::*;

#[test]
fn groups_do_not_share_words() {
    let mut seen = HashSet::new();
    for word in words::grouped() {
        assert!(seen.insert(word), "{word} stands in two groups");
        assert!(!words::is_light(word), "{word} is light");
    }
}

fn said(a: &str, b: &str) -> bool {
    Said::new(a).means(&About::default(), b)
}

#[test]
fn what_must_agree_agrees() {
    for (a, b) in [
        ("My sister lives in Lyon", "Her sister's home is Lyon"),
        ("weight 80 kg", "Weighs 80kg."),
        ("The 3rd of May", "third of may"),
        ("Chess with Bea on Friday", "on Friday chess with Bea"),
        ("The meeting is on Monday at 09:00", "Appointment at 9:00 on monday"),
        ("has three kids", "He has 3 children"),
    ] {
        assert!(said(a, b), "{a:?} and {b:?}: {:?} {:?}", keys(a), keys(b));
    }
    for (a, b) in [
        ("weight 80 kg", "weight 82 kg"),
        ("My sister lives in Lyon", "My sister lives in Paris"),
        ("likes tea", "does not like tea"),
        ("likes tea", "likes green tea"),
        ("drinks coffee in the morning", "drinks coffee in the evening"),
        ("Tom is the boss of Ann in Rome", "Ann is the boss of Tom in Rome"),
        ("no longer smokes", "smokes"),
        ("prefers tea over coffee", "prefers coffee over tea"),
        ("from Lyon to Paris", "from Paris to Lyon"),
        ("two dogs and three cats", "three dogs and two cats"),
        ("lived in Lyon", "lives in Lyon"),
        ("not tea but coffee", "tea but not coffee"),
        ("not tea, coffee", "tea, not coffee"),
        ("takes the bus to Lyon", "takes the bus from Lyon"),
        ("may move to Lyon", "moves to Lyon"),
    ] {
        assert!(!said(a, b), "{a:?} and {b:?}: {:?} {:?}", keys(a), keys(b));
    }
}

#[test]
fn what_is_told_of_goes_without_saying() {
    let says = |subject: &str, predicate: &str, a: &str, b: &str| {
        let about = About::new(subject, predicate);
        Said::new(a).means(&about, b) && Said::new(b).means(&about, a)
    };
    for (subject, predicate, a, b) in [
        ("Ada", "allergy", "nuts", "is allergic to nuts"),
        ("Ada", "likes", "sailing", "loves sailing"),
        ("Ada", "lives_in", "Lyon", "lives in Lyon"),
        ("Ada", "occupation", "baker", "works as a baker"),
        ("passport", "expires_on", "2029-04-01", "valid until 1 April 2029"),
        ("office", "phone", "0441 983 260", "the number is 0441-983260"),
        ("flat", "rent", "six hundred and fifty euros", "650 € a month"),
    ] {
        assert!(says(subject, predicate, a, b), "{a:?} and {b:?}");
    }
    for (subject, predicate, a, b) in [
        ("Ada", "allergy", "nuts", "is not allergic to nuts"),
        ("Ada", "likes", "sailing", "sailing boats"),
        ("Ada", "lives_in", "Lyon", "moved away from Lyon"),
        ("Ada", "lives_in", "Lyon", "south of Lyon"),
        ("Ada", "lives_in", "Lyon", "a cottage in Lyon"),
        ("Ada", "boss", "Bea", "Bea's brother"),
        ("flat", "rent", "650 euros", "over 650 euros"),
    ] {
        assert!(!says(subject, predicate, a, b), "{a:?} and {b:?}");
    }
}

#[test]
fn numbers_times_and_dates_have_one_form() {
    for (a, b) in [
        ("twenty-seven", "27"),
        ("two hundred and five", "205"),
        ("six thousand", "6,000"),
        ("half past eight", "8:30"),
        ("a quarter to nine", "8:45"),
        ("9 pm", "21:00"),
        ("2026-06-30", "June 30th, 2026"),
        ("128 over 82", "128/82"),
        ("every other Friday", "every second Friday"),
        ("the twenty-first", "21st"),
    ] {
        assert_eq!(sorted(a), sorted(b), "{a:?} and {b:?}");
    }
    assert_ne!(sorted("half past eight"), sorted("half past nine"));
    assert_ne!(sorted("5 June 2026"), sorted("6 May 2026"));
}

fn sorted(text: &str) -> Vec<String> {
    let mut keys = keys(text);
    keys.sort();
    keys
}

/// Pairs of texts about one subject: paraphrases, and near misses that are not to be merged.
#[test]
fn paraphrases_are_found_and_near_misses_are_not() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/memory_pairs.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let pairs: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let (mut all, mut missed, mut merged) = ([0, 0], Vec::new(), Vec::new());
    for pair in &pairs {
        let (a, b) = (pair["a"].as_str().unwrap(), pair["b"].as_str().unwrap());
        let same = pair["same"].as_bool().unwrap();
        let part = |name: &str| pair[name].as_str().unwrap_or_default();
        let about = About::new(part("subject"), part("predicate"));
        all[usize::from(same)] += 1;
        let why = || format!("{a} | {b} | {:?} | {:?}", keys(a), keys(b));
        match (same, Said::new(a).means(&about, b)) {
            (true, false) => missed.push(why()),
            (false, true) => merged.push(why()),
            _ => {}
        }
    }
    println!("{} paraphrases, {} missed:\n{}", all[1], missed.len(), missed.join("\n"));
    println!("{} near misses, {} merged", all[0], merged.len());
    assert!(all[0] >= 60 && all[1] >= 60, "{all:?}");
    assert!(merged.is_empty(), "merged by mistake:\n{}", merged.join("\n"));
    assert!(missed.len() * 4 < all[1], "{} of {} paraphrases missed", missed.len(), all[1]);
}

fn keys(text: &str) -> Vec<String> {
    read::tokens(text).into_iter().map(|t| t.key).collect()
}

#[test]
fn vectors_are_compared_by_their_direction() {
    assert_eq!(cosine(&[1, 0], &[5, 0]), Some(1.0));
    assert_eq!(cosine(&[1, 0], &[0, 0]), None);
    assert_eq!(cosine(&[1], &[1, 2]), None);
}

#[test]
fn other_numbers_are_never_the_same_whoever_says_so() {
    for (a, b, may) in [
        ("deaf in the left ear", "can't hear on his left ear", true),
        ("the pear tree was planted by Grandpa", "the pear tree is one that grandfather planted", true),
        ("18 units of insulin at night", "eighteen units of insulin every night", true),
        ("18 units of insulin at night", "16 units of insulin at night", false),
        ("dentist on 3 May", "dentist on 4 May", false),
        ("dentist at 8:30", "dentist", false),
    ] {
        assert_eq!(Said::new(a).may_mean(b), may, "{a:?} and {b:?}");
        assert_eq!(Said::new(b).may_mean(a), may, "{b:?} and {a:?}");
    }
}
