//! How fast waiting messages leave, beside what their children alone would allow in the same run.
//!
//! A message of the owner's takes two sessions of the native agent with a scripted model that answers at once: one
//! decides where it goes, the other answers. The floor starts the same two children bare, one after the other, as many
//! pairs at once as the household runs sessions of each kind, against a butler's own port and the model itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::{AgentConfig, Api, CONFIG_ENV, MCP_ENV};
use serde_json::{Value, json};
use testkit::model::{Script, ScriptedModel};
use tokio::process::Command;
use tokio_postgres::Client;

use crate::daemon::Daemon;
use crate::household::{Household, MODEL};
use crate::table::{self, Verdict, median};
use crate::{Failed, Plan, accepts, boot, machine};

/// Of what the children allow, in percent.
const LEAST: f64 = 80.0;
/// The household's own share of a message that is alone, in milliseconds.
const SHARE_MS: f64 = 10.0;
/// Workers of the switchboard's buffer, as the shipped roster has it.
const PAIRS: usize = 3;
/// Who the owner is on the channel of these messages.
const OWNER: &str = "4711";

const DECIDE: &str = "where does it go";
const ANSWER: &str = "how is the weather";

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    let (waiting, alone) = if plan.is_quick() { (60, 10) } else { (1000, 40) };
    let household = Household::new(0)?;
    let route = json!({"call": {"tool": "route_to_butler", "arguments": {"butler": MODEL, "prompt": ANSWER}}});
    let script = json!({"conversations": [
        {"when": "Route the message in", "steps": [route]},
        {"when": DECIDE, "steps": [{"call": {"tool": "list_butlers", "arguments": {}}}]},
        {"when": ANSWER, "steps": [{"say": "fair"}]},
    ]});
    let model = ScriptedModel::start(Script::from_value(script)?).await?;
    let settings =
        [format!("spawner.endpoints.anthropic={}", model.base_url()), format!("owner.identities.telegram={OWNER}")];
    let daemon = Daemon::start(&household, &settings).await?;
    let (client, connection) = boot::owner(&household, "butlers")?.connect(tokio_postgres::NoTls).await?;
    base::task::spawn(base::task::Kind::Job, "bench", connection);
    let door = Door::open(&household).await?;
    let children = Arc::new(Children {
        mcp: format!("http://127.0.0.1:{}/mcp", daemon.ready.ports[MODEL]),
        tokens: daemon.ready.tokens.clone(),
        model: model.base_url().to_owned(),
        dir: tempfile::Builder::new().prefix("bench-").tempdir()?,
        made: AtomicUsize::new(0),
    });
    // The first ones read programs into memory.
    door.hand_in("warm").await?;
    settled(&client, 1).await?;
    children.pair().await?;

    let (mut messages, mut pairs) = (Vec::new(), Vec::new());
    for n in 0..alone {
        let begun = machine::monotonic_ns();
        door.hand_in(&format!("alone-{n}")).await?;
        settled(&client, n + 2).await?;
        messages.push(ms_since(begun));
        let begun = machine::monotonic_ns();
        children.pair().await?;
        pairs.push(ms_since(begun));
    }
    let begun = machine::monotonic_ns();
    children.all(waiting).await?;
    let floor = per_second(waiting, begun);
    for n in 0..waiting {
        door.hand_in(&format!("waiting-{n}")).await?;
    }
    let left = left(&client).await?;
    let begun = machine::monotonic_ns();
    settled(&client, alone + 1 + waiting).await?;
    let drained = per_second(left, begun);
    let (message, pair) = (median(&messages), median(&pairs));
    table::drain(
        waiting,
        floor,
        drained,
        Verdict::at_least("drain.rate", drained / floor * 100.0, LEAST, "% of the children's rate"),
    );
    table::alone(
        alone,
        message,
        pair,
        Verdict::at_most("drain.alone", message - pair, SHARE_MS, "ms of the house's own"),
    );
    daemon.stop().await?;
    model.shutdown().await;
    Ok(())
}

fn ms_since(begun: u64) -> f64 {
    machine::monotonic_ns().saturating_sub(begun) as f64 / 1e6
}

fn per_second(messages: usize, begun: u64) -> f64 {
    messages as f64 / ms_since(begun) * 1000.0
}

/// The children of sessions, without the house.
struct Children {
    mcp: String,
    tokens: Vec<String>,
    model: String,
    dir: tempfile::TempDir,
    made: AtomicUsize,
}

impl Children {
    /// The two children of one message, one after the other.
    async fn pair(&self) -> Result<(), Failed> {
        self.child(DECIDE, true).await?;
        self.child(ANSWER, false).await
    }

    async fn child(&self, prompt: &str, one_round: bool) -> Result<(), Failed> {
        let n = self.made.fetch_add(1, Ordering::Relaxed);
        let file = self.dir.path().join(format!("{n}.json"));
        let config = AgentConfig { one_round, ..AgentConfig::new(Api::Anthropic, &self.model, "m", prompt) };
        std::fs::write(&file, serde_json::to_vec(&config)?)?;
        let token = &self.tokens[n % self.tokens.len()];
        let servers = json!({"mcpServers": {MODEL: {"type": "http", "url": self.mcp,
                             "headers": {"Authorization": format!("Bearer {token}")}}}});
        let mut child = Command::new(std::env::current_exe()?);
        child.arg("agent").env_clear().env(CONFIG_ENV, &file).env(MCP_ENV, servers.to_string()).kill_on_drop(true);
        let done = child.output().await?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stdout);
        Err(format!("a bare child ended with {}: {}{}", done.status, said, String::from_utf8_lossy(&done.stderr))
            .into())
    }

    /// So many pairs, some at once.
    async fn all(self: &Arc<Self>, pairs: usize) -> Result<(), Failed> {
        let begun = Arc::new(AtomicUsize::new(0));
        let worker = |children: Arc<Self>, begun: Arc<AtomicUsize>| async move {
            while begun.fetch_add(1, Ordering::Relaxed) < pairs {
                children.pair().await?;
            }
            Ok::<_, Failed>(())
        };
        let workers = (0..2 * PAIRS).map(|_| worker(self.clone(), begun.clone()));
        futures_util::future::try_join_all(workers).await?;
        Ok(())
    }
}

/// Where messages are handed in.
struct Door {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Door {
    async fn open(household: &Household) -> Result<Self, Failed> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let run = household.data().join("run");
        let token = std::fs::read_to_string(run.join("operator.token"))?.trim().to_owned();
        let url = format!("http://127.0.0.1:{}/api/ingest", accepts::admin_port(&run).await?);
        Ok(Self { http: base::http_client("http://127.0.0.1").build()?, url, token })
    }

    /// One message of the owner's, in a thread of its own.
    async fn hand_in(&self, id: &str) -> Result<(), Failed> {
        let body = json!({"schema_version": "ingest.v1",
            "source": {"channel": "telegram", "provider": "telegram", "endpoint_identity": "bot:home"},
            "event": {"external_event_id": id, "external_thread_id": id, "observed_at": "2026-11-01T08:00:00Z"},
            "sender": {"identity": OWNER, "authenticated": {"result": "pass", "method": "platform"}}, "payload": {"raw": {}, "normalized_text": format!("{ANSWER}, {id}?")},
            "control": {"policy_tier": "interactive"}});
        let answer = self.http.post(&self.url).bearer_auth(&self.token).json(&body).send().await?;
        let answer: Value = answer.json().await?;
        if answer["request_id"].is_string() { Ok(()) } else { Err(format!("not taken: {answer}").into()) }
    }
}

/// Messages that are not at their end yet.
async fn left(client: &Client) -> Result<usize, Failed> {
    let sql = "SELECT count(*) FROM switchboard.message_inbox WHERE settled_at IS NULL";
    Ok(usize::try_from(client.query_one(sql, &[]).await?.get::<_, i64>(0))?)
}

/// Waits until so many messages are at their end, each with an answer.
async fn settled(client: &Client, wanted: usize) -> Result<(), Failed> {
    let sql = "SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state = 'dead'), max(last_error)
               FROM switchboard.message_inbox";
    for _ in 0..600_000 {
        let row = client.query_one(sql, &[]).await?;
        let (done, dead): (i64, i64) = (row.get(0), row.get(1));
        if dead > 0 {
            return Err(format!("{dead} messages are dead: {:?}", row.get::<_, Option<String>>(2)).into());
        }
        if usize::try_from(done)? >= wanted {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(if wanted < 100 { 1 } else { 20 })).await;
    }
    Err("the messages do not come to their end".into())
}
