//! Random programs of reads, changes and sends, over sessions and days, through the real tools, door and tables: each
//! call ends as the rules on paper say. None is let through that they forbid, and none waits that they allow.
//!
//! `BUTLERD_TEST_PROGRAMS` says how many (the whole is 10000), `BUTLERD_TEST_SEED` which.

mod house;
mod reference;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use access::Grant;
use futures_util::{StreamExt, stream};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::ratchet::{Seeded, seed};
use crate::support::Household;
use house::House;
use reference::{Believed, End, Mark, Reference, Settings};

/// Who writes. The last is a group.
const PEOPLE: [&str; 6] = ["owner", "house", "bob", "eve", "mallory", "family"];
/// Who may be told something.
const HEARERS: [&str; 4] = ["bob", "eve", "mallory", "family"];
const ROWS: usize = 4;

const SETTINGS: [Settings; 4] = [
    Settings { strangers_change: false, known_change: false, known_learn: false },
    Settings { strangers_change: true, known_change: true, known_learn: false },
    Settings { strangers_change: false, known_change: true, known_learn: true },
    Settings { strangers_change: true, known_change: false, known_learn: true },
];

#[derive(Clone, Debug)]
enum Step {
    Write(&'static str),
    /// A session causes another: a question, a retry.
    Cause(usize),
    Get(usize, usize),
    List(usize),
    Look(usize),
    Put(usize, usize),
    Drop(usize, usize),
    /// A change by a session that the owner has approved. `true`: the row goes.
    Approved(usize, usize, bool),
    Tell(usize, Vec<&'static str>),
    Shout(usize),
    /// All sessions end, and a day passes.
    Day,
}

/// Five to fifteen steps after the first session.
fn program(seeded: &mut Seeded) -> Vec<Step> {
    let mut steps = vec![Step::Write(PEOPLE[seeded.below(PEOPLE.len())])];
    let mut sessions = 1;
    for _ in 0..5 + seeded.below(11) {
        let (of, row) = (seeded.below(sessions), seeded.below(ROWS));
        let step = match seeded.below(21) {
            0..=2 => Step::Write(PEOPLE[seeded.below(PEOPLE.len())]),
            3 => Step::Cause(of),
            4..=6 => Step::Get(of, row),
            7 => Step::List(of),
            8 => Step::Look(of),
            9..=12 => Step::Put(of, row),
            13 => Step::Drop(of, row),
            14..=17 => {
                // Nobody: it is for the owner alone.
                let many = [0, 1, 1, 1, 2, 3][seeded.below(6)];
                Step::Tell(of, (0..many).map(|_| HEARERS[seeded.below(HEARERS.len())]).collect())
            }
            18 => Step::Shout(of),
            19 => Step::Approved(of, row, seeded.below(3) == 0),
            _ => Step::Day,
        };
        sessions = match step {
            Step::Write(_) | Step::Cause(_) => sessions + 1,
            Step::Day => {
                steps.push(Step::Day);
                steps.push(Step::Write(PEOPLE[seeded.below(PEOPLE.len())]));
                sessions = 1;
                continue;
            }
            _ => sessions,
        };
        steps.push(step);
    }
    steps
}

fn first_mark(who: &'static str) -> (Mark, &'static str) {
    let mark = match who {
        "owner" | "house" => Mark::of(Believed::Own, &[]),
        "bob" => Mark::of(Believed::Known, &["bob"]),
        other => Mark::of(Believed::Stranger, &[other]),
    };
    (mark, who)
}

fn end(answer: &Value) -> End {
    match answer["status"].as_str() {
        Some("pending_approval") => End::Waits,
        Some("error") => End::Refused,
        _ => End::Runs,
    }
}

/// Counts of what the calls came to.
#[derive(Default)]
struct Tally {
    calls: AtomicUsize,
    told: AtomicUsize,
    held: AtomicUsize,
}

/// Plays a program through both; what differs.
async fn play(house: &House, number: usize, steps: &[Step], tally: &Tally) -> Option<String> {
    let set = number % SETTINGS.len();
    let mut paper = Reference { settings: SETTINGS[set], ..Reference::default() };
    let mut live: BTreeMap<usize, Arc<Grant>> = BTreeMap::new();
    for (n, step) in steps.iter().enumerate() {
        let row = |row: usize| json!({"program": number, "name": row});
        let (of, tool, args, expected) = match step {
            Step::Day => {
                (live, paper.sessions) = Default::default();
                house.clock.advance(SignedDuration::from_hours(24));
                continue;
            }
            Step::Write(who) => {
                paper.sessions.insert(live.len(), first_mark(who));
                live.insert(live.len(), house.session(who));
                continue;
            }
            Step::Cause(by) => {
                paper.caused(live.len(), *by);
                live.insert(live.len(), house.caused(&live[by]));
                continue;
            }
            Step::Get(of, name) => (of, "row_get", row(*name), paper.read(*of, Some(*name))),
            Step::List(of) => (of, "row_list", json!({"program": number}), paper.read(*of, None)),
            Step::Look(of) => (of, "state_get", json!({"key": "plan"}), paper.look(*of)),
            Step::Put(of, name) => {
                let args = json!({"program": number, "name": name, "text": format!("step {n}")});
                (of, "row_put", args, paper.change(*of, *name, false))
            }
            Step::Drop(of, name) => (of, "row_drop", row(*name), paper.change(*of, *name, true)),
            Step::Approved(of, name, delete) => {
                let mut args = row(*name);
                if !delete {
                    args["text"] = json!(format!("step {n}"));
                }
                (of, if *delete { "row_drop" } else { "row_put" }, args, paper.approved(*of, *name, *delete))
            }
            Step::Tell(of, to) => {
                let args = json!({"to": to, "text": format!("program {number}, step {n}")});
                (of, "tell", args, paper.tell(*of, Some(to)))
            }
            Step::Shout(of) => (of, "shout", json!({"program": number}), paper.tell(*of, None)),
        };
        let answer = match step {
            Step::Approved(..) => house.approved(set, &live[of], tool, &args).await,
            _ => house.call(set, &live[of], tool, &args).await,
        };
        tally.calls.fetch_add(1, Ordering::Relaxed);
        if matches!(tool, "tell" | "shout") {
            let count = if expected == End::Waits { &tally.held } else { &tally.told };
            count.fetch_add(1, Ordering::Relaxed);
        }
        if end(&answer) != expected {
            let steps = &steps[..=n];
            return Some(format!("program {number}: {steps:?}: expected {expected:?}, got {answer}\n{paper:#?}"));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_end_as_the_rules_on_paper_say() {
    let mut seeded = Seeded(seed());
    let wanted = std::env::var("BUTLERD_TEST_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let programs: Vec<Vec<Step>> = (0..wanted).map(|_| program(&mut seeded)).collect();
    let household = Household::few();
    let _daemon = household.start().await;
    let house = House::of(&household, &SETTINGS).await;
    let (tally, began) = (Tally::default(), std::time::Instant::now());
    let differ: Vec<String> = stream::iter(programs.iter().enumerate())
        .map(|(number, steps)| play(&house, number, steps, &tally))
        .buffer_unordered(6)
        .filter_map(|found| async { found })
        .collect()
        .await;
    let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    println!(
        "{wanted} programs, {} calls, {} sends by themselves, {} that waited, {} rows, {} that differ, {:.1} s",
        of(&tally.calls),
        of(&tally.told),
        of(&tally.held),
        house.rows().await,
        differ.len(),
        began.elapsed().as_secs_f64()
    );
    assert!(differ.is_empty(), "{} differ: {:#?}", differ.len(), &differ[..differ.len().min(3)]);
    assert!(of(&tally.told) > wanted / 4 && of(&tally.held) > wanted / 4, "both happen");
}
