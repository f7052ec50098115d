//! What it can tell of itself, by system calls alone: `/proc` may be closed to it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Tried;

/// What `RLIMIT_*` are: the C library's type differs between glibc and musl.
type Resource = u32;

const LIMITS: [(&str, Resource); 8] = [
    ("core", libc::RLIMIT_CORE as Resource),
    ("nofile", libc::RLIMIT_NOFILE as Resource),
    ("nproc", libc::RLIMIT_NPROC as Resource),
    ("fsize", libc::RLIMIT_FSIZE as Resource),
    ("data", libc::RLIMIT_DATA as Resource),
    ("as", libc::RLIMIT_AS as Resource),
    ("memlock", libc::RLIMIT_MEMLOCK as Resource),
    ("locks", libc::RLIMIT_LOCKS as Resource),
];

/// Command line, environment, descriptors with their kind, limits (soft and hard), users and groups, and what the
/// kernel was asked to do with it.
pub fn dump() -> Value {
    let text = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
    let env: BTreeMap<String, String> = std::env::vars_os().map(|(k, v)| (text(k), text(v))).collect();
    let limits: BTreeMap<&str, [u64; 2]> = LIMITS.iter().map(|(name, number)| (*name, limit(*number))).collect();
    // SAFETY: plain system calls.
    let (uid, euid, gid, session, group) =
        unsafe { (libc::getuid(), libc::geteuid(), libc::getgid(), libc::getsid(0), libc::getpgrp()) };
    let flag = |option: libc::c_int| unsafe { libc::prctl(option, 0, 0, 0, 0) };
    json!({
        "args": std::env::args_os().map(text).collect::<Vec<_>>(),
        "env": env,
        "fds": descriptors(),
        "limits": limits,
        "uid": uid, "euid": euid, "gid": gid, "groups": groups(),
        "pid": std::process::id(), "session": session, "group": group,
        "cwd": std::env::current_dir().map(|d| text(d.into_os_string())).unwrap_or_default(),
        "no_new_privs": flag(libc::PR_GET_NO_NEW_PRIVS),
        "seccomp": flag(libc::PR_GET_SECCOMP),
    })
}

fn limit(number: Resource) -> [u64; 2] {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local of the right type.
    unsafe { libc::getrlimit(number as _, &mut limit) };
    [limit.rlim_cur, limit.rlim_max]
}

fn groups() -> Vec<u32> {
    let mut groups = vec![0; 1024];
    // SAFETY: room for as many as is said.
    let n = unsafe { libc::getgroups(1024, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(n).unwrap_or_default());
    groups
}

/// Each open descriptor with what it is.
fn descriptors() -> BTreeMap<i32, &'static str> {
    let kind = |fd: i32| {
        // SAFETY: zeros are a valid stat, which the call fills.
        let mode = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::fstat(fd, &mut stat) == 0).then_some(stat.st_mode)?
        };
        Some(match mode & libc::S_IFMT {
            libc::S_IFIFO => "pipe",
            libc::S_IFSOCK => "socket",
            libc::S_IFCHR => "device",
            libc::S_IFREG => "file",
            libc::S_IFDIR => "directory",
            _ => "other",
        })
    };
    (0..65_536).filter_map(|fd| Some((fd, kind(fd)?))).collect()
}

/// Takes memory and writes to every page of it.
pub fn eat(bytes: usize) -> Tried {
    const MEAL: usize = 4 << 20;
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    while eaten.len() * MEAL < bytes {
        let mut meal = Vec::new();
        if meal.try_reserve_exact(MEAL).is_err() {
            // What a program that does not look does: the allocator's failure is its death.
            eprintln!("no more memory after {} MiB", (eaten.len() * MEAL) >> 20);
            std::process::abort();
        }
        meal.resize(MEAL, 1);
        eaten.push(meal);
    }
    Ok(json!(eaten.len() * MEAL))
}
