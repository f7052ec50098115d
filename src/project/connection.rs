//! The way to the daemon: a Unix socket, one line each way. Blocking, without a runtime: most programs that use it are
//! there for ten milliseconds.

use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use uuid::Uuid;

use crate::place::ProjectPlace;
use crate::wire::{Answer, MAX_LINE, Refusal, Request};

/// The variable that names the socket where it is none of the usual ones.
pub const SOCKET_VARIABLE: &str = "BUTLERD_PROJECT_SOCKET";

/// What the socket is called in each of the usual directories.
const SOCKET: &str = "project.sock";

/// Why nothing was done, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Nobody listens at any of these.
    #[error("butlerd does not answer at {}", .tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    Away { tried: Vec<PathBuf> },
    /// The socket is there, and this user may not open it.
    #[error("{path} is closed to this user: {source}")]
    Closed { path: PathBuf, source: std::io::Error },
    /// It took too long, or the connection ended in the middle: what was asked may have been done.
    #[error("no answer came: {0}")]
    Lost(std::io::Error),
    #[error("the answer can't be read: {0}")]
    Foreign(String),
    #[error(transparent)]
    Refused(Refusal),
}

impl ConnectionError {
    /// Whether there is nobody to ask, so that surely nothing was done.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. })
    }
}

/// An open connection. After a failure the next question opens another one at the same place.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    within: Duration,
    stream: Option<UnixStream>,
}

impl Connection {
    /// Connects to the first of these that somebody listens at: what [`SOCKET_VARIABLE`] says (then only that), the
    /// socket of a daemon with this data directory if one is given, the runtime directory's, `/run/butlerd`, the usual
    /// data directory's. Each question is answered `within` this time, or lost.
    pub fn open(data_dir: Option<&Path>, within: Duration) -> Result<Self, ConnectionError> {
        Self::open_first(candidates(data_dir), within)
    }

    fn open_first(tried: Vec<PathBuf>, within: Duration) -> Result<Self, ConnectionError> {
        let mut closed = None;
        for path in &tried {
            match connect(path) {
                Ok(stream) => return Ok(Self { path: path.clone(), within, stream: Some(stream) }),
                // Another daemon may be open to this user.
                Err(error @ ConnectionError::Closed { .. }) => closed = closed.or(Some(error)),
                Err(_) => {}
            }
        }
        Err(closed.unwrap_or(ConnectionError::Away { tried }))
    }

    /// Asks for one thing. `op` is a tool's name or another operation; `args` an object. Returns its result and the
    /// project that it was done to.
    pub fn ask(&mut self, place: &ProjectPlace, op: &str, args: Value) -> Result<(Uuid, Value), ConnectionError> {
        let request =
            Request { op: op.to_owned(), project: place.identity.clone(), branch: place.branch.clone(), args };
        let mut line = serde_json::to_vec(&request).map_err(|error| ConnectionError::Foreign(error.to_string()))?;
        line.push(b'\n');
        if line.len() > MAX_LINE {
            let message = format!("{op} takes {MAX_LINE} bytes at once, and these are {}", line.len());
            return Err(ConnectionError::Refused(Refusal { code: "too_long".to_owned(), message }));
        }
        // It is put back once it is known where in the conversation it is.
        let mut stream = match self.stream.take().filter(is_quiet) {
            Some(stream) => stream,
            None => connect(&self.path)?,
        };
        let until = Instant::now() + self.within;
        send(&mut stream, &line, until).map_err(ConnectionError::Lost)?;
        let answer = receive(&mut stream, until)?;
        let answer = serde_json::from_slice(&answer).map_err(|error| ConnectionError::Foreign(error.to_string()))?;
        self.stream = Some(stream);
        match answer {
            Answer::Done { project, result } => Ok((project, result)),
            Answer::Refused(refusal) => Err(ConnectionError::Refused(refusal)),
        }
    }
}

/// The socket at which this user is answered: `named`, where the settings name one, else the first of [`candidates`].
pub fn reachable(data_dir: Option<&Path>, named: Option<&Path>) -> Result<PathBuf, ConnectionError> {
    let tried = named.map_or_else(|| candidates(data_dir), |path| vec![path.to_owned()]);
    Connection::open_first(tried, Duration::ZERO).map(|connection| connection.path)
}

/// Where a client looks for the socket, in this order.
pub fn candidates(data_dir: Option<&Path>) -> Vec<PathBuf> {
    candidates_of(data_dir, |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn candidates_of(data_dir: Option<&Path>, variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(path) = variable(SOCKET_VARIABLE) {
        return vec![path];
    }
    let data_home = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
    let directories = [
        data_dir.map(|directory| directory.join("run")),
        variable("XDG_RUNTIME_DIR").map(|directory| directory.join("butlerd")),
        Some(PathBuf::from("/run/butlerd")),
        data_home.map(|directory| directory.join("butlerd/run")),
    ];
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in directories.into_iter().flatten().map(|directory| directory.join(SOCKET)) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

fn connect(path: &Path) -> Result<UnixStream, ConnectionError> {
    UnixStream::connect(path).map_err(|source| match source.kind() {
        ErrorKind::PermissionDenied => ConnectionError::Closed { path: path.to_owned(), source },
        _ => ConnectionError::Away { tried: vec![path.to_owned()] },
    })
}

/// Whether a connection is still there and nothing waits in it: a daemon that was started anew has closed it, and what
/// is asked then is better asked of the new one.
fn is_quiet(stream: &UnixStream) -> bool {
    let look = || {
        stream.set_nonblocking(true)?;
        let read = (&*stream).read(&mut [0]);
        stream.set_nonblocking(false)?;
        read
    };
    look().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn remaining(until: Instant) -> std::io::Result<Option<Duration>> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(too_late()) } else { Ok(Some(left)) }
}

fn too_late() -> Error {
    Error::new(ErrorKind::TimedOut, "butlerd took too long")
}

/// What one call to the system did; `None`: it is to be made again.
fn done(outcome: std::io::Result<usize>) -> std::io::Result<Option<usize>> {
    match outcome {
        Ok(0) => Err(Error::new(ErrorKind::UnexpectedEof, "butlerd closed the connection")),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(too_late()),
        Err(error) => Err(error),
    }
}

fn send(stream: &mut UnixStream, mut line: &[u8], until: Instant) -> std::io::Result<()> {
    while !line.is_empty() {
        stream.set_write_timeout(remaining(until)?)?;
        if let Some(bytes) = done(stream.write(line))? {
            line = &line[bytes..];
        }
    }
    Ok(())
}

/// A line, without its end.
fn receive(stream: &mut UnixStream, until: Instant) -> Result<Vec<u8>, ConnectionError> {
    let mut line = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        let left = remaining(until).and_then(|left| stream.set_read_timeout(left));
        let read = left.and_then(|()| done(stream.read(&mut part))).map_err(ConnectionError::Lost)?;
        let Some(bytes) = read else { continue };
        let new = &part[..bytes];
        match new.iter().position(|byte| *byte == b'\n') {
            Some(end) if end + 1 == bytes => {
                line.extend_from_slice(&new[..end]);
                return Ok(line);
            }
            Some(_) => return Err(ConnectionError::Foreign("more than one line came".to_owned())),
            None => line.extend_from_slice(new),
        }
        if line.len() >= MAX_LINE {
            return Err(ConnectionError::Foreign(format!("it has more than {MAX_LINE} bytes")));
        }
    }
}

#[cfg(test)]
mod tests;
