//! The embedded database: a real PostgreSQL server under butlerd's own supervision.
//!
//! One private cluster per data directory, reachable through a Unix socket in a closed directory only, with SCRAM
//! passwords, durability untouched. It starts and stops with the daemon, is restarted when it dies by itself, and is
//! taken over cleanly after a `kill -9` of the daemon, the server, or both. As root the server runs as an unprivileged
//! user. What is where in the data directory: `postgres/` (PostgreSQL's own), `sock/`, `postgres.log`, `postgres.lock`.
//!
//! The parts: [`Binaries`] says which PostgreSQL (`bundle` fetches one), `layout` and `user` where and as whom,
//! `initdb` makes a cluster, `leftover` clears what an earlier run left, `process` and `server` run it, `supervise`
//! keeps it running.

mod binaries;
mod bundle;
mod error;
mod find;
mod initdb;
mod layout;
mod leftover;
mod log;
mod pages;
mod process;
mod scram;
mod server;
mod supervise;
#[cfg(test)]
mod tests;
mod user;
mod version;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub use binaries::{Binaries, Origin, OtherMajor};
pub use bundle::BundleOptions;
pub use error::ClusterError;
pub use pages::{PageCheck, check_pages};
pub use scram::{RANDOM_PASSWORD_ITERATIONS, scram_verifier};
pub use user::RunAs;

use base::{ByteSize, Secret, task};
use layout::{Found, Layout};
use process::{PostgresThread, Slot};
use server::{Run, ServerSpec, Start};
use supervise::Supervisor;

/// The oldest PostgreSQL that is taken.
pub const MIN_MAJOR: u32 = 14;

/// The role that owns the cluster.
pub const OWNER: &str = "butlerd";

/// Byte order and UTF-8 everywhere, so that the cluster is the same on every machine and an upgrade of the C library
/// can't reorder its indexes. The second is for systems that don't have the first.
const LOCALES: [&str; 2] = ["C.UTF-8", "C"];

/// The number in the socket's name. There is no TCP port.
pub const PORT: u16 = 5432;

const SOCKET_FILE: &str = ".s.PGSQL.5432";

/// What PostgreSQL says while a process of a killed server still holds its shared memory.
const SEGMENT_IN_USE: &str = "pre-existing shared memory block";
/// What PostgreSQL says where the server of a daemon that was killed as it began has only now written its pid file.
const IN_THE_WAY: &str = "lock file \"postmaster.pid\" already exists";
/// How long what a killed server left may stand in the way.
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(10);

/// What [`Cluster::start`] needs to know.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The daemon's data directory; made (0700, as root 0711) where it is missing. The cluster is `postgres/` in it.
    pub data_dir: PathBuf,
    /// Directory of `initdb` and `postgres`, if one is configured.
    pub pg_bin: Option<PathBuf>,
    pub bundle: BundleOptions,
    /// Password of the role `butlerd`. It must be random (256 bits), because it is stretched only a little.
    pub owner_password: Secret<String>,
    pub max_connections: u32,
    /// Locks per connection, where the server's default won't do.
    pub max_locks: Option<u32>,
    pub shared_buffers: ByteSize,
    /// How long the first start may take, recovery after a crash included.
    pub start_timeout: Duration,
}

impl ClusterOptions {
    /// Modest defaults: 50 connections, 64 MiB of shared buffers, two minutes to start.
    pub fn new(data_dir: PathBuf, cache_dir: PathBuf, owner_password: Secret<String>) -> Self {
        Self {
            data_dir,
            pg_bin: None,
            bundle: BundleOptions { file: None, cache_dir, prefer: false },
            owner_password,
            max_connections: 50,
            max_locks: None,
            shared_buffers: ByteSize::mib(64),
            start_timeout: Duration::from_secs(120),
        }
    }
}

/// What the server is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterState {
    Starting,
    Up,
    /// It ended by itself, or does not start; it will be tried again.
    Down {
        reason: String,
    },
    /// It was told to stop, and has.
    Stopped,
}

/// A running cluster. Dropping it shuts the server down without waiting for it; [`Cluster::stop`] waits.
#[derive(Debug)]
pub struct Cluster {
    binaries: Binaries,
    run_as: RunAs,
    cluster_dir: PathBuf,
    socket_dir: PathBuf,
    log: PathBuf,
    stop: watch::Sender<Option<Duration>>,
    state: watch::Receiver<ClusterState>,
    // Last: closes the server when everything else is gone.
    closer: Closer,
}

/// What the supervisor and a start share.
struct Parts {
    postgres_thread: PostgresThread,
    spec: Arc<ServerSpec>,
    slot: Arc<Slot>,
    layout: Layout,
    owner: tokio_postgres::Config,
    /// The data directory's lock. Each run of the server holds a part in it, so it is free only when none is left.
    lock: Mutex<Option<Arc<File>>>,
}

impl Parts {
    async fn launch(&self) -> Result<Run, ClusterError> {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Run::launch(&self.postgres_thread, self.spec.clone(), self.slot.clone(), lock).await
    }

    /// Clears what a dead server left; blocking work on the keeper's thread.
    async fn clear(&self) -> Result<(), ClusterError> {
        let spec = self.spec.clone();
        self.postgres_thread.run(move || leftover::clear(&spec.cluster, &spec.socket_dir)).await?.map(|_| ())
    }

    /// Gives the data directory back.
    fn release(&self) {
        if self.layout.is_borrowed(&self.spec.socket_dir) {
            let _ = std::fs::remove_dir(&self.spec.socket_dir);
        }
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Cluster {
    /// Finds PostgreSQL, makes the cluster if there is none, stops what an earlier run left running, starts the server
    /// and returns when it lets its owner in. From then on it is kept running. Needs a tokio runtime.
    ///
    /// # Errors
    /// Each step's own, see [`ClusterError`]; nothing is left running then. Dropping the future stops it as well.
    pub async fn start(options: ClusterOptions) -> Result<Self, ClusterError> {
        let began = Instant::now();
        let postgres_thread = PostgresThread::start()?;
        let password = options.owner_password.clone();
        let start_timeout = options.start_timeout;
        let Prepared { layout, lock, binaries, spec } = postgres_thread.run(move || prepare(&options)).await??;
        tracing::info!(user = spec.run_as.name, "the embedded database runs {binaries}");
        let slot = Arc::new(Slot::default());
        let owner = socket_config(&spec.socket_dir, OWNER, &password);
        let spec = Arc::new(spec);
        let lock = Mutex::new(Some(Arc::new(lock)));
        let parts = Parts { postgres_thread, spec, slot: slot.clone(), layout, owner, lock };

        let (state_tx, state) = watch::channel(ClusterState::Starting);
        let (stop, stop_rx) = watch::channel(None);
        let closer = Closer(slot);
        let mut run = parts.launch().await?;
        let mut start = run.until_ready(&parts.owner, start_timeout).await;
        // The kernel may take its time over the memory of a server that was killed a moment ago, and one that was being
        // started then may show itself only now.
        while let Start::Ended(reason) = &start
            && [SEGMENT_IN_USE, IN_THE_WAY].iter().any(|words| reason.contains(words))
            && began.elapsed() < LEFTOVER_PATIENCE
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
            parts.clear().await?;
            run = parts.launch().await?;
            start = run.until_ready(&parts.owner, start_timeout).await;
        }
        let log = parts.layout.log.clone();
        let failed = match start {
            Start::Ready => None,
            Start::Ended(reason) => Some(ClusterError::Exited { reason, log: log.clone() }),
            Start::Refused(said) => Some(ClusterError::OwnerRefused { path: parts.spec.cluster.clone(), said }),
            Start::Slow(reason) => {
                Some(ClusterError::StartTimeout { seconds: start_timeout.as_secs(), reason, log: log.clone() })
            }
        };
        let cluster = Self {
            binaries,
            run_as: parts.spec.run_as.clone(),
            cluster_dir: parts.spec.cluster.clone(),
            socket_dir: parts.spec.socket_dir.clone(),
            log,
            stop,
            state,
            closer,
        };
        let supervisor = Supervisor::new(parts, state_tx, stop_rx);
        match failed {
            None => {
                tracing::info!(ms = began.elapsed().as_millis(), "the embedded database is up");
                task::spawn(task::Kind::Actor, "postgres supervisor", supervisor.watch_over(run));
                Ok(cluster)
            }
            Some(error) => {
                supervisor.give_up(run).await;
                Err(error)
            }
        }
    }

    /// The server's state, and a way to wait for the next.
    pub fn state(&self) -> watch::Receiver<ClusterState> {
        self.state.clone()
    }

    /// Shuts the server down and waits until it is gone: open transactions are rolled back and sessions ended at once
    /// (SIGINT); after `timeout` without writing a checkpoint (SIGQUIT); 5 s later by force. Twice is harmless.
    pub async fn stop(&self, timeout: Duration) {
        self.stop.send_replace(Some(timeout));
        let mut state = self.state.clone();
        // An error means that the supervisor is gone, and then so is the server, or its end is on its way.
        let _ = state.wait_for(|state| *state == ClusterState::Stopped).await;
    }

    /// How `user` connects: through the socket, to the database `postgres` unless the caller says another.
    pub fn connect_config(&self, user: &str, password: &Secret<String>) -> tokio_postgres::Config {
        socket_config(&self.socket_dir, user, password)
    }

    /// Which PostgreSQL runs, and where it came from.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// As whom it runs.
    pub fn run_as(&self) -> &RunAs {
        &self.run_as
    }

    /// PostgreSQL's own directory.
    pub fn cluster_dir(&self) -> &Path {
        &self.cluster_dir
    }

    /// What `psql -h` takes.
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The server's log; the older half is beside it as `….1`.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Process id of the server, if one runs at this moment.
    pub fn pid(&self) -> Option<i32> {
        self.closer.0.pid()
    }
}

/// How a user connects through the socket in `socket_dir`. For a process that is not the daemon, too.
pub fn socket_config(socket_dir: &Path, user: &str, password: &Secret<String>) -> tokio_postgres::Config {
    let mut config = tokio_postgres::Config::new();
    config.host_path(socket_dir).port(PORT).user(user).password(password.expose()).dbname("postgres");
    config.application_name("butlerd").connect_timeout(Duration::from_secs(10));
    config
}

/// Whether there is a cluster in `data_dir`, running or not.
pub fn exists(data_dir: &Path) -> bool {
    data_dir.join("postgres/PG_VERSION").exists()
}

/// The socket's directory of the server that another process runs for `data_dir`, if one does. What a killed one left
/// does not count: a start clears it.
pub fn running(data_dir: &Path) -> Option<PathBuf> {
    leftover::running(&data_dir.join("postgres")).filter(|_| layout::is_locked(data_dir))
}

struct Prepared {
    layout: Layout,
    lock: File,
    binaries: Binaries,
    spec: ServerSpec,
}

/// Everything before the server starts. Blocks.
fn prepare(options: &ClusterOptions) -> Result<Prepared, ClusterError> {
    let layout = Layout::open(&options.data_dir)?;
    let lock = layout.lock()?;
    let found = layout.examine()?;
    let (major, owner) = match found {
        Found::Nothing => (None, None),
        Found::Cluster { major, owner } => (Some(major), Some(owner)),
    };
    let run_as = RunAs::choose(owner)?;
    run_as.check_reach(&layout.data_dir, "the data directory")?;
    let refused =
        |other: OtherMajor| ClusterError::OtherMajor(OtherMajor { cluster: Some(layout.cluster.clone()), ..other });
    let binaries = Binaries::find_for(&run_as, options.pg_bin.as_deref(), major, &options.bundle);
    let binaries = binaries.map_err(|error| match error {
        ClusterError::OtherMajor(other) => refused(other),
        error => error,
    })?;
    if let Some(wanted) = major.filter(|major| *major != binaries.version.0) {
        return Err(refused(OtherMajor { cluster: None, wanted, available: Some(binaries) }));
    }
    let socket_dir = layout.socket_dir(&run_as)?;
    initdb::clean_up(&layout)?;
    match found {
        Found::Nothing => initdb::create(&layout, &binaries, &run_as, &options.owner_password)?,
        Found::Cluster { owner, .. } => {
            if run_as.switch && owner == 0 {
                run_as.own_tree(&layout.cluster)?;
            }
            layout::set_mode(&layout.cluster, 0o700)?;
            leftover::clear(&layout.cluster, &socket_dir)?;
        }
    }
    let spec = ServerSpec {
        program: binaries.postgres(),
        run_as,
        cluster: layout.cluster.clone(),
        socket_dir,
        max_connections: options.max_connections,
        max_locks: options.max_locks,
        shared_buffers: options.shared_buffers,
        log: Arc::new(Mutex::new(log::LogFile::new(&layout.log))),
    };
    Ok(Prepared { layout, lock, binaries, spec })
}

/// Shuts the server down when the last owner of a [`Cluster`] lets go of it, whether or not a runtime is left that
/// could do it in good order.
struct Closer(Arc<Slot>);

impl std::fmt::Debug for Closer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Closer").field(&self.0.pid()).finish()
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
        if self.0.pid().is_none() {
            return;
        }
        let slot = self.0.clone();
        // Nobody waits for this thread: should the process end first, the death signal does the rest.
        let _ = std::thread::Builder::new().name("butlerd-pg-close".into()).spawn(move || {
            for (patience, signal) in
                [(supervise::DROP_PATIENCE, libc::SIGQUIT), (supervise::QUIT_PATIENCE, libc::SIGKILL)]
            {
                let give_up = Instant::now() + patience;
                while slot.pid().is_some() {
                    if Instant::now() >= give_up {
                        slot.signal(signal);
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
    }
}
