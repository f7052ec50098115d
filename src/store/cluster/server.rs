//! One run of the server process: its command line, its start, its readiness, its end.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

use super::log::{self, LogFile, ServerOutput};
use super::process::{self, Death, PostgresThread, Slot};
use super::user::RunAs;
use super::{ClusterError, PORT, layout};
use base::{ByteSize, crash, task};

/// Everything that a start of the server needs; the same for every restart.
pub(super) struct ServerSpec {
    pub program: PathBuf,
    pub run_as: RunAs,
    pub cluster: PathBuf,
    pub socket_dir: PathBuf,
    pub max_connections: u32,
    pub max_locks: Option<u32>,
    pub shared_buffers: ByteSize,
    pub log: Arc<Mutex<LogFile>>,
}

impl ServerSpec {
    /// The server's arguments. What stands here wins over `postgresql.conf` and `ALTER SYSTEM`; the settings that
    /// durability hangs on (fsync, synchronous_commit, full_page_writes) are left alone. No secret is among them.
    fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["-D".into(), self.cluster.clone().into()];
        let mut set = |name: &str, value: OsString| {
            let mut setting = OsString::from(format!("{name}="));
            setting.push(value);
            args.extend(["-c".into(), setting]);
        };
        set("listen_addresses", "".into());
        set("port", PORT.to_string().into());
        set("unix_socket_directories", layout::quoted_dir(&self.socket_dir));
        set("unix_socket_permissions", "0700".into());
        set("max_connections", self.max_connections.to_string().into());
        if let Some(locks) = self.max_locks {
            set("max_locks_per_transaction", locks.to_string().into());
        }
        set("shared_buffers", format!("{}kB", self.shared_buffers.0 / 1024).into());
        // One line each, on standard error, in English, with the prefix that `log` reads.
        set("log_destination", "stderr".into());
        set("logging_collector", "off".into());
        set("log_line_prefix", log::LINE_PREFIX.into());
        set("lc_messages", "C".into());
        set("log_timezone", "UTC".into());
        // Failing statements keep their text to themselves: it may hold what nobody should find in a log.
        set("log_min_error_statement", "panic".into());
        // Small queries only: compiling them costs more than it saves, and not every build can.
        set("jit", "off".into());
        set("cluster_name", "butlerd".into());
        args
    }

    fn spawn(&self) -> Result<std::process::Child, ClusterError> {
        let mut command = process::command(&self.program, &self.run_as, Death::FastShutdown);
        command.args(self.args()).stdout(Stdio::null()).stderr(Stdio::piped());
        crash::point("cluster.spawn");
        command.spawn().map_err(|source| ClusterError::Spawn { program: self.program.clone(), source })
    }
}

/// How a run ended, in words.
pub(super) type End = String;

/// A server process that was started.
pub(super) struct Run {
    heard: Arc<ServerOutput>,
    end: oneshot::Receiver<End>,
    ended: Option<End>,
}

/// How a start went.
pub(super) enum Start {
    Ready,
    Ended(End),
    /// It runs, but does not let its owner in; what it said.
    Refused(String),
    /// Still not ready; what was the last answer.
    Slow(String),
}

/// After its postmaster is gone the stream of a server is read on for so long, for its last words.
const LAST_WORDS_PATIENCE: Duration = Duration::from_millis(300);

impl Run {
    /// Starts the server on the keeper's thread, which from then on waits for its end.
    /// `lock` is held until then.
    pub async fn launch(
        postgres_thread: &PostgresThread,
        spec: Arc<ServerSpec>,
        slot: Arc<Slot>,
        lock: Option<Arc<File>>,
    ) -> Result<Self, ClusterError> {
        let heard = Arc::new(ServerOutput::default());
        let (started, start) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let listener = heard.clone();
        postgres_thread.order(move || {
            let mut child = match spec.spawn() {
                Ok(child) => child,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return;
                }
            };
            slot.fill(child.id());
            let stderr = child.stderr.take();
            let words = stderr.map(|s| log::listen_in_background(listener.clone(), s, spec.log.clone(), child.id()));
            let _ = started.send(Ok(()));
            crash::point("cluster.started");
            let status = slot.wait(&mut child);
            if let Some(Ok(words)) = words {
                let _ = words.recv_timeout(LAST_WORDS_PATIENCE);
            }
            drop(lock);
            let _ = ended.send(describe(status, listener.last_words()));
        })?;
        start.await.map_err(|_| ClusterError::ThreadGone)??;
        Ok(Self { heard, end, ended: None })
    }

    /// Waits for the end of the process; asked again, it says the same again. Cancel safe.
    pub async fn ended(&mut self) -> End {
        if self.ended.is_none() {
            let end = (&mut self.end).await;
            self.ended = Some(end.unwrap_or_else(|_| "its thread is gone".into()));
        }
        self.ended.clone().unwrap_or_default()
    }

    /// Waits until the server lets its owner in, or has ended, or `patience` is over. Recovery after a crash counts as
    /// starting. Cancel safe.
    pub async fn until_ready(&mut self, owner: &tokio_postgres::Config, patience: Duration) -> Start {
        let give_up = Instant::now() + patience;
        let mut pause = Duration::from_millis(2);
        let heard = self.heard.clone();
        let mut answer = String::from("no answer");
        loop {
            match probe(owner).await {
                Probe::Ready => return Start::Ready,
                Probe::Refused(said) => return Start::Refused(said),
                Probe::NotYet(why) => answer = why,
                Probe::Silent => {}
            }
            if Instant::now() >= give_up {
                return Start::Slow(heard.last_words().unwrap_or(answer));
            }
            tokio::select! {
                end = self.ended() => return Start::Ended(end),
                () = heard.ready.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            // Each try costs a server in recovery a process, so they get rarer; "ready" in the log cuts a pause short.
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }
}

enum Probe {
    Ready,
    Refused(String),
    /// The server says that it's not ready.
    NotYet(String),
    /// Nobody listens yet.
    Silent,
}

/// Longer than this a local server does not take to let somebody in.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

async fn probe(owner: &tokio_postgres::Config) -> Probe {
    let connecting = tokio::time::timeout(PROBE_PATIENCE, owner.connect(tokio_postgres::NoTls));
    let error = match connecting.await {
        Ok(Ok((client, connection))) => {
            // Says goodbye properly, in the background.
            drop(client);
            task::spawn(task::Kind::Job, "postgres probe", connection);
            return Probe::Ready;
        }
        Ok(Err(error)) => error,
        Err(_) => return Probe::NotYet("a connection takes too long".into()),
    };
    let Some(answer) = error.as_db_error() else { return Probe::Silent };
    let (code, said) = (answer.code(), answer.message().to_owned());
    if *code == SqlState::INVALID_PASSWORD || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
        Probe::Refused(said)
    } else if *code == SqlState::TOO_MANY_CONNECTIONS {
        // It is up, and busy with others.
        Probe::Ready
    } else {
        Probe::NotYet(said)
    }
}

fn describe(status: std::io::Result<ExitStatus>, words: Option<String>) -> End {
    let status = match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("unknown exit: {error}"),
    };
    match words {
        Some(words) => format!("{status}: {words}"),
        None => status,
    }
}
