//! The daemon from its first to its last moment.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, broadcast, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::backups::WriteBackup;
use super::foundation::{FoundationError, lay};
use super::notify;
use super::place::{tell_place, write_private};
use super::tree::Supervisor;
use access::{Edge, Grant, Token, TokenBook};
use base::task::Group;
use base::{Clock, memory, task};
use butler::{HandedRows, HouseholdServices};
use config::{Environment, Household, Overrides, Refused, SandboxMode, load};
use conversation::ConversationLog;
use inbox::{Inbox, InboxParts, SWITCHBOARD};
use mcp::{BindError, Listener};
use modules::{Catalog, Grants, RouteTable};
use outbox::{Outbox, OutboxParts, Owner};
use process::{ChildUsers, Groups, Kernel, NoGroups, ProcessSupervisor};
use sessions::budget::{Budgets, Ledger};
use sessions::gateway::Gateway;
use sessions::workspace::Workspaces;
use sessions::{SessionEvent, SessionPermits};
use store::cluster::ClusterError;
use store::{Database, Presence, note_sizes, renew_every};
use telemetry::{LogError, Metrics, start_log};

/// Why the daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{0}")]
    Config(Refused),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Foundation(#[from] FoundationError),
    /// The admin port can't be had. The message is a whole sentence.
    #[error("{}", admin_port(.0))]
    Admin(BindError),
    /// A whole sentence, too.
    #[error(
        "butlerd is already running, process {pid}, and serves {} on {addr}: `butlerd status` asks it, `butlerd reload` lets it \
         take up changes. End it first if this one is to serve instead, or name another data directory and port.", data_dir.display()
    )]
    Serving { pid: i32, data_dir: PathBuf, addr: std::net::SocketAddr },
    #[error("its task {0} panicked, and the household ended in order; the log says where")]
    TaskEnded(&'static str),
    #[error("the model gateway: {0}")]
    Gateway(BindError),
    #[error("children can't be started: {0}")]
    Children(String),
    #[error("telemetry.otlp: no client for the collector can be made: {0}")]
    Collector(String),
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
}

impl ServeError {
    /// The sentence, if another butlerd has the household already.
    pub fn already_running(&self) -> Option<String> {
        match self {
            Self::Serving { .. } => Some(self.to_string()),
            Self::Foundation(FoundationError::Cluster(e @ ClusterError::Locked { .. })) => Some(format!("{e}.")),
            _ => None,
        }
    }
}

/// The butlerd that has the data directory and listens there, by what it tells of itself.
fn serving(data_dir: &Path, addr: std::net::SocketAddr) -> Option<i32> {
    let text = std::fs::read_to_string(data_dir.join("run/daemon.json")).ok()?;
    let told: serde_json::Value = serde_json::from_str(&text).ok()?;
    let pid = i32::try_from(told["pid"].as_i64()?).ok()?;
    let there = std::fs::exists(format!("/proc/{pid}")).unwrap_or(false);
    (there && told["admin"].as_str() == Some(&addr.to_string())).then_some(pid)
}

fn admin_port(e: &BindError) -> String {
    let addr = e.addr;
    match e.source.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "The admin port {addr} is taken by another program, or by a butlerd with another data directory; stop it, \
                 or set [admin] listen to a free one."
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("The admin port {addr} can't be opened: {}; set [admin] listen to one from 1024 on.", e.source)
        }
        _ => format!("The admin port {addr} can't be opened: {}; set [admin] listen to another one.", e.source),
    }
}

/// What the admin server is started with.
pub struct AdminDoor {
    pub listener: Listener,
    pub edge: Edge,
    pub stop: CancellationToken,
    /// What is being done until `supervisor` comes.
    pub doing: watch::Receiver<&'static str>,
    /// Comes once the household stands and its butlers are to be started; dropped where the start fails.
    pub supervisor: oneshot::Receiver<Supervisor>,
}

/// An error with what caused it, for a line of the log or the terminal.
pub fn with_causes(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut cause = e.source();
    while let Some(source) = cause {
        let more = source.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = source.source();
    }
    text
}

/// Butlers that boot at once: twice as many as there are connections for it.
const BOOTS: usize = 8;
/// Live events kept for those who read slowly.
const EVENTS: usize = 1024;
/// How often idle connections are looked at.
const HOUSEKEEPING: Duration = Duration::from_secs(10);

/// Loads the configuration, starts the log and runs until SIGTERM or SIGINT. `admin` starts the admin server.
/// `backup` writes backups.
pub async fn serve(
    overrides: &Overrides,
    environment: &Environment,
    admin: StartAdmin,
    backup: WriteBackup,
) -> Result<(), ServeError> {
    let catalog = Catalog::default();
    let household = load(overrides, environment, &catalog).map_err(ServeError::Config)?;
    start_log(&household.config.telemetry)?;
    process::raise_open_files();
    let stop = CancellationToken::new();
    let io = |source| ServeError::Io { what: "signals can't be received", source };
    super::signals::listen(stop.clone(), household.config.daemon.shutdown_timeout.0).map_err(io)?;
    // Received from now on: one that comes early is not the end of the process, and is answered once all is up.
    let hangups = Some(signal(SignalKind::hangup()).map_err(io)?);
    serve_with(
        household,
        catalog,
        stop,
        admin,
        Hooks { hangups, watchdog: Some(super::signals::end_when_hung), backup: Some(backup), ..Hooks::default() },
    )
    .await
}

/// Takes up the roster as it is now whenever somebody asks by SIGHUP. The log says what came of it.
async fn on_hangups(mut hangups: Signal, supervisor: Supervisor, stop: CancellationToken) {
    while let Some(Some(())) = stop.run_until_cancelled(hangups.recv()).await {
        tracing::info!(signal = "SIGHUP", "reloading");
        if let Err(e) = supervisor.reload().await {
            tracing::error!("nothing was reloaded: {e}");
        }
    }
}

/// Work on the house before its first butler.
pub type Prepare = Box<dyn FnOnce(Arc<HouseholdServices>) -> BoxFuture<'static, ()> + Send>;

/// Starts to look at whether the household is watched.
pub type Watchdog = fn(Box<dyn Fn() -> bool + Send>) -> io::Result<()>;

/// What whoever embeds the daemon wants to do on the way.
#[derive(Default)]
pub struct Hooks {
    /// Runs when the ground stands and no butler yet.
    pub prepare: Option<Prepare>,
    /// Is called once every butler was tried.
    pub ready: Option<Box<dyn FnOnce(Supervisor) + Send>>,
    /// Each asks for a reload.
    pub hangups: Option<Signal>,
    /// Ends the process when the household is without its watch.
    pub watchdog: Option<Watchdog>,
    /// Writes backups; without it none are made.
    pub backup: Option<WriteBackup>,
}

/// The desk of this household. It claims rows under a name that is the same after a restart and another one elsewhere.
fn inbox(
    household: &Household,
    db: &Arc<Database>,
    clock: &Clock,
    data_dir: &Path,
    events: broadcast::Sender<SessionEvent>,
) -> Inbox {
    let own = household.butlers.iter().find(|b| b.name.as_str() == SWITCHBOARD);
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Inbox::new(InboxParts {
        db: db.clone(),
        clock: clock.clone(),
        conversation: ConversationLog::new(db.clone()),
        owner: household.config.owner.identities.clone(),
        schema: own.map_or_else(|| SWITCHBOARD.to_owned(), |own| own.db.schema.clone()),
        node: format!("{host}:{}", data_dir.display()),
        handed: Arc::new(HandedRows),
        events,
    })
}

/// The post of this household.
fn outbox(household: &Household, db: &Arc<Database>, clock: &Clock, inbox: &Inbox) -> Outbox {
    let owner = &household.config.owner;
    Outbox::new(OutboxParts {
        db: db.clone(),
        clock: clock.clone(),
        owner: Owner {
            name: owner.name.clone(),
            identities: owner.identities.clone(),
            notice_channel: owner.notice_channel.clone(),
            quiet_hours: owner.quiet_hours,
            zone: owner.time_zone.time_zone().clone(),
        },
        conversation: inbox.conversation().clone(),
        switchboard: inbox.schema().to_owned(),
        people_called: inbox::people_called,
        notices: butler::NOTICE_SOURCES,
        node: inbox.node().to_owned(),
    })
}

/// Starts the admin server, which stands above this crate.
pub type StartAdmin = fn(AdminDoor) -> tokio::task::JoinHandle<()>;

/// Runs a loaded household until `stop`. Boxed, so that crates above do not compile the whole daemon again.
pub fn serve_with(
    household: Household,
    catalog: Catalog,
    stop: CancellationToken,
    admin: StartAdmin,
    hooks: Hooks,
) -> BoxFuture<'static, Result<(), ServeError>> {
    let group = Group::default();
    Box::pin(async move {
        let watch = group.clone();
        let failing = async move {
            let name = watch.failed().await;
            tracing::error!(task = name, "the household can't go on without this task and ends in order");
            name
        };
        let running = group.around(run(household, catalog, stop.clone(), admin, hooks));
        tokio::pin!(running, failing);
        tokio::select! {
            done = &mut running => done,
            name = &mut failing => {
                stop.cancel();
                running.await?;
                Err(ServeError::TaskEnded(name))
            }
        }
    })
}

#[allow(clippy::too_many_lines, reason = "the daemon's parts in the order in which they come and go")]
async fn run(
    household: Household,
    catalog: Catalog,
    stop: CancellationToken,
    admin: StartAdmin,
    hooks: Hooks,
) -> Result<(), ServeError> {
    let started = Instant::now();
    memory::give_large_blocks_back();
    let config = &household.config;
    let data_dir = config.daemon.data_dir.clone();
    let clock = Clock::of_environment();
    // Bound first: a second daemon with the same configuration ends here, before it touches anything.
    let listener = Listener::bind(config.admin.listen).map_err(|e| match serving(&data_dir, e.addr) {
        Some(pid) => ServeError::Serving { pid, data_dir: data_dir.clone(), addr: e.addr },
        None => ServeError::Admin(e),
    })?;
    let admin_addr = listener.addr().to_string();
    let (book, a) = (TokenBook::new(clock.clone()), &config.admin);
    let edge = Edge::new(book.clone(), &a.allowed_hosts, &a.allowed_origins, a.max_body.0)
        .with_public_url(a.public_url.as_deref())
        .with_proxies(&a.trusted_proxies);
    let ((tell, doing), (stands, standing)) = (watch::channel("starting"), oneshot::channel());
    let admin_stop = CancellationToken::new();
    // Where the start fails, too.
    let _closing = admin_stop.clone().drop_guard();
    let mut admin_task = admin(AdminDoor { listener, edge, stop: admin_stop.clone(), doing, supervisor: standing });
    // Before the database is started, which would stay behind.
    let groups = claim_groups();
    let ground = lay(config, household.butlers.len(), &clock, &book, &|text| {
        tracing::info!("{text}");
        notify::status(text);
        tell.send_replace(text);
    })
    .await?;
    let database_user = ground.cluster.as_ref().map(|c| c.run_as().uid);
    let child_users = ChildUsers::choose(config.spawner.child_user.as_deref(), database_user)
        .map_err(|e| ServeError::Children(e.to_string()))?;
    tell_bounds(config.spawner.sandbox, &child_users);
    let workspaces = Workspaces::open(&data_dir, child_users).map_err(|e| ServeError::Children(with_causes(&e)))?;
    // No session of this run exists yet, so every workspace is one of a session that is over.
    if let Err(e) = workspaces.sweep(&HashSet::new()) {
        tracing::warn!(error = %e, "old workspaces were not removed");
    }
    let zone = config.owner.time_zone.time_zone().clone();
    let ledger = Ledger::new(ground.db.clone(), clock.clone(), zone);
    let events = broadcast::channel(EVENTS).0;
    let inbox = inbox(&household, &ground.db, &clock, &data_dir, events.clone());
    let services = Arc::new(HouseholdServices {
        outbox: outbox(&household, &ground.db, &clock, &inbox),
        inbox,
        budgets: Budgets::new(household.pricing.clone(), config.spawner.budgets.clone(), ledger),
        workspaces,
        routes: RouteTable::default(),
        data_dir: data_dir.clone(),
        roster_dir: config.daemon.roster.clone(),
        db: ground.db.clone(),
        grants: Grants::new(ground.credentials.clone(), clock.clone()),
        credentials: ground.credentials,
        book: book.clone(),
        operators: ground.operators,
        clock,
        metrics: Arc::new(match &config.telemetry.otlp {
            Some(url) => Metrics::tracing_to(url).map_err(|e| ServeError::Collector(e.to_string()))?,
            None => Metrics::default(),
        }),
        events,
        catalog,
        processes: ProcessSupervisor::with_groups(groups).map_err(|e| ServeError::Children(e.to_string()))?,
        permits: SessionPermits::new(config.spawner.max_sessions as usize),
        gateway: match config.spawner.gateway {
            true => Some(Gateway::start(book).map_err(ServeError::Gateway)?),
            false => None,
        },
        config: household.config.clone(),
        boots: Semaphore::new(BOOTS),
    });
    services.metrics.tell_of(services.db.queue_metrics());
    if let Some(prepare) = hooks.prepare {
        prepare(services.clone()).await;
    }
    let supervisor = Supervisor::new(services.clone(), household, ground.kind, admin_addr.clone());
    // Before a butler has a session: another daemon that starts now must not take it for nobody's.
    let mut presence = Presence::new(services.db.clone(), services.inbox.node());
    presence.renew().await.map_err(FoundationError::from)?;
    let watch_stop = CancellationToken::new();
    let watching = supervisor.inner.health.clone().keep(services.outbox.clone(), watch_stop.clone());
    task::spawn(task::Kind::Actor, "health", watching);
    let watch = watch_stop.drop_guard();
    if let Some(watchdog) = hooks.watchdog {
        let health = supervisor.inner.health.clone();
        watchdog(Box::new(move || health.is_watched()))
            .map_err(|source| ServeError::Io { what: "the watchdog's thread can't be started", source })?;
    }
    let run_dir = data_dir.join("run");
    operator_token(&services, &run_dir.join("operator.token"))?;
    // Refused only by a server that has ended, which the log says.
    let _ = stands.send(supervisor.clone());
    notify::status("starting butlers");
    // Whoever has never had a butler is told what to do next.
    let is_first = services.db.places().await.is_ok_and(|places| places.is_empty());
    tokio::select! {
        () = supervisor.start() => {}
        () = stop.cancelled() => {}
    }
    tell_place(&supervisor).map_err(|source| ServeError::Io { what: "run/daemon.json can't be written", source })?;
    let ms = started.elapsed().as_millis() as u64;
    tracing::info!(ms, admin = admin_addr, "{}", supervisor.summary());
    if is_first {
        let flags = supervisor.inner.origin.flags();
        tracing::info!("now, in another terminal: butlerd chat{flags}");
    }
    notify::ready(&supervisor.summary());
    notify::start_watchdog(supervisor.clone());
    if let Some(ready) = hooks.ready {
        ready(supervisor.clone());
    }
    if let Some(hangups) = hooks.hangups {
        task::spawn(task::Kind::Actor, "hangups", on_hangups(hangups, supervisor.clone(), stop.clone()));
    }
    if let Err(e) = note_sizes(&services.db, services.clock.now()).await {
        tracing::debug!(error = %e, "the sizes of tables were not noted");
    }
    if let (Some(write), Some(backups)) = (hooks.backup, supervisor.inner.backups.clone()) {
        task::spawn(task::Kind::Actor, "backups", backups.keep(write, stop.clone()));
    }
    housekeep(&supervisor, &mut presence, &stop).await;
    notify::stopping();
    supervisor.stop(services.config.daemon.shutdown_timeout.0).await;
    if let Some(gateway) = &services.gateway {
        gateway.stop().await;
    }
    services.metrics.tracer().flush(Duration::from_secs(2)).await;
    admin_stop.cancel();
    if tokio::time::timeout(Duration::from_secs(2), &mut admin_task).await.is_err() {
        admin_task.abort();
    }
    for file in ["daemon.json", "operator.token"] {
        // A file that is gone already is as good.
        let _ = std::fs::remove_file(run_dir.join(file));
    }
    if let Err(e) = presence.leave().await {
        tracing::debug!(error = %e, "this node could not sign off; other daemons will notice that it is gone");
    }
    // What goes away from here on does so as it should.
    drop(watch);
    services.db.close().await;
    if let Some(cluster) = ground.cluster {
        cluster.stop(Duration::from_secs(10)).await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Runs until `stop`: gives idle connections back, notes how the database is, and ends what a daemon that is gone left.
async fn housekeep(supervisor: &Supervisor, presence: &mut Presence, stop: &CancellationToken) {
    let services = supervisor.services();
    let (mut owed, mut lost) = (false, LostLines::default());
    // By then whoever looks for what the last run left has looked.
    tokio::select! {
        () = stop.cancelled() => return,
        () = tokio::time::sleep(Duration::from_secs(1)) => services.db.shrink_to_rest().await,
    }
    let mut tick = tokio::time::interval(HOUSEKEEPING.min(renew_every()));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {
                services.db.shrink().await;
                let renewed = tokio::time::timeout(Duration::from_secs(2), presence.renew()).await;
                let up = renewed.is_ok_and(|renewed| renewed.is_ok());
                if up {
                    owed = inherit(supervisor, presence, owed).await;
                }
                services.metrics.database(up, services.db.connections().await);
                services.db.note_pools().await;
                let waiting = tokio::time::timeout(Duration::from_secs(2), approvals::all_waiting(&services.db)).await;
                services.db.queue_metrics().work().approvals(waiting.ok().and_then(Result::ok));
                wake_for_approvals(supervisor).await;
                lost.tell();
            }
        }
    }
}

/// Wakes the butlers that have something to do about calls that waited: one look at their table for all of them.
async fn wake_for_approvals(supervisor: &Supervisor) {
    let services = supervisor.services();
    let due = approvals::butlers_due(&services.db, services.clock.now());
    // A look that fails is made again.
    let due = tokio::time::timeout(Duration::from_secs(2), due).await.ok().and_then(Result::ok);
    for butler in due.unwrap_or_default().iter().filter_map(|name| supervisor.butler(name).ok()) {
        butler.gate().wake();
    }
}

/// What the log said of lines of it that are missing.
#[derive(Default)]
struct LostLines {
    told: u64,
    /// What the last line about it was to say: it counts as told once nothing was lost after it.
    said: u64,
}

impl LostLines {
    /// Says how many lines are missing, again and again until that line is there.
    fn tell(&mut self) {
        let lost = telemetry::lost_lines();
        if lost == self.said {
            self.told = lost;
        } else {
            self.said = lost;
            let lines = lost - self.told;
            tracing::warn!(lines, "the log could not be written for a while; these lines are missing");
        }
    }
}

/// Ends the sessions of daemons that are gone. `owed`: some are known to be, and their sessions are open yet. Returns
/// whether that is still so.
async fn inherit(supervisor: &Supervisor, presence: &Presence, owed: bool) -> bool {
    match presence.strike_out_gone().await {
        Ok(gone) if gone.is_empty() && !owed => return false,
        Ok(gone) => gone.iter().for_each(|node| tracing::warn!(node, "a daemon on this database is gone")),
        Err(e) => {
            tracing::warn!(error = %e, "the other nodes can't be read");
            return owed;
        }
    }
    let mut open = false;
    for butler in supervisor.butlers() {
        if let Err(e) = butler.spawner().recover_gone().await {
            tracing::warn!(butler = %butler.name(), error = %e, "sessions of a dead daemon are still open");
            open = true;
        }
    }
    open
}

/// Says in the log what keeps sessions' children in bounds, and what does not.
fn tell_bounds(mode: SandboxMode, child_users: &ChildUsers) {
    if mode == SandboxMode::Off {
        tracing::warn!("spawner.sandbox is \"off\": sessions can read what their user can, and connect anywhere");
        return;
    }
    let kernel = Kernel::here();
    for line in kernel.report(child_users.is_own()) {
        if line.on { tracing::info!("sandbox: {}", line.text) } else { tracing::warn!("sandbox: {}", line.text) }
    }
    if mode == SandboxMode::Required && !kernel.is_enough() {
        tracing::error!("spawner.sandbox is \"required\", and this kernel has not all of it: no session will start");
    }
}

/// Control groups for sessions, where they are ours to make.
fn claim_groups() -> Option<Groups> {
    match Groups::claim() {
        Ok(groups) => {
            let bounds =
                if groups.bounds { "bounded in memory and processes" } else { "held together, but not bounded" };
            tracing::info!("sessions have a control group each, {bounds}");
            Some(groups)
        }
        Err(e @ NoGroups::Io { .. }) => {
            tracing::warn!("sessions have no control groups: {}", with_causes(&e));
            None
        }
        Err(e) => {
            tracing::info!("sessions have no control groups: {e}");
            None
        }
    }
}

/// A new token for the command line on this host, good until the daemon ends.
fn operator_token(services: &HouseholdServices, path: &Path) -> Result<(), ServeError> {
    let io = |source| ServeError::Io { what: "the operator's token can't be written", source };
    let token = Token::generate().map_err(|e| io(io::Error::other(e.to_string())))?;
    token.hide();
    services.book.insert(token.sha256(), Grant::owner("cli"));
    write_private(path, token.expose()).map_err(io)
}
