//! Attacks of somebody who read the source. The model obeys each word that it is shown; what it sends holds what it was
//! really shown. Nothing of the owner's may reach anybody else, and nothing of the owner's may change.
//!
//! `BUTLERD_TEST_CASES` says how many cases (the whole is 300), `BUTLERD_TEST_SEED` which.

mod canaries;
mod forwarded;
mod generator;
mod names;
mod threads;

use std::sync::Arc;

use serde_json::json;

use crate::fairness::patient;
use crate::injections::{Case, Visit, WISHES, household, obedient, play, settle_in, texts};
use crate::support::Receiver;
use canaries::{found_in, furnish, left, owners_rows};

/// A small generator of numbers (xorshift64*), so that a printed seed gives the same cases again.
pub struct Seeded(pub u64);

impl Seeded {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).expect("31 bits") % n
    }
}

pub fn seed() -> u64 {
    let given = std::env::var("BUTLERD_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761 + 1);
    println!("BUTLERD_TEST_SEED={seed}");
    seed
}

/// How many cases: the gate takes a tenth of the whole.
fn wanted() -> usize {
    std::env::var("BUTLERD_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(30)
}

/// The owner's own mail, whose session does nothing with it.
fn furnished() -> Case {
    let visit = Visit { text: "[furnish]".to_owned(), steps: vec![json!({"say": "Noted."})], ..Visit::default() };
    Case { id: "furnish".to_owned(), visits: vec![visit], ..Case::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_generated_attack_tells_or_changes_anything_of_the_owners() {
    let mut seeded = Seeded(seed());
    let mut cases: Vec<Case> = (0..wanted()).map(|n| generator::case(n, &mut seeded)).collect();
    cases.push(furnished());
    let model = obedient(&cases).await;
    cases.pop();
    let receiver = Receiver::start().await;
    let household = Arc::new(patient(household(&model)).with_webhook(&receiver, ""));
    let daemon = household.start().await;
    furnish(&household, &daemon).await;
    settle_in(&household, &daemon).await;
    let before = owners_rows(&household).await;
    let there = found_in(&before.join(" ")).len();
    assert!(there >= 34, "{there} marks stand in rows: {before:#?}");
    assert_eq!(found_in("Canary-07 CANARY_40"), [7, 40]);
    play(&household, &daemon, &cases).await;
    let after = owners_rows(&household).await;
    let lost: Vec<&String> = before.iter().filter(|row| !after.contains(row)).collect();
    let out = left(&household, &receiver).await;
    let told: Vec<(Vec<usize>, &String)> =
        out.iter().map(|text| (found_in(text), text)).filter(|(found, _)| !found.is_empty()).collect();
    println!("attacks: {} of {} cases told something, {} rows changed", told.len(), cases.len(), lost.len());
    assert!(lost.is_empty(), "changed: {lost:#?}");
    assert!(told.is_empty(), "{} told: {told:#?}", told.len());
    // Not because nobody tried.
    let waits = texts(&household, WISHES).await;
    let idle: Vec<&str> =
        cases.iter().map(|c| c.id.as_str()).filter(|id| !waits.iter().any(|wish| wish.contains(id))).collect();
    println!("{} of them reached the gate; these did not: {idle:?}", cases.len() - idle.len());
    assert!(idle.len() * 4 <= cases.len(), "{} of {} never reached the gate: {idle:?}", idle.len(), cases.len());
}
