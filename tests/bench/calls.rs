//! `tools/call` of `state_get` and `state_set` beside their floors, and of `measurement_latest`, which a roster
//! declares in SQL, interleaved: a noisy minute hits all of them.

use serde_json::json;

use crate::daemon::Daemon;
use crate::household::{Household, MODEL, READER};
use crate::part::{Measured, Part, Window};
use crate::table::{self, Verdict, median};
use crate::{Failed, Plan, boot, figures, floor_sql, load, machine};

const CONNECTIONS: [usize; 3] = [1, 32, 256];
/// Of the two floors taken together.
const TARGET: f64 = 0.8;
/// At so many connections, 99 of 100 calls take no longer than this.
const P99_AT: usize = 32;
const P99_MS: f64 = 5.0;
/// What the daemon keeps after all of these calls.
const AFTER_MB: f64 = 48.0;

/// One measured window, with what it cost whom.
#[derive(Clone)]
struct Sample {
    load: Measured,
    daemon_us: f64,
    server_us: f64,
}

/// The samples of one tool at one number of connections, by round.
#[derive(Default)]
struct Rounds {
    ours: Vec<Sample>,
    ratios: Vec<f64>,
    together: Vec<f64>,
}

/// What the bare servers did, by round.
#[derive(Default)]
struct Floors {
    hyper: Vec<f64>,
    sdk: Vec<f64>,
    sdk_p99_ms: Vec<f64>,
}

struct Bench<'a> {
    window: Window,
    household: &'a Household,
    daemon: Daemon,
    hyper_port: u16,
    sdk_port: u16,
    postmaster: u32,
}

pub async fn measure(plan: &Plan, household: &Household) -> Result<(), Failed> {
    let daemon = Daemon::start(household, &[]).await?;
    let (mut hyper, mut sdk) = (Part::start("floor-hyper", &[], None)?, Part::start("floor-sdk", &[], None)?);
    let (hyper_port, sdk_port) = (hyper.receive().await?, sdk.receive().await?);
    prepare(household, &daemon).await?;
    let window = Window {
        warm_up_ms: u64::try_from(plan.warm_up.as_millis())?,
        measured_ms: u64::try_from(plan.measured.as_millis())?,
    };
    let postmaster = machine::postmaster(&household.data())?;
    let bench = Bench { window, household, daemon, hyper_port, sdk_port, postmaster };
    table::calls_head();
    for connections in CONNECTIONS {
        bench.at(plan, connections).await?;
    }
    let mb = |field: &str| Ok::<_, Failed>(machine::status_kib(bench.daemon.pid(), field)? as f64 / 1024.0);
    let (rss, own, peak) = (mb("VmRSS")?, mb("RssAnon")?, mb("VmHWM")?);
    let verdict = Verdict::at_most("calls.resident_after", rss, AFTER_MB, "MB");
    table::note(&format!(
        "resident memory of the daemon after these calls: {rss:.1} MB, {own:.1} of its own, at most {peak:.1} MB   {verdict}"
    ));
    hyper.finish().await?;
    sdk.finish().await?;
    bench.daemon.stop().await
}

impl Bench<'_> {
    async fn at(&self, plan: &Plan, connections: usize) -> Result<(), Failed> {
        let (mut get, mut set, mut latest) = (Rounds::default(), Rounds::default(), Rounds::default());
        let (mut floors, mut selects, mut upserts) = (Floors::default(), Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            let noop = || bodies(connections, |_| call("noop", &json!({"key": "bench"})));
            floors.hyper.push(self.load(self.hyper_port, &[], noop()).await?.load.per_second());
            let bare = self.load(self.sdk_port, &[], noop()).await?.load;
            let select = self.sql(connections, false).await?;
            let ours = self.ours(connections, |_| call("state_get", &json!({"key": "bench"}))).await?;
            get.add(&bare, &select, ours);
            if connections == P99_AT {
                let read = bodies(connections, |_| call("measurement_latest", &json!({"kind": "weight"})));
                let ready = &self.daemon.ready;
                let read = self.load(ready.ports[READER], &ready.reader_tokens, read).await?;
                latest.add(&bare, &select, read);
            }
            let upsert = self.sql(connections, true).await?;
            let ours = self
                .ours(connections, |n| call("state_set", &json!({"key": format!("set-{n}"), "value": {"n": n}})))
                .await?;
            set.add(&bare, &upsert, ours);
            floors.sdk.push(bare.per_second());
            floors.sdk_p99_ms.push(bare.p99_us / 1000.0);
            selects.push(select.per_second());
            upserts.push(upsert.per_second());
        }
        get.print("state_get", connections, &floors, median(&selects));
        set.print("state_set", connections, &floors, median(&upserts));
        if connections == P99_AT {
            latest.print("measurement_latest", connections, &floors, median(&selects));
        }
        Ok(())
    }

    async fn ours(&self, connections: usize, body: impl Fn(usize) -> String) -> Result<Sample, Failed> {
        let ready = &self.daemon.ready;
        self.load(ready.ports[MODEL], &ready.tokens, bodies(connections, body)).await
    }

    /// One window of load over HTTP.
    async fn load(&self, port: u16, tokens: &[String], bodies: Vec<String>) -> Result<Sample, Failed> {
        let mut part = Part::start("load", &[], None)?;
        part.send(&load::Order {
            port,
            path: "/mcp".to_owned(),
            tokens: tokens.to_vec(),
            window: self.window.clone(),
            bodies,
        })
        .await?;
        let _: String = part.receive().await?;
        let before = (machine::cpu(self.daemon.pid()), machine::cpu_of_server(self.postmaster));
        let load: Measured = part.receive().await?;
        let after = (machine::cpu(self.daemon.pid()), machine::cpu_of_server(self.postmaster));
        part.finish().await?;
        if load.errors > 0 {
            return Err(format!("{} of {} calls failed", load.errors, load.calls).into());
        }
        let per_call = |seconds: f64| seconds * 1e6 / load.calls.max(1) as f64;
        Ok(Sample { daemon_us: per_call(after.0 - before.0), server_us: per_call(after.1 - before.1), load })
    }

    /// One window of the bare pool.
    async fn sql(&self, tasks: usize, write: bool) -> Result<Measured, Failed> {
        let work = if write { floor_sql::Work::Upsert } else { floor_sql::Work::Select };
        let pool_size = usize::from(self.daemon.ready.pool_size);
        let order = floor_sql::Order::new(self.household, pool_size, tasks, work, &self.window)?;
        let mut part = Part::start("floor-sql", &[], None)?;
        part.send(&order).await?;
        let _: String = part.receive().await?;
        let measured = part.receive().await?;
        part.finish().await?;
        Ok(measured)
    }
}

impl Rounds {
    fn add(&mut self, bare: &Measured, sql: &Measured, ours: Sample) {
        let together = 1.0 / (1.0 / bare.per_second() + 1.0 / sql.per_second());
        self.ratios.push(ours.load.per_second() / together);
        self.together.push(together);
        self.ours.push(ours);
    }

    fn print(&self, tool: &str, connections: usize, floors: &Floors, sql: f64) {
        let of = |f: fn(&Sample) -> f64| median(&self.ours.iter().map(f).collect::<Vec<_>>());
        let (ratio, p99_ms) = (median(&self.ratios), of(|s| s.load.p99_us) / 1000.0);
        let name = format!("calls.{tool}.{connections}");
        let mut verdicts =
            vec![Verdict::at_least(&format!("{name}.of_floors"), ratio * 100.0, TARGET * 100.0, "% of both floors")];
        if connections == P99_AT {
            verdicts.push(Verdict::at_most(&format!("{name}.p99"), p99_ms, P99_MS, "ms, p99"));
        }
        figures::keep(&format!("{name}.rate"), of(|s| s.load.per_second()), "calls/s", None);
        table::calls(&table::Calls {
            tool,
            connections,
            p50_ms: of(|s| s.load.p50_us) / 1000.0,
            p99_ms,
            per_second: of(|s| s.load.per_second()),
            daemon_us: of(|s| s.daemon_us),
            server_us: of(|s| s.server_us),
            hyper: median(&floors.hyper),
            sdk: median(&floors.sdk),
            sdk_p99_ms: median(&floors.sdk_p99_ms),
            sql,
            together: median(&self.together),
            ratio,
            ratios: table::spread(&self.ratios),
            verdicts,
        });
    }
}

fn bodies(connections: usize, body: impl Fn(usize) -> String) -> Vec<String> {
    (0..connections).map(body).collect()
}

fn call(tool: &str, arguments: &serde_json::Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
        .to_string()
}

/// The table of the floors, the key that is read, and the measurement.
async fn prepare(household: &Household, daemon: &Daemon) -> Result<(), Failed> {
    let (client, connection) = boot::owner(household, "butlers")?.connect(tokio_postgres::NoTls).await?;
    let driver = base::task::spawn(base::task::Kind::Job, "bench", connection);
    client.batch_execute(floor_sql::TABLE).await?;
    drop(client);
    driver.await??;
    let ready = &daemon.ready;
    let set = call("state_set", &json!({"key": "bench", "value": {"n": 1}}));
    once(ready.ports[MODEL], &ready.tokens, set).await?;
    let log = call("measurement_log", &json!({"kind": "weight", "value": {"kg": 82}}));
    once(ready.ports[READER], &ready.reader_tokens, log).await
}

/// Makes a call for what it leaves.
async fn once(port: u16, tokens: &[String], body: String) -> Result<(), Failed> {
    let mut part = Part::start("load", &[], None)?;
    let window = Window { warm_up_ms: 0, measured_ms: 1 };
    let order = load::Order { port, path: "/mcp".to_owned(), tokens: tokens.to_vec(), window, bodies: vec![body] };
    part.send(&order).await?;
    let _: String = part.receive().await?;
    let _: Measured = part.receive().await?;
    part.finish().await
}
