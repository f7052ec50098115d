//! What the council adds to the models it asks: the time of a question less the slowest session of each of its stages.
//!
//! Models are scripted and answer at once, members are native agents. A memory answer has one stage, its judge, who is
//! asked about a fact that the owner has told. A question that was answered in another way than is measured fails.

use serde_json::json;
use testkit::model::{Script, ScriptedModel};

use base::TenantId;
use sessions::SessionState;
use supervisor::Supervisor;

use crate::daemon::Daemon;
use crate::household::Household;
use crate::table::{Verdict, median};
use crate::trigger::{Order, wish};
use crate::{Failed, Plan, machine};

const COUNCIL: &str = "council";
/// Milliseconds of butlerd's own.
const DELIBERATION: f64 = 30.0;
const FROM_MEMORY: f64 = 10.0;

/// In the daemon: one question. Milliseconds in all, and of the slowest session of each stage together; how it was answered.
pub async fn carry_out(supervisor: &Supervisor, question: &str) -> Result<(f64, f64, String), Failed> {
    let butler = supervisor.butler(COUNCIL)?;
    let triggered = machine::monotonic_ns();
    let result = butler.trigger(wish(supervisor, question)).await?;
    let all = machine::monotonic_ns().saturating_sub(triggered) as f64 / 1e6;
    if result.state != SessionState::Succeeded {
        return Err(format!("the question came to {:?}: {:?}", result.state, result.error).into());
    }
    let mut lease = supervisor.services().db.shared(&TenantId::owner()).await?;
    let sql = "SELECT coalesce(sum(longest), 0)::float8, min(way) FROM (SELECT q.way,
            1000 * extract(epoch FROM max(s.completed_at - s.queued_at)) AS longest
        FROM council.council_questions q JOIN council.council_steps t ON t.question_id = q.id
        JOIN council.sessions s ON s.id = t.session_id WHERE q.session_id = $1 GROUP BY q.way, t.stage, t.round) stages";
    let rows = lease.read(sql, &[&result.session_id.0]).await?;
    Ok((all, rows[0].get(0), rows[0].get::<_, Option<String>>(1).unwrap_or_default()))
}

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    let sure = json!({"candidates": [{"answer": "A Vaillant.", "relevance": 1, "completeness": 1, "sources": [1]}]});
    let script = json!({"conversations": [
        {"when": "Judge the answers in the context", "steps": [{"say": "FINAL RANKING:\n1. Response A\n2. Response B"}]},
        {"when": "Write the answer out of", "steps": [{"say": "Rent."}]},
        {"when": "The question:", "steps": [{"say": sure.to_string()}]},
        {"when": ".", "steps": [{"say": "Rent, I say."}]},
    ]});
    let model = ScriptedModel::start(Script::from_value(script)?).await?;
    println!("\nThe council: milliseconds of butlerd's own, medians of {} questions each", plan.triggers);
    for (what, way, most) in
        [("three members deliberate", "council", DELIBERATION), ("memory answers", "memory", FROM_MEMORY)]
    {
        let memory = way == "memory";
        let household = Household::with_council(memory)?;
        let settings = ["probe".to_owned(), format!("spawner.endpoints.anthropic={}", model.base_url())];
        let mut daemon = Daemon::start(&household, &settings).await?;
        if memory {
            let fact =
                json!({"subject": "boiler", "predicate": "make", "content": "The boiler we have is a Vaillant."});
            household.butlerd(&["tool", "call", COUNCIL, "memory_store_fact", &fact.to_string()])?;
        }
        let (mut own, mut whole) = (Vec::new(), Vec::new());
        // The first one reads the program into memory.
        for round in 0..=plan.triggers {
            let question = match memory {
                true => "Which boiler do we have?".to_owned(),
                false => format!("Rent or buy, in case {round}?"),
            };
            daemon.part.send(&Order::Council(question)).await?;
            let (all, models, answered): (f64, f64, String) = daemon.answer().await?;
            if answered != way {
                return Err(format!("a question came to {answered:?} where {what}").into());
            }
            if round > 0 {
                own.push((all - models).max(0.0));
                whole.push(all);
            }
        }
        let verdict = Verdict::at_most(&format!("council.{way}"), median(&own), most, "ms");
        println!("{what:<28} own p50 {:>7.2} ms  of {:>8.1} ms  {verdict}", median(&own), median(&whole));
        daemon.stop().await?;
    }
    model.shutdown().await;
    Ok(())
}
