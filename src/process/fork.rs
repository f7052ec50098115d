//! Fork and exec, with a control group to be born into.
//!
//! The standard library's `Command` can't say into which group a child is born, and moving a process there afterwards
//! takes the kernel 5 to 15 ms, in which all forks of the machine wait. `clone3` does both at once.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use super::ChildSpec;
use super::preexec::Plan;

/// As the kernel has it; not every C library knows it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A process that runs its program by now.
pub(super) struct Forked {
    pub child: Unreaped,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// A child of ours whose end nobody has taken note of yet: its pid is nobody else's.
#[derive(Debug)]
pub(super) struct Unreaped {
    pid: libc::pid_t,
    reaped: bool,
}

impl Unreaped {
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Takes note of its end; `false` as long as it lives.
    pub fn reap(&mut self) -> bool {
        if !self.reaped {
            // SAFETY: a plain system call on a child of ours. An error means that there is nothing to wait for.
            self.reaped = unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), libc::WNOHANG) } != 0;
        }
        self.reaped
    }

    /// Kills it and waits for its end.
    pub fn kill(mut self) {
        // SAFETY: plain system calls on a child of ours that is not reaped.
        unsafe {
            if !self.reaped {
                libc::kill(self.pid, libc::SIGKILL);
                libc::waitpid(self.pid, std::ptr::null_mut(), 0);
            }
        }
        self.reaped = true;
    }
}

/// Strings for exec, and pointers to them.
struct Strings {
    pointers: Vec<*const libc::c_char>,
    _held: Vec<CString>,
}

impl Strings {
    fn new<'a>(of: impl Iterator<Item = &'a OsStr>) -> io::Result<Self> {
        let held = of.map(|s| CString::new(s.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let pointers = held.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Self { pointers, _held: held })
    }
}

/// Starts the program of `spec` as `plan` says, in the control group whose directory `group` is. Waits until exec has
/// come about; the error is the child's.
pub(super) fn fork_exec(spec: &ChildSpec, stdin: &OwnedFd, plan: &Plan, group: Option<&OwnedFd>) -> io::Result<Forked> {
    let program = CString::new(spec.program.as_os_str().as_bytes())?;
    let cwd = CString::new(spec.cwd.as_os_str().as_bytes())?;
    let args = Strings::new(std::iter::once(spec.program.as_os_str()).chain(spec.args.iter().map(OsStr::new)))?;
    let pairs: Vec<String> = spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let env = Strings::new(pairs.iter().map(OsStr::new))?;
    let (stdout, out) = pipe()?;
    let (stderr, err) = pipe()?;
    // Closed by exec; else the child's error comes through it.
    let (failure, fail) = pipe()?;
    let ends = [stdin.as_raw_fd(), out.as_raw_fd(), err.as_raw_fd()];
    // SAFETY: what the child does is made for the time between fork and exec, and it ends in exec or `_exit`.
    let pid = unsafe { fork(group)? };
    if pid == 0 {
        // SAFETY: as above; everything pointed to was made before the fork.
        unsafe {
            let error = run(ends, &cwd, plan, &program, &args, &env);
            let number = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
            libc::write(fail.as_raw_fd(), number.as_ptr().cast(), number.len());
            libc::_exit(127);
        }
    }
    drop((out, err, fail));
    let child = Unreaped { pid, reaped: false };
    let mut number = [0; 4];
    match File::from(failure).read_exact(&mut number) {
        // Nothing was written: exec has closed it.
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(Forked { child, stdout, stderr }),
        Ok(()) => {
            child.kill();
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number)))
        }
        Err(e) => {
            child.kill();
            Err(e)
        }
    }
}

/// The child's part. Returns only if something went wrong.
unsafe fn run(
    ends: [libc::c_int; 3],
    cwd: &CString,
    plan: &Plan,
    program: &CString,
    args: &Strings,
    env: &Strings,
) -> io::Error {
    // SAFETY: system calls on what was made before the fork. The daemon has its own three standard descriptors, so
    // none of `ends` is one of them.
    unsafe {
        for (number, end) in ends.into_iter().enumerate() {
            if libc::dup2(end, number as libc::c_int) == -1 {
                return io::Error::last_os_error();
            }
        }
        if libc::chdir(cwd.as_ptr()) == -1 {
            return io::Error::last_os_error();
        }
        if let Err(e) = plan.apply() {
            return e;
        }
        libc::execve(program.as_ptr(), args.pointers.as_ptr(), env.pointers.as_ptr());
        io::Error::last_os_error()
    }
}

/// Forks, into `group` where there is one.
///
/// # Safety
/// As of fork in a process of several threads. The C library has not noticed this fork: calls that it does for all
/// threads of a process, such as its `setuid`, must not be made in the child.
unsafe fn fork(group: Option<&OwnedFd>) -> io::Result<libc::pid_t> {
    // SAFETY: zeroed arguments ask for a plain fork; the kernel reads as many bytes as are said.
    unsafe {
        let mut args: libc::clone_args = std::mem::zeroed();
        args.exit_signal = libc::SIGCHLD as u64;
        if let Some(group) = group {
            args.flags = CLONE_INTO_CGROUP;
            args.cgroup = group.as_raw_fd() as u64;
        }
        let pid = libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) as libc::pid_t;
        if pid >= 0 {
            return Ok(pid);
        }
        match (io::Error::last_os_error(), group) {
            // Older kernels and some containers' filters don't know the call.
            (e, None) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => match libc::fork() {
                -1 => Err(io::Error::last_os_error()),
                pid => Ok(pid),
            },
            (e, _) => Err(e),
        }
    }
}

/// Reading end and writing end, closed by exec.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are ours alone from here on.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}
