//! Limits set by the kernel: those of children, and this process's own, above which no child gets.

/// Limits set by the kernel, soft and hard alike; `None` leaves what the daemon has. None is ever raised above the
/// daemon's own hard limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rlimits {
    /// Bytes of a core dump.
    pub core: Option<u64>,
    /// Open descriptors.
    pub nofile: Option<u64>,
    /// Processes and threads of the child's *user*, all sessions together. For a child that runs as the daemon's own
    /// user that counts everything else this user has running: leave it out then.
    pub nproc: Option<u64>,
    /// Processes and threads of the session; holds only where it has a control group.
    pub session_tasks: Option<u64>,
    /// Bytes of one file.
    pub fsize: Option<u64>,
    /// Bytes of data memory; where the session has a control group, also of all memory of all its processes together.
    pub data: Option<u64>,
}

/// What `RLIMIT_*` are: the C library's type differs between glibc and musl.
pub(super) type Resource = u32;

/// The hard limit of this process; `None` if the kernel doesn't tell.
pub(super) fn hard_limit(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local of the right type.
    (unsafe { libc::getrlimit(resource as _, &mut limit) } == 0).then_some(limit.rlim_max)
}

/// As many descriptors as this process shall have, where its hard limit lets it.
const OPEN_FILES: u64 = 65_536;

/// Raises this process's own limit of open descriptors. A soft limit of 1024, as many systems give, is less than what
/// the ports of a household may hold open at once. Children get a limit of their own.
pub fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to a local of the right type.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max.min(OPEN_FILES) {
            limit.rlim_cur = limit.rlim_max.min(OPEN_FILES);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
