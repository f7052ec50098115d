//! A butler's boot, phase by phase, and the task that lives afterwards.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::dispatcher::{Dispatcher, Jobs, Runs};
use super::handle::{Butler, Core};
use super::memory_hooks::{EpisodeIntake, MemoryHooks};
use super::outbound::{Replies, deliver_tool, listen, outbound_tools};
use super::routed::{Routed, RoutedParts, ask_tools, route_execute};
use super::services::HouseholdServices;
use super::status::PhaseTime;
use super::tools::self_tools;
use access::Edge;
use approvals::{Actions, ApprovalGate, ApprovalParts, Settings};
use base::{ButlerName, TenantId, crash, task};
use config::{ButlerConfig, Ports};
use inbox::{Buffer, ButlerRegistration, SWITCHBOARD, Target, switchboard_tools};
use mcp::{Listener, Served, accept_loop};
use modules::{ModuleContext, Modules, Phase, memory};
use outbox::{MESSENGER, Pump, messenger_tools};
use schedule::{ScheduleLoop, Scheduler, SchedulerParts, schedule_tools, sync};
use sessions::{RECALL_WITHIN, Spawner, SpawnerParts, session_tools};
use store::RunningQueue;
use store::migrate::{Chain, MigrationError};
use tools::sql::{SqlToolError, prepare_jobs};
use tools::{Auditor, ToolSet, ToolSetBuilder, core_tools, note_tools, skill_tools};

/// A boot that came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{phase}: {error}")]
pub struct BootError {
    pub phase: &'static str,
    pub error: String,
    /// Whether it may go better by itself in a moment.
    pub transient: bool,
    pub phases: Vec<PhaseTime>,
}

/// A butler that is up.
pub struct BootedButler {
    pub butler: Butler,
    pub phases: Vec<PhaseTime>,
    task: JoinHandle<()>,
}

impl BootedButler {
    /// Waits for the end of the butler's task; `Err` when it ended by a panic.
    pub async fn ended(&mut self) -> Result<(), String> {
        (&mut self.task).await.map_err(|e| format!("the butler's task ended: {e}"))
    }
}

/// Gathers the phases' durations and logs each.
struct Phases<'a> {
    butler: &'a str,
    done: Vec<PhaseTime>,
}

impl Phases<'_> {
    async fn run<T, E: Failure>(
        &mut self,
        phase: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, BootError> {
        let started = Instant::now();
        let result = work.await;
        let ms = started.elapsed().as_secs_f64() * 1000.0;
        self.done.push(PhaseTime { phase: phase.to_owned(), ms: (ms * 1000.0).round() / 1000.0 });
        match result {
            Ok(value) => {
                tracing::info!(butler = self.butler, phase, ms = format_args!("{ms:.2}"), "boot phase");
                Ok(value)
            }
            Err(e) => {
                Err(BootError { phase, transient: e.transient(), error: e.to_string(), phases: self.done.clone() })
            }
        }
    }
}

/// What a phase may fail with.
trait Failure: std::fmt::Display {
    fn transient(&self) -> bool {
        false
    }
}
impl Failure for String {}
impl Failure for store::StoreError {
    fn transient(&self) -> bool {
        self.is_connection()
    }
}
impl Failure for schedule::SyncError {
    fn transient(&self) -> bool {
        matches!(self, schedule::SyncError::Store(e) if e.is_connection())
    }
}
impl Failure for mcp::BindError {}
impl Failure for store::migrate::MigrationError {}

/// Boots the butler. `stop` ends it again: sessions are drained, then everything is taken down in reverse.
///
/// A module that fails does not fail the boot; whatever else fails does, named by its phase.
pub async fn boot(
    services: &Arc<HouseholdServices>,
    config: &Arc<ButlerConfig>,
    stop: CancellationToken,
) -> Result<BootedButler, BootError> {
    let name = &config.name;
    let schema = &config.db.schema;
    let mut phases = Phases { butler: name.as_str(), done: Vec::new() };
    // Configuration and telemetry were done for the whole household before any butler.
    let mut modules = phases
        .run("module loading", async {
            Ok::<_, String>(Modules::load(&services.catalog, name, &config.dir, &config.modules))
        })
        .await?;
    phases.run("environment", async { check_environment(config) }).await?;
    let store = phases.run("database", services.db.provision(name, schema)).await?;
    let core_chain = phases.run("core migrations", async {
        let chains = core_chains(name)?;
        services.db.migrate(name, schema, &chains.iter().collect::<Vec<_>>()).await?;
        Ok::<_, store::StoreError>(())
    });
    core_chain.await?;
    phases.run("butler migrations", butler_migrations(services, config, &mut modules)).await?;
    phases
        .run("module migrations", async {
            modules.migrate(&services.db, name, schema).await;
            Ok::<_, String>(())
        })
        .await?;
    // What is to wait for a person is known before anything runs; a butler of whom it can't be known does not start.
    let gate = phases.run("approvals", async { approval_gate(services, config, &store) }).await?;
    let base = ModuleContext {
        butler: name.clone(),
        dir: config.dir.clone(),
        data_dir: services.data_dir.clone(),
        store: store.clone(),
        clock: services.clock.clone(),
        outbox: services.outbox.clone(),
        gate: gate.clone(),
        due: Arc::default(),
        credentials: Arc::default(),
    };
    phases
        .run("credentials", async {
            modules.credentials(&services.credentials, &base).await;
            Ok::<_, String>(())
        })
        .await?;
    // Bound early, because sessions are told the port; answered late, once every tool is there.
    let listener = phases.run("port", async { Listener::bind(address(services, config)) }).await?;
    let port = listener.addr().port();
    let metrics = services.metrics.of(name.as_str());
    let auditor = Auditor::start(store.clone());
    let spawner = Spawner::new(SpawnerParts {
        config: config.clone(),
        settings: services.config.spawner.clone(),
        roster_dir: services.roster_dir.clone(),
        workspaces: services.workspaces.clone(),
        db: services.db.clone(),
        store: store.clone(),
        node: services.inbox.node().to_owned(),
        auditor: auditor.clone(),
        credentials: services.credentials.clone(),
        book: services.book.clone(),
        clock: services.clock.clone(),
        processes: services.processes.clone(),
        permits: services.permits.clone(),
        events: services.events.clone(),
        metrics: metrics.clone(),
        child_user: services.child_user,
        budgets: services.budgets.clone(),
        port,
        gateway: services.gateway.clone(),
    });
    phases.run("core credentials", spawner.check_credentials()).await?;
    phases
        .run("module startup", async {
            modules.start(&base).await;
            Ok::<_, String>(())
        })
        .await?;
    let channels = modules.channels();
    let interrupted = phases.run("session recovery", spawner.recover()).await?;
    let zone = services.config.owner.time_zone.name().to_owned();
    let own = modules.schedules();
    phases.run("schedule sync", sync(&services.db, &store, name.as_str(), &config.schedules, own, &zone)).await?;
    let jobs = jobs(config, &store, &mut modules).await;
    let module_jobs = modules.jobs();
    let core = Arc::new(Core {
        gate: gate.clone(),
        services: services.clone(),
        config: config.clone(),
        spawner,
        modules: modules.states(),
        port,
        up_since: Instant::now(),
    });
    let dispatcher = Dispatcher { core: core.clone(), store: store.clone(), jobs, module_jobs };
    let schedules = Scheduler::new(SchedulerParts {
        butler: name.clone(),
        db: services.db.clone(),
        store: store.clone(),
        node: services.inbox.node().to_owned(),
        slots: config.sessions.max_concurrent_sessions as usize,
        time_zone: zone,
        target: Arc::new(Runs(Arc::new(dispatcher))),
        wake: base.due.clone(),
    });
    let mut builder = ToolSetBuilder::default();
    let wake = Arc::new(Notify::new());
    phases
        .run("tools", async {
            let own = core_tools()
                .into_iter()
                .chain(note_tools())
                .chain(skill_tools(&config.skills))
                .chain(session_tools())
                .chain(schedule_tools(&schedules))
                .chain(self_tools(&core, &schedules))
                .chain([route_execute(wake.clone())])
                .chain(outbound_tools(&services.inbox, &services.outbox))
                .chain(ask_tools(&services.inbox))
                .chain(match name.as_str() {
                    SWITCHBOARD => {
                        switchboard_tools(&services.inbox).into_iter().chain([deliver_tool(&services.outbox)]).collect()
                    }
                    MESSENGER => messenger_tools(&services.outbox),
                    _ => Vec::new(),
                });
            own.into_iter().try_for_each(|t| builder.add(t, None)).map_err(|e| e.to_string())?;
            let unknown: Vec<&str> =
                (gate.gated_tools()).filter(|tool| builder.owner(tool).is_none() && !modules.declare(tool)).collect();
            if !unknown.is_empty() {
                let why = format!("gated_tools: this butler has no tool {}", unknown.join(", "));
                modules.blame("approvals", Phase::Tools, why);
            }
            modules.tools(&mut builder).await;
            Ok::<_, String>(())
        })
        .await?;
    let tools = builder.build(name.clone(), store.clone(), auditor, metrics, Arc::new(gate.clone()));
    core.spawner.set_tools(
        tools.definitions().filter(|d| !d.meta.internal && !d.meta.operators).map(|d| d.name.clone()).collect(),
    );
    let memory = MemoryHooks::of(name, &tools, recall_within(config), &services.metrics.of(name.as_str()));
    let episode_intake = memory.map(|memory| {
        core.spawner.set_memory(memory.clone());
        EpisodeIntake::start(memory, services.db.clone(), store.clone())
    });
    let butler = Butler { core: core.clone(), tools: tools.clone(), interrupted, schedules: schedules.clone() };
    let routed = phases
        .run("route inbox recovery", async {
            let (spawner, inbox) = (core.spawner.clone(), services.inbox.clone());
            let (config, store, wake, gate) = (config.clone(), store.clone(), wake.clone(), gate.clone());
            Routed::start(RoutedParts { config, store, spawner, inbox, wake, gate }).await
        })
        .await?;
    let approvals = phases
        .run("approval recovery", async {
            let (tools, node, told) = (tools.clone(), services.inbox.node().to_owned(), wake.clone());
            approvals::start(ApprovalParts { gate: gate.clone(), tools, node, told }).await
        })
        .await?;
    let schedule_loop = phases.run("schedules", schedules.start()).await?;
    services.inbox.enrol(name.as_str(), target(config, &core, &tools, wake));
    let buffer = match &config.buffer {
        Some(settings) if name.as_str() == SWITCHBOARD => {
            let opening = services.inbox.open(store, core.spawner.clone(), settings);
            Some(phases.run("buffer", opening).await?)
        }
        _ => None,
    };
    let pump = match name.as_str() == MESSENGER {
        true => {
            let configured = modules.names();
            let starting = Pump::start(&services.outbox, channels, &configured, Replies::new(&services.inbox));
            let pump = phases.run("outbox", starting).await?;
            listen(&services.inbox, &services.outbox, pump.stopping());
            Some(pump)
        }
        false => None,
    };
    let admin = &services.config.admin;
    let edge = Edge::new(services.book.clone(), &admin.allowed_hosts, &admin.allowed_origins, admin.max_body.0);
    let draining = CancellationToken::new();
    let served = Served::new(tools, edge, services.clock.clone(), draining.clone());
    let life = RunningButler {
        butler: butler.clone(),
        modules,
        listener,
        served,
        draining,
        stop,
        routed,
        approvals,
        schedule_loop,
        buffer,
        pump,
        episode_intake,
    };
    let task = phases
        .run("mcp server", async { Ok::<_, String>(task::spawn(task::Kind::Actor, "butler", life.run())) })
        .await?;
    Ok(BootedButler { butler, phases: phases.done, task })
}

fn check_environment(config: &ButlerConfig) -> Result<(), String> {
    let missing: Vec<&str> =
        config.env.required.iter().map(String::as_str).filter(|n| std::env::var_os(n).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} asks in [butler.env] required for {}, which butlerd's environment does not have; set it, or make it optional",
        config.file.display(),
        missing.join(", ")
    ))
}

/// What of butlerd's own a butler's schema holds.
pub fn core_chains(name: &ButlerName) -> Result<Vec<Chain>, MigrationError> {
    let more = (name.as_str() == SWITCHBOARD).then_some("inbox");
    ["core"].into_iter().chain(more).map(Chain::shipped).collect()
}

/// The butler's own chain. A failure belongs to the roster's own module where there is one.
async fn butler_migrations(
    services: &HouseholdServices,
    config: &ButlerConfig,
    modules: &mut Modules,
) -> Result<(), store::StoreError> {
    let name = config.name.as_str();
    let result = match Chain::from_dir(name, &config.dir.join("migrations")) {
        Ok(chain) => services.db.migrate(&config.name, &config.db.schema, &[&chain]).await.map(|_| ()),
        Err(e) => Err(e.into()),
    };
    match result {
        Err(e) if !e.is_connection() && modules.has(name) => {
            modules.blame(name, Phase::Migration, e.to_string());
            Ok(())
        }
        other => other,
    }
}

/// How long a session waits for its memory.
fn recall_within(config: &ButlerConfig) -> Duration {
    config
        .modules
        .get("memory")
        .and_then(|given| memory::Settings::read(given).ok())
        .map_or(RECALL_WITHIN, |s| s.recall_within())
}

/// Who decides which of the butler's calls wait for a person.
fn approval_gate(
    services: &HouseholdServices,
    config: &ButlerConfig,
    store: &store::Store,
) -> Result<ApprovalGate, String> {
    let settings = Settings::read(config.modules.get("approvals"))
        .map_err(|e| format!("{}: [modules.approvals] {e}", config.file.display()))?;
    let outbox = services.outbox.clone();
    let call = Arc::new(move || outbox.alarm());
    Ok(ApprovalGate::new(&config.name, store, Actions::new(&services.db, &services.clock), settings, call))
}

fn address(services: &HouseholdServices, config: &ButlerConfig) -> SocketAddr {
    let port = match services.config.daemon.ports {
        Ports::Roster => config.port,
        Ports::Auto => 0,
    };
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// The jobs in `roster/<butler>/jobs/`. A wrong one is a fault of the roster's own module, where there is one.
async fn jobs(config: &ButlerConfig, store: &store::Store, modules: &mut Modules) -> Jobs {
    let name = config.name.as_str();
    let prepared = async {
        let mut lease = store.tenant(&TenantId::owner()).await.map_err(|e| e.to_string())?;
        let wrong = |list: Vec<SqlToolError>| list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        prepare_jobs(&mut lease, &config.dir.join("jobs")).await.map_err(wrong)
    };
    prepared.await.inspect_err(|why| {
        tracing::error!(butler = name, "jobs can't be used: {why}");
        if modules.has(name) {
            modules.blame(name, Phase::Tools, why.clone());
        }
    })
}

/// The butler, as the switchboard knows it.
fn target(config: &ButlerConfig, core: &Core, tools: &ToolSet, wake: Arc<Notify>) -> Target {
    let whole = |seconds: u64| i32::try_from(seconds).unwrap_or(i32::MAX);
    let version = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let registration = config.switchboard.as_ref().filter(|s| s.advertise).map(|s| ButlerRegistration {
        description: config.description.clone(),
        endpoint_url: format!("http://127.0.0.1:{}/mcp", core.port),
        modules: core.modules.all().into_keys().collect(),
        liveness_ttl_s: whole(s.liveness_ttl.0.as_secs()),
        route_contract_min: version(s.route_contract_min),
        route_contract_max: version(s.route_contract_max),
    });
    Target { schema: config.db.schema.clone(), tools: tools.clone(), registration, wake }
}

/// The butler's task: owns its modules and its server.
struct RunningButler {
    butler: Butler,
    modules: Modules,
    listener: Listener,
    served: Served,
    draining: CancellationToken,
    stop: CancellationToken,
    routed: Routed,
    schedule_loop: ScheduleLoop,
    approvals: RunningQueue,
    buffer: Option<Buffer>,
    pump: Option<Pump>,
    episode_intake: Option<EpisodeIntake>,
}

/// Requests still under way get this long once the sessions are over.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

impl RunningButler {
    async fn run(mut self) {
        let name = self.butler.name().clone();
        crash::panic_point(&format!("butler.{name}"));
        let server_stop = CancellationToken::new();
        let served = self.served.clone();
        let serving = accept_loop(self.listener, server_stop.clone(), move |request| served.clone().answer(request));
        let mut server = task::spawn(task::Kind::Actor, "mcp-server", serving);
        tokio::select! {
            () = self.stop.cancelled() => {}
            ended = &mut server => {
                // Only its stop ends the server; anything else is a fault that the supervisor must see.
                panic!("the MCP server of {name} ended by itself: {ended:?}");
            }
        }
        self.draining.cancel();
        let core = &self.butler.core;
        self.routed.close();
        self.schedule_loop.close();
        core.services.inbox.withdraw(name.as_str());
        let buffer = self.buffer.take();
        let closing = async {
            if let Some(buffer) = buffer {
                buffer.stop(core.config.shutdown.timeout.0).await;
            }
        };
        tokio::join!(closing, core.spawner.drain(core.config.shutdown.timeout.0));
        tokio::join!(self.routed.ended(LAST_REQUESTS), self.schedule_loop.ended(LAST_REQUESTS));
        self.approvals.close();
        self.approvals.ended(LAST_REQUESTS).await;
        if let Some(pump) = self.pump.take() {
            // After the sessions, so that what they said last is tried.
            pump.close();
            pump.ended(core.config.shutdown.timeout.0).await;
        }
        if let Some(episode_intake) = self.episode_intake.take() {
            episode_intake.stop(LAST_REQUESTS).await;
        }
        server_stop.cancel();
        if tokio::time::timeout(LAST_REQUESTS, &mut server).await.is_err() {
            server.abort();
        }
        self.butler.tools.flush_audit().await;
        self.modules.stop().await;
        core.services.db.release(&name).await;
        tracing::info!(butler = %name, "butler stopped");
    }
}
