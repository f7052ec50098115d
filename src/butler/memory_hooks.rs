//! How a butler's memory meets its sessions: asked before one begins, told after it is over, both through the butler's
//! own tools.
//!
//! What is asked has a deadline, and a session begins without memory where it passes. What is told starts from the
//! session's row (`remember = 'pending'`), so that whatever fails is tried again, by the same look after a restart too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use access::Caller;
use base::{Audience, ButlerName, RequestContext, Trust, crash, task, text};
use sessions::sql::EndedRow;
use sessions::{Recalled, Trigger};
use store::{Database, Store, StoreError};
use telemetry::ButlerMetrics;
use tools::ToolSet;

const CONTEXT: &str = "memory_context";
const EPISODE: &str = "memory_store_episode";
/// Between two looks at what is to be remembered, when nothing calls for one.
const LOOK: Duration = Duration::from_secs(30);
/// So many sessions are taken in for one look.
const AT_ONCE: i64 = 50;
/// Of a prompt, so many bytes are asked with.
const MAX_QUESTION: usize = 6000;

/// A butler's memory, as its spawner sees it. The tools come when they are all there.
pub(super) struct MemoryHooks {
    butler: ButlerName,
    tools: ToolSet,
    within: Duration,
    metrics: ButlerMetrics,
    ended: Arc<Notify>,
}

impl MemoryHooks {
    /// `None`: the butler has no memory.
    pub fn of(butler: &ButlerName, tools: &ToolSet, within: Duration, metrics: &ButlerMetrics) -> Option<Arc<Self>> {
        tools.has(CONTEXT).then(|| {
            let (butler, tools, metrics) = (butler.clone(), tools.clone(), metrics.clone());
            Arc::new(Self { butler, tools, within, metrics, ended: Arc::default() })
        })
    }

    async fn ask(&self, trigger: &Trigger) -> Result<(Value, Trust), (&'static str, String)> {
        if trigger.request.audience != Audience::Household {
            // Its words may reach somebody who must not learn what the household remembers; it can still ask.
            return Err(("off", "somebody outside of the household may learn what the session says".to_owned()));
        }
        let mut args = Map::new();
        args.insert("trigger_prompt".into(), json!(text::truncate(&trigger.prompt, MAX_QUESTION)));
        args.insert("butler".into(), json!(self.butler.as_str()));
        let caller = Caller::daemon(trigger.request.clone());
        let cancelled = CancellationToken::new();
        let _dropped = cancelled.clone().drop_guard();
        let asked = self.tools.call(CONTEXT, args, caller, cancelled);
        let reply = match tokio::time::timeout(self.within, asked).await {
            Err(_) => return Err(("late", format!("it did not answer within {} ms", self.within.as_millis()))),
            Ok(None) => return Err(("off", format!("there is no {CONTEXT}"))),
            Ok(Some(reply)) => reply,
        };
        if reply.json.get("status").and_then(Value::as_str) != Some("error") {
            return Ok((reply.json, reply.seen.trust));
        }
        let why = reply.json.get("error").and_then(Value::as_str).unwrap_or("it failed").to_owned();
        let off = reply.json.get("code").and_then(Value::as_str) == Some("module_disabled");
        Err((if off { "off" } else { "failed" }, why))
    }
}

impl MemoryHooks {
    /// What matters to this trigger; nothing, with a warning, where memory does not answer in time.
    pub async fn recall(&self, trigger: &Trigger) -> Recalled {
        let begun = Instant::now();
        let asked = self.ask(trigger).await;
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        match asked {
            Ok((told, seen)) => {
                let block = told.get("context").and_then(Value::as_str).filter(|b| !b.trim().is_empty());
                let state = if block.is_some() { "told" } else { "nothing" };
                self.metrics.recalled(state);
                let (ids, tokens) = (told.get("ids").cloned(), told.get("tokens").cloned());
                let row = json!({"state": state, "ids": ids, "tokens": tokens, "ms": ms});
                Recalled { block: block.map(str::to_owned), seen, notes: false, row: Some(row) }
            }
            Err((state, why)) => {
                self.metrics.recalled(state);
                if state != "off" {
                    tracing::warn!(butler = %self.butler, state, ms, "a session starts without memory: {why}");
                }
                Recalled { row: Some(json!({"state": state, "why": why, "ms": ms})), ..Recalled::unasked() }
            }
        }
    }

    /// A session of the butler is over.
    pub fn ended(&self) {
        self.ended.notify_one();
    }
}

/// Takes in the ends of sessions, until it is stopped.
pub(super) struct EpisodeIntake {
    /// A boot that fails after this, and a butler that dies, end it too.
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl EpisodeIntake {
    pub fn start(memory: Arc<MemoryHooks>, db: Arc<Database>, store: Store) -> Self {
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let task = task::spawn(task::Kind::Actor, "remembering", async move {
            loop {
                let again = match memory.look(&db, &store).await {
                    Ok(more) => more,
                    Err(e) => {
                        tracing::warn!(butler = %memory.butler, error = %e, "sessions could not be turned into episodes yet");
                        false
                    }
                };
                if stopping.is_cancelled() {
                    return;
                }
                if again {
                    continue;
                }
                tokio::select! {
                    () = memory.ended.notified() => {}
                    () = tokio::time::sleep(LOOK) => {}
                    // One more look, so that the last sessions are taken in.
                    () = stopping.cancelled() => {}
                }
            }
        });
        Self { stop: stop.drop_guard(), task }
    }

    /// After the sessions are over: takes in what is left, within this time.
    pub async fn stop(self, within: Duration) {
        drop(self.stop);
        let mut task = self.task;
        if tokio::time::timeout(within, &mut task).await.is_err() {
            // The rows stay pending for the next start.
            task.abort();
        }
    }
}

/// A session that is to be remembered.
struct EndedSession {
    id: Uuid,
    context: RequestContext,
    observed: String,
    importance: f64,
    /// Whether there may be facts in it: not where a schedule looked and found nothing to do.
    learn: bool,
}

impl MemoryHooks {
    /// Takes in what is there. Returns whether there may be more.
    async fn look(&self, db: &Database, store: &Store) -> Result<bool, StoreError> {
        let schema = store.schema();
        let mut lease = db.every_tenant().await?;
        let rows = sessions::sql::ended(&mut lease, schema, AT_ONCE).await?;
        drop(lease);
        let more = i64::try_from(rows.len()).is_ok_and(|n| n == AT_ONCE);
        let mut taken = 0;
        for row in rows {
            let (id, begun) = (row.id, row.begun);
            let over = begun.then(|| over(row)).flatten();
            let state = match over {
                Some(over) => self.take_in(over).await,
                // It never began, or nobody can say on whose behalf it ran.
                None => {
                    if begun {
                        self.metrics.remembered("refused");
                        tracing::warn!(butler = %self.butler, session = %id, "its end is not remembered: its stored context \
                             can't be read, so nobody can say on whose behalf it ran");
                    }
                    Some("refused")
                }
            };
            let Some(state) = state else { continue };
            crash::point("memory.episode_stored");
            let mut lease = db.every_tenant().await?;
            sessions::sql::remembered(&mut lease, schema, id, state).await?;
            taken += 1;
        }
        Ok(more && taken > 0)
    }

    /// Tells the episode to its tool. `None`: not now.
    async fn take_in(&self, over: EndedSession) -> Option<&'static str> {
        let mut args = Map::new();
        args.insert("content".into(), json!(over.observed));
        args.insert("butler".into(), json!(self.butler.as_str()));
        args.insert("session_id".into(), json!(over.id));
        args.insert("importance".into(), json!(over.importance));
        args.insert("learn".into(), json!(over.learn));
        args.insert("idempotency_key".into(), json!(format!("session:{}", over.id)));
        let caller = Caller::daemon(Arc::new(over.context));
        let reply = self.tools.call(EPISODE, args, caller, CancellationToken::new()).await?;
        let code = reply.json.get("code").and_then(Value::as_str);
        if reply.json.get("status").and_then(Value::as_str) != Some("error") {
            self.metrics.remembered("stored");
            return Some("stored");
        }
        let why = reply.json.get("error").and_then(Value::as_str).unwrap_or("it failed");
        tracing::warn!(butler = %self.butler, session = %over.id, "its end could not be recorded: {why}");
        self.metrics.remembered("failed");
        // What the gate turns down stays out; all else is tried again.
        matches!(code, Some("not_remembered")).then_some("refused")
    }
}

fn over(row: EndedRow) -> Option<EndedSession> {
    let EndedRow { id, prompt, result, state, error, scheduled, effects, calls, private, .. } = row;
    let context: RequestContext = serde_json::from_value(row.request).ok()?;
    let audience = if private { Audience::Household } else { context.audience.clone() };
    let context = RequestContext { audience, ..context }.with_trust_at_most(Trust::from_name(&row.trust));
    let did: Vec<String> = calls.as_array().into_iter().flatten().filter_map(step).collect();
    let mut observed = format!("Asked: {}", text::truncate(prompt.trim(), 2000));
    if !did.is_empty() {
        observed += &format!("\nDone: {}", text::truncate(&did.join("; "), 2000));
    }
    match (state.as_str(), result.as_deref().map(str::trim).filter(|r| !r.is_empty())) {
        ("succeeded", Some(result)) => observed += &format!("\nAnswered: {}", text::truncate(result, 2000)),
        ("succeeded", None) => {}
        (state, _) => {
            let why = error.unwrap_or_default();
            observed += &format!("\nEnded: {} ({})", state.replace('_', " "), text::truncate(why.trim(), 500));
        }
    }
    let learn = effects || !scheduled || state != "succeeded";
    Some(EndedSession { id, context, observed, importance: if effects { 6.0 } else { 5.0 }, learn })
}

/// A call in a few words: what was called with what, and how it ended where that was not well. What looks into memory
/// itself is no observation.
fn step(call: &Value) -> Option<String> {
    let tool = call["tool"].as_str()?;
    if tool.starts_with("memory_") || tool.starts_with("skill_") {
        return None;
    }
    let arguments = text::truncate(&call["arguments"].to_string(), 300);
    Some(match call["outcome"].as_str() {
        Some("ok") => format!("{tool} {arguments}"),
        outcome => format!("{tool} {arguments} ({})", outcome.unwrap_or("unknown")),
    })
}
