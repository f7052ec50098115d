//! What tests stand on: a household in a scratch directory, run by the real binary, with a scripted model.

pub mod bot_api;
pub mod browser;
pub mod council;
mod daemon;
pub mod developer;
mod fake;
pub mod front;
pub mod google;
pub mod graphiti;
pub mod hostile_mail;
mod household;
mod invariants;
pub mod journal;
pub mod mail_server;
pub mod mailbox;
pub mod markup;
mod mcp;
pub mod memory;
pub mod oidc;
pub mod pages;
pub mod ports;
pub mod radicale;
pub mod receiver;
mod runtimes;
pub mod tally;
mod terminal;

pub use daemon::Daemon;
pub use fake::{FAKE, turned};
pub use household::{Household, SET_UP, model, owners_zone};
pub use mcp::Mcp;
pub use mcp::http;
pub use receiver::{Hook, Receiver, SECRET};
pub use runtimes::{RUNTIMES, Runtime, installed, path_with_node};
pub use terminal::Terminal;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The program that tests run: the one that was built with them, or the one that `BUTLERD_TEST_BINARY` names, such as a
/// release. One without test points (`base::crash`) fails the tests that kill it or move its clock.
pub fn butlerd() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let named = std::env::var_os("BUTLERD_TEST_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_butlerd").into());
        // Tests run it in directories of their own.
        std::path::absolute(named).expect("the program's path")
    })
}

/// The environment of a child of this household, once one runs, and its directory in `/proc`. What the child itself has
/// started may have other variables: a child leads its session.
pub async fn child_environment(household: &Household) -> (BTreeMap<String, String>, PathBuf) {
    let work = household.data().join("work").to_string_lossy().into_owned();
    eventually("the child's environment", || async {
        let mut seen = 0;
        for entry in std::fs::read_dir("/proc").expect("proc").flatten() {
            let text = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            seen += 1;
            if text.contains(&work) && leads_a_session(&entry.path()) {
                let pairs = text.split('\0').filter_map(|l| l.split_once('='));
                return Ok((pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(), entry.path()));
            }
        }
        Err(format!("{seen} processes, none of them in {work}"))
    })
    .await
}

/// Whether a session is this process's, by its directory in `/proc`.
pub fn leads_a_session(process: &Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    // Behind the name, which may hold anything: state, parent, group, session.
    let session = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(3));
    session.is_some() && session == process.file_name().and_then(|pid| pid.to_str())
}

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
