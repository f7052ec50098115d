//! What happens in the child between fork and exec.
//!
//! There only system calls are allowed: another thread may have held any lock at the moment of the fork, the
//! allocator's among them. So everything is computed before, and an error is a plain number.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::limits::{Resource, Rlimits, hard_limit};
use super::sandbox::SandboxPolicy;
use super::{ChildUser, Mark};

/// The steps, in their order, for the error that names the failed one.
const STEPS: [&str; 14] = [
    "the program itself (does it exist, and may the children's user run it?)",
    "resetting signals",
    "a session of its own",
    "the role of a subreaper",
    "its limits",
    "its groups",
    "its group",
    "its user",
    "giving up new privileges",
    "its Landlock rules",
    "its death signal",
    "closing descriptors",
    "its seccomp filter",
    "the program itself (does it exist, and may the children's user run it?)",
];

/// Where the child says which step it is at: one page that parent and child share.
pub(super) struct Progress(*const AtomicU32);

// SAFETY: the page holds one atomic number and is never unmapped.
unsafe impl Send for Progress {}
unsafe impl Sync for Progress {}

impl Progress {
    /// Maps the page; without one, errors name the first step.
    pub fn new() -> Self {
        let (size, access) = (std::mem::size_of::<AtomicU32>(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a fresh anonymous mapping, zeroed by the kernel, aligned to a page.
        let page =
            unsafe { libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0) };
        Self(if page == libc::MAP_FAILED { std::ptr::null() } else { page.cast() })
    }

    fn at(&self, step: u32) {
        // SAFETY: null or the page mapped above.
        if let Some(page) = unsafe { self.0.as_ref() } {
            page.store(step, Ordering::Relaxed);
        }
    }

    pub fn reset(&self) {
        self.at(0);
    }

    /// The name of the step that was reached.
    pub fn step(&self) -> &'static str {
        // SAFETY: as above.
        let step = unsafe { self.0.as_ref() }.map_or(0, |page| page.load(Ordering::Relaxed));
        STEPS.get(step as usize).copied().unwrap_or(STEPS[0])
    }
}

/// Everything that the child does before exec.
pub(super) struct Plan {
    parent: libc::pid_t,
    user: Option<ChildUser>,
    limits: Vec<(Resource, libc::rlimit)>,
    policy: Option<SandboxPolicy>,
    progress: &'static Progress,
}

impl Plan {
    /// A plan for a child of this process.
    pub fn new(
        user: Option<ChildUser>,
        wanted: &Rlimits,
        mark: Mark,
        policy: Option<SandboxPolicy>,
        progress: &'static Progress,
    ) -> Self {
        let mut limits = Vec::new();
        for (resource, value) in [
            (libc::RLIMIT_CORE as Resource, wanted.core),
            (libc::RLIMIT_NOFILE as Resource, wanted.nofile),
            (libc::RLIMIT_NPROC as Resource, wanted.nproc),
            (libc::RLIMIT_FSIZE as Resource, wanted.fsize),
            (libc::RLIMIT_DATA as Resource, wanted.data),
        ] {
            if let Some(value) = value {
                let value = value.min(hard_limit(resource).unwrap_or(value));
                limits.push((resource, libc::rlimit { rlim_cur: value, rlim_max: value }));
            }
        }
        if Mark::available() {
            limits.push((libc::RLIMIT_LOCKS as Resource, libc::rlimit { rlim_cur: mark.0, rlim_max: mark.0 }));
        }
        Self { parent: std::process::id() as libc::pid_t, user, limits, policy, progress }
    }

    /// Carries the plan out.
    ///
    /// # Safety
    /// To be called in a child after fork, before exec: it makes only async-signal-safe calls and allocates nothing.
    pub unsafe fn apply(&self) -> io::Result<()> {
        let check = |status: libc::c_int| if status == -1 { Err(io::Error::last_os_error()) } else { Ok(()) };
        // SAFETY: system calls on plain values and on pointers to locals or to memory of before the fork.
        unsafe {
            self.progress.at(1);
            // Past the C library, which refuses the two signals that it keeps for itself and so lets a parent's
            // "ignore" through. The kernel's `struct sigaction` is at most this long, and zeroed it says "default".
            let default = [0u64; 4];
            for signal in 1..=64 {
                // KILL and STOP refuse, rightly.
                libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), 8usize);
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            check(libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()))?;
            self.progress.at(2);
            check(libc::setsid())?;
            libc::umask(0o077);
            self.progress.at(3);
            check(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))?;
            self.progress.at(4);
            for (resource, limit) in &self.limits {
                check(libc::setrlimit(*resource as _, limit))?;
            }
            // The first to go when memory runs out. Where /proc can't be written it is as likely as others.
            let score = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            libc::write(score, c"500".as_ptr().cast(), 3);
            libc::close(score);
            if let Some(user) = self.user {
                // Past the C library, which would change all threads that it believes to be there.
                let call = |status: libc::c_long| check(status as libc::c_int);
                self.progress.at(5);
                call(libc::syscall(libc::SYS_setgroups, 1, &raw const user.gid))?;
                self.progress.at(6);
                call(libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid))?;
                self.progress.at(7);
                call(libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid))?;
            }
            self.progress.at(8);
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            if let Some(policy) = &self.policy {
                self.progress.at(9);
                policy.restrict()?;
            }
            self.progress.at(10);
            // After the change of user, which clears it. The signal comes when the *thread* that forked ends.
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
            if libc::getppid() != self.parent {
                // The daemon died before the signal was set.
                libc::_exit(1);
            }
            self.progress.at(11);
            close_on_exec()?;
            if let Some(policy) = &self.policy {
                self.progress.at(12);
                policy.filter()?;
            }
            self.progress.at(13);
        }
        Ok(())
    }
}

/// Marks every descriptor above 2 as closed by exec. They are not closed now, because one of them reports a failed
/// exec.
unsafe fn close_on_exec() -> io::Result<()> {
    // SAFETY: system calls on plain values.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0 {
            return Ok(());
        }
        // Kernels before 5.11 don't know the call or the flag.
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == -1 {
            return Err(io::Error::last_os_error());
        }
        // The limit may have been lowered a moment ago, below descriptors that are open.
        for fd in 3..limit.rlim_cur.clamp(65_536, 1 << 20) as libc::c_int {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok(())
}
