//! The sandbox of a session's child: Landlock for files, TCP ports, signals and abstract sockets; seccomp for what
//! Landlock does not see. Both hold for everything the child starts, and can't be taken off.
//!
//! Everything is prepared by the daemon, because between fork and exec a child may only make system calls. What it
//! starts with is closed; what it needs is opened: the system's libraries, its program, its workspace, two ports.
//!
//! What stays open is said by [`Kernel::report`], to the log and to `doctor`.

mod landlock;
mod program;
mod seccomp;
mod system;

use std::io;
use std::path::{Path, PathBuf};

use self::landlock::{PORTS_SINCE, Ruleset, SCOPES_SINCE};
use self::program::Chain;
use self::seccomp::{Filter, Leave};
use super::ChildError;

/// What one child may reach, beside what every program needs. Relative paths mean nothing here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sandbox {
    /// To read: files, and directories with all below. What is not there is passed over.
    pub read: Vec<PathBuf>,
    /// To read and execute, likewise.
    pub execute: Vec<PathBuf>,
    /// To read and write with all below, and not to execute. They must be there.
    pub write: Vec<PathBuf>,
    /// To read with all below, although what is never read may hold it: what was made for this child. It must be there.
    pub own: Vec<PathBuf>,
    /// To read and execute, likewise. Nothing that is written may hold one of these.
    pub scripts: Vec<PathBuf>,
    /// Never to be read, whatever stands above: nothing that holds one of these, or lies in one, is opened for reading.
    /// Absolute, links resolved.
    pub never: Vec<PathBuf>,
    /// TCP ports that it may connect to. The kernel knows the port only: the host may be any.
    pub connect: Vec<u16>,
    /// It finds hosts by name: files about the network, and UDP.
    pub names: bool,
    /// It runs other programs of the system: shell, interpreters, tools.
    pub programs: bool,
    /// Start nothing where the kernel can't enforce this.
    pub required: bool,
}

/// What this kernel can enforce.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// The version of Landlock's interface, if there is Landlock.
    pub landlock: Option<u32>,
    pub seccomp: bool,
}

/// One line of what is on or off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Whether it is as it should be.
    pub on: bool,
    pub text: String,
}

impl Kernel {
    /// Asks the kernel. Restricts nothing.
    pub fn here() -> Self {
        Self { landlock: landlock::abi(), seccomp: seccomp::available() }
    }

    /// Whether files, TCP ports and system calls can all be restricted.
    pub fn is_enough(self) -> bool {
        self.landlock.is_some_and(|abi| abi >= PORTS_SINCE) && self.seccomp
    }

    /// What holds for children on this kernel, for people. `own_user`: children run as the daemon's own user.
    pub fn report(self, own_user: bool) -> Vec<Line> {
        let line = |on, text: String| Line { on, text };
        let landlock = match self.landlock {
            Some(abi) if abi >= SCOPES_SINCE => {
                line(true, format!("Landlock on (interface {abi}): files, TCP ports, signals"))
            }
            Some(abi) if abi >= PORTS_SINCE => line(
                !own_user,
                format!(
                    "Landlock on (interface {abi}): files, TCP ports; signals to the same user's processes need Linux 6.12"
                ),
            ),
            Some(abi) => line(
                false,
                format!("Landlock on for files (interface {abi}); TCP ports need Linux 6.7, signals Linux 6.12"),
            ),
            None if own_user => {
                let what =
                    "Landlock off: sessions run as butlerd's own user and can read all that it can, the master key too";
                line(false, what.to_owned())
            }
            None => line(
                false,
                "Landlock off: sessions can read what any user of this machine can, and connect anywhere".to_owned(),
            ),
        };
        let seccomp = match self.seccomp {
            true => line(true, "seccomp on: TCP sockets only, no debugging of others, no namespaces".to_owned()),
            false => line(false, "seccomp off: Unix sockets, UDP and MPTCP are open to sessions".to_owned()),
        };
        let mut open =
            "not covered: other hosts on the port of a session's model; names, sizes and times of files".to_owned();
        if own_user {
            open.push_str("; priorities of the same user's processes");
        }
        vec![landlock, seccomp, line(true, open)]
    }
}

/// What a child puts on before its program starts.
pub(super) struct SandboxPolicy {
    ruleset: Option<Ruleset>,
    filter: Option<Filter>,
}

impl SandboxPolicy {
    /// For a child that runs `program` with this PATH; `own_user`: as the daemon's own user.
    pub fn new(sandbox: &Sandbox, program: &Path, path: &str, own_user: bool) -> Result<Self, ChildError> {
        let kernel = Kernel::here();
        if sandbox.required && !kernel.is_enough() {
            return Err(ChildError::NoSandbox);
        }
        let chain = Chain::of(program, path);
        let mut all = sandbox.clone();
        let add = |list: &mut Vec<PathBuf>, paths: &[&str]| list.extend(paths.iter().map(PathBuf::from));
        add(&mut all.read, system::LIBRARIES);
        add(&mut all.write, system::DEVICES);
        if sandbox.names {
            add(&mut all.read, system::NETWORK);
        }
        if sandbox.programs || chain.shell {
            add(&mut all.execute, system::PROGRAMS);
            add(&mut all.read, system::SETTINGS);
        }
        let rules = |abi| Ruleset::new(abi, &all, &chain.files);
        let ruleset = kernel.landlock.map(rules).transpose();
        let ruleset = ruleset.map_err(|e| ChildError::Sandbox { path: e.path, source: e.source })?;
        let leave = Leave { datagrams: sandbox.names, modes: !own_user };
        let filter = if kernel.seccomp { Filter::new(leave) } else { None };
        Ok(Self { ruleset, filter })
    }

    /// The files and ports. Async-signal-safe.
    pub fn restrict(&self) -> io::Result<()> {
        self.ruleset.as_ref().map_or(Ok(()), Ruleset::put_on)
    }

    /// The system calls; last, because some that a child makes before its program are among those refused.
    /// Async-signal-safe.
    pub fn filter(&self) -> io::Result<()> {
        self.filter.as_ref().map_or(Ok(()), Filter::put_on)
    }
}
