//! One session at work: prompt, workspace, token, child, output, end.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::adapters::{AdapterError, Composed, ErrorClass, Invocation, Outcome, Proven, RunEvent, Usage};
use super::attempts::Candidate;
use super::bounds::bounds;
use super::budget::{Meter, Watch};
use super::budget_guard;
use super::child::{ChildSpec, ExitInfo, OutputLimits, Rlimits};
use super::core::{Attempt, Inner};
use super::drive::{Deadlines, Driven, Step, Stopped, drive};
use super::log::Ending;
use super::memory::Recalled;
use super::model_calls;
use super::prompt::{self, PromptError};
use super::skills::{SessionSkills, watched};
use super::trace;
use super::types::{EventKind, SessionState, Trigger};
use super::workspace::{SessionFile, Workspace, WorkspacePaths};
use access::{Grant, GrantScope, Holder, Taint, Token, ToolsSeen};
use base::redact::{Passing, household};
use base::{Secret, SessionId, crash, text};
use tools::SKILL_READ;

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
    let end = traced(inner, &trigger.under(span.context()), attempt, cancel, meter).await;
    trace::ending(&mut span, &end);
    end
}

async fn traced(
    inner: &Inner,
    trigger: &Trigger,
    attempt: Attempt,
    cancel: &CancellationToken,
    meter: &Meter,
) -> Ending {
    let (id, parts) = (attempt.id, &inner.parts);
    let composing = trace::phase(parts, &trigger.request, "compose");
    let notes = inner.notes(trigger).await;
    let (system_prompt, skills) = match system_prompt(inner, trigger, &attempt, &notes) {
        Ok(told) => told,
        Err(e) => return broken("the system prompt", &e),
    };
    let told = match inner.memory(trigger) {
        Some(memory) => memory.recall(trigger).await,
        None => Recalled::unasked(),
    };
    let system_prompt = prompt::with_memory(&system_prompt, told.block.as_deref());
    if let Some(row) = &told.row {
        inner.tell(id, EventKind::Memory { recalled: row.clone() });
    }
    if let Err(e) = inner.log.running(&trigger.request, id, &system_prompt, &told).await {
        return broken("the session's row", &e);
    }
    crash::point("session.running");
    let mut workspace = match parts.workspaces.create(id, skills.in_workspace()) {
        Ok(workspace) => workspace,
        Err(e) => return broken("the workspace", &e),
    };
    // The token lives as long as this guard: exactly as long as the child.
    let guard = match TokenGuard::new(inner, id, trigger, skills.needless_tools(), meter, &told) {
        Ok(guard) => guard,
        Err(e) => return broken("the session's token", &e),
    };
    drop(composing);
    let mut files = Vec::new();
    let prompt = (system_prompt, &skills);
    let place = (&mut workspace, &mut files);
    let ending = in_workspace(inner, trigger, attempt, cancel, place, prompt, &guard, meter).await;
    inner.parts.book.remove(&guard.token.sha256());
    let ending = ending.redacted();
    clear_away(inner, workspace, &files, &ending);
    // Until here what is written of the session is cleaned of its token.
    drop(guard);
    ending
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
        tracing::warn!(error = %e, "a workspace was not cleared away");
    }
}

fn broken(what: &str, e: &dyn std::error::Error) -> Ending {
    let mut message = format!("{what}: {e}");
    if let Some(cause) = e.source() {
        message = format!("{message}: {cause}");
    }
    Ending::failed(SessionState::Failed, ErrorClass::InvalidRequest.as_str(), message)
}

/// A session's token while its child lives.
struct TokenGuard<'a> {
    inner: &'a Inner,
    token: Token,
    _hidden: Passing,
    tools_seen: ToolsSeen,
}

impl<'a> TokenGuard<'a> {
    /// `needless`: tools that the session is not offered. `told`: what memory told it.
    fn new(
        inner: &'a Inner,
        id: SessionId,
        trigger: &Trigger,
        needless: &[&str],
        meter: &Meter,
        told: &Recalled,
    ) -> Result<Self, getrandom::Error> {
        let token = Token::generate()?;
        let (parts, tools_seen) = (&inner.parts, ToolsSeen::default());
        let named = trigger.options.tools.as_deref();
        let offers = |name: &&String| named.is_none_or(|n| n.contains(*name)) && !needless.contains(&name.as_str());
        let offered = inner.tool_names().iter().filter(offers);
        let life = parts.config.sessions.session_timeout.0 + Duration::from_secs(60);
        let grant = Grant {
            holder: Holder::Session {
                session: id,
                context: trigger.request.clone(),
                calls: meter.calls().clone(),
                tools_seen: tools_seen.clone(),
                taint: Arc::new(Taint::of(
                    trigger.request.trust.min(told.seen),
                    trigger.request.private || told.block.is_some(),
                )),
            },
            tenant: trigger.request.tenant_id.clone(),
            butler: Some(parts.config.name.clone()),
            tools: Some(Arc::new(offered.cloned().collect())),
            scopes: [GrantScope::Tools].into(),
            expires_at: jiff::SignedDuration::try_from(life).ok().and_then(|d| parts.clock.now().checked_add(d).ok()),
        };
        let hidden = household().hide_while(&Secret::new(token.expose().to_owned()));
        parts.book.insert(token.sha256(), grant);
        Ok(Self { inner, token, _hidden: hidden, tools_seen })
    }
}

impl Drop for TokenGuard<'_> {
    fn drop(&mut self) {
        self.inner.parts.book.remove(&self.token.sha256());
    }
}

#[allow(clippy::too_many_arguments)]
async fn in_workspace(
    inner: &Inner,
    trigger: &Trigger,
    attempt: Attempt,
    cancel: &CancellationToken,
    (workspace, files): (&mut Workspace, &mut Vec<SessionFile>),
    (system_prompt, skills): (String, &SessionSkills),
    guard: &TokenGuard<'_>,
    meter: &Meter,
) -> Ending {
    let id = attempt.id;
    attempt.access.keys.iter().for_each(|(_, key)| household().hide(key));
    let (attempt, mut link) = match model_calls::through_gateway(inner, attempt, &guard.token, meter).await {
        Ok(through) => through,
        Err(e) => return e.ending(),
    };
    let Candidate { kind, adapter } = inner.candidate(&attempt);
    let invocation = invocation(inner, trigger, attempt, &workspace.paths, (system_prompt, skills), &guard.token);
    let spawning = trace::phase(&inner.parts, &trigger.request, "spawn");
    let (prompt, system_bytes) = (invocation.prompt.clone(), invocation.system_prompt.len());
    inner.tell(id, EventKind::Prompt { prompt, system_bytes });
    let composed = match adapter.compose(&invocation) {
        Ok(composed) => composed,
        Err(e @ (AdapterError::NoProgram { .. } | AdapterError::ProgramGone { .. })) => {
            return Ending::failed(SessionState::Failed, ErrorClass::ProgramMissing.as_str(), e.to_string());
        }
        Err(e) => return broken("the command", &e),
    };
    files.clone_from(&composed.files);
    if let Err(e) = workspace.fill(&composed.files) {
        return broken("the workspace", &e);
    }
    let sandbox = bounds(inner.parts.settings.sandbox, &invocation, &composed, &inner.parts.roster_dir);
    let spec = ChildSpec { sandbox, ..spec(inner, id, &composed, &workspace.paths) };
    let child = match inner.parts.processes.spawn(spec).await {
        Ok(child) => child,
        Err(e) => return broken("the child", &e),
    };
    drop(spawning);
    crash::point("session.spawned");
    inner.parts.metrics.running(1);
    // Without this row a daemon killed from here on would find the child by its mark alone.
    if let Err(e) = inner.log.child(&trigger.request, id, child.identity()).await {
        tracing::warn!(session = %id, error = %e, "the session's process is not on record");
    }
    let pid = u32::try_from(child.pid()).unwrap_or_default();
    let runtime = kind.into_str().to_owned();
    inner.tell(id, EventKind::Started { runtime, model: invocation.model.clone(), pid });
    tracing::info!(butler = %inner.parts.config.name, session = %id, pid, source = trigger.source, "session started");
    let settings = &inner.parts.settings;
    let deadlines = Deadlines {
        session: inner.parts.config.sessions.session_timeout.0,
        after_final: settings.final_event_grace.0,
        grace: settings.kill_grace.0,
    };
    // Whoever cancels it and the daemon's own stop end it alike.
    let ended_by = cancel.child_token();
    let mut tools_seen = 0;
    let running = trace::phase(&inner.parts, &trigger.request, "run");
    let mut driven = {
        let mut watch = Watch::new(meter, inner.tool_names());
        let on_step = |step| {
            tools_seen += u32::from(matches!(step, Step::Said(RunEvent::ToolCall { .. })));
            if let Step::Said(event) = &step {
                watch.see(event);
            }
            tell(inner, id, step);
        };
        let parser = Proven::new(adapter.parser(inner.tool_names()), guard.tools_seen.clone());
        let driving = drive(child, watched(Box::new(parser)), deadlines, household(), &ended_by, on_step);
        let aside = model_calls::beside(
            inner,
            (id, &trigger.request.trace_context),
            link.as_mut(),
            &ended_by,
            deadlines.after_final,
        );
        let over = CancellationToken::new();
        let driving = async {
            tokio::pin!(driving);
            let driven = tokio::select! {
                driven = &mut driving => driven,
                never = aside => match never {},
                never = budget_guard::end_when_stopped(meter, &ended_by) => match never {},
            };
            over.cancel();
            driven
        };
        // To its end, so that no write is dropped half-way.
        tokio::join!(driving, budget_guard::keep_row(inner, id, trigger, meter, &over)).0
    };
    drop(running);
    inner.parts.metrics.running(-1);
    if let Some(link) = &mut link {
        model_calls::correct(inner, (id, &trigger.request.trace_context), link, &mut driven, cancel);
    }
    if let (Some(why), Some(Stopped::Cancelled)) = (meter.stop_signal().why(), driven.stopped)
        && !cancel.is_cancelled()
        && !inner.killing.is_cancelled()
    {
        driven.stopped = None;
        driven.outcome.error = Some(why.clone());
    }
    if !driven.ended.survivors.is_empty() {
        tracing::error!(session = %id, survivors = ?driven.ended.survivors, "processes of a session can't be killed");
    }
    let words = Some(&driven.stderr_tail).filter(|words| !driven.outcome.ok && !words.is_empty());
    if let Some(stderr) = words {
        tracing::debug!(session = %id, stderr, "what the child said last");
    }
    inner.tell(
        id,
        EventKind::Exit {
            status: driven.ended.exit.as_ref().map(ExitInfo::to_string),
            strays: driven.ended.strays,
            survivors: driven.ended.survivors.clone(),
            stderr: words.cloned(),
        },
    );
    Ending { tools_seen, ..ending(driven, inner.killing.is_cancelled() && !cancel.is_cancelled()) }
}

fn invocation(
    inner: &Inner,
    trigger: &Trigger,
    Attempt { id, at, access }: Attempt,
    paths: &WorkspacePaths,
    (system_prompt, skills): (String, &SessionSkills),
    token: &Token,
) -> Invocation {
    let config = &inner.parts.config;
    // Arguments and built-in tools are those of the butler's own runtime, not of a fallback.
    let own = at == 0;
    let declared = config.env.required.iter().chain(&config.env.optional);
    let declared_env: Vec<(String, Secret<String>)> =
        declared.filter_map(|n| Some((n.clone(), std::env::var(n).ok()?.into()))).collect();
    for (name, value) in &declared_env {
        household().hide_variable(name, value.expose());
    }
    Invocation {
        session_id: id,
        butler: config.name.clone(),
        prompt: user_prompt(trigger),
        system_prompt,
        model: access.model,
        mcp_url: mcp_url(inner.parts.port),
        token: token.expose().to_owned().into(),
        traceparent: trigger.request.trace_context.traceparent.clone(),
        max_turns: config.sessions.max_turns,
        one_round: trigger.options.one_round,
        max_output_tokens: None,
        request_timeout: None,
        max_retries: None,
        granted_tools: if own { config.runtime.tools.clone() } else { Vec::new() },
        extra_args: if own { config.runtime.args.clone() } else { Vec::new() },
        credentials: access.keys,
        base_url: access.base_url,
        api: config.runtime.api,
        workspace: paths.clone(),
        skills: skills.in_workspace().iter().map(|s| s.name.clone()).collect(),
        declared_env,
    }
}

/// Where the child finds its butler.
fn mcp_url(port: u16) -> String {
    // Nobody listens on port 1.
    let port = if crash::fault("session.mcp_down") { 1 } else { port };
    format!("http://127.0.0.1:{port}/mcp")
}

/// What the model is asked.
pub(super) fn user_prompt(trigger: &Trigger) -> String {
    prompt::user_prompt(&trigger.prompt, context_block(trigger).as_ref())
}

/// What the model is told before, its skills announced, and the skills.
pub(super) fn system_prompt(
    inner: &Inner,
    trigger: &Trigger,
    attempt: &Attempt,
    notes: &[String],
) -> Result<(String, SessionSkills), PromptError> {
    let parts = &inner.parts;
    let plain = prompt::with_notes(&prompt::system_prompt(&parts.roster_dir, &parts.config.dir)?, notes);
    let plain = household().clean(plain);
    let reading = inner.candidate(attempt).adapter.skills();
    // Built-in tools are those of the butler's own runtime, not of a fallback.
    let granted: &[String] = if attempt.at == 0 { &parts.config.runtime.tools } else { &[] };
    // A session of a few tools has none of the butler's workflows, and must not be told of what it can't read.
    let own: &[_] = match &trigger.options.tools {
        Some(only) if !only.contains(SKILL_READ) => &[],
        _ => &parts.config.skills,
    };
    let skills = SessionSkills::new(own, &trigger.prompt, reading, granted);
    Ok((skills.announced(plain), skills))
}

/// What would be started for this, with a token that opens nothing and a workspace that does not exist.
pub(super) fn composed(
    inner: &Inner,
    trigger: &Trigger,
    mut attempt: Attempt,
    prompt: (String, &SessionSkills),
) -> Result<Composed, AdapterError> {
    let adapter = inner.candidate(&attempt).adapter.clone();
    let paths = inner.parts.workspaces.paths(attempt.id);
    let token = Token::from_text("a-token-that-opens-nothing");
    if inner.parts.gateway.is_some() {
        attempt.access.base_url = Some("http://127.0.0.1".to_owned());
        attempt.access.keys = vec![(attempt.access.key_name.clone(), token.expose().to_owned().into())];
    }
    adapter.compose(&invocation(inner, trigger, attempt, &paths, prompt, &token))
}

/// The REQUEST CONTEXT of triggers that come from outside, and what a caller added.
fn context_block(trigger: &Trigger) -> Option<serde_json::Value> {
    let from_person = !matches!(trigger.request.source_channel.as_str(), "cli" | "mcp" | "schedule");
    if !from_person && trigger.context.is_none() {
        return None;
    }
    let mut block = serde_json::to_value(&*trigger.request).unwrap_or_default();
    if let (Some(context), Some(object)) = (&trigger.context, block.as_object_mut()) {
        object.insert("context".to_owned(), context.clone());
    }
    Some(block)
}

fn spec(inner: &Inner, id: SessionId, composed: &Composed, paths: &WorkspacePaths) -> ChildSpec {
    let parts = &inner.parts;
    let limits = &parts.settings.limits;
    ChildSpec {
        program: composed.program.clone(),
        args: composed.args.clone(),
        env: composed.env.clone(),
        cwd: paths.work.clone(),
        user: parts.child_user,
        limits: Rlimits {
            core: Some(limits.core.0),
            nofile: Some(limits.open_files),
            // Counted over all processes of the user: so it holds only where children have a user of their own, and
            // for all sessions together.
            nproc: parts.child_user.map(|_| limits.processes * u64::from(parts.settings.max_sessions)),
            session_tasks: Some(limits.processes),
            fsize: Some(limits.file_size.0),
            data: Some(limits.memory.0),
        },
        sandbox: None,
        stdin: composed.stdin.as_ref().map(|p| paths.root.join(p)),
        session: id,
        output: OutputLimits::default(),
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
        RunEvent::ToolCall { id: call, name, arguments } => EventKind::ToolCall { call: Some(call), name, arguments },
        RunEvent::ToolResult { id: call, name, is_error, content } => {
            EventKind::ToolResult { call: Some(call), name, is_error, content, duration_ms: None }
        }
        RunEvent::SkillUsed { name } => EventKind::Skill { name },
        RunEvent::Retry { class, attempt, delay_ms, status } => {
            EventKind::Retry { class: class.as_str().to_owned(), attempt, delay_ms, status }
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
    }
}
