//! One session at work: prompt, workspace, token, child, output, end.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::adapters::{Composed, ErrorClass, Invocation, Outcome, Parser, RunError, RunEvent, Usage};
use super::child::{Child, ChildSpec, ExitInfo, Output, OutputLimits, Rlimits};
use super::core::Inner;
use super::log::Ending;
use super::model::ModelAccess;
use super::prompt;
use super::types::{EventKind, SessionState, Trigger};
use super::workspace::{Workspace, WorkspacePaths};
use crate::access::{Grant, GrantScope, Holder, Token};
use crate::base::{SessionId, crash, text};

/// The longest final text that a row keeps, in bytes.
const MAX_RESULT: usize = 256 * 1024;
/// Bytes of a text or tool result that watchers are shown.
const MAX_SHOWN: usize = 16 * 1024;

/// Why the output of a child was read no further.
enum Stop {
    /// The final event was seen, and its grace is over or the child has gone.
    Final,
    /// The child ended by itself.
    Exit,
    TimedOut,
    Cancelled,
    /// The daemon stops.
    Stopping,
    TooMuch,
}

/// Runs the session to its end. Whatever goes wrong is in the ending.
pub(super) async fn run(
    inner: &Inner,
    id: SessionId,
    wish: &Trigger,
    access: ModelAccess,
    cancel: &CancellationToken,
) -> Ending {
    let parts = &inner.parts;
    let system_prompt = match prompt::system_prompt(&parts.roster_dir, &parts.config.dir) {
        Ok(text) => text,
        Err(e) => return broken("the system prompt", &e),
    };
    if let Err(e) = inner.log.running(&wish.request, id, &system_prompt).await {
        return broken("the session's row", &e);
    }
    crash::point("session.running");
    let workspace = match parts.workspaces.create(id, &parts.roster_dir, &parts.config.dir) {
        Ok(workspace) => workspace,
        Err(e) => return broken("the workspace", &e),
    };
    // The token lives as long as this guard: exactly as long as the child.
    let guard = match TokenGuard::new(inner, id, wish) {
        Ok(guard) => guard,
        Err(e) => return broken("the session's token", &e),
    };
    let ending = in_workspace(inner, id, wish, access, cancel, &workspace, system_prompt, &guard.token).await;
    drop(guard);
    clear_away(inner, workspace, &ending);
    ending
}

/// Removes the workspace, or keeps it for somebody to look at.
fn clear_away(inner: &Inner, workspace: Workspace, ending: &Ending) {
    let failed = ending.state != SessionState::Succeeded;
    let done = if failed && inner.parts.settings.keep_workspace_on_failure {
        workspace.keep(&[]).map(|kept| tracing::info!(path = %kept.display(), "workspace kept"))
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
}

impl<'a> TokenGuard<'a> {
    fn new(inner: &'a Inner, id: SessionId, wish: &Trigger) -> Result<Self, getrandom::Error> {
        let token = Token::generate()?;
        let parts = &inner.parts;
        let life = parts.config.sessions.session_timeout.0 + Duration::from_secs(60);
        let grant = Grant {
            holder: Holder::Session { session: id, context: wish.request.clone() },
            tenant: wish.request.tenant_id.clone(),
            butler: Some(parts.config.name.clone()),
            tools: None,
            scopes: [GrantScope::Tools].into(),
            expires_at: jiff::SignedDuration::try_from(life).ok().and_then(|d| parts.clock.now().checked_add(d).ok()),
        };
        parts.book.insert(token.sha256(), grant);
        Ok(Self { inner, token })
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
    id: SessionId,
    wish: &Trigger,
    access: ModelAccess,
    cancel: &CancellationToken,
    workspace: &Workspace,
    system_prompt: String,
    token: &Token,
) -> Ending {
    let Some(adapter) = &inner.adapter else {
        return Ending::failed(SessionState::Failed, "invalid_request", "this butlerd has no adapter for the runtime");
    };
    let invocation = invocation(inner, id, wish, access, workspace, system_prompt, token);
    let composed = match adapter.compose(&invocation) {
        Ok(composed) => composed,
        Err(e) => return broken("the command", &e),
    };
    if let Err(e) = workspace.write(&composed.files) {
        return broken("the workspace", &e);
    }
    let spec = spec(inner, id, &composed, &workspace.paths);
    let mut child = match inner.parts.nursery.spawn(spec).await {
        Ok(child) => child,
        Err(e) => return broken("the child", &e),
    };
    crash::point("session.spawned");
    inner.parts.metrics.running(1);
    // Without this row a daemon killed from here on would find the child by its mark alone.
    if let Err(e) = inner.log.child(&wish.request, id, child.identity()).await {
        tracing::warn!(session = %id, error = %e, "the session's process is not on record");
    }
    let pid = u32::try_from(child.pid()).unwrap_or_default();
    let runtime = inner.parts.config.runtime.kind.as_str().to_owned();
    inner.tell(id, EventKind::Started { runtime, model: invocation.model.clone(), pid });
    tracing::info!(butler = %inner.parts.config.name, session = %id, pid, source = wish.source, "session started");
    let mut parser = adapter.parser();
    let stop = follow(inner, id, &mut child, parser.as_mut(), cancel).await;
    crash::point("session.ending");
    let ended = child.terminate(inner.parts.settings.kill_grace.0).await;
    inner.parts.metrics.running(-1);
    if !ended.survivors.is_empty() {
        tracing::error!(session = %id, survivors = ?ended.survivors, "processes of a session can't be killed");
    }
    let exit = ended.exit.unwrap_or_default();
    let outcome = parser.finish(exit, &child.stderr_tail().await);
    ending(inner, stop, exit, outcome)
}

fn invocation(
    inner: &Inner,
    id: SessionId,
    wish: &Trigger,
    access: ModelAccess,
    workspace: &Workspace,
    system_prompt: String,
    token: &Token,
) -> Invocation {
    let config = &inner.parts.config;
    let declared = config.env.required.iter().chain(&config.env.optional);
    let declared_env = declared.filter_map(|n| Some((n.clone(), std::env::var(n).ok()?.into()))).collect();
    Invocation {
        session_id: id,
        butler: config.name.clone(),
        prompt: prompt::user_prompt(&wish.prompt, context_block(wish).as_ref()),
        system_prompt,
        model: access.model,
        mcp_url: format!("http://127.0.0.1:{}/mcp", inner.parts.port),
        token: token.expose().to_owned().into(),
        max_turns: config.sessions.max_turns,
        max_output_tokens: None,
        request_timeout: None,
        max_retries: None,
        granted_tools: config.runtime.tools.clone(),
        extra_args: config.runtime.args.clone(),
        credentials: access.keys,
        base_url: access.base_url,
        api: config.runtime.api,
        workspace: workspace.paths.clone(),
        skills: workspace.skills.clone(),
        declared_env,
    }
}

/// The REQUEST CONTEXT of triggers that come from outside, and what a caller added.
fn context_block(wish: &Trigger) -> Option<serde_json::Value> {
    let from_person = !matches!(wish.request.source_channel.as_str(), "cli" | "mcp" | "schedule");
    if !from_person && wish.context.is_none() {
        return None;
    }
    let mut block = serde_json::to_value(&*wish.request).unwrap_or_default();
    if let (Some(context), Some(object)) = (&wish.context, block.as_object_mut()) {
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
            fsize: Some(limits.file_size.0),
            data: Some(limits.memory.0),
        },
        stdin: composed.stdin.as_ref().map(|p| paths.root.join(p)).map(PathBuf::from),
        session: id,
        output: OutputLimits::default(),
    }
}

/// Reads what the child says until it is over.
async fn follow(
    inner: &Inner,
    id: SessionId,
    child: &mut Child,
    parser: &mut dyn Parser,
    cancel: &CancellationToken,
) -> Stop {
    let parts = &inner.parts;
    let Some(mut lines) = child.stdout.take() else { return Stop::Exit };
    let deadline = Instant::now() + parts.config.sessions.session_timeout.0;
    let mut leave_by: Option<Instant> = None;
    let mut names = std::collections::HashMap::new();
    loop {
        let until = leave_by.unwrap_or(deadline);
        let next = tokio::select! {
            next = lines.next() => next,
            () = sleep_until(until) => return if leave_by.is_some() { Stop::Final } else { Stop::TimedOut },
            () = cancel.cancelled(), if leave_by.is_none() => return Stop::Cancelled,
            () = inner.killing.cancelled(), if leave_by.is_none() => return Stop::Stopping,
        };
        let line = match next {
            Ok(Some(Output::Line(line))) => line,
            Ok(Some(Output::TooMuch)) => return Stop::TooMuch,
            Ok(None) | Err(_) => return if leave_by.is_some() { Stop::Final } else { Stop::Exit },
        };
        for event in parser.line(&line.text) {
            if matches!(event, RunEvent::Final) {
                crash::point("session.final_event");
                leave_by = Some(Instant::now() + parts.settings.final_event_grace.0);
            }
            tell(inner, id, event, &mut names);
        }
    }
}

/// Passes an event on to those who watch.
fn tell(inner: &Inner, id: SessionId, event: RunEvent, names: &mut std::collections::HashMap<String, String>) {
    let kind = match event {
        RunEvent::Text(said) => EventKind::Text { text: text::truncate(&said, MAX_SHOWN) },
        RunEvent::ToolCall { id: call, name, arguments } => {
            names.insert(call, name.clone());
            EventKind::ToolCall { name, arguments }
        }
        RunEvent::ToolResult { id: call, name, is_error, content } => {
            let name = names.remove(&call).unwrap_or(name);
            EventKind::ToolResult { name, is_error, content: text::truncate(&content, MAX_SHOWN) }
        }
        RunEvent::Retry { class, attempt, .. } => EventKind::Retry { class: class.as_str().to_owned(), attempt },
        RunEvent::McpConnected(_) | RunEvent::Usage(_) | RunEvent::Final => return,
    };
    inner.tell(id, kind);
}

/// The one outcome, out of how the reading stopped and what the program said.
fn ending(inner: &Inner, stop: Stop, exit: ExitInfo, outcome: Outcome) -> Ending {
    let timeout = inner.parts.config.sessions.session_timeout;
    let forced = match stop {
        Stop::Final | Stop::Exit => None,
        Stop::TimedOut => Some((
            SessionState::TimedOut,
            RunError::new(ErrorClass::TimedOut, format!("it was not done after {timeout} and was ended")),
        )),
        Stop::Cancelled => {
            Some((SessionState::Cancelled, RunError::new(ErrorClass::Cancelled, "somebody cancelled it")))
        }
        Stop::Stopping => Some((
            SessionState::Interrupted,
            RunError::new(ErrorClass::Cancelled, "butlerd was stopped before this session was over"),
        )),
        Stop::TooMuch => Some((
            SessionState::Failed,
            RunError::new(ErrorClass::Crashed, "it wrote more output than a session may, and was ended"),
        )),
    };
    let (state, error) = match forced {
        Some((state, error)) => (state, Some(error)),
        None if outcome.ok => (SessionState::Succeeded, None),
        None => (SessionState::Failed, outcome.error),
    };
    let count = |n: Option<u64>| n.and_then(|n| i64::try_from(n).ok());
    let Usage { input, output, cache_read, cache_write } = outcome.usage;
    Ending {
        state,
        result: outcome.final_text.map(|t| text::truncate(&t, MAX_RESULT)),
        error_class: error.as_ref().map(|e| e.class.as_str().to_owned()),
        error: error.map(|e| text::truncate(&e.message, 4096)),
        turns: outcome.turns.and_then(|t| i32::try_from(t).ok()),
        input_tokens: count(input),
        output_tokens: count(output),
        cached_input_tokens: count(cache_read),
        cache_creation_tokens: count(cache_write),
        cost_usd: outcome.cost_usd,
        exit_status: Some(exit.to_string()),
    }
}
