//! Who a process is, for longer than its pid is its own.

use std::fmt;

use base::SessionId;

use super::limits::hard_limit;
use super::proc;

/// A process, told apart from every other that ever had its pid.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    /// Also the id of its session and process group, if it is a child of ours.
    pub pid: i32,
    /// Start time in clock ticks since boot: field 22 of `/proc/<pid>/stat`.
    pub started: u64,
    /// The boot in which pid and start time were given; `None` where the kernel doesn't tell.
    pub boot_id: Option<String>,
}

impl Identity {
    /// Of the running process `pid`; `None` if there is none.
    pub fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, started: proc::stat(pid)?.started, boot_id: boot_id() })
    }

    /// Whether this boot is the one that gave the pid.
    pub(super) fn of_this_boot(&self) -> bool {
        self.boot_id.is_none() || self.boot_id == boot_id()
    }
}

/// The id of this boot, as the kernel prints it.
pub fn boot_id() -> Option<String> {
    Some(std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// The number that all processes of one session carry as their limit of file locks.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark(pub(super) u64);

/// Keeps marks far above any limit that somebody would set in earnest, and below "unlimited".
const MARK_BIT: u64 = 1 << 61;

impl Mark {
    /// Made of the 61 lowest bits of the id, which are random.
    pub fn of(session: SessionId) -> Self {
        Self((session.0.as_u128() as u64) & (MARK_BIT - 1) | MARK_BIT)
    }

    /// Whether the kernel lets this process mark its children. A finite limit, inherited from whoever started the
    /// daemon, may forbid it; then only the process tree and the session's group are left to find strays by.
    pub fn available() -> bool {
        hard_limit(libc::RLIMIT_LOCKS as _).is_some_and(|hard| hard >= MARK_BIT << 1)
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// How a process ended: exactly one of the two is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExitInfo {
    /// The exit status, 0 to 255.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

impl fmt::Display for ExitInfo {
    /// `exit 1` or `SIGKILL`: also the form in which it stands in a session's row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit {code}"),
            (None, Some(signal)) => match nix::sys::signal::Signal::try_from(signal) {
                Ok(named) => f.write_str(named.as_str()),
                Err(_) => write!(f, "signal {signal}"),
            },
            (None, None) => f.write_str("unknown"),
        }
    }
}
