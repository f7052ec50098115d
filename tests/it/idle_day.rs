//! A day on which nobody says anything: no model is asked, and daemon and server do next to nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use crate::days::month::{Month, of_each};
use crate::inbound_database::{postmaster, server};
use crate::support::tally::times;
use crate::support::{Household, model};

/// Of a core, daemon and server together, in hundredths.
const MOST_CPU: f64 = 0.3;
const DIGEST: &str = "general/eod-tomorrow-prep";

/// From midnight to midnight of a Tuesday. Those who look back on a week or a month do so on Sundays, on Mondays, and on
/// the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_without_a_message_starts_no_session() {
    // With the journal as it is shipped.
    let shipped = |household: Household| {
        let by_hand = "[modules.journal]\nsync = \"by_hand\"\n";
        household.replace("general/butler.toml", by_hand, "[modules.journal]\n")
    };
    let month = Month::begin_with(shipped).await;
    // A household that is lived in, of which nothing is due that day or the next.
    let item = |title: &str, due: &str, done: bool| {
        let data = json!({"title": title, "due": due, "done": done});
        json!({"collection_name": "House", "data": data})
    };
    month.tell("general", "collection_create", json!({"name": "House"})).await;
    month.tell("general", "item_create", item("Call the roofer", "2027-03-20", false)).await;
    month.tell("general", "item_create", item("Pay the chimney sweep", "2027-03-03", true)).await;
    let choir = json!({"title": "Choir", "start_at": "2027-03-10T19:30", "timezone": "Europe/Berlin",
        "recurrence_rule": "FREQ=WEEKLY"});
    month.tell("general", "calendar_create_event", choir).await;
    month.live("2027-03-02T00:00:00+01:00").await;
    let before = (month.sessions().await, month.model.requests().len());
    month.live("2027-03-03T00:00:00+01:00").await;
    let told = month.told().await;
    let after = (month.sessions().await, month.model.requests().len());
    assert_eq!(after, before, "sessions, and requests at the model\n{told:#?}");
    assert_eq!(told.get(DIGEST), Some(&[2, 2, 0, 0]), "it looked on Monday and on Tuesday\n{told:#?}");

    // The same digest asks as soon as there is something to say.
    month.tell("general", "item_create", item("Book the piano tuner", "2027-03-04", false)).await;
    month.live("2027-03-04T00:00:00+01:00").await;
    let told = month.told().await;
    assert_eq!(told.get(DIGEST), Some(&[3, 3, 0, 1]), "{told:#?}");
    assert!(month.model.requests().len() > before.1);
}

/// What processes have used so far.
struct Used {
    /// In seconds, those that ended among them.
    cpu: f64,
    /// What reached a disk, in bytes. `None`: nobody here may know.
    written: Option<u64>,
    /// Of each thread how often it went to sleep by itself, which is how often it was woken.
    sleeps: BTreeMap<(i32, String), u64>,
}

/// The number behind a name in a file of `/proc`; `None` when the process is gone, or is not ours to look at.
fn number(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// What may be unknown, with so many digits.
fn shown(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(|| "unknown".to_owned(), |number| format!("{number:.digits$}"))
}

impl Used {
    fn by(pids: &[i32]) -> Self {
        let mut used = Self { cpu: 0.0, written: Some(0), sleeps: BTreeMap::new() };
        let ticks_a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
        for &pid in pids {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            // utime and stime, then those of its children that ended.
            let ticks: u64 = fields.split_whitespace().skip(11).take(4).filter_map(|n| n.parse::<u64>().ok()).sum();
            used.cpu += ticks as f64 / ticks_a_second;
            let written = number(&format!("/proc/{pid}/io"), "write_bytes:");
            used.written = used.written.zip(written).map(|(all, one)| all + one);
            for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                let status = task.path().join("status").to_string_lossy().into_owned();
                if let Some(sleeps) = number(&status, "voluntary_ctxt_switches:") {
                    used.sleeps.insert((pid, task.file_name().to_string_lossy().into_owned()), sleeps);
                }
            }
        }
        used
    }

    /// What was used since then: the share of a core in hundredths, bytes on disk and wake-ups, both a second.
    fn since(&self, before: &Self, seconds: f64) -> [Option<f64>; 3] {
        let woken = |(thread, now): (&(i32, String), &u64)| {
            now.saturating_sub(before.sleeps.get(thread).copied().unwrap_or_default())
        };
        let woken: u64 = self.sleeps.iter().map(woken).sum();
        let cpu = (self.cpu - before.cpu) * 100.0;
        let written = self.written.zip(before.written).map(|(now, then)| now.saturating_sub(then) as f64 / seconds);
        [Some(cpu / seconds), written, Some(woken as f64 / seconds)]
    }
}

/// With `IDLE_SECONDS`, for so long, and the CPU is held to what is promised: of the release build, with
/// `BUTLERD_TEST_GROUND` on a disk, because in memory nothing is written to one. `just soak` does so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_rest_daemon_and_server_do_next_to_nothing() {
    let whole = std::env::var_os("IDLE_SECONDS").is_some();
    let length = Duration::from_secs(times("IDLE_SECONDS", 3));
    let model = model(json!([])).await;
    let household = Household::whole_with_model(&model);
    let daemon = household.start().await;
    household.at_rest("after the start").await;
    let client = household.owner().await;
    let postmaster = postmaster(&household);
    let wal = async || {
        let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        client.query_one(sql, &[]).await.expect("how much the server logged").get::<_, i64>(0)
    };
    let mut cpu = None;
    // The first has what a start leaves to be done.
    for round in ["after the start", "at rest"] {
        let begun = std::time::Instant::now();
        let (logged, before) = (wal().await, [Used::by(&[daemon.pid()]), Used::by(&server(postmaster))]);
        // Time itself is what is waited for.
        tokio::time::sleep(length).await;
        let after = [Used::by(&[daemon.pid()]), Used::by(&server(postmaster))];
        let seconds = begun.elapsed().as_secs_f64();
        let logged = (wal().await - logged) as f64 / seconds;
        let [house, database] = [after[0].since(&before[0], seconds), after[1].since(&before[1], seconds)];
        let both = |what: usize| house[what].zip(database[what]).map(|(daemon, server)| daemon + server);
        cpu = both(0);
        let told = |what: usize, digits: usize| {
            let [sum, daemon, server] = [both(what), house[what], database[what]].map(|number| shown(number, digits));
            format!("{sum} (daemon {daemon}, server {server})")
        };
        println!("{round}, {seconds:.0} s: {} % of a core", told(0, 3));
        println!("    {} bytes a second to disk; {logged:.0} of the server's log, wherever it is", told(1, 0));
        println!("    {} wake-ups a second", told(2, 1));
        // It is the daemon that was looked at, and it is there.
        assert!(after[0].sleeps.values().sum::<u64>() > 0 && after[1].sleeps.len() > 1);
    }
    assert!(!whole || cpu.is_some_and(|cpu| cpu < MOST_CPU), "{} % of a core at rest", shown(cpu, 3));
    let sessions = format!("SELECT count(*) FROM ({}) s", of_each("SELECT id FROM {b}.sessions"));
    let sessions: i64 = client.query_one(&sessions, &[]).await.expect("the sessions").get(0);
    assert_eq!((sessions, model.requests().len()), (0, 0));
}
