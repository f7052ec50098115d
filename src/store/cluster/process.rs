//! Starting processes that die with us, and the thread they hang on.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use tokio::sync::oneshot;

use super::ClusterError;
use super::user::RunAs;

/// What a child gets when the thread that started it ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Death {
    /// SIGINT: PostgreSQL's fast shutdown, in good order.
    FastShutdown,
    /// SIGKILL, for helpers that keep nothing.
    Kill,
}

/// A command of PostgreSQL's: as `run_as`, in a session of its own (a Ctrl-C at our terminal is ours alone), with an
/// environment of three lines, none of our descriptors, and a signal when we die.
pub(super) fn command(program: &Path, run_as: &RunAs, death: Death) -> Command {
    let mut command = Command::new(program);
    // Messages in English, because the log is read by program too; times in UTC, so that the cluster is the same
    // whoever makes it. PATH is only what initdb's `popen` needs to find a shell.
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC");
    command.current_dir("/").stdin(Stdio::null());
    let switch = run_as.switch.then_some((run_as.uid, run_as.gid));
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and makes only system calls that are allowed there; it allocates
    // nothing but the error it may return, which is a plain number.
    unsafe {
        command.pre_exec(move || prepare_child(switch, death, parent));
    }
    command
}

fn prepare_child(switch: Option<(u32, u32)>, death: Death, parent: u32) -> io::Result<()> {
    let check = |status: libc::c_int| if status == -1 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: plain system calls on plain values.
    unsafe {
        check(libc::setsid())?;
        if let Some((uid, gid)) = switch {
            check(libc::setgroups(1, &gid))?;
            check(libc::setgid(gid))?;
            check(libc::setuid(uid))?;
        }
        libc::umask(0o077);
        // After the change of user: that change clears the death signal.
        #[cfg(target_os = "linux")]
        {
            let signal = match death {
                Death::FastShutdown => libc::SIGINT,
                Death::Kill => libc::SIGKILL,
            };
            check(libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong, 0, 0, 0))?;
        }
        // Had the parent died before that line, the signal would never come.
        if u32::try_from(libc::getppid()) != Ok(parent) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    let _ = death;
    close_on_exec();
    Ok(())
}

/// Marks every descriptor above stderr to be closed by exec. (Not closed at once: the standard library reports a
/// failing exec through one of them.)
fn close_on_exec() {
    // SAFETY: changes flags of descriptors of the forked child only.
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0 {
            return;
        }
        // An older kernel, or macOS: one by one.
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let known = libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0;
        let end = if known { limit.rlim_cur.min(65_536) as libc::c_int } else { 4096 };
        for fd in 3..end {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

type Order = Box<dyn FnOnce() + Send>;

/// The one thread that starts PostgreSQL's processes and waits for them. The death signal is tied to the *thread* that
/// started a process, so this one lives exactly as long as the cluster's handle and whatever it still has to wait for.
pub(super) struct PostgresThread {
    orders: mpsc::Sender<Order>,
}

impl PostgresThread {
    pub fn start() -> Result<Self, ClusterError> {
        let (orders, inbox) = mpsc::channel::<Order>();
        let body = move || {
            for order in inbox {
                // A panic in one order must not end the thread: the server would get its death signal.
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(order)).is_err() {
                    tracing::error!("a command of the PostgreSQL thread panicked");
                }
            }
        };
        let thread = std::thread::Builder::new().name("butlerd-postgres".into()).spawn(body);
        thread.map_err(|source| ClusterError::Thread { source })?;
        Ok(Self { orders })
    }

    /// Queues an order; orders run one after the other.
    pub fn order(&self, order: impl FnOnce() + Send + 'static) -> Result<(), ClusterError> {
        self.orders.send(Box::new(order)).map_err(|_| ClusterError::ThreadGone)
    }

    /// Runs blocking work on the thread and awaits its result. Dropping the future does not stop the work.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ClusterError> {
        let (reply, result) = oneshot::channel();
        self.order(move || {
            let _ = reply.send(work());
        })?;
        result.await.map_err(|_| ClusterError::ThreadGone)
    }
}

/// The process id of the running server, readable and signalled by everybody without ever hitting a stranger: the id
/// is forgotten before the process is reaped, and only then can the kernel give it away again.
#[derive(Default)]
pub(super) struct Slot {
    pid: Mutex<Option<i32>>,
    closing: AtomicBool,
}

impl Slot {
    /// Notes a process just started. If everything was told to end meanwhile, it is told so too.
    pub fn fill(&self, pid: u32) {
        let mut slot = self.lock();
        *slot = i32::try_from(pid).ok();
        drop(slot);
        if self.closing.load(Ordering::SeqCst) {
            self.signal(libc::SIGINT);
        }
    }

    pub fn pid(&self) -> Option<i32> {
        *self.lock()
    }

    /// Sends a signal; false if no server runs.
    pub fn signal(&self, signal: libc::c_int) -> bool {
        let slot = self.lock();
        // SAFETY: the id belongs to our child, which is not reaped while the slot holds it and the lock is ours.
        slot.is_some_and(|pid| unsafe { libc::kill(pid, signal) } == 0)
    }

    /// From now on a server that still gets started is shut down at once.
    pub fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.signal(libc::SIGINT);
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Blocks until the process has ended, forgets it, and reaps it.
    pub fn wait(&self, child: &mut std::process::Child) -> io::Result<std::process::ExitStatus> {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        loop {
            // SAFETY: `info` is room for the answer; WNOWAIT leaves the process to be reaped below.
            let status =
                unsafe { libc::waitid(libc::P_PID, child.id(), info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT) };
            if status == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
        *self.lock() = None;
        child.wait()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<i32>> {
        self.pid.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
