//! Whatever the bytes are, reading ends.

use std::time::Duration;

use super::hostile::{Chance, bombs, mutated};
use super::{ordinary, processor_time, try_read};
use crate::ReadError;

/// Letters that chance damages.
const MUTATED: usize = 1_000;

fn assert_ends(raw: &[u8], what: &str) -> Duration {
    let began = processor_time();
    let read = try_read(raw);
    let took = processor_time() - began;
    assert!(!matches!(read, Err(ReadError::Broken(_))), "{what}: {read:?}");
    if let Ok(letter) = read {
        let words = letter.words.new.len() + letter.words.quoted.len() + letter.words.signature.len();
        assert!(words <= 20_000 && letter.files.len() <= 10 && letter.references.len() <= 50, "{what}");
        for file in &letter.files {
            assert!(!file.name.is_empty() && !file.name.contains(['/', '\\', '\0', '\n']), "{what}: {:?}", file.name);
        }
        assert!(!letter.from.address.contains(char::is_whitespace), "{what}: {:?}", letter.from);
    }
    took
}

#[test]
fn damaged_letters_are_read_or_refused() {
    let seed = std::env::var("MAIL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_125);
    println!("MAIL_SEED={seed}");
    let mut chance = Chance::new(seed);
    let good: Vec<Vec<u8>> = ordinary::corpus().into_iter().map(|(_, raw)| raw).collect();
    let good: Vec<&[u8]> = good.iter().map(Vec::as_slice).collect();
    for number in 0..MUTATED {
        let raw = mutated(&good, &mut chance);
        let took = assert_ends(&raw, &format!("letter {number} of seed {seed}"));
        assert!(took < Duration::from_secs(5), "letter {number} of seed {seed}, {} bytes, took {took:?}", raw.len());
    }
}

/// Twice the bytes take about twice the time.
#[test]
fn bombs_cost_what_they_weigh() {
    for ((what, small), (_, large)) in bombs(100_000).into_iter().zip(bombs(800_000)) {
        let small = assert_ends(&small, what);
        let large = assert_ends(&large, what);
        println!("{what}: {small:?} {large:?}");
        let most = small * 24 + Duration::from_millis(500);
        assert!(large < most, "{what}: {large:?} for eight times the bytes that took {small:?}");
    }
}

/// A letter as large as callers hand over, on a thread with little stack.
#[test]
fn depth_takes_no_stack() {
    let deep = bombs(4_000_000).into_iter().filter(|(what, _)| what.contains("within"));
    let deep: Vec<(&str, Vec<u8>)> = deep.collect();
    let reader = std::thread::Builder::new().stack_size(512 * 1024);
    let reader = reader.spawn(move || {
        for (what, raw) in &deep {
            assert_ends(raw, what);
        }
    });
    reader.expect("a thread").join().expect("no overflow");
}
