//! The stages of a butler's boot. Each takes what the one before has made.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::{BootError, Phases, core_chains};
use crate::dispatcher::{Dispatcher, Jobs, Runs};
use crate::handle::{Butler, Core};
use crate::memory_hooks::{EpisodeIntake, MemoryHooks};
use crate::outbound::{Replies, deliver_tool, listen, outbound_tools};
use crate::quarantine::quarantine_tools;
use crate::routed::{self, RoutedParts, ask_tools, route_execute};
use crate::services::HouseholdServices;
use crate::session_start::SessionStart;
use crate::sql::{COST_PIECES, SESSION_PIECES};
use crate::tools::self_tools;
use access::credentials::Credentials;
use approvals::{Actions, ApprovalGate, ApprovalParts, OthersMay, Settings};
use base::TenantId;
use config::{ButlerConfig, Ports, SERVER_MODULES};
use inbox::{Buffer, ButlerRegistration, SWITCHBOARD, Target, switchboard_tools};
use mcp::Listener;
use modules::{
    Children, Inbound, Live, McpServers, MemoryHandle, ModuleContext, ModuleError, ModuleSessions, Modules, Phase,
    mcp_server_tools, memory,
};
use outbox::{Channel, MESSENGER, Pump, messenger_tools};
use schedule::{Scheduler, SchedulerParts, calendar_event_tools, schedule_tools, sync};
use sessions::{Conductor, RECALL_WITHIN, Spawner, SpawnerParts, session_tools};
use store::migrate::Chain;
use store::{RunningQueue, Store};
use tools::sql::{Pages, prepare_jobs};
use tools::{
    Auditor, Offered, Tool, ToolFileError, ToolSet, ToolSetBuilder, core_tools, finding_tools, note_tools, skill_tools,
};

/// A boot under way.
pub(super) struct Booting<'a> {
    pub services: &'a Arc<HouseholdServices>,
    pub config: &'a Arc<ButlerConfig>,
    pub phases: Phases<'a>,
}

/// What stands before anything runs: tables, and what the modules are.
pub(super) struct Prepared {
    pub modules: Modules,
    store: Store,
    gate: ApprovalGate,
}

/// What runs sessions.
pub(super) struct Bound {
    listener: Listener,
    auditor: Auditor,
    spawner: Spawner,
    offered: Offered,
    /// The modules' context but for what each has of its own.
    context: ModuleContext,
}

/// The modules have started, and schedules are known.
struct Started {
    core: Arc<Core>,
    schedules: Scheduler,
    channels: Vec<Arc<dyn Channel>>,
    interrupted: usize,
}

/// A butler that does everything but answer on its port.
pub(super) struct Booted {
    pub butler: Butler,
    pub listener: Listener,
    pub workers: Workers,
}

/// What works through the rows of a butler.
pub(super) struct Workers {
    pub routed: RunningQueue,
    pub approvals: RunningQueue,
    pub schedule_loop: RunningQueue,
    pub buffer: Option<Buffer>,
    pub pump: Option<Pump>,
    pub memory: RunningMemory,
}

/// What remembers for a butler, for as long as it runs.
pub(super) struct RunningMemory {
    pub intake: Option<EpisodeIntake>,
    /// The spawner only points to it.
    _start: Option<Arc<SessionStart>>,
    _conductor: Option<Arc<dyn Conductor>>,
}

impl Booting<'_> {
    /// Loads the modules, makes schema and tables, and finds out what waits for a person.
    pub async fn prepare(&mut self) -> Result<Prepared, BootError> {
        let Self { services, config, phases } = self;
        let (name, schema) = (&config.name, &config.db.schema);
        // Configuration and telemetry were done for the whole household before any butler.
        let loading = async { Modules::load(&services.catalog, name, &config.dir, &config.modules) };
        let mut modules = phases.did("module loading", loading).await?;
        phases.run("environment", check_environment(config, &services.credentials)).await?;
        let store = phases.run("database", services.db.provision(name, schema)).await?;
        let core_chain = phases.run("core migrations", async {
            let chains = core_chains(name)?;
            services.db.migrate(name, schema, &chains.iter().collect::<Vec<_>>()).await?;
            Ok::<_, store::StoreError>(())
        });
        core_chain.await?;
        phases.run("butler migrations", butler_migrations(services, config, &mut modules)).await?;
        phases.did("module migrations", modules.migrate(&services.db, name, schema)).await?;
        // What is to wait for a person is known before anything runs; a butler of whom it can't be known does not
        // start.
        let gate = phases.run("approvals", async { approval_gate(services, config, &store) }).await?;
        phases.did("credentials", modules.credentials(&services.credentials)).await?;
        Ok(Prepared { modules, store, gate })
    }

    /// Binds the port and makes the spawner.
    pub async fn bind(&mut self, prepared: &Prepared) -> Result<Bound, BootError> {
        let Self { services, config, phases } = self;
        let Prepared { store, gate, .. } = prepared;
        // Bound early, because sessions are told the port; answered late, once every tool is there.
        let listener = phases.run("port", async { Listener::bind(address(services, config)) }).await?;
        let auditor = Auditor::start(store.clone(), sessions::sql::STATEMENTS);
        let offered = Offered::default();
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
            metrics: services.metrics.of(config.name.as_str()),
            budgets: services.budgets.clone(),
            tools: offered.clone(),
            port: listener.addr().port(),
            gateway: services.gateway.clone(),
        });
        phases.run("core credentials", spawner.check_credentials()).await?;
        let context = ModuleContext {
            butler: config.name.clone(),
            dir: config.dir.clone(),
            data_dir: services.data_dir.clone(),
            public_url: services.config.admin.public_url.clone(),
            store: store.clone(),
            house: services.db.clone(),
            node: services.inbox.node().to_owned(),
            clock: services.clock.clone(),
            synced_contacts: services.config.people.synced_contacts,
            outbox: services.outbox.clone(),
            gate: gate.clone(),
            due: Arc::default(),
            inbound: Inbound::new(&services.inbox),
            sessions: ModuleSessions::new(&spawner, &services.clock, &config.name),
            conversation: services.inbox.conversation().reader(config.name.as_str()),
            credentials: Arc::default(),
            grants: services.grants.clone(),
            live: Live::default(),
            children: Children {
                processes: services.processes.clone(),
                workspaces: services.workspaces.clone(),
                settings: services.config.spawner.clone(),
                roster_dir: services.roster_dir.clone(),
                data_dir: services.data_dir.clone(),
            },
            servers: McpServers::default(),
            memory: MemoryHandle::default(),
        };
        Ok(Bound { listener, auditor, spawner, offered, context })
    }

    /// From the modules' start to the workers. Fails with modules that may have started.
    pub async fn start(&mut self, prepared: &mut Prepared, bound: Bound) -> Result<Booted, BootError> {
        let port = bound.listener.addr().port();
        let started = self.start_modules(prepared, &bound, port).await?;
        let wake = Arc::new(Notify::new());
        let tools = self.build_tools(prepared, &bound, &started, &wake).await?;
        let memory = self.start_memory(prepared, &started.core, &tools);
        let Started { core, schedules, channels, interrupted } = started;
        let butler = Butler { core, tools, interrupted, schedules };
        let workers = self.start_workers(prepared, &butler, (channels, memory), wake).await?;
        Ok(Booted { butler, listener: bound.listener, workers })
    }

    /// Starts the modules, closes what the last run left open, and takes up the schedules.
    async fn start_modules(&mut self, prepared: &mut Prepared, bound: &Bound, port: u16) -> Result<Started, BootError> {
        let Self { services, config, phases } = self;
        let Prepared { modules, store, gate } = prepared;
        phases.did("module startup", modules.start(&bound.context)).await?;
        let channels = modules.channels();
        let interrupted = phases.run("session recovery", bound.spawner.recover()).await?;
        let zone = services.config.owner.time_zone.name().to_owned();
        let name = config.name.as_str();
        let own = modules.schedules();
        let limits = &services.config.schedules;
        phases.run("schedule sync", sync(&services.db, store, name, &config.schedules, own, &zone, limits)).await?;
        let jobs = jobs(config, store, modules).await;
        let pages = pages(config, store, modules).await;
        let module_jobs = modules.jobs();
        let core = Arc::new(Core {
            gate: gate.clone(),
            services: services.clone(),
            config: config.clone(),
            spawner: bound.spawner.clone(),
            modules: modules.states(),
            pages,
            port,
            up_since: Instant::now(),
        });
        let dispatcher = Dispatcher { core: core.clone(), store: store.clone(), jobs, module_jobs };
        let schedules = Scheduler::new(SchedulerParts {
            butler: config.name.clone(),
            db: services.db.clone(),
            store: store.clone(),
            node: services.inbox.node().to_owned(),
            slots: config.sessions.max_concurrent_sessions as usize,
            time_zone: zone,
            limits: services.config.schedules.clone(),
            target: Arc::new(Runs(Arc::new(dispatcher))),
            pieces: COST_PIECES,
            wake: bound.context.due.clone(),
        });
        Ok(Started { core, schedules, channels, interrupted })
    }

    /// Gathers the tools of core and modules.
    async fn build_tools(
        &mut self,
        prepared: &mut Prepared,
        bound: &Bound,
        started: &Started,
        wake: &Arc<Notify>,
    ) -> Result<ToolSet, BootError> {
        let Self { services, config, phases } = self;
        let Prepared { modules, store, gate } = prepared;
        let mut builder = ToolSetBuilder::new(&bound.offered, bound.context.live.handle());
        phases
            .run("tools", async {
                let own = own_tools(services, config, started, wake).into_iter().chain(finding_tools(&bound.offered));
                let others = config.modules.keys().any(|name| name.starts_with(SERVER_MODULES));
                let others = others.then(|| mcp_server_tools(&bound.context.servers));
                let mut own = own.chain(others.into_iter().flatten());
                own.try_for_each(|t| builder.add(t, None)).map_err(|e| e.to_string())?;
                let absent = |tool: &&str| builder.owner(tool).is_none() && !modules.declare(tool);
                let unknown: Vec<&str> = gate.gated_tools().filter(absent).collect();
                if !unknown.is_empty() {
                    let why = format!("gated_tools: this butler has no tool {}", unknown.join(", "));
                    modules.blame("approvals", Phase::Tools, why);
                }
                modules.tools(&mut builder).await;
                Ok::<_, String>(())
            })
            .await?;
        let metrics = services.metrics.of(config.name.as_str());
        let auditor = bound.auditor.clone();
        Ok(builder.build(config.name.clone(), store.clone(), auditor, metrics, Arc::new(gate.clone())))
    }

    /// Tells the spawner what speaks at the start of sessions, and begins to take in their ends.
    fn start_memory(&self, prepared: &Prepared, core: &Core, tools: &ToolSet) -> RunningMemory {
        let (name, within) = (&self.config.name, recall_within(self.config));
        let memory = MemoryHooks::of(name, tools, within, &self.services.metrics.of(name.as_str()));
        let start = SessionStart::of(name, memory.clone(), prepared.modules.openings(), within);
        let start = start.inspect(|start| {
            let told: Weak<SessionStart> = Arc::downgrade(start);
            core.spawner.set_memory(told);
        });
        let conductor = prepared.modules.conductor();
        if let Some(conductor) = &conductor {
            core.spawner.set_conductor(Arc::downgrade(conductor));
        }
        let intake =
            memory.map(|memory| EpisodeIntake::start(memory, self.services.db.clone(), prepared.store.clone()));
        RunningMemory { intake, _start: start, _conductor: conductor }
    }

    /// Starts what works through the butler's rows, the recovery of each first.
    async fn start_workers(
        &mut self,
        prepared: &Prepared,
        butler: &Butler,
        (channels, memory): (Vec<Arc<dyn Channel>>, RunningMemory),
        wake: Arc<Notify>,
    ) -> Result<Workers, BootError> {
        let Self { services, config, phases } = self;
        let Prepared { modules, store, gate } = prepared;
        let (name, spawner, tools) = (config.name.as_str(), &butler.core.spawner, &butler.tools);
        let routed = phases
            .run("route inbox recovery", async {
                let (config, store, spawner) = (config.clone(), store.clone(), spawner.clone());
                let (inbox, wake, gate) = (services.inbox.clone(), wake.clone(), gate.clone());
                routed::start(RoutedParts { config, store, spawner, inbox, wake, gate }).await
            })
            .await?;
        let approvals = phases
            .run("approval recovery", async {
                let (tools, node, told) = (tools.clone(), services.inbox.node().to_owned(), wake.clone());
                approvals::start(ApprovalParts { gate: gate.clone(), tools, node, told }).await
            })
            .await?;
        let schedule_loop = phases.run("schedules", butler.schedules.start()).await?;
        services.inbox.butlers().enrol(name, target(config, &butler.core, tools, wake));
        let buffer = match &config.buffer {
            Some(settings) if name == SWITCHBOARD => {
                let opening = services.inbox.open(store.clone(), spawner.clone(), settings);
                Some(phases.run("buffer", opening).await?)
            }
            _ => None,
        };
        let pump = match name == MESSENGER {
            true => {
                let configured = modules.names();
                let starting = Pump::start(&services.outbox, channels, &configured, Replies::new(&services.inbox));
                let pump = phases.run("outbox", starting).await?;
                listen(&services.inbox, &services.outbox, pump.stopping());
                Some(pump)
            }
            false => None,
        };
        Ok(Workers { routed, approvals, schedule_loop, buffer, pump, memory })
    }
}

/// The tools that butlerd's core brings to this butler.
fn own_tools(services: &HouseholdServices, config: &ButlerConfig, started: &Started, wake: &Arc<Notify>) -> Vec<Tool> {
    let of_its_trade = match config.name.as_str() {
        SWITCHBOARD => switchboard_tools(&services.inbox).into_iter().chain([deliver_tool(&services.outbox)]).collect(),
        MESSENGER => messenger_tools(&services.outbox),
        _ => Vec::new(),
    };
    // What a butler does at times of its calendar are its schedules, whatever module keeps the calendar.
    let has_calendar = config.modules.contains_key("calendar");
    let calendar_events = has_calendar.then(|| calendar_event_tools(&started.schedules)).into_iter().flatten();
    core_tools()
        .into_iter()
        .chain(note_tools())
        .chain(skill_tools(&config.skills))
        .chain(session_tools())
        .chain(schedule_tools(&started.schedules))
        .chain(calendar_events)
        .chain(quarantine_tools(&started.core))
        .chain(self_tools(&started.core, &started.schedules))
        .chain([route_execute(wake.clone())])
        .chain(outbound_tools(&services.inbox, &services.outbox, &started.schedules))
        .chain(ask_tools(&services.inbox))
        .chain(of_its_trade)
        .collect()
}

/// Whether each variable that `[butler.env]` requires is a stored secret or in the daemon's own environment.
async fn check_environment(config: &ButlerConfig, credentials: &Credentials) -> Result<(), String> {
    let mut missing: Vec<&str> = Vec::new();
    for name in &config.env.required {
        if credentials.variable(&TenantId::owner(), name).await.map_err(|e| e.to_string())?.is_none() {
            missing.push(name);
        }
    }
    let Some(first) = missing.first() else { return Ok(()) };
    Err(format!(
        "{} asks in [butler.env] required for {}, which is neither a stored secret nor in butlerd's environment; run \
         `butlerd secret set {first}`, or make it optional",
        config.file.display(),
        missing.join(", ")
    ))
}

/// The butler's own chain. A failure belongs to the roster's own module where there is one.
async fn butler_migrations(
    services: &HouseholdServices,
    config: &ButlerConfig,
    modules: &mut Modules,
) -> Result<(), store::StoreError> {
    let name = config.name.as_str();
    let result = match Chain::from_dir(name, &config.dir.join("migrations")) {
        Ok(chain) => services.db.migrate(&config.name, &config.db.schema, &[&chain]).await,
        Err(e) => Err(e.into()),
    };
    match result {
        Err(e) if e.fault().is_none() && modules.has(name) => {
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
        .map_err(|e| format!("{}: [modules.approvals] {}", config.file.display(), ModuleError::from(e)))?;
    let post = services.outbox.clone();
    let call = Arc::new(move || post.alarm());
    let others = OthersMay {
        strangers: config.strangers.may.iter().cloned().collect(),
        known: config.known.may.iter().cloned().collect(),
        known_may_learn: services.config.people.known_may_learn.iter().any(|name| name == config.name.as_str()),
    };
    let actions = Actions::new(&services.db, &services.clock);
    Ok(ApprovalGate::new(&config.name, store, actions, (settings, others), SESSION_PIECES, call))
}

fn address(services: &HouseholdServices, config: &ButlerConfig) -> SocketAddr {
    let port = match services.config.daemon.ports {
        Ports::Roster => config.port,
        Ports::Auto => 0,
    };
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// The jobs in `roster/<butler>/jobs/`.
async fn jobs(config: &ButlerConfig, store: &store::Store, modules: &mut Modules) -> Jobs {
    let prepared = async {
        let mut lease = store.tenant(&TenantId::owner()).await.map_err(|e| e.to_string())?;
        prepare_jobs(&mut lease, &config.dir.join("jobs")).await.map_err(|wrong| told(&wrong))
    };
    prepared.await.inspect_err(|why| blame("jobs", why, config, modules))
}

/// The pages in `roster/<butler>/api/`.
async fn pages(
    config: &ButlerConfig,
    store: &store::Store,
    modules: &mut Modules,
) -> Result<Pages, Vec<ToolFileError>> {
    let prepared = Pages::prepare(store, &config.dir.join("api")).await;
    prepared.inspect_err(|wrong| blame("pages", &told(wrong), config, modules))
}

fn told(wrong: &[ToolFileError]) -> String {
    wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Wrong files are a fault of the roster's own module, where there is one.
fn blame(what: &str, why: &str, config: &ButlerConfig, modules: &mut Modules) {
    let name = config.name.as_str();
    tracing::error!(butler = name, "{what} can't be used: {why}");
    if modules.has(name) {
        modules.blame(name, Phase::Tools, why.to_owned());
    }
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
    Target { schema: config.db.schema.clone(), tools: tools.clone(), registration, wake, decided: core.gate.waker() }
}
