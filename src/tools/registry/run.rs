//! One call through a set of tools: prepared, judged, run, settled.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{Entry, Reply, ToolSet};
use crate::audit::Outcome;
use crate::call::{ToolCall, ToolError, UNTRUSTED, may_be_dropped, redact};
use crate::egress::{self, EgressTarget, GateDecision};
use crate::taint;
use crate::tool::Tool;
use access::{Caller, Detail};
use base::redact::household;
use base::{Audience, Label, Seen, text};
use telemetry::{Span, SpanKind};

/// By then a session that is being ended has ended.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

/// How long a session's call waits for the machine: clients give up after a minute.
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What a call came to.
enum Answer {
    Varying(Value),
    /// The answer is the same whatever rows there are: it shows nothing.
    Constant(Value),
}

/// A call that is ready to be judged.
struct Prepared<'a> {
    entry: &'a Entry,
    /// What the handler is given.
    call: ToolCall,
    /// What is left for the record when the handler has taken the call itself.
    shadow: ToolCall,
    /// Why the caller wants it, for the person who may have to decide on it.
    why: Option<String>,
    admitted: Result<(), String>,
    valid: Result<(), String>,
}

impl ToolSet {
    /// Runs one call to its end and puts it on record. `None`: there is no such tool.
    ///
    /// The caller's right to the tool was checked before. A call that changes nothing is dropped when `cancelled`
    /// fires; one with an effect is finished, so that nothing is left half done.
    pub async fn call(
        &self,
        name: &str,
        args: Map<String, Value>,
        mut caller: Caller,
        cancelled: CancellationToken,
    ) -> Option<Reply> {
        let entry = self.entry(name).filter(|e| !e.tool.def.meta.internal || caller.is_daemon())?;
        let entry = &*entry;
        let tracer = self.inner.metrics.tracer();
        let mut span = tracer.open_wanted(&caller.context.trace_context, || format!("tool {name}"), SpanKind::Server);
        if let Some(span) = &span {
            // What the call causes stands under it.
            caller.context = Arc::new(caller.context.under(span.context()));
        }
        let Prepared { entry, call, shadow, why, admitted, valid } = self.prepare(entry, args, &caller, cancelled);
        let (result, constant) = match self.refusal(entry, &shadow, admitted).await {
            Some(refused) => (Err(refused), false),
            None => match valid {
                Err(problem) => return Some(self.invalid(span, &shadow, &problem)),
                Ok(()) => match self.run(entry, call, why).await {
                    Ok(Answer::Varying(answer)) => (Ok(answer), false),
                    Ok(Answer::Constant(answer)) => (Ok(answer), true),
                    Err(e) => (Err(e), false),
                },
            },
        };
        let seen = if constant { Label::NOTHING } else { shown(&shadow, &result) };
        let on = (&self.inner.store, self.inner.auditor.sessions());
        let result = match taint::note(on, &caller, &seen).await {
            Ok(()) => result,
            // What it was shown is not on record, so it is not shown.
            Err(e) => Err(ToolError::Store(e)),
        };
        Some(self.settle(&mut span, &shadow, result, seen))
    }

    /// Whom a call would reach if it were made now. `None`: it does not say, or there is no such tool.
    pub async fn egress_target(
        &self,
        name: &str,
        args: Map<String, Value>,
        caller: &Caller,
    ) -> Result<Option<EgressTarget>, ToolError> {
        let Some(entry) = self.entry(name) else { return Ok(None) };
        let Some(egress_target) = &entry.tool.egress_target else { return Ok(None) };
        let prepared = self.prepare(&entry, args, caller, CancellationToken::new());
        egress_target(&prepared.call).await
    }

    /// Cleans and checks the arguments, and counts the call.
    fn prepare<'a>(
        &self,
        entry: &'a Entry,
        mut args: Map<String, Value>,
        caller: &Caller,
        cancelled: CancellationToken,
    ) -> Prepared<'a> {
        let def = &entry.tool.def;
        let started = Instant::now();
        // Neither a handler nor a record gets to see a secret of the household's, whoever quotes it.
        household().clean_members(&mut args);
        let admitted = caller.admit_call(&def.name, &args).map_err(|e| e.to_string());
        let why = args.remove(egress::WHY).filter(|_| entry.leaves);
        let why = why.as_ref().and_then(Value::as_str).map(|why| text::truncate(why, egress::MAX_WHY));
        let valid = def.validate(&mut args).map_err(|e| e.to_string());
        let (audited, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
        let redacted = Arc::new(redact(def, &args));
        let make = |args: Map<String, Value>| ToolCall {
            args: Arc::new(args),
            caller: caller.clone(),
            butler: self.inner.butler.clone(),
            store: self.inner.store.clone(),
            def: def.clone(),
            cancelled: cancelled.clone(),
            started,
            called_at: self.inner.store.clock().now(),
            audited: audited.clone(),
            redacted: redacted.clone(),
            seen: seen.clone(),
        };
        Prepared { entry, call: make(args), shadow: make(Map::new()), why, admitted, valid }
    }

    /// Why the call is not made whatever its arguments are, if so.
    async fn refusal(&self, entry: &Entry, shadow: &ToolCall, admitted: Result<(), String>) -> Option<ToolError> {
        if let Err(why) = admitted {
            self.inner.auditor.record(shadow.record(Outcome::Refused, Some(text::truncate(&why, 500))));
            shadow.audited.store(true, Ordering::Release);
            // The session is being ended. Until it is, it gets no answer with which it could go to its model again.
            let _ = tokio::time::timeout(ENDED_WITHIN, shadow.cancelled.cancelled()).await;
            return Some(ToolError::Ended(why));
        }
        if let Some(gate) = &entry.gate {
            let module = &gate.module;
            if let Some(why) = gate.failed.get() {
                let why = format!("The module `{module}` failed: {why}. The daemon's log says more.");
                return Some(ToolError::refused("module_failed", why));
            }
            if !gate.enabled.load(Ordering::Acquire) {
                let how = format!("module.set_enabled(name=\"{module}\") turns it on");
                let why = format!("The module `{module}` is switched off; {how}.");
                return Some(ToolError::refused("module_disabled", why));
            }
        }
        let name = &shadow.def.name;
        (shadow.def.meta.operators && shadow.session().is_some()).then(|| {
            let why = format!(
                "`{name}` is for the people of the household; a session can't call it. Tell them what to change."
            );
            ToolError::refused("forbidden", why)
        })
    }

    /// The answer to wrong arguments, which no handler gets to see.
    fn invalid(&self, mut span: Option<Span>, shadow: &ToolCall, problem: &str) -> Reply {
        let error = format!("Wrong arguments for {}: {problem}", shadow.def.name);
        let mut json = json!({"status": "error", "error": error, "code": "invalid_arguments"});
        if shadow.caller.grant.shown().detail(&shadow.def.name) != Some(Detail::Whole) {
            // What it was told of the tool was not enough.
            json["inputSchema"] = shadow.def.told_schema(Detail::Whole).into();
        }
        describe(&mut span, shadow, Outcome::Refused, Some(problem), Some(&json));
        self.inner.metrics.tool_call(&shadow.def.name, Outcome::Refused.as_str());
        self.inner.auditor.record(shadow.record(Outcome::Refused, Some(text::truncate(problem, 500))));
        Reply { text: json.to_string(), json, is_error: true, structured: false, seen: Label::NOTHING }
    }

    /// Runs the handler behind the door; a panic is its error. Only what changes nothing is dropped when it is cancelled.
    async fn run(&self, entry: &Entry, call: ToolCall, why: Option<String>) -> Result<Answer, ToolError> {
        let (effect, cancelled) = (call.def.effect(), call.cancelled.clone());
        let run = AssertUnwindSafe(self.through_the_door(entry, call, why)).catch_unwind();
        let run = async { run.await.unwrap_or_else(|_| Err(ToolError::Internal("the tool panicked".into()))) };
        if !may_be_dropped(effect) {
            return run.await;
        }
        tokio::select! {
            biased;
            result = run => result,
            () = cancelled.cancelled() => Err(ToolError::Cancelled),
        }
    }

    /// Runs the handler, if the call may be made.
    async fn through_the_door(&self, entry: &Entry, call: ToolCall, why: Option<String>) -> Result<Answer, ToolError> {
        let influenced = call.caller.taint().is_some_and(|taint| taint.label().is_influenced());
        let asks = entry.leaves && call.caller.taint().is_some() || entry.changes && influenced;
        let target = if asks { Self::target(entry, &call, influenced).await? } else { None };
        if asks
            && let GateDecision::Hold(answer) =
                self.inner.egress_gate.ask(&call, target.as_ref(), why.as_deref()).await?
        {
            return Ok(Answer::Constant(answer));
        }
        // Whether it was the first call of its kind, or whom it reached, would tell of rows that the session was not shown.
        let silent = influenced && call.def.meta.carries_label && !call.def.meta.reads_private;
        let answer = match wait_out(&entry.tool, &call).await {
            Err(ToolError::NeedsApproval(reason)) if call.caller.taint().is_some() => {
                let why = why.map_or_else(|| reason.to_owned(), |why| format!("{reason} {why}"));
                return self.inner.egress_gate.hold(&call, target.as_ref(), &why).await.map(Answer::Varying);
            }
            answer => answer?,
        };
        Ok(if silent { Answer::Constant(json!({"status": "ok"})) } else { Answer::Varying(answer) })
    }

    /// Where the call goes. Somebody who influenced the session learns nothing of those whom it can't reach.
    async fn target(entry: &Entry, call: &ToolCall, influenced: bool) -> Result<Option<EgressTarget>, ToolError> {
        let target = match &entry.tool.egress_target {
            Some(target) => target(call).await,
            None => Ok(None),
        };
        match target {
            Ok(None) | Err(ToolError::Refused { .. }) if influenced && call.def.meta.sends_out => {
                Ok(Some(EgressTarget::unknown()))
            }
            Ok(None) if entry.tool.egress_target.is_none() && call.def.meta.sends_out => {
                Ok(Some(EgressTarget::unknown()))
            }
            target => target,
        }
    }

    /// Puts the end on record and makes the answer of it.
    fn settle(
        &self,
        span: &mut Option<Span>,
        shadow: &ToolCall,
        result: Result<Value, ToolError>,
        seen: Label,
    ) -> Reply {
        let name = &shadow.def.name;
        let (outcome, detail) = match &result {
            Ok(_) => (Outcome::Ok, None),
            Err(e) => (e.outcome(), Some(text::truncate(&household().clean(e.to_string()), 500))),
        };
        describe(span, shadow, outcome, detail.as_deref(), result.as_ref().ok());
        self.inner.metrics.tool_call(name, outcome.as_str());
        tracing::debug!(
            butler = %self.inner.butler, tool = name, outcome = outcome.as_str(),
            session = shadow.session().map(tracing::field::display), us = shadow.started.elapsed().as_micros() as u64,
            "tool call"
        );
        if let Err(e @ (ToolError::Store(_) | ToolError::Internal(_))) = &result {
            tracing::error!(butler = %self.inner.butler, tool = name, error = %e, "tool failed");
        }
        let audited = shadow.audited.load(Ordering::Acquire);
        if !audited {
            self.inner.auditor.record(shadow.record(outcome, detail));
        }
        let (mut json, is_error) = match result {
            Ok(json) => (json, false),
            Err(e) => (e.to_json(shadow.def.effect(), audited), !matches!(e, ToolError::Refused { .. })),
        };
        let text = household().clean_and_write(&mut json);
        Reply { json, text, is_error, structured: shadow.def.meta.structured, seen }
    }
}

/// Runs the handler, and again once the machine is well where that failed before anything was changed. Only for sessions:
/// their models would have to try again themselves, and don't; people are told at once.
async fn wait_out(tool: &Tool, call: &ToolCall) -> Result<Value, ToolError> {
    let (machine, deadline, mut pause) = (call.store.machine(), Instant::now() + PATIENCE, FIRST_PAUSE);
    loop {
        let result = (tool.handler)(call.clone()).await;
        let again = call.session().is_some()
            && !call.audited.load(Ordering::Acquire)
            && Instant::now() + pause < deadline
            && result.as_ref().is_err_and(|e| e.may_be_waited_out(call.def.effect()));
        if !again {
            return result;
        }
        machine.ask();
        let wait = async {
            tokio::time::sleep(pause).await;
            // Whatever comes first: the last try is made all the same.
            let _ = tokio::time::timeout_at(deadline.into(), machine.up()).await;
        };
        if call.cancelled.run_until_cancelled(wait).await.is_none() {
            return result;
        }
        pause *= 2;
    }
}

/// The label of what the call shows. What a tool's rows and words don't say is the household's own: an error quotes rows
/// that were never returned, and a tool that isn't known to show labelled rows alone may tell of any.
fn shown(call: &ToolCall, result: &Result<Value, ToolError>) -> Label {
    let label = call.seen.label();
    let tells = match result {
        Ok(_) => call.def.meta.reads_private,
        // What is wrong with its arguments, and that others influenced it, a session can see without asking.
        Err(ToolError::Refused { code: "invalid_arguments" | UNTRUSTED, .. }) => false,
        Err(_) => true,
    };
    if tells { Label { audience: Audience::Household, ..label } } else { label }
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
