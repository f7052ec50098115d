//! A day in the life of each butler, as `tests/data/days/` tells it: what is said and what is answered, a call that is
//! refused and put right, a daemon that is killed in the middle of it, a schedule of its own, and what reached the
//! owner.

pub mod month;
mod play;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_general() {
    play::day(include_str!("../data/days/general.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_relationship() {
    play::day(include_str!("../data/days/relationship.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_health() {
    play::day(include_str!("../data/days/health.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_finance() {
    play::day(include_str!("../data/days/finance.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_travel() {
    play::day(include_str!("../data/days/travel.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_messenger() {
    play::day(include_str!("../data/days/messenger.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_switchboard() {
    play::day(include_str!("../data/days/switchboard.json")).await;
}
