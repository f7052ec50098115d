//! What it tries to get at.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::FromRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Tried;

/// Names are listed, and entries of a directory looked at, up to this many.
const MANY: usize = 2000;

/// The name of an error of the system, such as `EACCES`.
pub fn name(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(number) => format!("{:?}", nix::errno::Errno::from_raw(number)),
        None => format!("{:?}", e.kind()),
    }
}

/// Tries it; `None` if there is no such attempt.
pub fn attempt(verb: &str, rest: &str) -> Option<Tried> {
    let path = || place(rest);
    let tried = match verb {
        "read" => fs::read(path()).map(|bytes| json!(String::from_utf8_lossy(&bytes[..bytes.len().min(400)]))),
        "list" => list(&path()).map(|names| json!(names)),
        "write" => fs::write(path(), "written by a child that misbehaves\n").map(|()| Value::Null),
        "survey" => Ok(json!(survey(&path()))),
        "exec" => exec(&path()),
        "litter" => litter().map(|()| Value::Null),
        "tcp" => address(rest).and_then(TcpStream::connect).map(|_| Value::Null),
        "mptcp" => address(rest).and_then(mptcp),
        "fastopen" => address(rest).and_then(fastopen),
        "udp" => UdpSocket::bind("127.0.0.1:0").and_then(|s| s.send_to(b"x", rest)).map(|n| json!(n)),
        "bind" => TcpListener::bind(rest).map(|_| Value::Null),
        "unix" => UnixStream::connect(path()).map(|_| Value::Null),
        "abstract" => {
            UnixAddr::from_abstract_name(rest).and_then(|a| UnixStream::connect_addr(&a)).map(|_| Value::Null)
        }
        "signal" => signal(rest),
        "unmark" => unmark(),
        "syscall" => syscall(rest)?,
        _ => return None,
    };
    Some(tried.map_err(|e| name(&e)))
}

/// `~` is the home; anything else is as it is, from the working directory.
fn place(path: &str) -> PathBuf {
    match path.strip_prefix('~') {
        Some(rest) => PathBuf::from(std::env::var("HOME").unwrap_or_default() + rest),
        None => PathBuf::from(path),
    }
}

fn list(dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(dir)?.take(MANY);
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Everything below a path that opens for reading, directories with a slash at their end.
fn survey(top: &Path) -> Vec<String> {
    let (mut found, mut todo, mut looked) = (Vec::new(), vec![top.to_owned()], 0);
    while let Some(path) = todo.pop() {
        looked += 1;
        let Ok(meta) = path.symlink_metadata() else { continue };
        if looked > 20 * MANY || found.len() >= MANY {
            break;
        }
        let shown = path.display();
        if meta.is_dir() {
            if let Ok(entries) = fs::read_dir(&path) {
                found.push(format!("{shown}/"));
                todo.extend(entries.flatten().map(|e| e.path()));
            }
        } else if meta.is_file() && fs::File::open(&path).is_ok() {
            found.push(shown.to_string());
        }
    }
    found.sort();
    found
}

fn exec(program: &Path) -> io::Result<Value> {
    let out = std::process::Command::new(program).output()?;
    Ok(json!({"status": out.status.to_string(), "said": String::from_utf8_lossy(&out.stdout)}))
}

/// Makes its workspace hard to remove: deep, locked, linked, oddly named.
fn litter() -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    let tmp = PathBuf::from(std::env::var("TMPDIR").unwrap_or_default());
    let home = std::env::current_dir()?;
    std::env::set_current_dir(&tmp)?;
    for _ in 0..300 {
        fs::create_dir("deep")?;
        std::env::set_current_dir("deep")?;
    }
    fs::write("bottom", "here")?;
    std::env::set_current_dir(&home)?;
    fs::write(tmp.join(std::ffi::OsStr::from_bytes(b"\xff\n name")), "odd")?;
    for (link, target) in [("root", "/"), ("up", "../../.."), ("loop", "loop"), ("passwd", "/etc/passwd")] {
        std::os::unix::fs::symlink(target, tmp.join(link))?;
    }
    nix::unistd::mkfifo(&tmp.join("pipe"), nix::sys::stat::Mode::S_IRWXU)?;
    let locked = tmp.join("locked");
    fs::create_dir_all(locked.join("inner"))?;
    fs::write(locked.join("inner/file"), "x")?;
    for dir in [locked.join("inner"), locked] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o000))?;
    }
    Ok(())
}

fn address(text: &str) -> io::Result<SocketAddr> {
    text.parse().map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// TCP over several paths, which rules for TCP may overlook.
fn mptcp(to: SocketAddr) -> io::Result<Value> {
    const IPPROTO_MPTCP: libc::c_int = 262;
    let SocketAddr::V4(v4) = to else { return Err(io::ErrorKind::InvalidInput.into()) };
    // SAFETY: system calls on plain values and on a local of the right type; the descriptor is ours alone.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, IPPROTO_MPTCP);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let _socket = std::os::fd::OwnedFd::from_raw_fd(fd);
        let addr = v4_address(v4);
        let size = size_of_val(&addr) as libc::socklen_t;
        done(libc::connect(fd, (&raw const addr).cast(), size).into())
    }
}

/// A connection that is made by sending.
fn fastopen(to: SocketAddr) -> io::Result<Value> {
    let SocketAddr::V4(v4) = to else { return Err(io::ErrorKind::InvalidInput.into()) };
    // SAFETY: system calls on plain values and on locals of the right type; the descriptor is ours alone.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let _socket = std::os::fd::OwnedFd::from_raw_fd(fd);
        let addr = v4_address(v4);
        let size = size_of_val(&addr) as libc::socklen_t;
        let sent = libc::sendto(fd, c"x".as_ptr().cast(), 1, libc::MSG_FASTOPEN, (&raw const addr).cast(), size);
        done(sent as libc::c_long)
    }
}

fn v4_address(v4: std::net::SocketAddrV4) -> libc::sockaddr_in {
    // SAFETY: zeros are a valid address.
    let mut addr: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    addr.sin_family = libc::AF_INET as libc::sa_family_t;
    addr.sin_port = v4.port().to_be();
    addr.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
    addr
}

/// Lowers the limit by which butlerd knows its own.
fn unmark() -> io::Result<Value> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local of the right type.
    done(unsafe { libc::setrlimit(libc::RLIMIT_LOCKS, &none) }.into())
}

fn done(status: libc::c_long) -> io::Result<Value> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(json!(status)) }
}

/// Whether it could signal a process: nothing is sent.
fn signal(whom: &str) -> io::Result<Value> {
    // SAFETY: plain system calls.
    let pid = if whom == "parent" { unsafe { libc::getppid() } } else { whom.parse().unwrap_or(1) };
    done(unsafe { libc::kill(pid, 0) }.into())
}

/// System calls that a sandbox should refuse, each with arguments that do no harm where it does not; `None` if it is
/// not one of them.
fn syscall(which: &str) -> Option<io::Result<Value>> {
    let socket = |family, kind, protocol| unsafe { libc::socket(family, kind, protocol) }.into();
    let pid = std::process::id();
    // SAFETY: the pointers are null or to locals; a child made here ends at once.
    let status: libc::c_long = unsafe {
        match which {
            "io_uring_setup" => libc::syscall(libc::SYS_io_uring_setup, 1, [0u8; 256].as_mut_ptr()),
            "ptrace" => libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0),
            "process_vm_readv" => libc::syscall(libc::SYS_process_vm_readv, pid, 0usize, 0, 0usize, 0, 0),
            "bpf" => libc::syscall(libc::SYS_bpf, 0, [0u8; 128].as_mut_ptr(), 128),
            "unshare" => libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER),
            "clone-newuser" => match libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0) {
                0 => libc::_exit(0),
                other => other,
            },
            "setns" => libc::syscall(libc::SYS_setns, 0, 0),
            "mount" => libc::syscall(libc::SYS_mount, 0usize, c"/".as_ptr(), 0usize, libc::MS_PRIVATE, 0usize),
            "keyctl" => libc::syscall(libc::SYS_keyctl, 0, -3, 0),
            "perf_event_open" => libc::syscall(libc::SYS_perf_event_open, [0u8; 128].as_mut_ptr(), 0, -1, -1, 0),
            "userfaultfd" => libc::syscall(libc::SYS_userfaultfd, 0),
            "socket-unix" => socket(libc::AF_UNIX, libc::SOCK_STREAM, 0),
            "socket-netlink" => socket(libc::AF_NETLINK, libc::SOCK_RAW, 0),
            "socket-packet" => socket(libc::AF_PACKET, libc::SOCK_RAW, 0),
            "socket-raw" => socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
            "socket-udp" => socket(libc::AF_INET, libc::SOCK_DGRAM, 0),
            "socket-tcp" => socket(libc::AF_INET, libc::SOCK_STREAM, 0),
            "socketpair-unix" => libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, [0; 2].as_mut_ptr()).into(),
            _ => return None,
        }
    };
    Some(done(status))
}
