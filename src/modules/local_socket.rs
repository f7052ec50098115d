//! Unix sockets at which programs of this machine's users ask: one request a line, one answer a line.
//!
//! The kernel says who connects, and the socket's mode says who may: the user that the daemon runs as, and the members
//! of a group where the settings name one. Nothing else is asked of a client, as with the daemon's own operator token,
//! which that user can read.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base::local::{MAX_LINE, Refusal};
use base::task;
use serde::Serialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::background::{Background, TaskError};

/// So many programs are served at once; more wait.
const MOST_CONNECTIONS: usize = 128;
/// Who has no request for so long is let go.
const IDLE: Duration = Duration::from_secs(60);

/// An answer on its way.
pub(super) struct Reply {
    json: serde_json::Result<Vec<u8>>,
    /// What is done once it was sent, and so delays nobody.
    after: Option<After>,
}

impl Reply {
    pub fn new(answer: &impl Serialize) -> Self {
        Self { json: serde_json::to_vec(answer), after: None }
    }

    /// A refusal as all clients read it.
    pub fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::new(&json!({"refused": Refusal { code: code.to_owned(), message: message.into() }}))
    }

    /// With something to do once it was sent.
    pub fn then(self, after: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { after: Some(Box::pin(after)), ..self }
    }
}

/// Whoever answers at a socket.
#[async_trait]
pub(super) trait Answers: Send + Sync + 'static {
    /// The answer to a line, without its end. `peer`: the user who asks, as `uid:N`.
    async fn answer(&self, line: &[u8], peer: &str) -> Reply;
}

/// A socket, and who answers there.
pub(super) struct LocalSocket {
    pub path: PathBuf,
    pub group: Option<String>,
    /// What is there to be asked for, for the log.
    pub what: &'static str,
    pub answers: Arc<dyn Answers>,
}

/// Where a socket stands if nobody says where.
pub(super) fn usual_path(data_dir: &Path, socket: &str) -> PathBuf {
    match std::env::var_os("RUNTIME_DIRECTORY").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join(socket),
        None => data_dir.join("run").join(socket),
    }
}

/// The group of this name.
pub(super) fn group_of(name: &str) -> io::Result<nix::unistd::Gid> {
    let group = nix::unistd::Group::from_name(name).map_err(io::Error::from)?;
    group.map(|group| group.gid).ok_or_else(|| io::Error::other(format!("there is no group {name}")))
}

#[async_trait]
impl Background for LocalSocket {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        let listener =
            self.listen().map_err(|e| TaskError(format!("nobody can ask at {}: {e}", self.path.display())))?;
        tracing::info!(socket = %self.path.display(), "programs of this machine's users may ask for {}", self.what);
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let Some(place) = stop.run_until_cancelled(places.clone().acquire_owned()).await else { break };
            let place = place.map_err(|e| TaskError(e.to_string()))?;
            let Some(accepted) = stop.run_until_cancelled(listener.accept()).await else { break };
            let Ok((stream, _)) = accepted.inspect_err(|e| tracing::warn!(error = %e, "a connection was not accepted"))
            else {
                // Out of descriptors: others must end first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (answers, stop) = (self.answers.clone(), stop.clone());
            task::spawn(task::Kind::Request, "local-request", async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    served = serve(stream, &*answers) => {
                        if let Err(e) = served {
                            tracing::debug!(error = %e, "a program left");
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

impl LocalSocket {
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
                nix::unistd::chown(&self.path, None, Some(group_of(name)?)).map_err(io::Error::from)?;
                0o660
            }
        };
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode))?;
        Ok(listener)
    }
}

/// Answers a program until it leaves.
async fn serve(stream: UnixStream, answers: &dyn Answers) -> io::Result<()> {
    let peer = format!("uid:{}", stream.peer_cred()?.uid());
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
            let why = format!("The request is longer than {MAX_LINE} bytes. Send it in parts.");
            send(&mut writer, Reply::refused("too_large", why)).await?;
            return Ok(());
        }
        let reply = answers.answer(&line, &peer).await;
        if let Some(after) = send(&mut writer, reply).await? {
            after.await;
        }
    }
}

type After = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn send(writer: &mut (impl AsyncWriteExt + Unpin), Reply { json, after }: Reply) -> io::Result<Option<After>> {
    let mut line = json?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    Ok(after)
}
