//! What the kernel offers. Most of it keeps sessions' children in bounds.

use std::path::Path;

use super::Finding;
use crate::spawner::child::Mark;

const TOPIC: &str = "kernel";
/// Until the sandbox comes, these are only stated.
const UNUSED: &str = "not used yet by this version";

pub(super) fn findings() -> Vec<Finding> {
    vec![landlock(), seccomp(), cgroup(), marks()]
}

/// Asks for the version of Landlock's interface; nothing is restricted by that.
fn landlock_abi() -> Option<i64> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads neither pointer nor size.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION) };
    (abi > 0).then_some(abi)
}

fn landlock() -> Finding {
    match landlock_abi() {
        Some(abi) => Finding::ok(TOPIC, format!("Landlock, interface {abi}; {UNUSED}")),
        None => Finding::ok(TOPIC, format!("no Landlock; {UNUSED}")),
    }
}

fn seccomp() -> Finding {
    let there = Path::new("/proc/sys/kernel/seccomp/actions_avail").exists();
    Finding::ok(TOPIC, format!("{} filters; {UNUSED}", if there { "seccomp" } else { "no seccomp" }))
}

fn cgroup() -> Finding {
    let text = match own_cgroup() {
        None => "no cgroup v2".to_owned(),
        Some(dir) if delegated(&dir) => format!("cgroup v2, this part is ours to divide: {dir}"),
        Some(_) => "cgroup v2, but this part is not delegated (systemd: Delegate=yes)".to_owned(),
    };
    Finding::ok(TOPIC, format!("{text}; {UNUSED}"))
}

/// This process's group in the unified hierarchy.
fn own_cgroup() -> Option<String> {
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return None;
    }
    unified(&std::fs::read_to_string("/proc/self/cgroup").ok()?).map(|path| format!("/sys/fs/cgroup{path}"))
}

fn unified(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

fn delegated(dir: &str) -> bool {
    let writable = |path: &Path| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok();
    let dir = Path::new(dir);
    writable(dir) && writable(&dir.join("cgroup.procs"))
}

/// Every process of a session carries a mark, so that none is missed after a crash.
fn marks() -> Finding {
    match Mark::available() {
        true => Finding::ok(TOPIC, "sessions' processes can be marked, and found again after a crash"),
        false => Finding::warning(TOPIC, "a limit on file locks keeps sessions' processes from being marked")
            .so("Start butlerd without that limit (ulimit -x unlimited), or strays may outlive a crash."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_group_is_told_from_others() {
        assert_eq!(unified("12:cpu:/x\n0::/user.slice/a\n"), Some("/user.slice/a"));
        assert_eq!(unified("12:cpu:/x\n"), None);
    }

    #[test]
    fn nothing_that_is_not_used_yet_is_a_problem() {
        assert!(findings().iter().take(3).all(|f| f.level == super::super::Level::Ok && f.text.ends_with(UNUSED)));
    }
}
