//! What a session's child is told and how it is started. Nothing here starts or writes anything, so the preview uses it
//! too.

use super::adapters::{AdapterError, Composed, Invocation};
use super::prompt::{self, PromptError, SystemPrompt};
use super::skills::{BuiltIn, SessionSkills};
use super::state::{Attempt, Inner};
use super::types::Trigger;
use super::workspace::{Workspace, WorkspacePaths, Workspaces};
use access::Token;
use access::credentials::CredentialError;
use base::redact::household;
use base::{Secret, SessionId, TenantId, Trust, crash};
use config::{SandboxMode, SpawnerConfig};
use llm_api::{TAKES_NO_PICTURES, pictures_not_shown};
use process::{ChildSpec, ChildUser, Kernel, OutputLimits, Rlimits, Stdin};
use tools::SKILL_READ;

/// What the model of a session is told before it is asked.
pub(super) struct Instructions {
    pub system_prompt: SystemPrompt,
    pub skills: SessionSkills,
}

/// The variables of `[butler.env]` with their values: from the stored secrets, else from the daemon's own environment.
pub(super) async fn declared_env(inner: &Inner) -> Result<Vec<(String, Secret<String>)>, CredentialError> {
    let (env, credentials) = (&inner.parts.config.env, &inner.parts.credentials);
    let mut found = Vec::new();
    for name in env.required.iter().chain(&env.optional) {
        if let Some(value) = credentials.variable(&TenantId::owner(), name).await? {
            found.push((name.clone(), value));
        }
    }
    Ok(found)
}

/// What the adapter is asked to compose.
pub(super) fn invocation(
    inner: &Inner,
    trigger: &Trigger,
    Attempt { id, at, access }: Attempt,
    paths: &WorkspacePaths,
    told: &Instructions,
    token: &Token,
    declared_env: Vec<(String, Secret<String>)>,
) -> Invocation {
    let config = &inner.parts.config;
    // Arguments and built-in tools are those of the butler's own runtime, not of a fallback.
    let own = at == 0 && trigger.options.system_prompt.is_none();
    Invocation {
        session_id: id,
        butler: config.name.clone(),
        prompt: user_prompt(trigger),
        images: Vec::new(),
        system_prompt: told.system_prompt.text(),
        model: access.model,
        mcp_url: mcp_url(inner.parts.port),
        token: token.expose().to_owned().into(),
        traceparent: trigger.request.trace_context.traceparent.clone(),
        max_turns: trigger.options.limits.turns.unwrap_or(u32::MAX).min(config.sessions.max_turns),
        one_round: trigger.options.one_round,
        max_output_tokens: None,
        request_timeout: None,
        max_retries: None,
        stream_text: reads_along(trigger),
        confined: inner.parts.settings.sandbox != SandboxMode::Off && Kernel::here().is_enough(),
        granted_tools: if own { config.runtime.tools.clone() } else { Vec::new() },
        extra_args: if own { config.runtime.args.clone() } else { Vec::new() },
        credentials: access.keys,
        base_url: access.base_url,
        api: config.runtime.api,
        workspace: paths.clone(),
        skills: told.skills.in_workspace().iter().map(|s| s.name.clone()).collect(),
        declared_env,
    }
}

/// Whether somebody may read a session's text as it is written: in the chat, and on other channels the owner alone, whom
/// nothing has to be kept from.
pub(super) fn reads_along(trigger: &Trigger) -> bool {
    let request = &trigger.request;
    let owners = trigger.options.route.is_some() && request.trust == Trust::Owner && !request.group;
    owners || request.source_channel == "chat"
}

/// The pictures that came with the request, as the model is shown them. They are believed no less than the request itself;
/// without them the model knows that they are there, and can fetch them.
pub(super) async fn images(inner: &Inner, trigger: &Trigger) -> Vec<(String, Vec<u8>)> {
    let (named, request) = (&trigger.options.attachments, &trigger.request);
    if named.is_empty() || trigger.options.pictures_refused {
        return Vec::new();
    }
    let read = async {
        let mut lease = inner.parts.store.tenant(&request.tenant_id).await?;
        tools::pictures(&mut lease, named, request.trust).await
    };
    read.await.unwrap_or_else(|e| {
        tracing::warn!(error = %e, "the pictures of a message can't be read; its session goes on without them");
        Vec::new()
    })
}

/// Where the child finds its butler.
fn mcp_url(port: u16) -> String {
    // Nobody listens on port 1.
    let port = if crash::fault("session.mcp_down") { 1 } else { port };
    format!("http://127.0.0.1:{port}/mcp")
}

/// What the model is asked.
pub(super) fn user_prompt(trigger: &Trigger) -> String {
    let mut prompt = prompt::user_prompt(&trigger.prompt, context_block(trigger).as_ref());
    if trigger.options.pictures_refused {
        prompt.push_str(&pictures_not_shown(TAKES_NO_PICTURES));
    }
    prompt
}

/// The system prompt with the skills announced; what memory adds comes later.
pub(super) fn instructions(
    inner: &Inner,
    trigger: &Trigger,
    attempt: &Attempt,
    notes: &[String],
) -> Result<Instructions, PromptError> {
    let (parts, adapter) = (&inner.parts, &*inner.candidate(attempt).adapter);
    if let Some(whole) = trigger.options.system_prompt {
        let skills = SessionSkills::new(&[], "", adapter.skills(), BuiltIn::None);
        return Ok(Instructions { system_prompt: SystemPrompt::plain(whole.to_owned()), skills });
    }
    let files = prompt::system_prompt(&parts.roster_dir, &parts.config.dir)?;
    let mut system_prompt = SystemPrompt::with_notes(files, notes).map(|text| household().clean(text));
    // Built-in tools are those of the butler's own runtime, not of a fallback.
    let granted: &[String] = if attempt.at == 0 { &parts.config.runtime.tools } else { &[] };
    // A session of a few tools has none of the butler's workflows, and must not be told of what it can't read.
    let own: &[_] = match &trigger.options.tools {
        Some(only) if !only.contains(SKILL_READ) => &[],
        _ => &parts.config.skills,
    };
    let skills = SessionSkills::new(own, &trigger.prompt, adapter.skills(), BuiltIn::of(adapter, granted));
    system_prompt.after = skills.announced(system_prompt.after);
    Ok(Instructions { system_prompt, skills })
}

/// What would be started for this, with a token that opens nothing and a workspace that does not exist.
pub(super) fn composed(
    inner: &Inner,
    trigger: &Trigger,
    mut attempt: Attempt,
    told: &Instructions,
    declared_env: Vec<(String, Secret<String>)>,
) -> Result<Composed, AdapterError> {
    let adapter = inner.candidate(&attempt).adapter.clone();
    let paths = inner.parts.workspaces.paths(attempt.id);
    let token = Token::from_text("a-token-that-opens-nothing");
    if inner.parts.gateway.is_some() {
        attempt.access.put_behind("http://127.0.0.1", token.expose().to_owned().into());
    }
    adapter.compose(&invocation(inner, trigger, attempt, &paths, told, &token, declared_env))
}

/// The REQUEST CONTEXT of triggers that come from outside, and what a caller added. A session with a system prompt of its
/// own is told its prompt alone.
fn context_block(trigger: &Trigger) -> Option<serde_json::Value> {
    let from_person = !matches!(trigger.request.source_channel.as_str(), "cli" | "mcp" | "schedule");
    if trigger.options.system_prompt.is_some() {
        // It is told nothing of the request but what it was given.
        return trigger.context.clone();
    }
    if !from_person && trigger.context.is_none() {
        return None;
    }
    let mut block = serde_json::to_value(&*trigger.request).unwrap_or_default();
    if let (Some(context), Some(object)) = (&trigger.context, block.as_object_mut()) {
        object.insert("context".to_owned(), context.clone());
    }
    Some(block)
}

/// How the child is started; its sandbox depends on more.
pub(super) fn spec(inner: &Inner, id: SessionId, composed: &Composed, workspace: &Workspace) -> ChildSpec {
    let parts = &inner.parts;
    let (user, paths) = (workspace.user(), &workspace.paths);
    ChildSpec {
        program: composed.program.clone(),
        args: composed.args.clone(),
        env: composed.env.clone(),
        cwd: paths.work.clone(),
        user,
        limits: child_limits(&parts.settings, &parts.workspaces, user),
        sandbox: None,
        stdin: match (&composed.piped, &composed.stdin) {
            (Some(_), _) => Stdin::Pipe,
            (None, Some(file)) => Stdin::File(paths.root.join(file)),
            (None, None) => Stdin::Nothing,
        },
        session: id,
        output: OutputLimits::default(),
    }
}

/// What a child of this user may use of the machine.
pub fn child_limits(settings: &SpawnerConfig, workspaces: &Workspaces, user: Option<ChildUser>) -> Rlimits {
    let sessions_of_user = if workspaces.users().is_each() { 1 } else { u64::from(settings.max_sessions) };
    let limits = &settings.limits;
    Rlimits {
        core: Some(limits.core.0),
        nofile: Some(limits.open_files),
        // Counted over all processes of the user: so it holds only where children have a user of their own, and for all
        // sessions together that share one.
        nproc: user.map(|_| limits.processes * sessions_of_user),
        session_tasks: Some(limits.processes),
        fsize: Some(limits.file_size.0),
        data: Some(limits.memory.0),
    }
}
