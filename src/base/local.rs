//! Sockets by which programs of this machine's users ask the daemon: a Unix socket, one line each way. Blocking, without a
//! runtime: most programs that use it are there for ten milliseconds.

use std::ffi::OsString;
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Most bytes of a line, its end included.
pub const MAX_LINE: usize = 32 << 20;

/// Why the daemon did nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For programs: `invalid_arguments`, `not_found`, `unavailable`, …
    pub code: String,
    /// For people: what happened and what to do.
    pub message: String,
}

/// Why nothing was done, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Nobody listens at any of these.
    #[error("no daemon answers at {}", .tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
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
pub struct LocalConnection {
    path: PathBuf,
    within: Duration,
    stream: Option<UnixStream>,
}

impl LocalConnection {
    /// Connects to the first of these that somebody listens at. Each question is answered `within` this time, or lost.
    pub fn open_first(tried: Vec<PathBuf>, within: Duration) -> Result<Self, ConnectionError> {
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

    /// Which socket it is connected to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How long the questions from here on may take.
    pub fn answer_within(&mut self, within: Duration) {
        self.within = within;
    }

    /// Sends a line and returns the answer's, each without its end.
    pub fn exchange(&mut self, mut line: Vec<u8>) -> Result<Vec<u8>, ConnectionError> {
        line.push(b'\n');
        if line.len() > MAX_LINE {
            let message = format!("the daemon takes {MAX_LINE} bytes at once, and these are {}", line.len());
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
        self.stream = Some(stream);
        Ok(answer)
    }
}

/// The data directory of the system's daemon, whose sockets are in `/run/butlerd`.
pub const SYSTEM_DATA_DIR: &str = "/var/lib/butlerd";

/// Where a client looks for a socket: what the environment variable `named` says; else what may be that of the daemon with
/// this data directory, if one is given; else the runtime directory's, `/run/butlerd`, the usual data directory's. Whoever
/// means one daemon never reaches another.
pub fn candidates(named: &str, socket: &str, data_dir: Option<&Path>) -> Vec<PathBuf> {
    candidates_of(named, socket, data_dir, |name| std::env::var_os(name))
}

/// As [`candidates`], in another environment.
pub fn candidates_of(
    named: &str,
    socket: &str,
    data_dir: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<PathBuf> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = variable(named) {
        return vec![path];
    }
    let data_home = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
    let own = data_home.map(|directory| directory.join("butlerd"));
    let is_named = |usual: &Path| data_dir.is_none_or(|directory| directory == usual);
    // A daemon that has a runtime directory has its sockets there: the system's, and one of the user's own.
    let runtime = own.as_deref().filter(|own| is_named(own)).and_then(|_| variable("XDG_RUNTIME_DIR"));
    let directories = [
        data_dir.map(|directory| directory.join("run")),
        runtime.map(|directory| directory.join("butlerd")),
        is_named(Path::new(SYSTEM_DATA_DIR)).then(|| PathBuf::from("/run/butlerd")),
        own.filter(|own| is_named(own)).map(|directory| directory.join("run")),
    ];
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in directories.into_iter().flatten().map(|directory| directory.join(socket)) {
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
