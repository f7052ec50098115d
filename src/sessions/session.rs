//! One session at work, stage by stage: what the model is told, the workspace and the token; the child; its run; its end.

use std::time::Instant;

use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

use super::adapters::{
    Adapter, AdapterError, Composed, ErrorClass, Failure, Invocation, Outcome, Proven, RunEvent, Usage,
};
use super::bounds::bounds;
use super::budget::{Meter, Watch};
use super::choice::SessionTools;
use super::compose::{self, Instructions};
use super::drive::{Deadlines, Driven, Step, Stopped, drive};
use super::gateway::Link;
use super::log::Ending;
use super::memory::Recalled;
use super::remedy::{blamed, broken};
use super::session_token::SessionToken;
use super::skills::watched;
use super::state::{Attempt, Inner};
use super::types::{EventKind, SessionState, Trigger};
use super::workspace::{SessionFile, Workspace};
use super::{budget_row, model_calls, trace};
use base::redact::household;
use base::{SessionId, crash, task, text};
use config::RuntimeKind;
use process::{Child, ChildSpec, ExitInfo};

/// The longest final text that a row keeps, in bytes.
const MAX_RESULT: usize = 256 * 1024;

/// Runs the session to its end. Whatever goes wrong is in the ending.
pub(super) async fn run(
    inner: &Inner,
    trigger: &Trigger,
    attempt: Attempt,
    cancel: &CancellationToken,
    meter: &Meter,
) -> Ending {
    let mut span = trace::session(inner, trigger, &attempt);
    let session = Session { inner, trigger: &trigger.under(span.context()), id: attempt.id, cancel, meter };
    let begun = Instant::now();
    let end = session.run(attempt).await.unwrap_or_else(|end| end);
    let end = blamed(end, inner.parts.db.machine(), begun).await;
    trace::ending(&mut span, &end);
    end
}

/// What all stages of one session work with. A stage that fails gives the session's ending.
struct Session<'a> {
    inner: &'a Inner,
    trigger: &'a Trigger,
    id: SessionId,
    /// Somebody wants it to end.
    cancel: &'a CancellationToken,
    meter: &'a Meter,
}

/// A child that runs, and what belongs to it.
struct Started {
    child: Child,
    /// Its way to its model, where that goes through the gateway.
    link: Option<Link>,
    adapter: std::sync::Arc<dyn Adapter>,
    /// Its model is shown pictures. The native agent asks once more without them by itself.
    pictures: bool,
}

impl Session<'_> {
    async fn run(&self, attempt: Attempt) -> Result<Ending, Ending> {
        let composing = self.inner.phase(&self.trigger.request, "compose");
        let (told, recalled, tools) = self.instruct(&attempt).await?;
        let workspaces = &self.inner.parts.workspaces;
        let created = workspaces.create(self.id, told.skills.in_workspace());
        let mut workspace = created.map_err(|e| broken("the workspace", &e))?;
        // The token lives as long as this guard: exactly as long as the child.
        let token = SessionToken::new(self.inner, self.id, self.trigger, &tools, self.meter, &recalled)
            .map_err(|e| broken("the session's token", &e))?;
        drop(composing);
        let (more, tokens) = (tools.more(), tools.tokens());
        self.inner.tell(self.id, EventKind::Tools { shown: tools.shown, more, tokens });
        let mut files = Vec::new();
        let ending = match self.start(attempt, &told, &mut workspace, &mut files, &token).await {
            Ok(started) => self.attend(started, &token).await,
            Err(ending) => ending,
        };
        self.inner.parts.book.remove(&token.token.sha256());
        // With what it found by itself.
        self.inner.has_shown(self.trigger, token.tools_shown.chosen());
        let ending = ending.redacted();
        clear_away(self.inner, workspace, &files, &ending);
        // Until here what is written of the session is cleaned of its token.
        drop(token);
        Ok(ending)
    }

    /// What the model is told before it is asked, what of that memory told, and the tools. The row says from here on that
    /// the session runs.
    async fn instruct(&self, attempt: &Attempt) -> Result<(Instructions, Recalled, SessionTools), Ending> {
        let Self { inner, trigger, id, .. } = *self;
        let notes = inner.notes(trigger).await;
        let told = compose::instructions(inner, trigger, attempt, &notes);
        let mut told = told.map_err(|e| broken("the system prompt", &e))?;
        let recalled = match inner.memory(trigger) {
            Some(memory) => memory.recall(trigger).await,
            None => Recalled::unasked(),
        };
        if recalled.notes {
            told.system_prompt.leave_out_notes();
        }
        told.system_prompt.remember(recalled.block.as_deref());
        if let Some(row) = &recalled.row {
            inner.tell(id, EventKind::Memory { recalled: row.clone() });
        }
        let kind = inner.candidate(attempt).kind;
        let tools = inner.session_tools(trigger, kind, told.skills.needless_tools()).await;
        let running = inner.log.running(&trigger.request, id, &told.system_prompt, &recalled, tools.tokens()).await;
        running.map_err(|e| broken("the session's row", &e))?;
        crash::point("session.running");
        Ok((told, recalled, tools))
    }

    /// Starts the child in its workspace, and puts it on record. `files`: what was put into the workspace for it.
    async fn start(
        &self,
        attempt: Attempt,
        told: &Instructions,
        workspace: &mut Workspace,
        files: &mut Vec<SessionFile>,
        token: &SessionToken<'_>,
    ) -> Result<Started, Ending> {
        let Self { inner, trigger, id, .. } = *self;
        attempt.access.keys.iter().for_each(|(_, key)| household().hide(key));
        let through = model_calls::through_gateway(inner, attempt, &token.token, self.meter).await;
        let (attempt, link) = through.map_err(|e| e.ending())?;
        let candidate = inner.candidate(&attempt);
        let (adapter, runtime) = (candidate.adapter.clone(), candidate.kind.into_str().to_owned());
        let declared = compose::declared_env(inner).await.map_err(|e| broken("the variables of [butler.env]", &e))?;
        let mut invocation =
            compose::invocation(inner, trigger, attempt, &workspace.paths, told, &token.token, declared);
        invocation.images = compose::images(inner, trigger).await;
        let pictures = !invocation.images.is_empty() && adapter.kind() != RuntimeKind::Native;
        let spawning = inner.phase(&trigger.request, "spawn");
        let (prompt, system_bytes) = (invocation.prompt.clone(), invocation.system_prompt.len());
        inner.tell(id, EventKind::Prompt { prompt, system_bytes });
        let composed = adapter.compose(&invocation).map_err(|e| not_composed(&e))?;
        files.clone_from(&composed.files);
        workspace.fill(&composed.files).map_err(|e| broken("the workspace", &e))?;
        let spec = self.spec(&invocation, &composed, workspace);
        let mut child = inner.parts.processes.spawn(spec).await.map_err(|e| broken("the child", &e))?;
        if let (Some(mut input), Some(piped)) = (child.stdin.take(), composed.piped) {
            // It ends with the child at the latest, and what was not read does not matter then.
            task::spawn(task::Kind::Job, "session-input", async move { input.write_all(&piped).await });
        }
        drop(spawning);
        crash::point("session.spawned");
        // Before anything is waited for: a quick child calls its first tool meanwhile.
        let pid = u32::try_from(child.pid()).unwrap_or_default();
        inner.tell(id, EventKind::Started { runtime, model: invocation.model, pid });
        inner.parts.metrics.running(1);
        // Without this row a daemon killed from here on would find the child by its mark alone.
        if let Err(e) = inner.log.child(&trigger.request, id, child.identity()).await {
            tracing::warn!(session = %id, error = %e, "the session's process could not be recorded");
        }
        tracing::info!(butler = %inner.parts.config.name, session = %id, pid, source = trigger.source, "session started");
        Ok(Started { child, link, adapter, pictures })
    }

    fn spec(&self, invocation: &Invocation, composed: &Composed, workspace: &Workspace) -> ChildSpec {
        let parts = &self.inner.parts;
        let sandbox = bounds(parts.settings.sandbox, invocation, composed, &parts.roster_dir);
        ChildSpec { sandbox, ..compose::spec(self.inner, self.id, composed, workspace) }
    }

    /// Follows the child to its end, and says how that was.
    async fn attend(&self, started: Started, token: &SessionToken<'_>) -> Ending {
        let Self { inner, id, cancel, .. } = *self;
        let trace = &self.trigger.request.trace_context;
        let Started { child, mut link, adapter, pictures } = started;
        let running = inner.phase(&self.trigger.request, "run");
        let (mut driven, tools_seen) = self.drive(child, link.as_mut(), &*adapter, token).await;
        drop(running);
        inner.parts.metrics.running(-1);
        if let Some(link) = &mut link {
            model_calls::correct(inner, (id, trace), link, &mut driven, cancel);
        }
        if let (Some(why), Some(Stopped::Cancelled)) = (self.meter.stop_signal().why(), driven.stopped)
            && !cancel.is_cancelled()
            && !inner.killing.is_cancelled()
        {
            driven.stopped = None;
            driven.outcome.error = Some(why.clone());
        }
        self.tell_exit(&driven);
        let of_pictures = pictures && driven.outcome.error.as_ref().is_some_and(Failure::may_be_of_pictures);
        Ending { tools_seen, of_pictures, ..ending(driven, inner.killing.is_cancelled() && !cancel.is_cancelled()) }
    }

    /// Reads what the child says until it is gone, and keeps its model calls, its limits and its row in step meanwhile.
    /// Gives how often its output spoke of a tool's call, too.
    async fn drive(
        &self,
        child: Child,
        link: Option<&mut Link>,
        adapter: &dyn Adapter,
        token: &SessionToken<'_>,
    ) -> (Driven, u32) {
        let Self { inner, id, meter, .. } = *self;
        let settings = &inner.parts.settings;
        let deadlines = Deadlines {
            session: inner.parts.config.sessions.session_timeout.0,
            after_final: settings.final_event_grace.0,
            grace: settings.kill_grace.0,
        };
        // Whoever cancels it and the daemon's own stop end it alike.
        let ended_by = self.cancel.child_token();
        let mut tools_seen = 0;
        let known = inner.parts.tools.now();
        let mut watch = Watch::new(meter, &known.names);
        let reads_along = compose::reads_along(self.trigger);
        let on_step = |step| {
            tools_seen += u32::from(matches!(step, Step::Said(RunEvent::ToolCall { .. })));
            if let Step::Said(event) = &step {
                watch.see(event);
            }
            if reads_along || !matches!(step, Step::Said(RunEvent::TextDelta { .. })) {
                tell(inner, id, step);
            }
        };
        let parser = Proven::new(adapter.parser(&known.names), token.tools_seen.clone());
        let driving = drive(child, watched(Box::new(parser)), deadlines, household(), &ended_by, on_step);
        let call = (id, &self.trigger.request.trace_context);
        let aside = model_calls::beside(inner, call, link, &ended_by, deadlines.after_final);
        let over = CancellationToken::new();
        let driving = async {
            tokio::pin!(driving);
            let driven = tokio::select! {
                driven = &mut driving => driven,
                never = aside => match never {},
                never = budget_row::end_when_stopped(meter, &ended_by) => match never {},
            };
            over.cancel();
            driven
        };
        // To its end, so that no write is dropped half-way.
        let (driven, ()) = tokio::join!(driving, budget_row::keep_row(inner, id, self.trigger, meter, &over));
        (driven, tools_seen)
    }

    /// How the child went, and its last words where it failed.
    fn tell_exit(&self, driven: &Driven) {
        let ended = &driven.ended;
        if !ended.survivors.is_empty() {
            tracing::error!(session = %self.id, survivors = ?ended.survivors, "processes of a session can't be killed");
        }
        let words = Some(&driven.stderr_tail).filter(|words| !driven.outcome.ok && !words.is_empty());
        if let Some(stderr) = words {
            tracing::debug!(session = %self.id, stderr, "what the child said last");
        }
        let status = ended.exit.as_ref().map(ExitInfo::to_string);
        let (strays, survivors) = (ended.strays, ended.survivors.clone());
        self.inner.tell(self.id, EventKind::Exit { status, strays, survivors, stderr: words.cloned() });
    }
}

/// Removes the workspace, or keeps it for somebody to look at, without the files that held a token.
fn clear_away(inner: &Inner, workspace: Workspace, files: &[SessionFile], ending: &Ending) {
    let failed = ending.state != SessionState::Succeeded;
    let done = if failed && inner.parts.settings.keep_workspace_on_failure {
        workspace.keep(files).map(|kept| tracing::info!(path = %kept.display(), "workspace kept"))
    } else {
        workspace.remove()
    };
    if let Err(e) = done {
        tracing::warn!(error = %e, "a workspace could not be removed");
    }
}

fn not_composed(e: &AdapterError) -> Ending {
    match e {
        AdapterError::NoProgram { .. } | AdapterError::ProgramGone { .. } => {
            Ending::failed(SessionState::Failed, ErrorClass::ProgramMissing.as_str(), e.to_string())
        }
        e => broken("the command", e),
    }
}

/// Puts a step on record.
fn tell(inner: &Inner, id: SessionId, step: Step) {
    let event = match step {
        Step::Said(event) => event,
        Step::Signal { signal, why } => return inner.tell(id, EventKind::Signal { signal: signal.to_owned(), why }),
    };
    let kind = match event {
        RunEvent::McpConnected(connected) => EventKind::Connected { connected },
        RunEvent::Text(text) => EventKind::Text { text },
        RunEvent::TextDelta { start, text } => return inner.transcript.write(id, start, &text),
        RunEvent::ToolCall { id: call, name, arguments } => EventKind::ToolCall { call: Some(call), name, arguments },
        RunEvent::ToolResult { id: call, name, is_error, content } => {
            EventKind::ToolResult { call: Some(call), name, is_error, content, duration_ms: None }
        }
        RunEvent::SkillUsed { name } => EventKind::Skill { name },
        RunEvent::Retry { class, attempt, delay_ms, status, message } => {
            EventKind::Retry { class: class.as_str().to_owned(), attempt, delay_ms, status, message }
        }
        RunEvent::Usage(usage) => EventKind::Usage(usage),
        RunEvent::Final => {
            crash::point("session.final_event");
            return;
        }
        RunEvent::Model(_) => return,
    };
    inner.tell(id, kind);
}

/// The row's ending, out of how the run ended; `stopping`: the daemon ended it.
fn ending(driven: Driven, stopping: bool) -> Ending {
    let Outcome { ok, final_text, usage, cost_usd, turns, error } = driven.outcome;
    let state = match driven.stopped {
        Some(Stopped::Cancelled) if stopping => SessionState::Interrupted,
        Some(Stopped::Cancelled) => SessionState::Cancelled,
        Some(Stopped::TimedOut) => SessionState::TimedOut,
        _ if ok => SessionState::Succeeded,
        _ => SessionState::Failed,
    };
    let count = |n: Option<u64>| n.and_then(|n| i64::try_from(n).ok());
    let Usage { input, output, cache_read, cache_write } = usage;
    Ending {
        state,
        result: final_text.map(|t| text::truncate(&t, MAX_RESULT)),
        error_class: error.as_ref().map(|e| e.class.as_str().to_owned()),
        error: error.map(|e| text::truncate(&e.message, 4096)),
        turns: turns.and_then(|t| i32::try_from(t).ok()),
        input_tokens: count(input),
        output_tokens: count(output),
        cached_input_tokens: count(cache_read),
        cache_creation_tokens: count(cache_write),
        cost_usd,
        usage_by_model: None,
        exit_status: driven.ended.exit.as_ref().map(ExitInfo::to_string),
        tools_seen: 0,
        of_pictures: false,
    }
}
