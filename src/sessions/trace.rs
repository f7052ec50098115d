//! The spans of a trigger: itself, its wait for a slot, each of its sessions with what that is made of, the closing of
//! rows.

use std::time::Duration;

use super::gateway::ModelCall;
use super::log::Ending;
use super::state::{Attempt, Inner};
use super::types::{SessionResult, SessionState, Trigger, TriggerError};
use base::TraceContext;
use telemetry::{Span, SpanKind};

/// A trigger, from its acceptance to its last session's closed row.
pub(super) fn trigger(Inner { parts, .. }: &Inner, trigger: &Trigger) -> Span {
    let (butler, request) = (parts.config.name.as_str(), &trigger.request);
    let tracer = parts.metrics.tracer();
    let mut span = tracer.open(&request.trace_context, format!("trigger {butler}"), SpanKind::Internal);
    span.set("butlerd.butler", butler);
    span.set("butlerd.source", trigger.source.as_str());
    if span.is_on() {
        span.set("butlerd.request_id", request.request_id.to_string());
        span.set("butlerd.tenant", request.tenant_id.as_str());
    }
    span
}

/// One session; its child and the calls of its child stand under it.
pub(super) fn session(inner: &Inner, trigger: &Trigger, attempt: &Attempt) -> Span {
    let mut span = inner.phase(&trigger.request, "session");
    if span.is_on() {
        span.set("butlerd.butler", inner.parts.config.name.as_str());
        span.set("butlerd.session_id", attempt.id.to_string());
        span.set("butlerd.runtime", inner.candidate(attempt).kind.into_str());
        if let Some(model) = &attempt.access.model {
            span.set("gen_ai.request.model", model.as_str());
        }
    }
    span
}

/// A call of the model as the gateway saw it; it is told of at its end.
pub(super) fn model_call(inner: &Inner, session: &TraceContext, call: &ModelCall) {
    let mut span = inner.parts.metrics.tracer().open(session, "model call", SpanKind::Client);
    span.began(Duration::from_millis(call.duration_ms));
    if let Some(model) = &call.model {
        span.set("gen_ai.request.model", model.as_str());
    }
    if let Some(status) = call.status {
        span.set("http.response.status_code", i64::from(status));
    }
    let tokens = [("gen_ai.usage.input_tokens", call.usage.input), ("gen_ai.usage.output_tokens", call.usage.output)];
    for (name, count) in tokens {
        if let Some(count) = count.and_then(|n| i64::try_from(n).ok()) {
            span.set(name, count);
        }
    }
    if let Some(failure) = &call.failure {
        span.set("error.type", failure.class.as_str());
        span.fail(&failure.message);
    }
}

/// How the session ended.
pub(super) fn ending(span: &mut Span, end: &Ending) {
    span.set("butlerd.state", end.state.as_str());
    let tokens = [("gen_ai.usage.input_tokens", end.input_tokens), ("gen_ai.usage.output_tokens", end.output_tokens)];
    for (name, count) in tokens {
        if let Some(count) = count {
            span.set(name, count);
        }
    }
    if let Some(exit) = &end.exit_status {
        span.set("butlerd.exit", exit.as_str());
    }
    if let Some(class) = &end.error_class {
        span.set("error.type", class.as_str());
        span.fail(end.error.as_deref().unwrap_or(class));
    }
}

/// How the trigger ended.
pub(super) fn outcome(span: &mut Span, ended: &Result<SessionResult, TriggerError>) {
    match ended {
        Ok(result) => {
            span.set("butlerd.state", result.state.as_str());
            if result.state != SessionState::Succeeded {
                span.fail(result.error.as_deref().unwrap_or(result.state.as_str()));
            }
        }
        Err(e) => {
            span.set("error.type", e.code());
            span.fail(&e.to_string());
        }
    }
}
