//! Landlock: which files a child may open, which TCP ports it may connect to, whom it may signal.
//!
//! A ruleset is a descriptor that the daemon fills; the child only has to put it on, which is one system call. Rules
//! hold for what a path means now (the inode), whatever the path means later.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Sandbox;

/// The rights on files, as the kernel numbers them.
mod fs {
    pub const EXECUTE: u64 = 1;
    pub const WRITE_FILE: u64 = 1 << 1;
    pub const READ_FILE: u64 = 1 << 2;
    pub const READ_DIR: u64 = 1 << 3;
    /// Removing and making of everything but devices.
    pub const REMOVE_DIR: u64 = 1 << 4;
    pub const REMOVE_FILE: u64 = 1 << 5;
    pub const MAKE_DIR: u64 = 1 << 7;
    pub const MAKE_REG: u64 = 1 << 8;
    pub const MAKE_SOCK: u64 = 1 << 9;
    pub const MAKE_FIFO: u64 = 1 << 10;
    pub const MAKE_SYM: u64 = 1 << 12;
    /// Links and renames from one directory to another.
    pub const REFER: u64 = 1 << 13;
    pub const TRUNCATE: u64 = 1 << 14;

    pub const READ: u64 = READ_FILE | READ_DIR;
    pub const RUN: u64 = READ | EXECUTE;
    pub const WRITE: u64 = READ
        | WRITE_FILE
        | TRUNCATE
        | REMOVE_DIR
        | REMOVE_FILE
        | MAKE_DIR
        | MAKE_REG
        | MAKE_SOCK
        | MAKE_FIFO
        | MAKE_SYM
        | REFER;
    /// What can be allowed on something that is no directory.
    pub const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;

    /// Everything that an interface of this version can refuse: 13 rights, then `REFER`, `TRUNCATE` and ioctl on
    /// devices.
    pub fn all(abi: u32) -> u64 {
        let bits = match abi {
            0 => 0,
            1 => 13,
            2 => 14,
            3 | 4 => 15,
            _ => 16,
        };
        (1 << bits) - 1
    }
}

const NET_BIND_TCP: u64 = 1;
const NET_CONNECT_TCP: u64 = 1 << 1;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const SCOPE_SIGNAL: u64 = 1 << 1;

/// From which version of the interface on the kernel knows rules for TCP ports.
pub const PORTS_SINCE: u32 = 4;
/// From which version on it keeps signals and abstract sockets inside.
pub const SCOPES_SINCE: u32 = 6;

#[repr(C)]
struct RulesetAttr {
    fs: u64,
    net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

#[repr(C)]
struct NetPort {
    allowed: u64,
    port: u64,
}

const RULE_PATH_BENEATH: libc::c_int = 1;
const RULE_NET_PORT: libc::c_int = 2;

/// The version of the kernel's interface; `None` if it has no Landlock, or was booted without. Restricts nothing.
pub fn abi() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads neither pointer nor size.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION) };
    u32::try_from(abi).ok().filter(|abi| *abi > 0)
}

/// Rules that a child puts on.
pub struct Ruleset(OwnedFd);

/// A path for which no rule could be made.
pub struct RuleError {
    pub path: PathBuf,
    pub source: io::Error,
}

impl Ruleset {
    /// The rules of `sandbox` on a kernel with this version of the interface; what it can't refuse is left open.
    /// `programs` may be run. What is to be read and isn't there is passed over; what was made for the child and what
    /// it writes must exist.
    pub fn new(abi: u32, sandbox: &Sandbox, programs: &[PathBuf]) -> Result<Self, RuleError> {
        let ports = if abi >= PORTS_SINCE { NET_BIND_TCP | NET_CONNECT_TCP } else { 0 };
        let scopes = if abi >= SCOPES_SINCE { SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL } else { 0 };
        let attr = RulesetAttr { fs: fs::all(abi), net: ports, scoped: scopes };
        // SAFETY: the pointer is to a local of the given size. Older kernels take a longer one if the rest is zero.
        let fd = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attr, size_of::<RulesetAttr>(), 0u32)
        };
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| RuleError { path, source }
        };
        if fd < 0 {
            return Err(fail(Path::new("the ruleset"))(io::Error::last_os_error()));
        }
        // SAFETY: just made, and nobody else has it.
        let ruleset = Self(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) });
        for path in programs {
            // Whatever it lies under: this is the one file that the session was told to run.
            ruleset.allow(path, fs::READ_FILE | fs::EXECUTE, attr.fs, &[]).or_else(absent).map_err(fail(path))?;
        }
        for (paths, rights) in [(&sandbox.read, fs::READ), (&sandbox.execute, fs::RUN)] {
            for path in paths {
                ruleset.allow(path, rights, attr.fs, &sandbox.never).or_else(absent).map_err(fail(path))?;
            }
        }
        for (paths, rights) in [(&sandbox.own, fs::READ), (&sandbox.scripts, fs::RUN), (&sandbox.write, fs::WRITE)] {
            for path in paths {
                ruleset.allow(path, rights, attr.fs, &[]).map_err(fail(path))?;
            }
        }
        for port in sandbox.connect.iter().filter(|_| ports != 0) {
            let rule = NetPort { allowed: NET_CONNECT_TCP, port: u64::from(*port) };
            ruleset.add(RULE_NET_PORT, (&raw const rule).cast()).map_err(fail(Path::new("a TCP port")))?;
        }
        Ok(ruleset)
    }

    /// Allows `rights` on a path and all below, unless one of `never` is below it or above it.
    fn allow(&self, path: &Path, rights: u64, handled: u64, never: &[PathBuf]) -> io::Result<()> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a C string that outlives the call.
        let fd = unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if !never.is_empty() {
            // What was opened, links resolved.
            let real = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
            if let Some(kept) = never.iter().find(|kept| kept.starts_with(&real) || real.starts_with(kept)) {
                let (path, kept) = (path.display(), kept.display());
                tracing::warn!("sessions may not read {path}: {kept}, which is not for them, lies inside it");
                return Ok(());
            }
        }
        // SAFETY: zeroed is a valid `stat`, and the descriptor is open.
        let is_dir = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            libc::fstat(fd.as_raw_fd(), &mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFDIR
        };
        let rights = if is_dir { rights } else { rights & fs::OF_FILES };
        let rule = PathBeneath { allowed: rights & handled, parent: fd.as_raw_fd() };
        self.add(RULE_PATH_BENEATH, (&raw const rule).cast())
    }

    fn add(&self, kind: libc::c_int, rule: *const libc::c_void) -> io::Result<()> {
        // SAFETY: `rule` points to a rule of this kind.
        let status = unsafe { libc::syscall(libc::SYS_landlock_add_rule, self.0.as_raw_fd(), kind, rule, 0u32) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Allows the calling process to read what the kernel tells of its own memory, and of no other's: Claude Code
    /// 2.1.197 aborts as it starts where it can't see where its stack is, and fails tool calls where it can't see how
    /// much memory it uses. Async-signal-safe. Where there is no `/proc` there is nothing to allow.
    fn allow_own_memory_figures(&self) {
        for file in [c"/proc/self/maps", c"/proc/self/stat", c"/proc/self/statm"] {
            // SAFETY: system calls on a constant and on a local that outlives them.
            unsafe {
                let fd = libc::open(file.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
                if fd >= 0 {
                    let rule = PathBeneath { allowed: fs::READ_FILE, parent: fd };
                    let rules = self.0.as_raw_fd();
                    libc::syscall(libc::SYS_landlock_add_rule, rules, RULE_PATH_BENEATH, &raw const rule, 0u32);
                    libc::close(fd);
                }
            }
        }
    }

    /// Puts the rules on the calling thread, for good. Async-signal-safe; needs "no new privileges".
    pub fn put_on(&self) -> io::Result<()> {
        self.allow_own_memory_figures();
        // SAFETY: a system call on plain values.
        match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.0.as_raw_fd(), 0u32) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn absent(e: io::Error) -> io::Result<()> {
    match e.raw_os_error() {
        // Not there, or below something that we ourselves can't enter.
        Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES) => Ok(()),
        _ => Err(e),
    }
}
