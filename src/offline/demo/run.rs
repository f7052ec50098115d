//! `butlerd demo`: a whole household in a scratch directory does one real piece of work, told as it happens.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::broadcast;

use super::error::DemoError;
use super::story;
use crate::ANY_PORT;
use crate::setup::unpack;
use base::{Clock, RequestContext, Scratch, Secret, TenantId, Trust};
use config::{Api, ClisConfig, Environment, Overrides, Ports, RuntimeKind, SandboxMode, load};
use modules::Catalog;
use process::ProcessSupervisor;
use sessions::adapters::{adapter, key_names};
use sessions::{SessionEvent, SessionResult, SessionState, Trigger};
use supervisor::{Embedded, Prepare, Supervisor, with_causes};
use telemetry::start_log;
use testkit::model::{DEMO_PROMPT, ScriptedModel, demo_script};

/// How the demo shall run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DemoOptions {
    /// Claude Code where it is installed, else the native agent, when nobody says.
    pub runtime: Option<RuntimeKind>,
    /// Leave the household running until it is interrupted.
    pub keep: bool,
}

/// The demo's key: the scripted model takes any.
const KEY: &str = "no-key-the-model-is-scripted";

/// Runs the demo. Returns the process's exit code: 0 when the work was done and is in the database.
pub async fn run(options: DemoOptions) -> i32 {
    match try_run(options).await {
        Ok(()) => 0,
        Err(e) => {
            let _ = std::io::stdout().flush();
            eprintln!("The demo failed: {e}");
            1
        }
    }
}

async fn try_run(options: DemoOptions) -> Result<(), DemoError> {
    let started = Instant::now();
    let runtime = choose_runtime(options.runtime).await?;
    let scratch = Scratch::new("demo").map_err(DemoError::files("the scratch directory"))?;
    lay_roster(&scratch, runtime).map_err(DemoError::files(format!("the roster in {}", scratch.path().display())))?;
    let script = demo_script().map_err(|e| DemoError::Model(e.to_string()))?;
    let model = ScriptedModel::start(script).await.map_err(|e| DemoError::Model(e.to_string()))?;
    story::opening(runtime, scratch.path(), &model.base_url());
    let overrides = Overrides {
        data_dir: Some(scratch.path().join("data")),
        roster: Some(scratch.path().join("roster")),
        ports: Some(Ports::Auto),
        listen: Some(ANY_PORT.to_owned()),
        log: Some("error".to_owned()),
        set: vec![
            ("spawner.endpoints.anthropic".to_owned(), model.base_url()),
            ("spawner.endpoints.openai".to_owned(), model.openai_base_url()),
            ("spawner.endpoints.gemini".to_owned(), model.base_url()),
        ],
        ..Overrides::default()
    };
    // The demo is the same everywhere: no configuration file of the working directory takes part.
    let environment = Environment { working_dir: scratch.path().to_owned(), ..Environment::of_process() };
    let catalog = Catalog::default();
    let household = load(&overrides, &environment, &catalog)?;
    start_log(&household.config.telemetry)?;
    // The other butlers stay native.
    let wanted = [RuntimeKind::Native, runtime].map(|kind| key_names(kind, Api::Anthropic));
    let prepare: Prepare = Box::new(move |house| {
        Box::pin(async move {
            let key = Secret::new(KEY.to_owned());
            for name in wanted.iter().filter_map(|names| names.first()) {
                if let Err(e) = house.credentials.set(&TenantId::owner(), name, &key).await {
                    tracing::error!(error = %e, "the demo's key was not stored");
                }
            }
        })
    });
    let household = Embedded::start(household, crate::admin_port, Some(prepare)).await?;
    let supervisor = household.supervisor.clone();
    story::household(&supervisor.status().await, started.elapsed());
    let done = work(&supervisor).await;
    if done.is_ok() {
        story::going_on(&supervisor.status().await, &scratch.path().join("data"), options.keep);
        if options.keep {
            interrupted().await;
        }
    }
    let ended = household.end().await.map_err(DemoError::from);
    model.shutdown().await;
    done.and(ended)
}

/// Waits for Ctrl-C or a SIGTERM: that is how a kept demo ends.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut term) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = term.recv() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

/// The piece of work: a person's sentence to Health, watched live, then looked up in the database.
async fn work(supervisor: &Supervisor) -> Result<(), DemoError> {
    let house = supervisor.services();
    let health = supervisor.butler("health")?;
    let mut events = house.events.subscribe();
    let clock: &Clock = supervisor.clock();
    let request = Arc::new(RequestContext::root(clock, TenantId::owner(), "cli", "demo", "owner", Trust::Owner));
    let trigger = Trigger::new(DEMO_PROMPT, "trigger", request.clone());
    story::trigger("health", DEMO_PROMPT);
    let started = Instant::now();
    let session = health.trigger(trigger);
    tokio::pin!(session);
    let result: SessionResult = loop {
        tokio::select! {
            biased;
            event = events.recv() => show(event, started),
            ended = &mut session => break ended.map_err(|e| DemoError::Runtime(e.to_string()))?,
        }
    };
    while let Ok(event) = events.try_recv() {
        show(Ok(event), started);
    }
    if result.state != SessionState::Succeeded {
        let why = result.error.unwrap_or_else(|| "it gave no reason".to_owned());
        return Err(DemoError::Runtime(format!("the session ended as {}: {why}", result.state.as_str())));
    }
    story::database(&house.db, &health, &request, result.session_id).await
}

fn show(event: Result<SessionEvent, broadcast::error::RecvError>, started: Instant) {
    match event {
        Ok(event) => story::event(&event, started.elapsed()),
        Err(broadcast::error::RecvError::Lagged(n)) => println!("    … {n} events were too quick to show"),
        Err(broadcast::error::RecvError::Closed) => {}
    }
}

/// The runtime asked for, if its program is installed; by default Claude Code if it is installed, else the native
/// agent.
async fn choose_runtime(wanted: Option<RuntimeKind>) -> Result<RuntimeKind, DemoError> {
    let kind = wanted.unwrap_or(RuntimeKind::ClaudeCode);
    let processes = ProcessSupervisor::start().map_err(|e| DemoError::Runtime(with_causes(&e)))?;
    let probe = adapter(kind, &ClisConfig::ON_PATH).probe(&processes, SandboxMode::Auto).await;
    match (probe.problem, wanted) {
        (None, _) => Ok(kind),
        (Some(_), None) => Ok(RuntimeKind::Native),
        (Some(problem), Some(_)) => Err(DemoError::Runtime(format!("{problem}; or try --runtime native"))),
    }
}

/// Lays the shipped roster down there.
fn lay_roster(scratch: &Scratch, runtime: RuntimeKind) -> std::io::Result<()> {
    let roster = scratch.path().join("roster");
    std::fs::create_dir(&roster)?;
    unpack(&roster, |_| true)?;
    match runtime {
        RuntimeKind::Native => Ok(()),
        // One butler runs another runtime than the household.
        other => {
            let file = roster.join("health/butler.toml");
            let text = std::fs::read_to_string(&file)?;
            std::fs::write(&file, format!("{text}\n[runtime]\ntype = \"{other}\"\n"))
        }
    }
}
