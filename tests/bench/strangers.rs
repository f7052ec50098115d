//! What the labels cost a session: one that a stranger's words started, beside one of the owner's in the same run.
//!
//! Both do the same with the native agent and a scripted model that answers at once: five calls of a tool that reads a
//! table of the roster, and a last word. From the trigger to the settled row.

use std::sync::Arc;

use serde_json::{Value, json};

use base::{RequestContext, TenantId, Trust};
use sessions::{SessionState, Trigger};
use supervisor::Supervisor;
use testkit::model::{Script, ScriptedModel};

use crate::daemon::Daemon;
use crate::household::{Household, READER};
use crate::table::{self, Verdict, median};
use crate::trigger::Order;
use crate::{Failed, Plan, machine};

const CALLS: usize = 5;
const KINDS: [&str; 2] = ["weight", "heart_rate"];
/// Percent of the owner's session.
const MOST: f64 = 110.0;

/// In the daemon: one session, and how long it took in milliseconds.
pub async fn carry_out(supervisor: &Supervisor, trust: Trust) -> Result<f64, Failed> {
    let (channel, sender) = if trust == Trust::Owner { ("cli", "owner") } else { ("email", "eve@evil.example") };
    let request = RequestContext::root(supervisor.clock(), TenantId::owner(), channel, "bench", sender, trust);
    let wish = Trigger::new("read five times", "trigger", Arc::new(request));
    let butler = supervisor.butler(READER)?;
    let triggered = machine::monotonic_ns();
    let result = butler.trigger(wish).await?;
    let ended = machine::monotonic_ns();
    if result.state != SessionState::Succeeded {
        return Err(format!("the session came to {:?}: {:?}", result.state, result.error).into());
    }
    Ok(ended.saturating_sub(triggered) as f64 / 1e6)
}

pub async fn measure(plan: &Plan, household: &Household) -> Result<(), Failed> {
    // The same call again and again would end the session.
    let read =
        |n: usize| json!({"call": {"tool": "measurement_latest", "arguments": {"kind": KINDS[n % KINDS.len()]}}});
    let mut steps: Vec<Value> = (0..CALLS).map(read).collect();
    steps.push(json!({"say": "read"}));
    let script = json!({"conversations": [{"when": "read five times", "steps": steps}]});
    let model = ScriptedModel::start(Script::from_value(script)?).await?;
    let settings = ["probe".to_owned(), format!("spawner.endpoints.anthropic={}", model.base_url())];
    let mut daemon = Daemon::start(household, &settings).await?;
    let (mut owners, mut strangers) = (Vec::new(), Vec::new());
    // The first ones read the program into memory.
    for round in 0..=plan.triggers {
        for trust in [Trust::Owner, Trust::Stranger] {
            daemon.part.send(&Order::Believed(trust)).await?;
            let took: f64 = daemon.answer().await?;
            let times = if trust == Trust::Owner { &mut owners } else { &mut strangers };
            if round > 0 {
                times.push(took);
            }
        }
    }
    let (owner, stranger) = (median(&owners), median(&strangers));
    let verdict = Verdict::at_most("session.stranger", stranger / owner * 100.0, MOST, "% of the owner's");
    table::strangers(plan.triggers, CALLS, owner, stranger, verdict);
    daemon.stop().await?;
    model.shutdown().await;
    Ok(())
}
