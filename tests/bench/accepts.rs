//! Messages that are stored before they are acknowledged, over `POST /api/ingest`, beside a bare committed INSERT of
//! the same row into a table of the same shape and indexes through the same kind of pool, interleaved. And how soon a
//! worker has claimed one.
//!
//! The measured messages are of ingestion tier `metadata`: they are at their end with being on record, so that no
//! worker and no model takes part in the throughput. Those whose claim is timed go one at a time to a butler that takes
//! none, which ends their way right after the claim.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::daemon::Daemon;
use crate::household::{Household, STRANGE};
use crate::part::{Measured, Part, Window};
use crate::table::{self, Verdict, median};
use crate::{Failed, Plan, boot, floor_sql, load};

const CONNECTIONS: [usize; 3] = [1, 32, 256];
/// Of the floor, at this many connections.
const TARGET: f64 = 0.7;
const TARGET_AT: [usize; 2] = [1, 32];
/// From the answer to the claim, p50.
const CLAIMED_MS: f64 = 10.0;

struct Bench<'a> {
    window: Window,
    household: &'a Household,
    daemon: Daemon,
    token: String,
    admin: u16,
}

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    let household = Household::with_strange()?;
    // Its database is made, and warm.
    Daemon::start(&household, &[]).await?.stop().await?;
    let daemon = Daemon::start(&household, &[]).await?;
    let run = household.data().join("run");
    let token = std::fs::read_to_string(run.join("operator.token"))?.trim().to_owned();
    let admin = admin_port(&run).await?;
    let window = Window {
        warm_up_ms: u64::try_from(plan.warm_up.as_millis())?,
        measured_ms: u64::try_from(plan.measured.as_millis())?,
    };
    let (client, connection) = boot::owner(&household, "butlers")?.connect(tokio_postgres::NoTls).await?;
    base::task::spawn(base::task::Kind::Job, "bench", connection);
    client.batch_execute(floor_sql::INBOX).await?;
    let bench = Bench { window, household: &household, daemon, token, admin };
    table::accepts_head();
    for connections in CONNECTIONS {
        bench.at(plan, connections, &client).await?;
    }
    bench.claimed(if plan.is_quick() { 30 } else { 300 }, &client).await?;
    drop(client);
    bench.daemon.stop().await
}

/// The file is written when the daemon is ready, a moment after it has said so here.
pub async fn admin_port(run: &std::path::Path) -> Result<u16, Failed> {
    for _ in 0..1000 {
        let text = std::fs::read_to_string(run.join("daemon.json")).unwrap_or_default();
        let info: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some((_, port)) = info["admin"].as_str().and_then(|admin| admin.rsplit_once(':')) {
            return Ok(port.parse()?);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err("daemon.json does not say where the admin server is".into())
}

impl Bench<'_> {
    async fn at(&self, plan: &Plan, connections: usize, client: &Client) -> Result<(), Failed> {
        let (mut ours, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            let floor = self.floor(connections).await?;
            let accepts = self.accepts(connections).await?;
            ratios.push(accepts.per_second() / floor.per_second());
            floors.push(floor.per_second());
            ours.push(accepts);
            // Both tables begin each round as empty as the other.
            let sql =
                "TRUNCATE public.bench_inbox; DELETE FROM switchboard.message_inbox; VACUUM switchboard.message_inbox";
            for sql in sql.split("; ") {
                client.batch_execute(sql).await?;
            }
        }
        let of = |f: fn(&Measured) -> f64| median(&ours.iter().map(f).collect::<Vec<_>>());
        let ratio = median(&ratios);
        let name = format!("ingest.{connections}.of_bare_insert");
        let verdict =
            TARGET_AT.contains(&connections).then(|| Verdict::at_least(&name, ratio * 100.0, TARGET * 100.0, "%"));
        let (p50, p99) = (of(|m| m.p50_us) / 1000.0, of(|m| m.p99_us) / 1000.0);
        table::accepts(connections, p50, p99, of(Measured::per_second), median(&floors), ratio, verdict);
        Ok(())
    }

    async fn accepts(&self, connections: usize) -> Result<Measured, Failed> {
        let body = |n: usize| envelope(&format!("{n}-{}", load::UNIQUE), &format!("chat-{n}"), "metadata", None);
        let order = load::Order {
            port: self.admin,
            path: "/api/ingest".to_owned(),
            tokens: vec![self.token.clone()],
            window: self.window.clone(),
            bodies: (0..connections).map(|n| body(n).to_string()).collect(),
        };
        let mut part = Part::start("load", &[], None)?;
        part.send(&order).await?;
        let _: String = part.receive().await?;
        let measured: Measured = part.receive().await?;
        part.finish().await?;
        if measured.errors > 0 {
            return Err(format!("{} of {} messages were not accepted", measured.errors, measured.calls).into());
        }
        Ok(measured)
    }

    async fn floor(&self, tasks: usize) -> Result<Measured, Failed> {
        let pool_size = usize::from(self.daemon.ready.pool_size);
        let order = floor_sql::Order::new(self.household, pool_size, tasks, floor_sql::Work::Insert, &self.window)?;
        let mut part = Part::start("floor-sql", &[], None)?;
        part.send(&order).await?;
        let _: String = part.receive().await?;
        let measured = part.receive().await?;
        part.finish().await?;
        Ok(measured)
    }

    /// One message after the other: when the server saw the claim, against when the answer was here.
    async fn claimed(&self, messages: usize, client: &Client) -> Result<(), Failed> {
        client.batch_execute(CLAIMS).await?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = base::http_client("http://127.0.0.1").build()?;
        let url = format!("http://127.0.0.1:{}/api/ingest", self.admin);
        let (mut from_answer, mut from_request) = (Vec::new(), Vec::new());
        for n in 0..messages {
            let body = envelope(&format!("claim-{n}"), &format!("claim-{n}"), "full", Some(STRANGE));
            let sent = now()?;
            let answer = http.post(&url).bearer_auth(&self.token).json(&body).send().await?;
            let answer: Value = answer.json().await?;
            let answered = now()?;
            let id = answer["request_id"].as_str().ok_or_else(|| format!("not taken: {answer}"))?.to_owned();
            let claimed = claim_of(client, &id).await?;
            from_answer.push((claimed - answered) * 1000.0);
            from_request.push((claimed - sent) * 1000.0);
        }
        let (answer, request) = (median(&from_answer), median(&from_request));
        table::claimed(messages, answer, request, Verdict::at_most("ingest.claimed", request, CLAIMED_MS, "ms"));
        Ok(())
    }
}

/// The server itself notes when a message is first claimed.
const CLAIMS: &str = "CREATE TABLE public.bench_claims (request_id uuid PRIMARY KEY, at timestamptz NOT NULL);
    CREATE FUNCTION public.bench_claimed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO public.bench_claims VALUES (NEW.request_id, clock_timestamp()) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$;
    CREATE TRIGGER bench_claimed AFTER UPDATE ON switchboard.message_inbox FOR EACH ROW
    WHEN (OLD.claim_id IS NULL AND NEW.claim_id IS NOT NULL) EXECUTE FUNCTION public.bench_claimed()";

/// Seconds since 1970, of the clock that the server on this machine reads as well.
fn now() -> Result<f64, Failed> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

async fn claim_of(client: &Client, id: &str) -> Result<f64, Failed> {
    let sql = "SELECT extract(epoch FROM at)::float8 FROM public.bench_claims WHERE request_id = $1::text::uuid";
    for _ in 0..2000 {
        if let Some(row) = client.query_opt(sql, &[&id]).await? {
            return Ok(row.get(0));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(format!("nobody claimed {id}").into())
}

/// A short message of an ordinary size.
fn envelope(id: &str, thread: &str, tier: &str, pinned: Option<&str>) -> Value {
    json!({"schema_version": "ingest.v1",
           "source": {"channel": "telegram", "provider": "telegram", "endpoint_identity": "bot:home"},
           "event": {"external_event_id": id, "external_thread_id": thread, "observed_at": "2026-11-01T08:00:00Z"},
           "sender": {"identity": thread, "display_name": "Somebody"},
           "payload": {"raw": if tier == "metadata" { Value::Null } else { json!({}) }, "normalized_text": floor_sql::BODY},
           "control": {"ingestion_tier": tier, "pinned_target": pinned}})
}
