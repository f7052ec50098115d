//! The leased queue by itself, over a table of the tests' own: who gets a row, and what is written of it.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use access::credentials::MasterKey;
use async_trait::async_trait;
use base::Clock;
use store::cluster::{OWNER, socket_config};
use store::{
    Also, Claim, Claimed, Database, DatabaseOptions, Handler, Left, Queue, QueueOptions, QueueTable, RetryPolicy,
    RunningQueue, StoreError, Verdict,
};
use supervisor::owner_login;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::{Daemon, Household, eventually};

const TABLE: &str = "CREATE TABLE public.errands (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    what text NOT NULL,
    lane text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'accepted' CHECK (state IN ('accepted', 'processing', 'done', 'dead')),
    claim_id uuid, claimed_by text, lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error text,
    CHECK ((claim_id IS NULL) = (claimed_by IS NULL) AND (claim_id IS NULL) = (lease_until IS NULL)),
    CHECK ((state = 'processing') = (claim_id IS NOT NULL)));
    CREATE TABLE public.errands_done (what text NOT NULL, by text NOT NULL)";

/// One at a time in a lane.
const LANES: &str = "AND NOT EXISTS (SELECT 1 FROM public.errands e WHERE e.lane = n.lane AND e.lane <> ''
    AND e.seq < n.seq AND e.state IN ('accepted', 'processing'))";

/// What the errands of a test are like.
#[derive(Default)]
struct Seen {
    /// In the order in which they began.
    begun: Mutex<Vec<String>>,
    left: Mutex<BTreeMap<String, Vec<Left>>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    lost: AtomicUsize,
    /// Errands whose name begins with `hold` wait for it.
    go_on: GoOn,
    /// The answer to the next claim is lost.
    cut: AtomicBool,
}

/// Lets an errand go on for each time that it is told to, be it before that errand has come to wait.
struct GoOn(Semaphore);

impl Default for GoOn {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl GoOn {
    fn one(&self) {
        self.0.add_permits(1);
    }
    async fn told(&self) {
        self.0.acquire().await.expect("it is never closed").forget();
    }
}

struct Errands {
    db: Arc<Database>,
    node: String,
    table: QueueTable,
    seen: Arc<Seen>,
}

#[async_trait]
impl Handler for Errands {
    const NAME: &'static str = "errand";
    type Row = String;
    type End = &'static str;

    fn table(&self) -> &QueueTable {
        &self.table
    }
    fn db(&self) -> &Arc<Database> {
        &self.db
    }
    fn node(&self) -> &str {
        &self.node
    }
    async fn claim(&self, in_hand: &[Uuid]) -> Result<Option<Claimed<String>>, StoreError> {
        let (id, mut lease) = (Uuid::now_v7(), self.db.every_tenant().await?);
        let also = Also { sql: LANES, params: &[] };
        let rows = self.table.claim(&mut lease, (id, &self.node), (1, in_hand), also, "q.id, q.attempts, q.what").await;
        let rows = rows.map_err(StoreError::query("claiming an errand"))?;
        if !rows.is_empty() && self.seen.cut.swap(false, Ordering::SeqCst) {
            return Err(StoreError::Unreachable("as the test wants it".to_owned()));
        }
        Ok(rows.first().map(|row| Claimed {
            claim: Claim { row: row.get(0), id },
            attempts: row.get(1),
            row: row.get(2),
        }))
    }
    async fn run(&self, claimed: &Claimed<String>, lost: &CancellationToken) -> Verdict<&'static str> {
        let (seen, what) = (&self.seen, claimed.row.as_str());
        // Counted first: whoever sees that it has begun sees it among those that are at work.
        let n = seen.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most_at_once.fetch_max(n, Ordering::SeqCst);
        seen.begun.lock().unwrap().push(what.to_owned());
        if what.starts_with("hold") {
            tokio::select! {
                () = seen.go_on.told() => {}
                () = lost.cancelled() => drop(seen.lost.fetch_add(1, Ordering::SeqCst)),
            }
        }
        seen.at_once.fetch_sub(1, Ordering::SeqCst);
        match what {
            "panics" if claimed.attempts == 1 => panic!("as the test wants it"),
            "fails" => Verdict::Retry { why: "it is a bad one".to_owned(), dead: "dead" },
            "later" if claimed.attempts == 1 && seen.left.lock().unwrap().get("later").is_none_or(|l| l.len() < 7) => {
                Verdict::Later { after: Duration::ZERO, counts: false }
            }
            _ => Verdict::Settle("done"),
        }
    }
    async fn settle(&self, claimed: &Claimed<String>, state: &&'static str) -> Result<bool, StoreError> {
        let failed = || StoreError::query("settling an errand");
        let mut lease = self.db.every_tenant().await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let sql = self.table.settling("state = $3");
        if tx.execute(&sql, &[&claimed.claim.row, &claimed.claim.id, state]).await.map_err(failed())? == 0 {
            tx.rollback().await.map_err(failed())?;
            return Ok(false);
        }
        let sql = "INSERT INTO public.errands_done VALUES ($1, $2)";
        tx.execute(sql, &[&claimed.row, &self.node]).await.map_err(failed())?;
        tx.commit().await.map_err(failed())?;
        Ok(true)
    }
    fn left(&self, claimed: &Claimed<String>, how: Left) {
        self.seen.left.lock().unwrap().entry(claimed.row.clone()).or_default().push(how);
    }
}

/// The database of a household whose daemon runs.
async fn database(data: &Path) -> Arc<Database> {
    let key = MasterKey::load(None, data).expect("the key");
    let pid = std::fs::read_to_string(data.join("postgres/postmaster.pid")).expect("a server");
    let socket = pid.lines().nth(4).expect("its socket").to_owned();
    let mut owner = socket_config(Path::new(&socket), OWNER, &owner_login(&key));
    owner.dbname("butlers");
    let options = DatabaseOptions {
        owner,
        pool_size: 2,
        time_zone: jiff::tz::TimeZone::UTC,
        master_key: key.bytes().clone(),
        clock: Clock::default(),
    };
    Arc::new(Database::open(options).await.expect("the database"))
}

/// A database with errands in it.
struct Bench {
    db: Arc<Database>,
    seen: Arc<Seen>,
}

impl Bench {
    async fn of(data: &Path) -> Self {
        Self { db: database(data).await, seen: Arc::default() }
    }

    /// With an empty table, in the database of a household that is to be kept as long as it is used.
    async fn new() -> (Self, Household, Daemon) {
        let household = Household::few();
        let daemon = household.start().await;
        let bench = Self::of(&household.data()).await;
        bench.db.every_tenant().await.expect("the owner").batch(TABLE).await.expect("the tables");
        (bench, household, daemon)
    }

    fn queue(&self, node: &str, slots: usize) -> Queue<Errands> {
        self.queue_that_looks(node, slots, Duration::from_secs(1))
    }

    /// As [`Bench::queue`], whose longest sleep is this.
    fn queue_that_looks(&self, node: &str, slots: usize, longest: Duration) -> Queue<Errands> {
        let retry = RetryPolicy { tries: 3, pause: |_| Duration::from_millis(5), error: "last_error" };
        let table = QueueTable::accepted("public.errands".to_owned(), "id", "n.seq", retry);
        let handler = Errands { db: self.db.clone(), node: node.to_owned(), table, seen: self.seen.clone() };
        let options = QueueOptions { butler: node.to_owned(), wake: Arc::default(), slots, claimers: 1, longest };
        Queue::new(handler, options)
    }

    async fn start(&self, node: &str, slots: usize) -> (Queue<Errands>, RunningQueue) {
        let queue = self.queue(node, slots);
        let running = queue.start().await.expect("a start");
        (queue, running)
    }

    async fn sql(&self, sql: &str) -> Vec<tokio_postgres::Row> {
        let mut lease = self.db.every_tenant().await.expect("the owner");
        lease.query(sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"))
    }

    async fn add(&self, what: &str, lane: &str) {
        self.sql(&format!("INSERT INTO public.errands (what, lane) VALUES ('{what}', '{lane}')")).await;
    }

    /// Waits until nothing is open.
    async fn settled(&self) {
        eventually("all errands are at their end", || async {
            let rows =
                self.sql("SELECT what, state, attempts FROM public.errands WHERE state NOT IN ('done', 'dead')").await;
            let open: Vec<(String, String, i32)> = rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect();
            if open.is_empty() { Ok(()) } else { Err(format!("{open:?}")) }
        })
        .await;
    }

    async fn begun(&self, n: usize) {
        eventually("they are begun", || async {
            let begun = self.seen.begun.lock().unwrap().clone();
            if begun.len() >= n { Ok(()) } else { Err(format!("{begun:?}")) }
        })
        .await;
    }

    /// The state, tries and last error of an errand.
    async fn errand(&self, what: &str) -> (String, i32, Option<String>) {
        let rows =
            self.sql(&format!("SELECT state, attempts, last_error FROM public.errands WHERE what = '{what}'")).await;
        (rows[0].get(0), rows[0].get(1), rows[0].get(2))
    }

    fn left(&self, what: &str) -> Vec<Left> {
        self.seen.left.lock().unwrap().get(what).cloned().unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_row_goes_to_one_of_many_workers_and_is_done_once() {
    let (bench, _household, _daemon) = Bench::new().await;
    bench.sql("INSERT INTO public.errands (what) SELECT 'errand ' || n FROM generate_series(1, 200) n").await;
    let mut running = Vec::new();
    for n in 0..8 {
        running.push(bench.start(&format!("node-{n}"), 4).await);
    }
    bench.settled().await;
    let counts = bench.sql("SELECT count(*), count(DISTINCT what), count(DISTINCT by) FROM public.errands_done").await;
    let (done, different, nodes): (i64, i64, i64) = (counts[0].get(0), counts[0].get(1), counts[0].get(2));
    assert_eq!((done, different), (200, 200));
    assert!(nodes > 1, "one node did all of it");
    let tries = bench.sql("SELECT count(*) FROM public.errands WHERE attempts <> 1").await;
    assert_eq!(tries[0].get::<_, i64>(0), 0, "one try each");
    let metrics = telemetry::Metrics::default();
    metrics.tell_of(bench.db.queue_metrics());
    let counted = |outcome: &str| -> u64 {
        let text = metrics.render();
        let lines = text.lines().filter(|line| line.contains("errand") && line.contains(outcome));
        lines.map(|line| line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a count")).sum()
    };
    assert_eq!((counted("claimed"), counted("settled")), (200, 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_lost_the_claim_is_told_and_writes_nothing() {
    let (bench, _household, _daemon) = Bench::new().await;
    bench.add("hold this", "").await;
    let (_queue, running) = bench.start("slow", 1).await;
    bench.begun(1).await;
    let theirs = "UPDATE public.errands SET claim_id = gen_random_uuid(), claimed_by = 'another',
                         lease_until = clock_timestamp() + interval '1 hour'";
    bench.sql(theirs).await;
    // Let on, it comes to its end, and finds that it holds nothing.
    bench.seen.go_on.one();
    eventually("it has left", || async {
        let left = bench.left("hold this");
        if left == [Left::Lost] { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    assert_eq!(bench.errand("hold this").await.0, "processing");
    assert!(bench.sql("SELECT 1 FROM public.errands_done").await.is_empty());
    // What the other does not renew is taken over after its lease.
    bench.sql("UPDATE public.errands SET lease_until = clock_timestamp()").await;
    bench.begun(2).await;
    bench.seen.go_on.one();
    bench.settled().await;
    assert_eq!((bench.errand("hold this").await.1, bench.left("hold this")), (2, vec![Left::Lost, Left::Settled]));
    running.close();
    running.ended(Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_that_fails_is_made_again_until_there_were_enough() {
    let (bench, _household, _daemon) = Bench::new().await;
    for what in ["fails", "later", "panics", "is fine"] {
        bench.add(what, "").await;
    }
    let (_queue, _running) = bench.start("node", 2).await;
    let error = Some("it is a bad one".to_owned());
    eventually("the bad one is dead", || async {
        let (state, tries, why) = bench.errand("fails").await;
        if (&*state, tries, &why) == ("dead", 3, &error) { Ok(()) } else { Err(format!("{state} {tries} {why:?}")) }
    })
    .await;
    assert_eq!(bench.left("fails"), [Left::Retried, Left::Retried, Left::Dead]);
    bench.settled().await;
    // What could not be tried counts nothing, however often.
    assert_eq!(bench.errand("later").await, ("done".to_owned(), 1, None));
    assert_eq!(bench.left("later").len(), 8);
    // A panic is one try's end, and the row keeps what it said.
    let panicked = Some("the work on it panicked: as the test wants it".to_owned());
    assert_eq!(bench.errand("panics").await, ("done".to_owned(), 2, panicked));
    assert_eq!(bench.left("panics"), [Left::PutBack, Left::Settled]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_go_one_after_the_other_and_the_user_says_who_is_first() {
    let (bench, _household, _daemon) = Bench::new().await;
    for n in 0..4 {
        for lane in ["a", "b"] {
            bench.add(&format!("hold {lane}{n}"), lane).await;
        }
    }
    let (_queue, _running) = bench.start("node", 8).await;
    for n in 1..=4 {
        bench.begun(2 * n).await;
        assert_eq!(bench.seen.at_once.load(Ordering::SeqCst), 2, "one of each lane");
        bench.seen.go_on.one();
        bench.seen.go_on.one();
        let open = "SELECT 1 FROM public.errands WHERE state IN ('accepted', 'processing')";
        eventually("both are done", || async {
            let left = bench.sql(open).await.len();
            if left <= 8 - 2 * n { Ok(()) } else { Err(format!("{left} are open")) }
        })
        .await;
    }
    let begun = bench.seen.begun.lock().unwrap().clone();
    for lane in ["a", "b"] {
        let of: Vec<&String> = begun.iter().filter(|what| what.starts_with(&format!("hold {lane}"))).collect();
        assert!(of.is_sorted(), "{begun:?}");
    }
    assert_eq!(bench.seen.most_at_once.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_what_is_in_hand_and_a_start_takes_up_what_was() {
    let (bench, _household, _daemon) = Bench::new().await;
    for what in ["hold one", "hold two", "hold three"] {
        bench.add(what, "").await;
    }
    let (_queue, running) = bench.start("node", 2).await;
    bench.begun(2).await;
    running.close();
    let ended = running.ended(Duration::from_secs(30));
    tokio::pin!(ended);
    assert!(futures_util::FutureExt::now_or_never(&mut ended).is_none(), "two are in hand");
    bench.seen.go_on.one();
    bench.seen.go_on.one();
    ended.await;
    let rows = bench.sql("SELECT state, count(*) FROM public.errands GROUP BY 1 ORDER BY 1").await;
    let states: Vec<(String, i64)> = rows.iter().map(|r| (r.get(0), r.get(1))).collect();
    assert_eq!(states, [("accepted".to_owned(), 1), ("done".to_owned(), 2)]);
    // As if the node had been killed with it in hand, an hour before its lease is over.
    let killed = "UPDATE public.errands SET state = 'processing', attempts = 1, claim_id = gen_random_uuid(),
                         claimed_by = 'node', lease_until = clock_timestamp() + interval '1 hour'
                  WHERE state = 'accepted'";
    bench.sql(killed).await;
    let (_other, _stays) = bench.start("another", 1).await;
    let (_queue, _running) = bench.start("node", 1).await;
    bench.begun(3).await;
    bench.seen.go_on.one();
    bench.settled().await;
    assert_eq!(bench.sql("SELECT 1 FROM public.errands WHERE attempts = 2").await.len(), 1, "the killed try counts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_answer_was_lost_is_given_back_and_counts_nothing() {
    let (bench, _household, _daemon) = Bench::new().await;
    bench.add("cut off", "").await;
    bench.seen.cut.store(true, Ordering::SeqCst);
    let (_queue, _running) = bench.start("node", 1).await;
    bench.settled().await;
    assert!(!bench.seen.cut.load(Ordering::SeqCst), "the first claim was cut off");
    assert_eq!(bench.errand("cut off").await, ("done".to_owned(), 1, None));
    assert_eq!(bench.left("cut off"), [Left::Settled]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_node_holds_is_taken_up_as_its_lease_ends() {
    let (bench, _household, _daemon) = Bench::new().await;
    bench.add("left behind", "").await;
    bench.add("not for long", "").await;
    // Two daemons died, each with a row in hand; one had renewed its claim later than the other, by more than what a
    // busy machine may take to look.
    let claimed = "UPDATE public.errands SET state = 'processing', attempts = 1, claim_id = gen_random_uuid(),
                          claimed_by = 'dead',
                          lease_until = statement_timestamp() + CASE what WHEN 'left behind' THEN interval '10 s'
                                                                          ELSE interval '2 s' END";
    bench.sql(claimed).await;
    let begun = Instant::now();
    let _running = bench.queue_that_looks("node", 1, Duration::from_secs(60)).start().await.expect("a start");
    bench.settled().await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(25), "nobody rang, and it took {took:?}");
    let order = bench.seen.begun.lock().unwrap().clone();
    assert_eq!(order, ["not for long", "left behind"], "each as its own lease ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_worked_on_beside_the_loop_for_whoever_waits_for_it() {
    let (bench, _household, _daemon) = Bench::new().await;
    bench.add("at once", "").await;
    let queue = bench.queue("node", 1);
    let ended = queue.work_on(queue.handler().claim(&[])).await.expect("a claim");
    assert!(matches!(ended, Some(Verdict::Settle("done"))), "{ended:?}");
    assert_eq!(bench.errand("at once").await, ("done".to_owned(), 1, None));
    assert!(queue.work_on(queue.handler().claim(&[])).await.expect("a claim").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_claimed_for_somebody_who_left_is_given_back() {
    let (bench, _household, _daemon) = Bench::new().await;
    bench.add("hold this", "").await;
    let (queue, _running) = bench.start("node", 1).await;
    bench.begun(1).await;
    // The loop has no room, so that this claim takes it.
    bench.add("left alone", "").await;
    let claimed = Notify::new();
    let gone = async {
        queue.handler().claim(&[]).await.expect("a claim").expect("an errand");
        claimed.notify_one();
        std::future::pending().await
    };
    tokio::select! {
        ended = queue.work_on(gone) => panic!("whoever asked is gone: {ended:?}"),
        () = claimed.notified() => {}
    }
    assert_eq!(bench.errand("left alone").await.0, "processing");
    bench.seen.go_on.one();
    bench.settled().await;
    assert_eq!(bench.errand("left alone").await, ("done".to_owned(), 1, None), "it was not tried before");
}

/// Works on errands until it dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by other tests, as a process of its own"]
async fn errands_of_a_process() {
    let Some(data) = std::env::var_os("ERRANDS_OF") else { return };
    let bench = Bench::of(Path::new(&data)).await;
    let (_queue, _running) = bench.start("node", 1).await;
    bench.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_point_of_a_try_its_row_is_done_once() {
    let (bench, household, _daemon) = Bench::new().await;
    for (point, before, tries) in [("claimed", "processing", 2), ("tried", "processing", 2), ("settled", "done", 1)] {
        bench.add(point, "").await;
        let mut process = Command::new(std::env::current_exe().expect("the tests"));
        process
            .args(["queue::errands_of_a_process", "--exact", "--ignored", "--nocapture"])
            .env("ERRANDS_OF", household.data())
            .env("BUTLERD_CRASH_POINT", format!("errand.{point}"));
        let died = tokio::task::spawn_blocking(move || process.output()).await.expect("its end").expect("it runs");
        assert_eq!(died.status.signal(), Some(9), "{point}: {}", String::from_utf8_lossy(&died.stdout));
        assert_eq!((bench.errand(point).await.0.as_str(), bench.errand(point).await.1), (before, 1), "{point}");
        // What it held is taken up at once by a start of its node, an hour before the lease is over.
        bench
            .sql("UPDATE public.errands SET lease_until = lease_until + interval '1 hour' WHERE claim_id IS NOT NULL")
            .await;
        let (_queue, running) = bench.start("node", 1).await;
        bench.settled().await;
        assert_eq!(bench.errand(point).await.1, tries, "{point}");
        let done = bench.sql(&format!("SELECT 1 FROM public.errands_done WHERE what = '{point}'")).await;
        assert_eq!(done.len(), 1, "{point}");
        running.close();
        running.ended(Duration::from_secs(10)).await;
    }
}
