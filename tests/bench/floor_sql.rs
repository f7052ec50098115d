//! Floor b: the bare pool of connections, of the daemon's size and to the daemon's server, with as many tasks as there
//! are callers. No protocol, no tenant, no row-level security, no audit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio_postgres::NoTls;

use butlerd::base::task;

use crate::Failed;
use crate::part::{Measured, Window};

/// The table of the floors, in the daemon's database.
pub const TABLE: &str = "CREATE TABLE IF NOT EXISTS public.bench_floor (key text PRIMARY KEY, value jsonb NOT NULL);
    INSERT INTO public.bench_floor VALUES ('bench', '{\"n\": 1}') ON CONFLICT (key) DO NOTHING";

const SELECT: &str = "SELECT value FROM public.bench_floor WHERE key = $1";
/// `state_set` writes two rows, the state and its audit row, in one transaction; so does this.
const UPSERT: &str = "INSERT INTO public.bench_floor VALUES ($1, $3), ($2, $3)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// What the floor does.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// How to connect: in the line, not in an argument, because of the password.
    pub socket_dir: String,
    pub user: String,
    pub password: String,
    pub database: String,
    pub pool_size: usize,
    pub tasks: usize,
    pub write: bool,
    pub window: Window,
}

/// Takes an order from standard input, carries it out and tells the result.
pub async fn run() -> Result<(), Failed> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let mut config = tokio_postgres::Config::new();
    config.host_path(&order.socket_dir).user(&order.user).password(&order.password).dbname(&order.database);
    let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let pool = Pool::builder(manager).max_size(order.pool_size).build()?;
    let start = Arc::new(Barrier::new(order.tasks + 1));
    let warm_up = Duration::from_millis(order.window.warm_up_ms);
    let measured = Duration::from_millis(order.window.measured_ms);
    let mut tasks = Vec::new();
    for n in 0..order.tasks {
        let work = one(pool.clone(), n, order.write, start.clone(), warm_up, measured);
        tasks.push(task::spawn(task::Kind::Job, "floor", work));
    }
    start.wait().await;
    tokio::time::sleep(warm_up).await;
    println!("\"measuring\"");
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    println!("{}", serde_json::to_string(&Measured::of(all, 0, measured.as_secs_f64()))?);
    Ok(())
}

async fn one(
    pool: Pool,
    n: usize,
    write: bool,
    start: Arc<Barrier>,
    warm_up: Duration,
    measured: Duration,
) -> Result<Vec<u32>, Failed> {
    let (first, second, value) = (format!("set-{n}"), format!("audit-{n}"), json!({"n": n}));
    start.wait().await;
    let begin = Instant::now() + warm_up;
    let end = begin + measured;
    let mut latencies = Vec::new();
    loop {
        let sent = Instant::now();
        let client = pool.get().await?;
        if write {
            let statement = client.prepare_cached(UPSERT).await?;
            client.execute(&statement, &[&first, &second, &value]).await?;
        } else {
            let statement = client.prepare_cached(SELECT).await?;
            let row = client.query_one(&statement, &[&"bench"]).await?;
            let value: Value = row.get(0);
            std::hint::black_box(value);
        }
        drop(client);
        let now = Instant::now();
        if now >= end {
            return Ok(latencies);
        }
        if now >= begin {
            latencies.push(u32::try_from((now - sent).as_nanos()).unwrap_or(u32::MAX));
        }
    }
}
