//! Floor b: the bare pool of connections, of the daemon's size and to the daemon's server, with as many tasks as there
//! are callers. No protocol, no tenant, no row-level security, no audit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio_postgres::NoTls;

use base::task;

use crate::household::Household;
use crate::part::{Measured, Window};
use crate::{Failed, boot};

/// The table of the floors, in the daemon's database.
pub const TABLE: &str = "CREATE TABLE IF NOT EXISTS public.bench_floor (key text PRIMARY KEY, value jsonb NOT NULL);
    INSERT INTO public.bench_floor VALUES ('bench', '{\"n\": 1}') ON CONFLICT (key) DO NOTHING";

const SELECT: &str = "SELECT value FROM public.bench_floor WHERE key = $1";
/// `state_set` writes two rows, the state and its audit row, in one transaction; so does this.
const UPSERT: &str = "INSERT INTO public.bench_floor VALUES ($1, $3), ($2, $3)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// A table with the columns, checks and indexes of the inbox, and nothing that guards it.
pub const INBOX: &str = "CREATE TABLE public.bench_inbox (LIKE switchboard.message_inbox INCLUDING ALL)";

/// What a measured message says.
pub const BODY: &str =
    "I weigh 82 kg today, after a week in which I slept well and walked more than in the one before.";

/// The row that accepting a message of the bench writes.
const INSERT: &str = "INSERT INTO public.bench_inbox
    (tenant_id, request_id, dedupe_key, dedupe_by, state, settled_at, tier, lane, channel, provider, endpoint, sender,
     thread, external_event_id, trust, observed_at, received_at, body, attachments, envelope, context, triage)
    VALUES ('owner', $1, $2, 'event', 'done', $3, 2, $4, 'telegram', 'telegram', 'bot:home', '4711', $5, $6, 'stranger',
            $3, $3, $7, '[]', $8, $9, $10)";

/// What is done again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    Select,
    Upsert,
    Insert,
}

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
    pub work: Work,
    pub window: Window,
}

impl Order {
    /// For the household's server, as its owner.
    pub fn new(
        household: &Household,
        pool_size: usize,
        tasks: usize,
        work: Work,
        window: &Window,
    ) -> Result<Self, Failed> {
        let config = boot::owner(household, "butlers")?;
        let [tokio_postgres::config::Host::Unix(socket)] = config.get_hosts() else {
            return Err("the server has no socket".into());
        };
        let password = config.get_password().ok_or("the owner has no password")?;
        Ok(Self {
            socket_dir: socket.display().to_string(),
            user: config.get_user().unwrap_or_default().to_owned(),
            password: String::from_utf8(password.to_vec())?,
            database: "butlers".to_owned(),
            pool_size,
            tasks,
            work,
            window: window.clone(),
        })
    }
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
        let work = one(pool.clone(), n, order.work, start.clone(), warm_up, measured);
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
    work: Work,
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
        match work {
            Work::Upsert => {
                let statement = client.prepare_cached(UPSERT).await?;
                client.execute(&statement, &[&first, &second, &value]).await?;
            }
            Work::Select => {
                let statement = client.prepare_cached(SELECT).await?;
                let row = client.query_one(&statement, &[&"bench"]).await?;
                let value: Value = row.get(0);
                std::hint::black_box(value);
            }
            Work::Insert => {
                let statement = client.prepare_cached(INSERT).await?;
                insert(&client, &statement, n).await?;
            }
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

/// One message's row, with documents of the size that a real one has.
async fn insert(
    client: &deadpool_postgres::Client,
    statement: &tokio_postgres::Statement,
    n: usize,
) -> Result<(), Failed> {
    let (id, now) = (uuid::Uuid::now_v7(), jiff::Timestamp::now());
    let (thread, event) = (format!("chat-{n}"), format!("{n}-{}", id.simple()));
    let part = |text: &str| format!("{}:{text}", text.len());
    let sender = part("4711");
    let lane = format!("7:claimed8:telegram8:bot:home{}{sender}", part(&thread));
    let key = format!("7:claimed5:event8:telegram8:telegram8:bot:home{}{sender}{}", part(&thread), part(&event));
    let control = json!({"policy_tier": "default", "ingestion_tier": "metadata"});
    let sender = json!({"identity": "4711", "display_name": "Somebody"});
    let envelope = json!({"raw": null, "sender": sender, "control": control});
    let context = json!({
        "request_id": id, "tenant_id": "owner", "received_at": now.to_string(), "source_channel": "telegram",
        "source_endpoint_identity": "bot:home", "source_sender_identity": "4711", "source_thread_identity": thread,
        "trust": "stranger", "lineage": {"root_request_id": id, "parent_session_id": null, "depth": 0},
        "trace_context": {"traceparent": format!("00-{}-{:016x}-01", id.simple(), n)},
    });
    let triage = json!({"action": "metadata_only", "by": "envelope"});
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 10] =
        [&id, &key, &now, &lane, &thread, &event, &BODY, &envelope, &context, &triage];
    client.execute(statement, &params).await?;
    Ok(())
}
