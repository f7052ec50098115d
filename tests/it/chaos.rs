//! Rounds of a random fault while messages come in all the time: nothing that was accepted is lost, dead or misrouted
//! because of it, `/readyz` tells what is the case, and nobody lends a hand.
//!
//! `CHAOS_ROUNDS` (else each fault once), `CHAOS_SECONDS` (the longest fault; else 2) and `CHAOS_SEED` make more of it;
//! each round tells its fault with `--nocapture`. The first rounds play each fault once. A slow disk is played by
//! stopping the database's processes half of the time. A daemon that ends of its own is started again, as its unit
//! says.

mod faults;
mod ground;
mod ledger;
mod model_door;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::fairness::patient;
use crate::machine::SmallDisk;
use crate::support::Household;
use crate::support::tally::{counting_model, random, rule};
use faults::{KINDS, Kind, Round, Told};
use ground::Ground;
use ledger::{all_ended, amiss, send};
use model_door::ModelDoor;

/// How long `/readyz` may take to tell a change. Where it runs beside other tests it gets longer.
const SOON: Duration = Duration::from_secs(2);
const SOON_IN_A_CROWD: Duration = Duration::from_secs(6);

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The faults of so many rounds: each once in an order of chance, then whatever comes.
fn kinds(rounds: usize, seed: u64) -> Vec<Kind> {
    let chance = |n: usize| usize::try_from(random(seed.wrapping_add(n as u64)) >> 8).unwrap_or(0);
    let mut kinds = KINDS.to_vec();
    (1..kinds.len()).for_each(|n| kinds.swap(n, chance(n) % (n + 1)));
    kinds.extend((KINDS.len()..rounds).map(|n| KINDS[chance(n) % KINDS.len()]));
    kinds.truncate(rounds);
    kinds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_all_kinds_are_waited_out() {
    let rounds = usize::try_from(number("CHAOS_ROUNDS", KINDS.len() as u64)).expect("a number");
    let (longest, seed) = (number("CHAOS_SECONDS", 2), number("CHAOS_SEED", 17));
    let least = longest.min(5) * if longest > 2 { 1000 } else { 500 };
    let model = counting_model(0).await;
    let door = ModelDoor::before(&model.base_url()).await;
    let household = patient(Household::few_with_model(&model).with_tally(2));
    let household = Ground::settings(household, &door);
    let data = household.data();
    let Some(disk) = SmallDisk::over(&data, "size=700m,nr_inodes=15000,mode=0755") else { return };
    let ground = Ground::new(&household);
    let mut daemon = ground.start(&household);
    rule(&household.owner().await, "count: ", "tally").await;
    crate::machine::turns(&daemon, None).await;
    let stop = Arc::new(AtomicBool::new(false));
    let sending: Vec<_> = (0..5).map(|thread| tokio::spawn(send(data.clone(), thread, stop.clone()))).collect();
    println!("seed {seed}");
    let (mut late, mut restarts) = (Vec::new(), 0);
    for (n, kind) in kinds(rounds, seed).into_iter().enumerate() {
        let chance = random(!seed.wrapping_add(n as u64));
        let lasts = Duration::from_millis(least + chance / 16 % (longest * 1000 - least + 1));
        let round = Round { household: &household, daemon: &daemon, door: &door, ground: &ground, lasts };
        let Told { began, wrong } = round.play(kind).await;
        let over = Instant::now();
        if daemon.ended() {
            assert_eq!(kind, Kind::Memory, "{kind:?}: the daemon ended\n{}", daemon.log());
            restarts += 1;
            daemon = ground.start(&household);
        }
        let ended = ground.is_ready(&daemon, Duration::from_secs(60)).await;
        assert!(ended, "{kind:?}: it is not ready again\n{}", daemon.log());
        let over = over.elapsed();
        println!("round {n}: {kind:?} for {lasts:?}, told after {began:?}, over after {over:?}{wrong}");
        let slow = began.is_some_and(|began| began > SOON) || kind.is_over_at_once() && over > SOON;
        if slow || !wrong.is_empty() {
            late.push(format!("round {n}: {kind:?}: {began:?}, {over:?}{wrong}"));
        }
        let found = amiss(&household).await;
        assert!(found.is_empty(), "round {n}: {kind:?}: {found:?}");
    }
    stop.store(true, Ordering::Release);
    let mut accepted = Vec::new();
    for sender in sending {
        accepted.extend(sender.await.expect("a sender"));
    }
    assert!(accepted.len() > rounds, "{accepted:?}");
    all_ended(&household, &accepted).await;
    println!(
        "{rounds} rounds, seed {seed}: {restarts} restarts; readyz was late or wrong in {}: {late:#?}",
        late.len()
    );
    let crowd = std::env::var_os("CHAOS_ROUNDS").is_none();
    assert!(late.is_empty() || crowd, "readyz was not right");
    assert_eq!(daemon.stop_blocking(), 0);
    drop(disk);
}
