//! The turn of the day through the daemon: its moved clock, its scheduler and its job, in three zones with summer time,
//! with lines by chance and kills in between. One rotation a day, no line lost, no day twice, rows equal files.
//!
//! `JOURNAL_DAYS` (else 12 in each zone, about the night in which the clocks change) makes more of it; `just soak` has
//! 1,000 in each. `JOURNAL_SEED` repeats a run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use serde_json::json;
use tokio_postgres::Client;

use base::Trust;
use journal::documents::Documents;
use journal::file::FileName;
use journal::ops::{By, Op, apply};
use journal::rotate::{day_of, rotate};

use crate::support::hostile_mail::Chance;
use crate::support::journal::{GENERAL, files_of_rows};
use crate::support::{Daemon, Household, eventually};

/// Where the owner lives, and a day shortly before the clocks change there: forward, back, and by half an hour.
const ZONES: [(&str, &str); 3] =
    [("Europe/Vienna", "2028-03-18"), ("America/New_York", "2028-10-28"), ("Australia/Lord_Howe", "2028-03-25")];
/// Where a rotation is killed; as it starts the journal is changed once, in vain.
const POINTS: [&str; 5] =
    ["journal.applied", "journal.committed:2", "journal.noted", "journal.swapped", "journal.swapped:2"];

struct Days {
    /// Before its household, whose end takes the log away that a failure shows.
    daemon: Option<Daemon>,
    household: Household,
    db: Client,
    zone: TimeZone,
    chance: Chance,
    /// What was logged, by the day on which it was.
    lines: BTreeMap<Date, Vec<String>>,
    kills: usize,
}

impl Days {
    async fn begin(zone: &str, first: Date, seed: u64) -> Self {
        let clock_zone = TimeZone::get(zone).expect("a zone");
        let household = Household::few()
            .with_general()
            .journal_settings("sync = \"by_hand\"")
            // The butler's own schedule asks a model.
            .replace("general/butler.toml", "cron = \"0 15 * * *\"", "cron = \"0 15 29 2 *\"")
            .env("BUTLERD_OWNER__TIME_ZONE", zone);
        let file = household.path().join("clock").to_string_lossy().into_owned();
        let household = household.env("BUTLERD_CLOCK_FILE", &file);
        let begun = first.at(12, 0, 0, 0).to_zoned(clock_zone.clone()).expect("a time");
        household.set_clock(&begun.timestamp().to_string());
        let daemon = household.start().await;
        household.journal_begun().await;
        let db = household.rows().await;
        let chance = Chance::new(seed);
        Self { household, daemon: Some(daemon), db, zone: clock_zone, chance, lines: BTreeMap::new(), kills: 0 }
    }

    /// A time of the day there; one that the change of the clocks left out is as much later.
    fn at(&self, day: Date, (hour, minute): (usize, usize)) -> Zoned {
        let time = day.at(i8::try_from(hour).expect("an hour"), i8::try_from(minute).expect("a minute"), 0, 0);
        time.to_zoned(self.zone.clone()).expect("a time")
    }

    fn set_clock(&self, at: Timestamp) {
        self.household.set_clock(&at.to_string());
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("it runs")
    }

    /// A day: lines at times by chance, from after its rotation on until before midnight.
    async fn live(&mut self, day: Date) {
        let mut hours: BTreeSet<usize> = BTreeSet::new();
        for _ in 0..self.chance.below(4) {
            hours.insert(1 + self.chance.below(22));
        }
        for hour in hours {
            let minute = self.chance.below(60);
            self.set_clock(self.at(day, (hour, minute)).timestamp());
            let n: usize = self.lines.values().map(Vec::len).sum();
            let text = format!("line {n} of {day}");
            self.daemon().mcp(GENERAL).ok("journal_log", json!({"text": text})).await;
            self.lines.entry(day).or_default().push(text);
        }
    }

    /// The night behind it: the scheduler's run at 00:05, sometimes killed on its way, or made up for after a time in which
    /// the daemon was away.
    async fn turn(&mut self, day: Date) {
        let next = day.tomorrow().expect("a day");
        let due = self.at(next, (0, 5)).timestamp();
        match self.chance.below(16) {
            0 => {
                let point = self.chance.below(POINTS.len());
                self.killed_at(POINTS[point], due).await
            }
            1 => {
                let mut daemon = self.daemon.take().expect("it runs");
                tokio::task::block_in_place(|| daemon.kill());
                self.kills += 1;
                drop(daemon);
                let late = i64::try_from(self.chance.below(50)).expect("minutes");
                self.set_clock(due + late.minutes());
                self.start(None).await;
            }
            _ => {
                self.set_clock(due + 1.second());
                self.daemon().mcp(GENERAL).ok("tick", json!({})).await;
            }
        }
        let wanted = format!("# Session Log: {next}\n");
        eventually(&format!("the turn to {next}"), || async {
            let today = std::fs::read_to_string(self.household.journal_path("sessions/today.md")).unwrap_or_default();
            if !today.starts_with(&wanted) {
                return Err(format!("{today}\n{}", self.runs().await));
            }
            let sql = "SELECT count(*) FROM general.schedule_runs WHERE state IN ('due', 'running')";
            let open: i64 = self.db.query_one(sql, &[]).await.expect("the runs").get(0);
            if open == 0 { Ok(()) } else { Err(format!("{open} runs are open")) }
        })
        .await;
    }

    /// The butler's newest runs, for whoever reads why a night did not end.
    async fn runs(&self) -> String {
        let sql = "SELECT string_agg(line, E'\\n') FROM (
                       SELECT t.name || ' ' || to_jsonb(r)::text AS line FROM general.schedule_runs r
                       JOIN general.scheduled_tasks t ON t.id = r.task_id ORDER BY r.created_at DESC LIMIT 6) newest";
        let row = self.db.query_one(sql, &[]).await;
        row.map_or_else(|e| format!("{e}"), |row| row.get::<_, Option<String>>(0).unwrap_or_default())
    }

    /// Starts again, maybe to die.
    async fn start(&mut self, point: Option<&str>) {
        let daemon = match point {
            Some(point) => Household::again(&self.household, "BUTLERD_CRASH_POINT", point).start().await,
            None => self.household.start().await,
        };
        self.daemon = Some(daemon);
        self.db = self.household.rows().await;
    }

    /// The daemon dies in the night's work, and another one goes on.
    async fn killed_at(&mut self, point: &str, due: Timestamp) {
        let mut daemon = self.daemon.take().expect("it runs");
        tokio::task::block_in_place(|| daemon.stop_blocking());
        drop(daemon);
        self.start(Some(point)).await;
        self.set_clock(due + 1.second());
        // It may die before it answers.
        drop(self.daemon().mcp(GENERAL).try_call("tick", json!({})).await);
        let mut daemon = self.daemon.take().expect("it runs");
        crate::support::tally::died(&mut daemon, point).await;
        drop(daemon);
        self.kills += 1;
        self.start(None).await;
        // What it had claimed is given back at the start; it waits for its butler to be idle.
        self.daemon().mcp(GENERAL).ok("tick", json!({})).await;
    }

    /// Each day has its file, each file its day, each line its place, and the rows say the same.
    async fn judge(&self, (first, last): (Date, Date)) {
        self.household.rows_and_files_agree(&self.db, &format!("{:?}", self.zone)).await;
        let files = files_of_rows(&self.db).await;
        let mut days = BTreeMap::new();
        for (file, text) in files.iter().filter(|(file, _)| file.starts_with("sessions/")) {
            let day = day_of(text).unwrap_or_else(|| panic!("{file}: {text}"));
            let want = if day == last { "sessions/today.md".to_owned() } else { format!("sessions/{day}.md") };
            assert_eq!(*file, want, "a day of its own each");
            assert!(days.insert(day, text).is_none(), "{day} is there twice");
        }
        let mut day = first;
        while day <= last {
            let text = days.get(&day).unwrap_or_else(|| panic!("{day} has no log"));
            let found: Vec<&str> =
                text.lines().filter_map(|line| line.split_once("** - ")).map(|(_, said)| said).collect();
            let want = self.lines.get(&day).map(Vec::as_slice).unwrap_or_default();
            assert_eq!(found, want, "{day}");
            day = day.tomorrow().expect("a day");
        }
        // One rotation for each day: that of the day itself, by its run or by whoever wrote first.
        let sql = "SELECT count(*) FROM general.journal_changes WHERE kind = 'rotate'";
        let turns: i64 = self.db.query_one(sql, &[]).await.expect("the steps").get(0);
        let nights = i64::try_from(days.len()).expect("a number") - 1;
        assert_eq!(turns, nights, "a step for each night");
        // Runs are kept for some weeks.
        let sql = "SELECT count(*), count(DISTINCT (fire_at AT TIME ZONE $1)::date) FROM general.schedule_runs r
                   JOIN general.scheduled_tasks t ON t.id = r.task_id WHERE t.name = 'session-rotate' AND r.state = 'done'";
        let row = self.db.query_one(sql, &[&self.zone.iana_name()]).await.expect("the runs");
        let (runs, dates): (i64, i64) = (row.get(0), row.get(1));
        assert!(
            runs == dates && (nights.min(12)..=nights).contains(&runs),
            "{runs} runs on {dates} days, {nights} nights"
        );
    }
}

async fn days_in(zone: &str, first: Date, days: usize, seed: u64) -> (usize, usize) {
    let mut all = Days::begin(zone, first, seed).await;
    let mut day = first;
    for _ in 0..days {
        all.live(day).await;
        all.turn(day).await;
        day = day.tomorrow().expect("a day");
    }
    all.live(day).await;
    all.judge((first, day)).await;
    (all.lines.values().map(Vec::len).sum(), all.kills)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_day_is_turned_once_whatever_happens_in_the_night() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let days = number("JOURNAL_DAYS").and_then(|n| usize::try_from(n).ok()).unwrap_or(12);
    let seed = number("JOURNAL_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20 | 7);
    let form = format!("(the full form: 1,000 days in each of {} zones)", ZONES.len());
    // Past what the harness keeps for itself: the seed is printed also where all goes well.
    let said = writeln!(std::io::stderr(), "JOURNAL_DAYS={days} JOURNAL_SEED={seed} {form}");
    said.expect("standard error is open");
    let begun = std::time::Instant::now();
    let zones = ZONES.iter().zip(seed..).map(|((zone, first), seed)| async move {
        (zone, days_in(zone, first.parse().expect("a day"), days, seed).await)
    });
    for (zone, (lines, kills)) in futures_util::future::join_all(zones).await {
        println!("{zone}: {days} days, {lines} lines, {kills} kills");
    }
    println!("{:.0} s", begun.elapsed().as_secs_f64());
}

/// Lines come at any hour, the rotation whenever it happens to run; no line is in the wrong day, lost or there twice.
#[test]
fn a_thousand_days_of_files_in_three_zones_lose_no_line() {
    for (n, zone) in ["Europe/Vienna", "America/New_York", "Australia/Lord_Howe"].into_iter().enumerate() {
        let zone = TimeZone::get(zone).unwrap();
        let mut journal = Documents::default();
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut seed = 7 + n as u64;
        let mut lines = 0;
        for hour in 0..24 * 1000 {
            let now = (start + hour.hours()).to_zoned(zone.clone()).datetime();
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if (seed >> 33).is_multiple_of(7) {
                let text = format!("line {lines} of {}", now.date());
                apply(&mut journal, &Op::Log { text }, By { trust: Trust::Owner, now, migrates: false }).unwrap();
                lines += 1;
            }
            if !(seed >> 40).is_multiple_of(5) && now.hour() == 0 {
                rotate(&mut journal, now.date());
            }
        }
        let mut found = 0;
        let mut days = std::collections::BTreeSet::new();
        for (file, document) in journal.iter() {
            let text = document.text();
            let day = day_of(&text).unwrap();
            assert!(days.insert(day), "{day} is there twice");
            assert!(*file == FileName::today() || *file == FileName::day(day, 0), "{file}");
            for line in text.lines().filter(|line| line.starts_with("**")) {
                assert!(line.ends_with(&format!(" of {day}")), "{file}: {line}");
                found += 1;
            }
        }
        assert_eq!(found, lines, "{zone:?}");
    }
}
