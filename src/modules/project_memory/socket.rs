//! The socket that developers' programs ask at: one request a line, one answer a line.
//!
//! The kernel says who connects, and the socket's mode says who may: the user that the daemon runs as, and the members
//! of a group where the settings name one. Nothing else is asked of a client, as with the daemon's own operator token,
//! which that user can read.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory::write::WriteError;
use project::wire::{Answer, MAX_LINE, Refusal, Request};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::request::{Caller, ProjectMemory};
use crate::background::{Background, TaskError};
use base::{Clock, RequestContext, TenantId, Trust, task};

/// So many programs are served at once; more wait.
const MOST_CONNECTIONS: usize = 128;
/// Who has no request for so long is let go.
const IDLE: Duration = Duration::from_secs(60);
/// As requests and events name it.
const CHANNEL: &str = "project";

/// The socket of a butler's project memory.
pub(super) struct Socket {
    pub memory: Arc<ProjectMemory>,
    pub clock: Clock,
    pub path: PathBuf,
    pub group: Option<String>,
}

/// Where the socket stands if nobody says where.
pub(super) fn usual_path(data_dir: &Path) -> PathBuf {
    match std::env::var_os("RUNTIME_DIRECTORY").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("project.sock"),
        None => data_dir.join("run").join("project.sock"),
    }
}

#[async_trait]
impl Background for Socket {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        let listener =
            self.listen().map_err(|e| TaskError(format!("nobody can ask at {}: {e}", self.path.display())))?;
        tracing::info!(socket = %self.path.display(), "developers' programs may ask for the memory of projects");
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let place = tokio::select! {
                () = stop.cancelled() => break,
                place = places.clone().acquire_owned() => place.map_err(|e| TaskError(e.to_string()))?,
            };
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted.inspect_err(|e| tracing::warn!(error = %e, "a connection was not accepted"))
            else {
                // Out of descriptors: others must end first.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            };
            let (memory, clock, stop) = (self.memory.clone(), self.clock.clone(), stop.clone());
            task::spawn(task::Kind::Request, "project-request", async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    served = serve(stream, &memory, &clock) => {
                        if let Err(e) = served {
                            tracing::debug!(error = %e, "a developer's program left");
                        }
                    }
                }
                drop(place);
            });
        }
        // The next start makes it again; clients see at once that nobody is here.
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}

impl Socket {
    fn listen(&self) -> io::Result<UnixListener> {
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        match std::fs::symlink_metadata(&self.path) {
            // What an earlier daemon left; one that lives holds the data directory's lock, so it is none of ours.
            Ok(there) if there.file_type().is_socket() => {
                if std::os::unix::net::UnixStream::connect(&self.path).is_ok() {
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, "another daemon answers there"));
                }
                std::fs::remove_file(&self.path)?;
            }
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is there")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let listener = UnixListener::bind(&self.path)?;
        let mode = match &self.group {
            None => 0o600,
            Some(name) => {
                let group = nix::unistd::Group::from_name(name).map_err(io::Error::from)?;
                let group = group.ok_or_else(|| io::Error::other(format!("there is no group {name}")))?;
                nix::unistd::chown(&self.path, None, Some(group.gid)).map_err(io::Error::from)?;
                0o660
            }
        };
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode))?;
        Ok(listener)
    }
}

/// Answers a program until it leaves.
async fn serve(stream: UnixStream, memory: &ProjectMemory, clock: &Clock) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    let sender = format!("uid:{}", peer.uid());
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut reader).take(MAX_LINE as u64 + 1);
        let read = tokio::time::timeout(IDLE, bounded.read_until(b'\n', &mut line));
        // Who says nothing for long makes room for others, and connects anew.
        let Ok(read) = read.await else { return Ok(()) };
        if read? == 0 {
            return Ok(());
        }
        if line.len() > MAX_LINE {
            let why = format!("The request is longer than {MAX_LINE} bytes. Send an import in parts.");
            return answer(&mut writer, &refused("too_large", why)).await;
        }
        let request = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => request,
            Err(e) => {
                let why = format!("The request can't be read: {e}.");
                answer(&mut writer, &refused("invalid_request", why)).await?;
                continue;
            }
        };
        // A repository's text may come from anywhere, and so may what a session says of it.
        let context = RequestContext::root(clock, TenantId::owner(), CHANNEL, CHANNEL, &sender, Trust::Stranger);
        let answered = ask(memory, &context, &request).await;
        answer(&mut writer, &answered).await?;
        if let Answer::Done { result, .. } = &answered {
            memory.used(&context, &request.op, result).await;
        }
    }
}

async fn ask(memory: &ProjectMemory, context: &RequestContext, request: &Request) -> Answer {
    let caller = Caller::Program(context);
    match memory.run(caller, &request.op, &request.project, request.branch.as_deref(), &request.args).await {
        Ok((project, result)) => Answer::Done { project, result },
        Err(WriteError::Refused { code, message }) => refused(code, message),
        Err(WriteError::Store(e)) => {
            tracing::warn!(op = request.op, error = %e, "a project's memory was asked in vain");
            refused(
                "unavailable",
                "The memory can't be reached right now; nothing was done. `butlerd status` says why.".to_owned(),
            )
        }
    }
}

fn refused(code: &str, message: String) -> Answer {
    Answer::Refused(Refusal { code: code.to_owned(), message })
}

async fn answer(writer: &mut (impl AsyncWriteExt + Unpin), answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    writer.write_all(&line).await
}
