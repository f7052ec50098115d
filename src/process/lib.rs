//! The only place where the children of sessions are started, watched and ended.
//!
//! How a child is held:
//!
//! * It leads a session and a process group of its own, dies with the daemon (`PR_SET_PDEATHSIG`), gains no privileges,
//!   and has three descriptors: standard input is `/dev/null`, one file opened for reading or a pipe, the others are
//!   pipes.
//! * It is the subreaper of its own descendants. A process that detaches from it (`setsid`, double fork) is handed to
//!   it and not to init, so that the tree under it is whole as long as it lives.
//! * It is in a sandbox (`sandbox/`): Landlock and seccomp, as far as the kernel has them.
//! * It carries a mark: an otherwise unused resource limit (`RLIMIT_LOCKS`, without effect since Linux 2.4.25) is set
//!   to a number derived from the session's id. Every descendant inherits it, whatever it does with its environment,
//!   its working directory, its session or its parents, and `/proc/<pid>/limits` shows it, after a `kill -9` of the
//!   daemon too. Thus a session's id alone is enough to find what is left of it.
//!
//! So what belongs to a session is: what carries its mark, what is in the leader's session, and what hangs below one
//! of these. The leader's pid can't be reused meanwhile, because it stays unreaped until nothing is left.
//!
//! Not found: without the sandbox, which refuses to change the mark, and without a control group, a program that lowers
//! the limit on purpose, leaves the session, and outlives its leader.
//!
//! The daemon itself is no subreaper: it would inherit orphans of PostgreSQL too, which nobody would reap.

mod cgroup;
mod fork;
mod identity;
mod limits;
mod output;
mod preexec;
mod proc;
mod process_tree;
pub mod program;
mod sandbox;
mod spec;
mod supervisor;
mod users;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use cgroup::{Groups, NoGroups, delegated};
pub use identity::{ExitInfo, Identity, Mark, boot_id};
pub use limits::{Rlimits, raise_open_files};
pub use output::{Line, Lines, Output, OutputLimits};
pub use sandbox::{Kernel, Line as KernelLine, Sandbox};
pub use spec::{ChildSpec, ChildUser, Stdin};
pub use supervisor::{Child, Cleared, Ended, Leftover, ProcessSupervisor};
pub use users::{ChildUsers, UserError};

/// Why a child could not be started, watched or ended.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    #[error("cannot start the thread that starts children")]
    Thread(#[source] std::io::Error),
    #[error("the thread that starts children is gone; restart butlerd")]
    Gone,
    #[error("the program `{0}` is not given by its absolute path")]
    Relative(PathBuf),
    #[error("cannot open {path} as the child's standard input")]
    Stdin { path: PathBuf, source: std::io::Error },
    #[error("cannot start {program}: {step} failed{hint}")]
    Start { program: PathBuf, step: &'static str, hint: &'static str, source: std::io::Error },
    #[error("cannot allow {path} in the child's sandbox", path = path.display())]
    Sandbox { path: PathBuf, source: std::io::Error },
    #[error(
        "this kernel can't keep sessions in bounds (that takes Landlock with TCP rules, Linux 6.7, and seccomp), and \
         spawner.sandbox is \"required\"; `butlerd doctor` says what is missing"
    )]
    NoSandbox,
    #[error("cannot watch the child {pid}")]
    Watch { pid: i32, source: std::io::Error },
}
