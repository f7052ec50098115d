//! Many sessions of the child that misbehaves (tests/bin/fake_cli.rs), several at once, watched from outside: what is
//! left of each after its end, and whether the daemon comes back to what it was.
//!
//! The tests have the short form; `BENCH_ONLY=soak just bench` is the long one.

pub mod proc;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::SessionId;
use process::Mark;
use serde_json::Value;

use proc::Process;

/// The settings under which the soak's sessions end in the seconds that it has.
pub const SETTINGS: [(&str, &str); 5] = [
    ("spawner.max_sessions", "8"),
    ("spawner.retries", "0"),
    ("spawner.kill_grace", "300ms"),
    ("spawner.final_event_grace", "300ms"),
    ("spawner.limits.memory", "512 MiB"),
];

/// The `butler.toml` of the butler whose sessions misbehave, which are given this much time.
pub fn butler(name: &str, port: u16, session_timeout: &str) -> String {
    format!(
        "[butler]\nname = \"{name}\"\nport = {port}\ndescription = \"for tests\"\n\n\
         [runtime]\ntype = \"claude-code\"\n\n\
         [butler.runtime]\nmodel = \"scripted\"\nmax_concurrent_sessions = 8\nmax_queued = 200\n\
         session_timeout = \"{session_timeout}\"\n\n[butler.shutdown]\ntimeout = \"1s\"\n"
    )
}

/// One after the other, again and again: steps, the session's state, and the class of its error.
const WAYS: [(&str, &str, Option<&str>); 17] = [
    ("start; call state_set {\"key\":\"k\",\"value\":1}; finish done", "succeeded", None),
    ("start; fork setsid; finish done", "succeeded", None),
    ("start; deaf; hang", "timed_out", Some("timed_out")),
    ("start; half; die 9", "failed", Some("killed")),
    ("start; flood both 100000000 words; hang", "failed", Some("crashed")),
    ("start; exit 0", "failed", Some("crashed")),
    ("start; fork double; fork hidden; exit 0", "failed", Some("crashed")),
    ("start; deaf; fork hidden; finish done; hang", "succeeded", None),
    ("start; eat 4000000000; finish done", "failed", Some("crashed")),
    ("start; fork plain; fork unmarked; deaf; hang", "timed_out", Some("timed_out")),
    ("start; dump; finish", "succeeded", None),
    ("start failed; deaf; hang", "failed", Some("mcp_unreachable")),
    ("start; flood stdout 70000000 wide; hang", "failed", Some("crashed")),
    ("start; finish done; fork loud; exit 0", "succeeded", None),
    ("start; litter; die 11", "failed", Some("crashed")),
    ("start; fork hopper; finish done", "succeeded", None),
    ("mute; stop; hang", "timed_out", Some("timed_out")),
];

/// Whom to soak.
pub struct Target {
    /// The daemon's process.
    pub pid: i32,
    /// The misbehaving program, which nobody else runs.
    pub program: PathBuf,
    /// The directory of the sessions' workspaces.
    pub work: PathBuf,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Sessions whose state or class is not what they did.
    pub wrong: Vec<String>,
    pub samples: usize,
    /// Processes that were alive 5 s after their session's end.
    pub left: BTreeSet<String>,
    /// Dead children of the daemon that it had not buried when their session was over.
    pub zombies: BTreeSet<String>,
    /// Dead orphans that whoever inherits them, not the daemon, took more than a second to bury.
    pub unburied_orphans: BTreeSet<i32>,
    pub workspaces: usize,
    /// Descriptors of the daemon: before, at most, after.
    pub descriptors: [usize; 3],
    /// Resident KiB of the daemon: before, at most, after.
    pub resident: [u64; 3],
    pub took: Duration,
}

/// How long after a session's end nothing of it may be alive.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the daemon may take to come to rest: connections to the database are given back after 30 s.
const REST: Duration = Duration::from_secs(75);

/// Runs `sessions` of them, `at_once` at a time. `call` calls a tool of the butler and returns its result.
pub async fn soak<C, F>(target: Target, sessions: usize, at_once: usize, call: C) -> Seen
where
    C: Fn(&'static str, Value) -> F,
    F: Future<Output = Value>,
{
    // One of each before, so that what is made once is not taken for a leak.
    let mut warm = Seen::default();
    waves(0..WAYS.len(), at_once, &call, &mut warm, &Mutex::default()).await;
    let (descriptors, resident) = at_rest(&target, None).await;
    let mut seen = Seen { wrong: warm.wrong, ..Seen::default() };
    let begun = Instant::now();
    let ended: Arc<Ended> = Arc::default();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let watcher = std::thread::spawn({
        let (ended, target) =
            (ended.clone(), Target { program: target.program.clone(), work: target.work.clone(), ..target });
        move || watch(&target, &ended, &stopped)
    });
    waves(0..sessions, at_once, &call, &mut seen, &ended).await;
    seen.took = begun.elapsed();
    let (after, after_resident) = at_rest(&target, Some((descriptors, resident))).await;
    drop(stop);
    let watched = watcher.join().unwrap_or_default();
    let left = proc::processes().filter(|p| p.runs(&target.program)).map(|p| format!("{} at the end", p.pid));
    Seen {
        samples: watched.samples,
        left: watched.left.into_iter().chain(left).collect(),
        zombies: watched.zombies,
        unburied_orphans: watched.unburied_orphans,
        workspaces: std::fs::read_dir(&target.work).map_or(0, Iterator::count),
        descriptors: [descriptors, watched.descriptors[1], after],
        resident: [resident, watched.resident[1], after_resident],
        ..seen
    }
}

/// When each session that is over was over, by its mark.
type Ended = Mutex<HashMap<String, (Instant, &'static str)>>;

async fn waves<C, F>(range: std::ops::Range<usize>, at_once: usize, call: &C, seen: &mut Seen, ended: &Ended)
where
    C: Fn(&'static str, Value) -> F,
    F: Future<Output = Value>,
{
    use futures_util::StreamExt;
    let one = |n: usize| async move {
        let (steps, state, class) = WAYS[n % WAYS.len()];
        let done = call("trigger", serde_json::json!({"prompt": prompt(steps)})).await;
        let at = Instant::now();
        let id = &done["session_id"];
        if let Some(id) = id.as_str().and_then(|id| id.parse::<SessionId>().ok()) {
            let mark = format!("{:?}", Mark::of(id));
            ended.lock().unwrap_or_else(PoisonError::into_inner).insert(mark, (at, steps));
        }
        let row = call("sessions_get", serde_json::json!({"session_id": id})).await;
        let right = row["state"] == state && row["error_class"].as_str() == class;
        // On a busy machine its time may be over before it has written all that.
        let slow = row["state"] == "timed_out" && ["flood", "eat"].iter().any(|long| steps.contains(long));
        let right = right || slow;
        (!right).then(|| format!("{steps}: {} {} {}; {done}", row["state"], row["error_class"], row["error"]))
    };
    let mut all = futures_util::stream::iter(range).map(one).buffer_unordered(at_once);
    while let Some(wrong) = all.next().await {
        seen.wrong.extend(wrong);
    }
}

/// The prompt of these steps.
pub fn prompt(steps: &str) -> String {
    steps.split("; ").map(|step| format!("do {step}")).collect::<Vec<_>>().join("\n")
}

/// Descriptors and memory once they move no more, or are back where they were.
async fn at_rest(target: &Target, before: Option<(usize, u64)>) -> (usize, u64) {
    let begun = Instant::now();
    loop {
        let now = (proc::descriptors(target.pid).values().sum::<usize>(), proc::memory(target.pid, "VmRSS"));
        let back = before.is_some_and(|(d, r)| now.0 <= d && now.1 * 10 <= r * 11 && begun.elapsed() > PATIENCE);
        // Before, the whole time: what comes to rest then is the measure.
        if back || begun.elapsed() > REST {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Looks ten times a second until it is told to stop.
fn watch(target: &Target, ended: &Ended, stop: &std::sync::mpsc::Receiver<()>) -> Seen {
    let mut seen = Seen::default();
    let daemon = Process::of(target.pid).map_or(0, |p| p.started);
    while stop.recv_timeout(Duration::from_millis(100)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        seen.samples += 1;
        let over = ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let looked = Instant::now();
        for process in proc::processes().filter(|p| p.started >= daemon) {
            let Some((at, steps)) = process.mark().and_then(|mark| over.get(&mark).copied()) else { continue };
            let since = looked.duration_since(at);
            let shown = format!("{} of `{steps}` {} ms after its end", process.pid, since.as_millis());
            if process.dead && process.parent == target.pid {
                seen.zombies.insert(shown);
            } else if process.dead && since > Duration::from_secs(1) {
                seen.unburied_orphans.insert(process.pid);
            } else if !process.dead && since > PATIENCE {
                seen.left.insert(shown);
            }
        }
        let descriptors = proc::descriptors(target.pid).values().sum();
        seen.descriptors[1] = seen.descriptors[1].max(descriptors);
        seen.resident[1] = seen.resident[1].max(proc::memory(target.pid, "VmRSS"));
    }
    seen
}
