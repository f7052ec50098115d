//! What tests stand on: a household in a scratch directory, run by the real binary, with a scripted model.

mod daemon;
mod fake;
mod household;
mod mcp;

pub use daemon::Daemon;
pub use fake::FAKE;
pub use household::{Household, model};

use std::time::{Duration, Instant};

/// Waits until `check` gives something, and fails with what it saw last when that takes too long.
pub async fn eventually<T, F, R>(what: &str, mut check: F) -> T
where
    F: FnMut() -> R,
    R: Future<Output = Result<T, String>>,
{
    let started = Instant::now();
    loop {
        match check().await {
            Ok(value) => return value,
            Err(seen) if started.elapsed() > Duration::from_secs(60) => panic!("{what}: not within 60 s; {seen}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
