//! A butler's tools: fixed at boot, and the one way in which a call goes through them.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::audit::{Auditor, Outcome};
use super::call::{ToolCall, ToolError, may_be_dropped, redact};
use super::definition::{Definition, Effect, Tool};
use super::egress::{self, EgressGate, EgressTarget, GateDecision};
use super::taint;
use access::Caller;
use base::redact::household;
use base::{ButlerName, Seen, Trust, text};
use store::Store;
use telemetry::{ButlerMetrics, Span, SpanKind};

/// Whether a module's tools answer; shared between the module's state and its tools.
#[derive(Clone)]
pub struct Gate {
    pub module: Arc<str>,
    pub enabled: Arc<AtomicBool>,
}

/// A second tool of the same name.
#[derive(Debug, thiserror::Error)]
#[error("the tool `{tool}` exists already: it belongs to {owner}")]
pub struct DuplicateTool {
    pub tool: String,
    pub owner: String,
}

struct Entry {
    tool: Tool,
    gate: Option<Gate>,
    /// Its calls by sessions go to the door first.
    asks: bool,
}

/// By then a session that is being ended has ended.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

/// Gathers tools during boot.
#[derive(Default)]
pub struct ToolSetBuilder {
    entries: BTreeMap<String, Entry>,
}

impl ToolSetBuilder {
    /// Who has a tool of this name: a module or butlerd's core.
    pub fn owner(&self, name: &str) -> Option<String> {
        self.entries.get(name).map(|e| match &e.gate {
            Some(gate) => format!("the module `{}`", gate.module),
            None => "butlerd's core".to_owned(),
        })
    }

    /// Adds a tool; `gate` names the module it belongs to.
    pub fn add(&mut self, tool: Tool, gate: Option<Gate>) -> Result<(), DuplicateTool> {
        let name = tool.def.name.clone();
        if let Some(owner) = self.owner(&name) {
            return Err(DuplicateTool { tool: name, owner });
        }
        self.entries.insert(name, Entry { tool, gate, asks: false });
        Ok(())
    }

    /// Closes the set. `egress_gate` is asked about calls that leave the household, and about those of gated tools.
    pub fn build(
        mut self,
        butler: ButlerName,
        store: Store,
        auditor: Auditor,
        metrics: ButlerMetrics,
        egress_gate: Arc<dyn EgressGate>,
    ) -> ToolSet {
        for (name, entry) in &mut self.entries {
            entry.asks = entry.tool.def.meta.sends_out || egress_gate.gated(name);
            if let (true, Ok(def)) = (entry.asks, egress::with_reason(&entry.tool.def)) {
                entry.tool.def = Arc::new(def);
            }
        }
        ToolSet { inner: Arc::new(Inner { entries: self.entries, butler, store, auditor, metrics, egress_gate }) }
    }
}

struct Inner {
    entries: BTreeMap<String, Entry>,
    butler: ButlerName,
    store: Store,
    auditor: Auditor,
    metrics: ButlerMetrics,
    egress_gate: Arc<dyn EgressGate>,
}

/// A butler's tools. Cheap to clone, immutable.
#[derive(Clone)]
pub struct ToolSet {
    inner: Arc<Inner>,
}

/// What a client gets: JSON text, and whether it is an error of the call.
#[derive(Debug, Clone)]
pub struct Reply {
    pub json: Value,
    pub is_error: bool,
    /// The least trusted text that it shows.
    pub seen: Trust,
}

impl ToolSet {
    /// The definitions in the order of their names.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.inner.entries.values().map(|e| &e.tool.def)
    }

    /// Whether there is such a tool.
    pub fn has(&self, name: &str) -> bool {
        self.inner.entries.contains_key(name)
    }

    /// The module that a tool belongs to; `None`: butlerd's core, or there is no such tool.
    pub fn module(&self, name: &str) -> Option<&str> {
        self.inner.entries.get(name).and_then(|e| e.gate.as_ref()).map(|gate| &*gate.module)
    }

    /// Whether only the house itself may call this tool.
    pub fn is_internal(&self, name: &str) -> bool {
        self.inner.entries.get(name).is_some_and(|e| e.tool.def.meta.internal)
    }

    /// What a call of this tool may change; `None`: there is no such tool.
    pub fn effect(&self, name: &str) -> Option<Effect> {
        self.inner.entries.get(name).map(|e| e.tool.def.effect())
    }

    /// The butler whose tools these are.
    pub fn butler(&self) -> &ButlerName {
        &self.inner.butler
    }

    /// Writes the audit rows that still wait.
    pub async fn flush_audit(&self) {
        self.inner.auditor.flush().await;
    }

    /// Runs one call to its end and puts it on record. `None`: there is no such tool.
    ///
    /// The caller's right to the tool was checked before. A call that changes nothing is dropped when `cancelled`
    /// fires; one with an effect is finished, so that nothing is left half done.
    pub async fn call(
        &self,
        name: &str,
        mut args: Map<String, Value>,
        mut caller: Caller,
        cancelled: CancellationToken,
    ) -> Option<Reply> {
        let entry = self.inner.entries.get(name).filter(|e| !e.tool.def.meta.internal || caller.is_daemon())?;
        let def = &entry.tool.def;
        let tracer = self.inner.metrics.tracer();
        let mut span = tracer.open_wanted(&caller.context.trace_context, || format!("tool {name}"), SpanKind::Server);
        if let Some(span) = &span {
            // What the call causes stands under it.
            caller.context = Arc::new(caller.context.under(span.context()));
        }
        let started = Instant::now();
        // Neither a handler nor a record gets to see a secret of the household's, whoever quotes it.
        household().clean_members(&mut args);
        let admitted = caller.admit_call(name, &args).map_err(|e| e.to_string());
        let why = args.remove(egress::WHY).filter(|_| entry.asks);
        let why = why.as_ref().and_then(Value::as_str).map(|why| text::truncate(why, egress::MAX_WHY));
        let valid = def.validate(&mut args).map_err(|e| e.to_string());
        let audited = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Seen::default());
        let make = |args: Map<String, Value>, redacted: Arc<Value>| ToolCall {
            args,
            caller: caller.clone(),
            butler: self.inner.butler.clone(),
            store: self.inner.store.clone(),
            def: def.clone(),
            cancelled: cancelled.clone(),
            started,
            called_at: self.inner.store.clock().now(),
            audited: audited.clone(),
            redacted,
            seen: seen.clone(),
        };
        let redacted = Arc::new(redact(def, &args));
        // What is left for the record when the handler has taken the call itself.
        let shadow = make(Map::new(), redacted.clone());
        let enabled = entry.gate.as_ref().is_none_or(|g| g.enabled.load(Ordering::Acquire));
        let result = if let Err(why) = admitted {
            self.inner.auditor.record(shadow.record(Outcome::Refused, Some(text::truncate(&why, 500))));
            audited.store(true, Ordering::Release);
            // The session is being ended. Until it is, it gets no answer with which it could go to its model again.
            let _ = tokio::time::timeout(ENDED_WITHIN, cancelled.cancelled()).await;
            Err(ToolError::Ended(why))
        } else if !enabled {
            let module = entry.gate.as_ref().map(|g| &*g.module).unwrap_or_default();
            Err(ToolError::refused(
                "module_disabled",
                format!("The module `{module}` is switched off; module.set_enabled(name=\"{module}\") turns it on."),
            ))
        } else if def.meta.operators && caller.session().is_some() {
            Err(ToolError::refused(
                "forbidden",
                format!(
                    "`{name}` is for the people of the household; a session can't call it. Tell them what to change."
                ),
            ))
        } else if let Err(problem) = valid {
            let reply = Reply {
                json: json!({"status": "error", "error": format!("Wrong arguments for {name}: {problem}"),
                             "code": "invalid_arguments"}),
                is_error: true,
                seen: Trust::Owner,
            };
            describe(&mut span, &shadow, Outcome::Refused, Some(&problem), Some(&reply.json));
            self.inner.metrics.tool_call(Outcome::Refused.as_str());
            self.inner.auditor.record(shadow.record(Outcome::Refused, Some(text::truncate(&problem, 500))));
            return Some(reply);
        } else {
            let run = AssertUnwindSafe(self.through_the_door(entry, make(args, redacted), why)).catch_unwind();
            let run = async { run.await.unwrap_or_else(|_| Err(ToolError::Internal("the tool panicked".into()))) };
            if may_be_dropped(def.effect()) {
                tokio::select! {
                    biased;
                    result = run => result,
                    () = cancelled.cancelled() => Err(ToolError::Cancelled),
                }
            } else {
                run.await
            }
        };
        let shown = taint::note(&self.inner.store, &caller, seen.lowest(), def.meta.reads_private);
        let result = match shown.await {
            Ok(()) => result,
            // What it was shown is not on record, so it is not shown.
            Err(e) => Err(ToolError::Store(e)),
        };
        let (outcome, detail) = match &result {
            Ok(_) => (Outcome::Ok, None),
            Err(e) => (e.outcome(), Some(text::truncate(&household().clean(e.to_string()), 500))),
        };
        describe(&mut span, &shadow, outcome, detail.as_deref(), result.as_ref().ok());
        self.inner.metrics.tool_call(outcome.as_str());
        tracing::debug!(
            butler = %self.inner.butler, tool = name, outcome = outcome.as_str(),
            session = caller.session().map(tracing::field::display), us = started.elapsed().as_micros() as u64,
            "tool call"
        );
        if let Err(e @ (ToolError::Store(_) | ToolError::Internal(_))) = &result {
            tracing::error!(butler = %self.inner.butler, tool = name, error = %e, "tool failed");
        }
        if !audited.load(Ordering::Acquire) {
            self.inner.auditor.record(shadow.record(outcome, detail));
        }
        let mut reply = match result {
            Ok(json) => Reply { json, is_error: false, seen: seen.lowest() },
            Err(e) => Reply {
                json: e.to_json(def.effect(), audited.load(Ordering::Acquire)),
                is_error: !matches!(e, ToolError::Refused { .. }),
                seen: seen.lowest(),
            },
        };
        household().clean_json(&mut reply.json);
        Some(reply)
    }
}

impl ToolSet {
    /// Runs the handler, if the call may be made.
    async fn through_the_door(&self, entry: &Entry, call: ToolCall, why: Option<String>) -> Result<Value, ToolError> {
        if entry.asks && call.caller.taint().is_some() {
            let egress_target = match (&entry.tool.egress_target, call.def.meta.sends_out) {
                (Some(egress_target), _) => egress_target(&call).await?,
                (None, true) => {
                    Some(EgressTarget { outward: true, to: "somebody outside of the household".to_owned() })
                }
                (None, false) => None,
            };
            if let GateDecision::Hold(answer) =
                self.inner.egress_gate.ask(&call, egress_target.as_ref(), why.as_deref()).await?
            {
                return Ok(answer);
            }
        }
        (entry.tool.handler)(call).await
    }
}

/// How much of a value is written down for a span, in bytes. It shows far less: this bounds what the cleaning costs.
const MAX_RESULT: usize = 64 * 1024;

/// What a call's span tells: the same as its audit row, and the begin of its result.
fn describe(span: &mut Option<Span>, call: &ToolCall, outcome: Outcome, detail: Option<&str>, result: Option<&Value>) {
    let Some(span) = span else { return };
    span.set("butlerd.butler", call.butler.as_str());
    span.set("gen_ai.tool.name", call.def.name.as_str());
    span.set("butlerd.effect", call.def.effect().as_str());
    span.set("butlerd.outcome", outcome.as_str());
    if let Some(session) = call.session() {
        span.set("butlerd.session_id", session.to_string());
    }
    span.set("gen_ai.tool.call.arguments", begin(&call.redacted));
    if let Some(result) = result {
        span.set("gen_ai.tool.call.result", begin(result));
    }
    if outcome != Outcome::Ok {
        span.fail(detail.unwrap_or(outcome.as_str()));
    }
}

/// The begin of a value as JSON, without writing down the rest.
fn begin(value: &Value) -> String {
    struct Begin(Vec<u8>);
    impl std::io::Write for Begin {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            match (MAX_RESULT + 1).saturating_sub(self.0.len()).min(text.len()) {
                0 => Err(std::io::ErrorKind::WriteZero.into()),
                n => {
                    self.0.extend_from_slice(&text[..n]);
                    Ok(n)
                }
            }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut begin = Begin(Vec::new());
    // It fails where there is more, which is left out.
    let whole = serde_json::to_writer(&mut begin, value).is_ok();
    let text = String::from_utf8_lossy(&begin.0);
    if whole { text.into_owned() } else { format!("{}…", text.trim_end_matches('\u{fffd}')) }
}
