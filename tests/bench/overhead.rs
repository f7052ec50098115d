//! What butlerd adds to a session: from the trigger to the child's first instruction, and from its final event to the
//! settled row.
//!
//! The child is the one that misbehaves, behaving well: it reads the clock as the first thing that it does and again as
//! it gives its final event, and its result tells both. The daemon reads the same clock when it is triggered and when
//! the trigger's answer is there, which is after the row is committed.

use serde::{Deserialize, Serialize};

use futures_util::{StreamExt, TryStreamExt, stream};
use sessions::SessionState;
use supervisor::Supervisor;

use crate::daemon::Daemon;
use crate::household::{FAKE, Household};
use crate::table::{self, Verdict, median};
use crate::trigger::{Order, wish};
use crate::{Failed, Plan, machine, soak};

/// With one session at a time, and with eight.
const MOST_BEGIN_MS: [f64; 2] = [5.0, 15.0];
const MOST_SETTLE_MS: f64 = 10.0;

/// So many sessions, so many of them at a time.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Load {
    at_once: usize,
    times: usize,
}

/// Of one session, in milliseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Shares {
    begin: f64,
    settle: f64,
}

/// What the child tells in its result.
#[derive(Debug, Deserialize)]
struct Told {
    started_ns: u64,
    finished_ns: u64,
}

/// In the daemon. Each session lasts a fifth of a second: those that run at once are at different points of their
/// lives.
pub async fn carry_out(supervisor: &Supervisor, load: Load) -> Result<Vec<Shares>, Failed> {
    let prompt = soak::prompt("start; call state_get {\"key\":\"k\"}; wait 200; finish");
    let one = |_| async {
        let butler = supervisor.butler(FAKE)?;
        let triggered = machine::monotonic_ns();
        let result = butler.trigger(wish(supervisor, &prompt)).await?;
        let settled = machine::monotonic_ns();
        if result.state != SessionState::Succeeded {
            return Err(Failed::from(format!("a session came to {:?}: {:?}", result.state, result.error)));
        }
        let told: Told = serde_json::from_str(result.output.as_deref().unwrap_or_default())?;
        let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
        Ok(Shares { begin: ms(triggered, told.started_ns), settle: ms(told.finished_ns, settled) })
    };
    stream::iter(0..load.times).map(one).buffer_unordered(load.at_once).try_collect().await
}

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    let household = Household::with_fake()?;
    let program = format!("spawner.clis.claude={}", household.fake_program().display());
    let settings = ["probe".to_owned(), "spawner.max_sessions=8".to_owned(), program];
    let mut daemon = Daemon::start(&household, &settings).await?;
    table::overhead_head();
    for (at_once, most) in [1, 8].into_iter().zip(MOST_BEGIN_MS) {
        // The first ones read the program into memory and open connections.
        let warm = Load { at_once, times: at_once * 2 };
        let load = Load { at_once, times: plan.triggers * at_once };
        let mut shares: Vec<Shares> = Vec::new();
        for load in [warm, load] {
            daemon.part.send(&Order::Fake(load)).await?;
            shares = daemon.answer().await?;
        }
        let begin = median(&shares.iter().map(|s| s.begin).collect::<Vec<_>>());
        let settle = median(&shares.iter().map(|s| s.settle).collect::<Vec<_>>());
        table::overhead(
            at_once,
            load.times,
            (begin, Verdict::at_most(&format!("session.begin_{at_once}"), begin, most, "ms, p50")),
            (settle, Verdict::at_most(&format!("session.settle_{at_once}"), settle, MOST_SETTLE_MS, "ms")),
        );
    }
    daemon.stop().await
}
