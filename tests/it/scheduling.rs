//! Schedulers over one database, with a clock that is moved under their hands: each due time fires once.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use access::credentials::MasterKey;
use async_trait::async_trait;
use base::{ButlerName, Clock, Secret, SessionId, TenantId};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Unit};
use schedule::{Begun, Dispatch, Earlier, Firing, How, Scheduler, SchedulerParts};
use store::cluster::{OWNER, socket_config};
use store::migrate::Chain;
use store::{Database, DatabaseOptions, RunningQueue, Store, StoreError};
use supervisor::owner_login;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::support::{Household, eventually};

/// Counts what fires; holds what it is told to hold.
#[derive(Default)]
struct Counter {
    fired: Mutex<BTreeMap<(String, Timestamp), usize>>,
    held: Option<Arc<Notify>>,
}

#[async_trait]
impl Dispatch for Counter {
    fn idle_for(&self) -> Option<Duration> {
        Some(Duration::MAX)
    }
    async fn begin(&self, firing: Firing) -> Begun {
        *self.fired.lock().unwrap().entry((firing.name, firing.fire_at)).or_default() += 1;
        match self.held.clone() {
            None => Begun::ended(How::Done(None)),
            Some(held) => Begun {
                session: None,
                end: Box::pin(async move {
                    held.notified().await;
                    schedule::Ended::without_session(How::Done(None))
                }),
            },
        }
    }
    async fn earlier(&self, _: &TenantId, _: Uuid) -> Result<Earlier, StoreError> {
        Ok(Earlier::Nothing)
    }
    fn cancel(&self, _: SessionId) {}
}

/// A butler of a household's database that no daemon knows, with its clock.
struct Bench {
    db: Arc<Database>,
    store: Store,
    clock: Clock,
}

impl Bench {
    async fn of(household: &Household) -> Self {
        let key = MasterKey::load(None, &household.data()).expect("the key");
        let pid = std::fs::read_to_string(household.data().join("postgres/postmaster.pid")).expect("a server");
        let socket = pid.lines().nth(4).expect("its socket").to_owned();
        let password: Secret<String> = owner_login(&key);
        let mut owner = socket_config(std::path::Path::new(&socket), OWNER, &password);
        owner.dbname("butlers");
        let clock = Clock::default();
        let options = DatabaseOptions {
            owner,
            pool_size: 4,
            time_zone: jiff::tz::TimeZone::get("Europe/Berlin").expect("a zone"),
            master_key: key.bytes().clone(),
            clock: clock.clone(),
        };
        let db = Arc::new(Database::open(options).await.expect("the database"));
        let name = ButlerName::new("benched").expect("a name");
        let store = db.provision(&name, "benched").await.expect("a store");
        let core = Chain::shipped("core").expect("the chain");
        db.migrate(&name, "benched", &[&core]).await.expect("the tables");
        Self { db, store, clock }
    }

    async fn scheduler(&self, node: &str, target: &Arc<Counter>) -> (Scheduler, RunningQueue) {
        let scheduler = Scheduler::new(SchedulerParts {
            limits: config::SchedulesConfig { min_interval: base::HumanDuration(Duration::from_secs(1)) },
            butler: ButlerName::new("benched").expect("a name"),
            db: self.db.clone(),
            store: self.store.clone(),
            node: node.to_owned(),
            slots: 4,
            time_zone: "Europe/Berlin".to_owned(),
            target: target.clone(),
            pieces: butler::COST_PIECES,
            wake: Arc::default(),
        });
        let schedule_loop = scheduler.start().await.expect("a start");
        (scheduler, schedule_loop)
    }

    async fn add(&self, tenant: &str, name: &str, cron: &str, more: &str) {
        let tenant = TenantId::new(tenant).expect("a tenant");
        let mut lease = self.store.tenant(&tenant).await.expect("a lease");
        let now = self.clock.now();
        let next = schedule::Times::cron(cron, "Europe/Berlin").expect("a cron").next(now);
        let sql = format!(
            "INSERT INTO scheduled_tasks (id, name, cron, prompt, dispatch_mode, timezone, source, trust, next_run_at,
                                          missed, overlap)
             VALUES ($1, $2, $3, 'p', 'prompt', 'Europe/Berlin', 'db', 'owner', $4, {more})"
        );
        lease.execute(&sql, &[&Uuid::now_v7(), &name, &cron, &next]).await.expect("a schedule");
    }

    /// Waits until nothing that is due is open, and says what became of the times: state and count of times.
    async fn settled(&self, name: &str) -> BTreeMap<String, i64> {
        let mut client = self.db.every_tenant().await.expect("the owner");
        let until = self.clock.now();
        loop {
            let sql = "SELECT (SELECT count(*) FROM benched.scheduled_tasks WHERE enabled AND next_run_at <= $1)
                            + (SELECT count(*) FROM benched.schedule_runs WHERE state IN ('due', 'running'))";
            let open: i64 = client.query(sql, &[&until]).await.expect("a count")[0].get(0);
            if open == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let sql = "SELECT r.state, sum(r.times)::bigint FROM benched.schedule_runs r
                   JOIN benched.scheduled_tasks t ON t.id = r.task_id WHERE t.name = $1 GROUP BY 1";
        let rows = client.query(sql, &[&name]).await.expect("the runs");
        rows.iter().map(|r| (r.get(0), r.get(1))).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schedulers_on_one_database_fire_each_time_once() {
    let household = Household::new();
    let _daemon = household.start().await;
    let bench = Bench::of(&household).await;
    let counter = Arc::new(Counter::default());
    bench.add("owner", "quarters", "*/15 * * * *", "'run_once', 'skip'").await;
    bench.add("owner", "hours", "0 * * * *", "'backfill', 'queue'").await;
    bench.add("neighbour", "quarters", "7 * * * *", "'skip', 'skip'").await;
    let from = bench.clock.now();
    let (one, _one) = bench.scheduler("one", &counter).await;
    let (two, _two) = bench.scheduler("two", &counter).await;
    let mut moved = SignedDuration::ZERO;
    // Five minutes at a time; now and then an hour forward or back, as when somebody sets the clock.
    for step in 0..150i64 {
        let by = match step % 50 {
            20 => SignedDuration::from_hours(1),
            35 => SignedDuration::from_hours(-1),
            _ => SignedDuration::from_mins(5),
        };
        bench.clock.advance(by);
        moved += by;
        one.wake();
        two.wake();
        bench.settled("hours").await;
    }
    let fired = counter.fired.lock().unwrap().clone();
    let twice: Vec<_> = fired.iter().filter(|(_, n)| **n != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(fired.len() > 50, "{}", fired.len());
    for (name, cron) in [("hours", "0 * * * *")] {
        let times = schedule::Times::cron(cron, "Europe/Berlin").unwrap();
        let end = from.checked_add(moved).unwrap();
        let (mut at, mut meant) = (from, 0);
        while let Some(t) = times.next(at).filter(|t| *t <= end) {
            at = t;
            meant += 1;
        }
        let became = bench.settled(name).await;
        assert_eq!(became.values().sum::<i64>(), meant, "{became:?}");
        assert_eq!(became.get("done"), Some(&meant), "each hour has its run: {became:?}");
    }
    let sql = "SELECT count(*) FROM benched.schedule_runs GROUP BY task_id, fire_at HAVING count(*) > 1";
    assert_eq!(household.owner().await.query(sql, &[]).await.unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_at_work_is_not_fired_again_and_queued_ones_follow_it() {
    let household = Household::new();
    let _daemon = household.start().await;
    let bench = Bench::of(&household).await;
    let held = Arc::new(Notify::new());
    let counter = Arc::new(Counter { held: Some(held.clone()), ..Counter::default() });
    bench.add("owner", "skips", "0 * * * *", "'run_once', 'skip'").await;
    bench.add("owner", "queues", "0 * * * *", "'run_once', 'queue'").await;
    let (scheduler, _clockwork) = bench.scheduler("one", &counter).await;
    let count = |name: &str| counter.fired.lock().unwrap().keys().filter(|(n, _)| n == name).count();
    let client = household.owner().await;
    for round in 1..=3i64 {
        // Right after the hour, so that its time is not missed.
        let now = bench.clock.now();
        let to_hour = 3600 - now.as_second().rem_euclid(3600) + 1;
        bench.clock.advance(SignedDuration::from_secs(to_hour));
        scheduler.wake();
        eventually("this hour is decided on", || async {
            let sql = "SELECT count(*) FROM benched.schedule_runs";
            let n: i64 = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
            if n == 2 * round { Ok(()) } else { Err(n.to_string()) }
        })
        .await;
    }
    eventually("the first ones are at work", || async {
        if (count("skips"), count("queues")) == (1, 1) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    let done = |name: &'static str| {
        let client = &client;
        async move {
            let sql = "SELECT count(*) FILTER (WHERE r.state = 'done'), count(*) FILTER (WHERE r.state = 'skipped')
                       FROM benched.schedule_runs r JOIN benched.scheduled_tasks t ON t.id = r.task_id WHERE t.name = $1";
            let row = client.query_one(sql, &[&name]).await.expect("a count");
            (row.get::<_, i64>(0), row.get::<_, i64>(1))
        }
    };
    eventually("all have ended", || async {
        held.notify_one();
        match (done("skips").await, done("queues").await) {
            ((1, 2), (3, 0)) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
    assert_eq!((count("skips"), count("queues")), (1, 3));
}

/// `systemd-analyze calendar`, which leaves out what a change of the clock leaves out: those days are not compared.
#[test]
fn systemd_means_the_same_times() {
    const SAME: [(&str, &str); 8] = [
        ("30 2 * * *", "*-*-* 02:30:00"),
        ("0 8 * * 1-5", "Mon..Fri *-*-* 08:00:00"),
        ("15 1,2,3 * * *", "*-*-* 01,02,03:15:00"),
        ("0 0 29 2 *", "*-02-29 00:00:00"),
        ("45 23 31 * *", "*-*-31 23:45:00"),
        ("0 12 1 1 *", "*-01-01 12:00:00"),
        ("59 */6 * * *", "*-*-* 00/6:59:00"),
        ("30 15 2 * * *", "*-*-* 02:15:30"),
    ];
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("systemd-analyze is not there: its opinion was not asked");
        return;
    }
    let mut compared = 0;
    for (cron, calendar) in SAME {
        for zone in ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"] {
            let asked = Command::new("systemd-analyze")
                .args(["calendar", "--base-time=2024-02-20 00:00:00 UTC", "--iterations=400"])
                .arg(format!("{calendar} {zone}"))
                .env("TZ", "UTC")
                .env("LC_ALL", "C")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&asked.stdout).into_owned();
            let tz = TimeZone::get(zone).unwrap();
            let shown = |line: &str| {
                let (_, moment) = line.split_once(": ")?;
                let fields: Vec<&str> = moment.split_whitespace().collect();
                let [_, date, time, "UTC"] = fields[..] else { return None };
                format!("{date}T{time}Z").parse::<Timestamp>().ok()
            };
            let theirs: Vec<Timestamp> = text.lines().filter_map(shown).collect();
            if theirs.is_empty() {
                eprintln!("systemd-analyze says nothing of `{calendar}`: {}", String::from_utf8_lossy(&asked.stderr));
                continue;
            }
            let times = schedule::Times::cron(cron, zone).unwrap();
            let begin: Timestamp = "2024-02-20T00:00:00Z".parse().unwrap();
            let mut ours = Vec::new();
            let mut at = begin;
            while let Some(t) = times.next(at).filter(|t| t <= theirs.last().unwrap()) {
                ours.push(t);
                at = t;
            }
            let changing = |t: &Timestamp| {
                let day = t.to_zoned(tz.clone()).round(Unit::Minute).unwrap().date();
                let offset = |d: Date| tz.to_offset(d.to_zoned(tz.clone()).unwrap().timestamp());
                offset(day) != offset(day.tomorrow().unwrap())
            };
            let plain = |list: &[Timestamp]| -> Vec<Timestamp> {
                let mut list: Vec<_> = list.iter().copied().filter(|t| !changing(t)).collect();
                list.dedup();
                list
            };
            assert_eq!(plain(&ours), plain(&theirs), "{cron} and {calendar} in {zone}");
            compared += ours.len();
        }
    }
    assert!(compared > 1000, "{compared}");
}
