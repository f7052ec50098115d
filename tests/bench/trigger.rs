//! From a trigger to the first request of its child on the butler's port.
//!
//! The moment is taken where the daemon hands a request to the protocol library, whose span for it is seen by a layer
//! that only this daemon has. The model is scripted and answers at once; when its first request comes is told besides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tracing::span::{Attributes, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use base::{RequestContext, TenantId, Trust};
use sessions::{SessionState, Trigger};
use supervisor::Supervisor;
use testkit::model::{Script, ScriptedModel};

use crate::daemon::Daemon;
use crate::household::{Household, MODEL};
use crate::table::{self, Verdict, median};
use crate::{Failed, Plan, council, machine, overhead, strangers};

/// Of the native agent, from the trigger.
const FIRST_REQUEST_MS: f64 = 8.0;

/// When the protocol library first got a request since it was last armed; 0 while it has not.
#[derive(Clone, Default)]
pub struct Probe(Arc<AtomicU64>);

impl Probe {
    /// A probe in the process's log, in place of the log itself.
    pub fn start() -> Self {
        let probe = Self::default();
        let seen = Seen(probe.clone()).with_filter(Targets::new().with_target("rmcp", tracing::Level::INFO));
        tracing_subscriber::registry().with(seen).init();
        probe
    }
}

struct Seen(Probe);

impl<S: tracing::Subscriber> Layer<S> for Seen {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        // Only the first after arming counts.
        let _ = self.0.0.compare_exchange(0, machine::monotonic_ns(), Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Times of one trigger, in nanoseconds of the shared clock.
#[derive(Debug, Serialize, Deserialize)]
struct Times {
    triggered: u64,
    first_request: u64,
    ended: u64,
}

/// What the daemon is told by a line of standard input.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// One session of the native agent.
    Native,
    /// One session of somebody who is believed so far: see [`strangers`].
    Believed(Trust),
    /// One question of the council: see [`council`].
    Council(String),
    /// Sessions of the child that misbehaves: see [`overhead`].
    Fake(overhead::Load),
}

/// In the daemon: carries out one order after the other, until standard input is closed.
pub async fn obey(supervisor: &Supervisor, probe: &Probe) -> Result<(), Failed> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Order::Native => {}
            Order::Believed(trust) => {
                println!("{}", serde_json::to_string(&strangers::carry_out(supervisor, trust).await?)?);
                continue;
            }
            Order::Council(question) => {
                println!("{}", serde_json::to_string(&council::carry_out(supervisor, &question).await?)?);
                continue;
            }
            Order::Fake(load) => {
                println!("{}", serde_json::to_string(&overhead::carry_out(supervisor, load).await?)?);
                continue;
            }
        }
        let butler = supervisor.butler(MODEL)?;
        probe.0.store(0, Ordering::Release);
        let triggered = machine::monotonic_ns();
        let result = butler.trigger(wish(supervisor, "say hello")).await?;
        let ended = machine::monotonic_ns();
        if result.state != SessionState::Succeeded {
            return Err(format!("the session came to {:?}: {:?}", result.state, result.error).into());
        }
        let times = Times { triggered, first_request: probe.0.load(Ordering::Acquire), ended };
        println!("{}", serde_json::to_string(&times)?);
    }
    Ok(())
}

/// A wish of the owner's.
pub fn wish(supervisor: &Supervisor, prompt: &str) -> Trigger {
    let clock = supervisor.clock();
    let request = RequestContext::root(clock, TenantId::owner(), "cli", "bench", "owner", Trust::Owner);
    Trigger::new(prompt, "trigger", Arc::new(request))
}

pub async fn measure(plan: &Plan, household: &Household) -> Result<(), Failed> {
    let script = json!({"conversations": [{"when": "say hello", "steps": [{"say": "hello"}]}]});
    let model = ScriptedModel::start(Script::from_value(script)?).await?;
    let settings = ["probe".to_owned(), format!("spawner.endpoints.anthropic={}", model.base_url())];
    let mut daemon = Daemon::start(household, &settings).await?;
    let (mut requests, mut models, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    // The first one reads the program into memory.
    for round in 0..=plan.triggers {
        daemon.part.send(&Order::Native).await?;
        let asked = model.wait_for(|seen| seen.len() > round);
        tokio::time::timeout(Duration::from_secs(30), asked).await.map_err(|_| "no session asked the model")?;
        let model_asked = machine::monotonic_ns();
        let times: Times = daemon.answer().await?;
        if times.first_request == 0 {
            return Err("the daemon saw no request of the child".into());
        }
        if round > 0 {
            let ms = |ns: u64| ns.saturating_sub(times.triggered) as f64 / 1e6;
            requests.push(ms(times.first_request));
            models.push(ms(model_asked));
            ends.push(ms(times.ended));
        }
    }
    let first = median(&requests);
    let verdict = Verdict::at_most("session.first_request", first, FIRST_REQUEST_MS, "ms, p50");
    table::trigger(plan.triggers, first, median(&models), median(&ends), verdict);
    daemon.stop().await?;
    model.shutdown().await;
    Ok(())
}
