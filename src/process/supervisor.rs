//! The thread that starts children and clears away what is left of them, and the handle on each.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cgroup::{Group, GroupLimits, Groups};
use super::fork::{Forked, Unreaped, fork_exec, pipe as pipe_ends};
use super::output::{Tail, keep_tail};
use super::preexec::{Plan, Progress};
use super::process_tree::{ProcessSet, ProcessTree, descendants};
use super::sandbox::SandboxPolicy;
use super::{ChildError, ChildSpec, ExitInfo, Identity, Lines, Mark, Stdin, proc};
use base::{SessionId, task};

/// Starts children, all on one thread that lives as long as any of them: a death signal is sent when the *thread* that
/// forked ends. Clones share the thread.
#[derive(Clone, Debug)]
pub struct ProcessSupervisor {
    orders: Sender<Order>,
}

/// What a session of the daemon's last run may have left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leftover {
    pub session: SessionId,
    /// The child, if it was recorded. It is believed only if pid, start time and boot agree.
    pub leader: Option<Identity>,
}

/// What became of leftovers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cleared {
    /// How many processes were killed.
    pub killed: usize,
    /// Processes that were told to die and were still there when patience ended.
    pub survivors: Vec<i32>,
}

/// How a child and everything below it ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ended {
    /// `None` only if the child didn't react to SIGKILL in time.
    pub exit: Option<ExitInfo>,
    /// Processes besides the child itself that were still there and were killed.
    pub strays: usize,
    /// Processes that were told to die and were still there when patience ended.
    pub survivors: Vec<i32>,
}

enum Order {
    Spawn(Box<ChildSpec>, oneshot::Sender<Result<Started, ChildError>>),
    /// What hangs below a process now.
    Tree(Identity, oneshot::Sender<ProcessSet>),
    /// Kill what is left of a session, and reap its leader.
    Clear(ProcessTree, Option<oneshot::Sender<Cleared>>),
}

impl ProcessSupervisor {
    /// Starts the thread. It ends when the last clone and the last child are gone.
    pub fn start() -> Result<Self, ChildError> {
        Self::with_groups(None)
    }

    /// As [`ProcessSupervisor::start`], with a control group for each child.
    pub fn with_groups(groups: Option<Groups>) -> Result<Self, ChildError> {
        let (orders, inbox) = mpsc::channel();
        let run = move || work(&inbox, groups.as_ref());
        std::thread::Builder::new().name("children".into()).spawn(run).map_err(ChildError::Thread)?;
        Ok(Self { orders })
    }

    /// Starts a child. Needs a runtime. If the future is dropped, the child is killed.
    pub async fn spawn(&self, spec: ChildSpec) -> Result<Child, ChildError> {
        let (limits, mark) = (spec.output, Mark::of(spec.session));
        #[cfg(test)]
        let session = spec.session;
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Spawn(Box::new(spec), reply)).map_err(|_| ChildError::Gone)?;
        let started = answer.await.map_err(|_| ChildError::Gone)??;
        // From here on `held` kills it if anything fails.
        let Started { child, group, stdin, stdout, stderr, pidfd, leader } = started;
        let pid = leader.pid;
        let orders = self.orders.clone();
        let held = Held {
            body: Some((child, group)),
            leader,
            mark,
            orders,
            #[cfg(test)]
            session,
        };
        let watch = |source| ChildError::Watch { pid, source };
        // SAFETY: an OwnedFd keeps its descriptor open and the same as long as it lives.
        let pidfd = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
        let pidfd = pidfd.map_err(|e| watch(e.into()))?;
        let stdin = stdin.map(pipe::Sender::from_owned_fd).transpose().map_err(watch)?;
        let stdout = Lines::new(stdout, limits).map_err(watch)?;
        let stderr = pipe::Receiver::from_owned_fd(stderr).map_err(watch)?;
        let tail = Arc::new(Mutex::new(Tail::default()));
        let flooded = CancellationToken::new();
        let reader = keep_tail(stderr, limits, tail.clone(), flooded.clone());
        let reader = task::spawn(task::Kind::Job, "child-stderr", reader);
        Ok(Child { held, pidfd, stdin, stdout: Some(stdout), flooded, tail, reader: Some(reader), ended: None })
    }

    /// Kills what sessions of the daemon's last run left behind: every process that carries one of their marks, and the
    /// group and the descendants of a recorded child whose pid, start time and boot all agree. Others are never
    /// touched.
    pub async fn kill_leftovers(&self, leftovers: &[Leftover]) -> Result<Cleared, ChildError> {
        let mut all = Cleared::default();
        let mut answers = Vec::new();
        for left in leftovers {
            let (reply, answer) = oneshot::channel();
            let tree = ProcessTree::left_over(Mark::of(left.session), left.leader.clone());
            self.orders.send(Order::Clear(tree, Some(reply))).map_err(|_| ChildError::Gone)?;
            answers.push(answer);
        }
        for answer in answers {
            let one = answer.await.map_err(|_| ChildError::Gone)?;
            all.killed += one.killed;
            all.survivors.extend(one.survivors);
        }
        Ok(all)
    }
}

/// A child that has just been started, before a runtime watches it.
struct Started {
    child: Unreaped,
    group: Option<Group>,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    pidfd: OwnedFd,
    leader: Identity,
}

/// The thread: carries out orders, and between them kills what is left of ended sessions.
fn work(inbox: &mpsc::Receiver<Order>, groups: Option<&Groups>) {
    // Shared with children; as long-lived as the process, because the last child may outlive this thread by a moment.
    let progress: &'static Progress = Box::leak(Box::new(Progress::new()));
    let mut clearing: Vec<(ProcessTree, Option<oneshot::Sender<Cleared>>)> = Vec::new();
    let mut pause = Duration::from_millis(1);
    loop {
        let order = if clearing.is_empty() {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            inbox.recv_timeout(pause)
        };
        match order {
            Ok(Order::Spawn(spec, reply)) => {
                let mark = Mark::of(spec.session);
                if let Err(Ok(started)) = reply.send(start(&spec, mark, groups, progress)) {
                    // Nobody wants it any more.
                    let Started { child, group, leader, .. } = started;
                    clearing.push((ProcessTree::after((child, group), leader, mark, ProcessSet::new()), None));
                }
            }
            Ok(Order::Tree(leader, reply)) => drop(reply.send(descendants(&leader))),
            Ok(Order::Clear(tree, reply)) => {
                clearing.push((tree, reply));
                pause = Duration::from_millis(1);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if clearing.is_empty() => return,
            // Everybody else is gone: what can't be killed now never will be by us.
            Err(RecvTimeoutError::Disconnected) if clearing.iter().all(|(tree, _)| tree.is_late()) => return,
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause),
        }
        if clearing.is_empty() {
            continue;
        }
        let since = clearing.iter().map(|(tree, _)| tree.since()).min().unwrap_or_default();
        let Ok(table) = proc::processes(since) else { continue };
        clearing.retain_mut(|(tree, reply)| {
            let done = tree.pass(&table);
            if (done || tree.is_late())
                && let Some(reply) = reply.take()
            {
                let survivors = if done { Vec::new() } else { tree.alive().to_vec() };
                if !survivors.is_empty() {
                    tracing::warn!(?survivors, "processes of a session survive SIGKILL; butlerd keeps trying");
                }
                drop(reply.send(Cleared { killed: tree.killed(), survivors }));
            }
            !done
        });
        let all_late = clearing.iter().all(|(tree, _)| tree.is_late());
        pause = if all_late { Duration::from_secs(1) } else { (pause * 2).min(Duration::from_millis(50)) };
    }
}

/// Forks and execs, on this thread.
fn start(
    spec: &ChildSpec,
    mark: Mark,
    groups: Option<&Groups>,
    progress: &'static Progress,
) -> Result<Started, ChildError> {
    if !spec.program.is_absolute() {
        return Err(ChildError::Relative(spec.program.clone()));
    }
    let (stdin, input) = input(&spec.stdin)?;
    let path = spec.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path);
    let policy = |sandbox| SandboxPolicy::new(sandbox, &spec.program, path, spec.user.is_none());
    let policy = spec.sandbox.as_ref().map(policy).transpose()?;
    let plan = Plan::new(spec.user, &spec.limits, mark, policy, progress);
    let limits = GroupLimits { memory: spec.limits.data, processes: spec.limits.session_tasks };
    let group = groups.and_then(|groups| {
        let made = groups.make(spec.session, limits);
        made.map_err(|error| tracing::warn!(%error, session = %spec.session, "a session has no control group")).ok()
    });
    progress.reset();
    let forked = fork_exec(spec, &stdin, &plan, group.as_ref().map(Group::handle)).map_err(|source| {
        let step = progress.step();
        let hint = match source.kind() {
            io::ErrorKind::NotFound if !spec.cwd.is_dir() => " (its working directory is gone)",
            io::ErrorKind::WouldBlock => " (the children's user has as many processes as it may have)",
            _ => "",
        };
        ChildError::Start { program: spec.program.clone(), step, hint, source }
    })?;
    let Forked { child, stdout, stderr } = forked;
    let pid = child.pid();
    let watch = |child: Unreaped, source| {
        // Both can only fail if it is dead already.
        child.kill();
        ChildError::Watch { pid, source }
    };
    // SAFETY: a plain system call; what it returns is a new descriptor of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int;
    if fd < 0 {
        return Err(watch(child, io::Error::last_os_error()));
    }
    // SAFETY: just opened, and nobody else has it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
    let Some(leader) = Identity::of(pid) else {
        return Err(watch(child, io::Error::new(io::ErrorKind::NotFound, "its entry in /proc is not readable")));
    };
    Ok(Started { child, group, stdin: input, stdout, stderr, pidfd, leader })
}

/// What the child reads from, and the end that the daemon writes to.
fn input(of: &Stdin) -> Result<(OwnedFd, Option<OwnedFd>), ChildError> {
    let file = match of {
        Stdin::Nothing => Path::new("/dev/null"),
        Stdin::File(path) => path,
        Stdin::Pipe => {
            let ends = pipe_ends();
            let (reading, writing) = ends.map_err(|source| ChildError::Stdin { path: "a pipe".into(), source })?;
            return Ok((reading, Some(writing)));
        }
    };
    let opened = open_input(file).map_err(|source| ChildError::Stdin { path: file.to_owned(), source })?;
    Ok((opened.into(), None))
}

/// Opens a file for a child to read: no link, nothing but a regular file or `/dev/null`.
fn open_input(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() && path != Path::new("/dev/null") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// The duty to kill a child and all below it: dropped, it does so.
#[derive(Debug)]
struct Held {
    body: Option<(Unreaped, Option<Group>)>,
    leader: Identity,
    mark: Mark,
    orders: Sender<Order>,
    #[cfg(test)]
    session: SessionId,
}

impl Held {
    /// Signals the whole group. Only while the leader is unreaped: then the number is nobody else's.
    fn signal_group(&self, signal: libc::c_int) {
        if self.body.is_some() {
            // SAFETY: a plain system call. It fails if the group is dead, which is as good.
            unsafe { libc::kill(-self.leader.pid, signal) };
        }
    }

    fn clear(&mut self, known: ProcessSet, reply: Option<oneshot::Sender<Cleared>>) {
        self.signal_group(libc::SIGKILL);
        if let Some(body) = self.body.take() {
            let tree = ProcessTree::after(body, self.leader.clone(), self.mark, known);
            if let Err(mpsc::SendError(Order::Clear(mut tree, _))) = self.orders.send(Order::Clear(tree, reply)) {
                // The thread is gone, which only a panic in it can have done: at least this once, from here.
                tree.pass(&proc::processes(tree.since()).unwrap_or_default());
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear(ProcessSet::new(), None);
    }
}

/// A running child. Dropping it kills everything that belongs to its session.
#[derive(Debug)]
pub struct Child {
    held: Held,
    pidfd: AsyncFd<OwnedFd>,
    /// Its standard input, where that is a pipe, for one writer to take.
    pub stdin: Option<pipe::Sender>,
    /// Its standard output, for one reader to take.
    pub stdout: Option<Lines>,
    /// Fires when it has written more to standard error than [`super::OutputLimits::total`]. It is read all the same.
    pub flooded: CancellationToken,
    tail: Arc<Mutex<Tail>>,
    reader: Option<JoinHandle<()>>,
    ended: Option<Ended>,
}

impl Child {
    /// Who it is, to be recorded. Its pid is also the id of its session and process group.
    pub fn identity(&self) -> &Identity {
        &self.held.leader
    }

    pub fn pid(&self) -> i32 {
        self.held.leader.pid
    }

    #[cfg(test)]
    pub(super) fn held_session(&self) -> SessionId {
        self.held.session
    }

    /// Waits until the child itself has ended. Others of its session may live on until [`Child::terminate`].
    /// Nothing is lost if the future is dropped.
    pub async fn wait(&mut self) -> io::Result<ExitInfo> {
        if let Some(exit) = self.ended.as_ref().and_then(|ended| ended.exit) {
            return Ok(exit);
        }
        loop {
            let mut guard = self.pidfd.readable().await?;
            if let Some(exit) = exit_of(&self.pidfd)? {
                return Ok(exit);
            }
            guard.clear_ready();
        }
    }

    /// Ends the child and all that belongs to its session: SIGTERM to its group, up to `grace` for the child to leave,
    /// then SIGKILL to every process found. After a child that left by itself only the others are looked for. Always
    /// to be called; a second call returns the first one's result.
    pub async fn terminate(&mut self, grace: Duration) -> Ended {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        let mut known = ProcessSet::new();
        if !matches!(exit_of(&self.pidfd), Ok(Some(_))) {
            let (reply, answer) = oneshot::channel();
            let _ = self.held.orders.send(Order::Tree(self.held.leader.clone(), reply));
            known = answer.await.unwrap_or_default();
            self.held.signal_group(libc::SIGTERM);
            let _ = tokio::time::timeout(grace, self.wait()).await;
            self.held.signal_group(libc::SIGKILL);
            // So that its exit can be told from here, before the thread reaps it.
            let _ = tokio::time::timeout(super::process_tree::PATIENCE, self.wait()).await;
        }
        let exit = exit_of(&self.pidfd).ok().flatten();
        let (reply, answer) = oneshot::channel();
        self.held.clear(known, Some(reply));
        let cleared = answer.await.unwrap_or_default();
        let ended = Ended { exit, strays: cleared.killed, survivors: cleared.survivors };
        self.ended = Some(ended.clone());
        ended
    }

    /// The end of what was read of its standard error so far.
    pub fn stderr_so_far(&self) -> String {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).text()
    }

    /// The end of what it wrote to standard error so far. After [`Child::terminate`] that is all of it.
    pub async fn stderr_tail(&mut self) -> String {
        if self.ended.is_some()
            && let Some(reader) = self.reader.take()
        {
            // Everybody who could hold the pipe open is dead, but for one that nothing can kill.
            let _ = tokio::time::timeout(Duration::from_secs(1), reader).await;
        }
        self.stderr_so_far()
    }
}

/// How the process ended, if it has; it stays unreaped.
fn exit_of(pidfd: &AsyncFd<OwnedFd>) -> io::Result<Option<ExitInfo>> {
    // SAFETY: zeroed is a valid siginfo_t, the descriptor is open, and the fields read are those that a successful
    // waitid fills.
    unsafe {
        let mut info = ManuallyDrop::new(std::mem::zeroed::<libc::siginfo_t>());
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_PIDFD, pidfd.as_raw_fd() as libc::id_t, &mut *info, flags) == -1 {
            return Err(io::Error::last_os_error());
        }
        if info.si_pid() == 0 {
            return Ok(None);
        }
        let status = info.si_status();
        Ok(Some(if info.si_code == libc::CLD_EXITED {
            ExitInfo { code: Some(status), signal: None }
        } else {
            ExitInfo { code: None, signal: Some(status) }
        }))
    }
}
