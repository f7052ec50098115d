//! A seccomp filter: the system calls by which a child could get around Landlock, or that no session needs.
//!
//! The program of the filter is made by the daemon; the child only hands it to the kernel. It asks one question after
//! the other, each with its answer beside it, so that no jump leads far. Calls that are allowed whatever their
//! arguments are known to the kernel in advance and cost nothing.

use std::io;

use libc::{c_long, sock_filter};

/// What the filter leaves open beyond TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Leave {
    /// UDP, so that names can be resolved.
    pub datagrams: bool,
    /// Changing the mode of files by path. Landlock can't refuse it, so this is for children whose user owns nothing
    /// that matters.
    pub modes: bool,
}

/// Where the kernel keeps what a filter looks at: `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
/// The lower half of an argument, on little-endian machines.
const fn argument(n: u32) -> u32 {
    16 + 8 * n
}
const fn upper_half(n: u32) -> u32 {
    argument(n) + 4
}

#[cfg(target_arch = "x86_64")]
const THIS_ARCH: Option<u32> = Some(0xC000_003E);
#[cfg(target_arch = "aarch64")]
const THIS_ARCH: Option<u32> = Some(0xC000_00B7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const THIS_ARCH: Option<u32> = None;

/// Numbers of x86_64 with this bit mean the x32 interface, whose calls would have to be known one by one.
const X32: u32 = 0x4000_0000;
/// `CLONE_NEW*`.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
/// The bits of a socket's type that are no flags.
const SOCKET_TYPE: u32 = 0xf;
/// Their numbers are the same on all architectures.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;

/// Refused with EPERM, whatever the arguments.
const REFUSED: &[c_long] = &[
    // Work that is done behind the filter's back.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces, mounts, other roots.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Keys of the user, whom sessions share.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // What belongs to a user and not to a process: shared memory, semaphores and queues.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Parts of the kernel with a history of holes.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_personality,
    // The machine itself.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_kexec_file_load];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[];

/// Change who may read a file, by its path.
#[cfg(target_arch = "x86_64")]
const MODES: &[c_long] =
    &[libc::SYS_chmod, libc::SYS_fchmodat, FCHMODAT2, libc::SYS_setxattr, libc::SYS_lsetxattr, SETXATTRAT];
#[cfg(not(target_arch = "x86_64"))]
const MODES: &[c_long] = &[libc::SYS_fchmodat, FCHMODAT2, libc::SYS_setxattr, libc::SYS_lsetxattr, SETXATTRAT];

/// A filter that a child hands to the kernel.
pub struct Filter(Vec<sock_filter>);

/// Whether this kernel and this build can filter.
pub fn available() -> bool {
    let action = libc::SECCOMP_RET_KILL_PROCESS;
    // SAFETY: the pointer is to a local that the kernel reads.
    let status = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0u32, &raw const action) };
    THIS_ARCH.is_some() && status == 0
}

impl Filter {
    /// `None` on an architecture whose calls are not known here.
    pub fn new(leave: Leave) -> Option<Self> {
        let mut p = Program::default();
        p.load(ARCH);
        p.unless_equal(THIS_ARCH?, libc::SECCOMP_RET_KILL_PROCESS);
        p.load(NUMBER);
        if cfg!(target_arch = "x86_64") {
            p.if_any_bit(X32, libc::SECCOMP_RET_KILL_PROCESS);
        }
        for call in REFUSED.iter().chain(REFUSED_HERE) {
            p.if_equal(*call as u32, refuse(libc::EPERM));
        }
        if !leave.modes {
            for call in MODES {
                p.if_equal(*call as u32, refuse(libc::EPERM));
            }
        }
        // Its flags are in memory, where a filter can't look. Told that there is no such call, libraries use `clone`.
        p.if_equal(libc::SYS_clone3 as u32, refuse(libc::ENOSYS));
        p.on(libc::SYS_clone, |p| {
            p.load(argument(0));
            p.if_any_bit(NAMESPACES, refuse(libc::EPERM));
        });
        p.on(libc::SYS_socket, |p| sockets(p, leave));
        // A port that nobody bound is bound by the kernel; and nobody need come to a session.
        p.if_equal(libc::SYS_listen as u32, refuse(libc::EACCES));
        // TCP Fast Open connects without asking Landlock.
        for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            p.on(call, |p| {
                p.load(argument(flags));
                p.if_any_bit(libc::MSG_FASTOPEN as u32, refuse(libc::EACCES));
            });
        }
        // The mark by which a session's processes are found can't be taken off, and nobody else's limits be set.
        p.on(libc::SYS_setrlimit, |p| {
            p.load(argument(0));
            p.if_equal(RLIMIT_LOCKS, refuse(libc::EPERM));
        });
        p.on(libc::SYS_prlimit64, |p| {
            // Without new limits it only asks.
            let sets = |p: &mut Program| {
                p.load(argument(0));
                p.unless_equal(0, refuse(libc::EPERM));
                p.load(argument(1));
                p.if_equal(RLIMIT_LOCKS, refuse(libc::EPERM));
                p.answer(libc::SECCOMP_RET_ALLOW);
            };
            p.load(argument(2));
            p.otherwise(0, sets);
            p.load(upper_half(2));
            p.otherwise(0, sets);
        });
        // Typing into a terminal that is somebody else's.
        p.on(libc::SYS_ioctl, |p| {
            p.load(argument(1));
            p.if_equal(libc::TIOCSTI as u32, refuse(libc::EPERM));
            p.if_equal(TIOCLINUX, refuse(libc::EPERM));
        });
        p.answer(libc::SECCOMP_RET_ALLOW);
        Some(Self(p.0))
    }

    /// Hands it to the kernel, for the calling thread and for good. Async-signal-safe; needs "no new privileges".
    pub fn put_on(&self) -> io::Result<()> {
        let program = libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        // SAFETY: the program outlives the call, and the kernel only reads it.
        let status = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

const TIOCLINUX: u32 = 0x541C;
/// The C library's type differs between glibc and musl.
const RLIMIT_LOCKS: u32 = 10;

fn refuse(errno: libc::c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno as u32
}

/// TCP over IP, and nothing else: no Unix socket (Landlock lets a child connect to any that has a path), no MPTCP,
/// which Landlock's rules for ports don't see, nothing raw.
fn sockets(p: &mut Program, leave: Leave) {
    let ip = |p: &mut Program| {
        let kind = |p: &mut Program, kind: libc::c_int, protocol: libc::c_int| {
            p.load(argument(1));
            p.and(SOCKET_TYPE);
            p.equal(kind as u32, |p| {
                p.load(argument(2));
                p.if_equal(0, libc::SECCOMP_RET_ALLOW);
                p.if_equal(protocol as u32, libc::SECCOMP_RET_ALLOW);
            });
        };
        kind(p, libc::SOCK_STREAM, libc::IPPROTO_TCP);
        if leave.datagrams {
            kind(p, libc::SOCK_DGRAM, libc::IPPROTO_UDP);
        }
        p.answer(refuse(libc::EACCES));
    };
    p.load(argument(0));
    p.equal(libc::AF_INET as u32, ip);
    p.equal(libc::AF_INET6 as u32, ip);
    p.answer(refuse(libc::EACCES));
}

/// The instructions of classic BPF that a filter needs.
#[derive(Default)]
struct Program(Vec<sock_filter>);

impl Program {
    fn push(&mut self, code: u32, k: u32, jt: u8, jf: u8) {
        self.0.push(sock_filter { code: code as u16, jt, jf, k });
    }

    /// Looks at one word.
    fn load(&mut self, offset: u32) {
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
    }

    fn and(&mut self, mask: u32) {
        self.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, 0, 0);
    }

    fn answer(&mut self, action: u32) {
        self.push(libc::BPF_RET | libc::BPF_K, action, 0, 0);
    }

    fn if_equal(&mut self, value: u32, action: u32) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, 0, 1);
        self.answer(action);
    }

    fn unless_equal(&mut self, value: u32, action: u32) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, 1, 0);
        self.answer(action);
    }

    fn if_any_bit(&mut self, bits: u32, action: u32) {
        self.push(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, bits, 0, 1);
        self.answer(action);
    }

    /// What `block` says, if what was loaded is `value`.
    fn equal(&mut self, value: u32, block: impl FnOnce(&mut Program)) {
        let inner = Self::inner(block);
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, 0, inner.len() as u8);
        self.0.extend(inner);
    }

    /// What `block` says, if what was loaded is anything but `value`.
    fn otherwise(&mut self, value: u32, block: impl FnOnce(&mut Program)) {
        let inner = Self::inner(block);
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, inner.len() as u8, 0);
        self.0.extend(inner);
    }

    /// Looks at the arguments of one call. What `block` doesn't refuse is allowed.
    fn on(&mut self, call: c_long, block: impl FnOnce(&mut Program)) {
        self.equal(call as u32, |p| {
            block(p);
            p.answer(libc::SECCOMP_RET_ALLOW);
        });
    }

    fn inner(block: impl FnOnce(&mut Program)) -> Vec<sock_filter> {
        let mut inner = Program::default();
        block(&mut inner);
        debug_assert!(inner.0.len() <= usize::from(u8::MAX), "a jump is at most 255 instructions long");
        inner.0
    }
}
