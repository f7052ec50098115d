//! What the kernel offers. Most of it keeps sessions' children in bounds.

use std::path::Path;

use super::{Finding, Level};
use crate::config::SandboxMode;
use crate::spawner::child::{Kernel, Mark};

const TOPIC: &str = "kernel";

/// `mode`: whether children are to be shut in, if the settings could be read.
pub(super) fn findings(mode: Option<SandboxMode>) -> Vec<Finding> {
    let own_user = !nix::unistd::geteuid().is_root();
    let mut found = sandbox(Kernel::here(), mode.unwrap_or(SandboxMode::Auto), own_user);
    found.extend([cgroup(), marks()]);
    found
}

/// What keeps sessions in bounds, and what does not.
fn sandbox(kernel: Kernel, mode: SandboxMode, own_user: bool) -> Vec<Finding> {
    if mode == SandboxMode::Off {
        let text = "spawner.sandbox is \"off\": sessions can read what their user can, and connect anywhere";
        return vec![Finding::warning(TOPIC, text).so("Set it to \"auto\", which is the default.")];
    }
    let required = mode == SandboxMode::Required && !kernel.is_enough();
    let lines = kernel.report(own_user).into_iter().map(|line| match (line.on, required) {
        (true, _) => Finding::ok(TOPIC, line.text),
        (false, true) => Finding { level: Level::Problem, ..Finding::ok(TOPIC, line.text) }.so(
            "No session starts: use a kernel with it (Linux 6.7, `landlock` among lsm= at boot), or set spawner.sandbox = \"auto\".",
        ),
        (false, false) => Finding::warning(TOPIC, line.text)
            .so("Use a newer kernel with it (`landlock` among lsm= at boot); in a container, allow its system calls."),
    });
    lines.collect()
}

fn cgroup() -> Finding {
    let text = match own_cgroup() {
        None => "no cgroup v2".to_owned(),
        Some(dir) if delegated(&dir) => format!("cgroup v2, this part is ours to divide: {dir}"),
        Some(_) => "cgroup v2, but this part is not delegated (systemd: Delegate=yes)".to_owned(),
    };
    Finding::ok(TOPIC, text)
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
    fn what_is_off_is_told_by_how_much_it_matters() {
        let levels = |kernel, mode, own| -> Vec<Level> {
            sandbox(kernel, mode, own).into_iter().map(|finding| finding.level).collect()
        };
        use Level::{Ok, Problem, Warning};
        let full = Kernel { landlock: Some(7), seccomp: true };
        let none = Kernel { landlock: None, seccomp: false };
        assert_eq!(levels(full, SandboxMode::Required, true), [Ok, Ok, Ok]);
        assert_eq!(levels(none, SandboxMode::Auto, false), [Warning, Warning, Ok]);
        assert_eq!(levels(none, SandboxMode::Required, false), [Problem, Problem, Ok]);
        assert_eq!(levels(full, SandboxMode::Off, false), [Warning]);
        // Without rules for signals it matters whose processes are about.
        let older = Kernel { landlock: Some(5), seccomp: true };
        assert_eq!(levels(older, SandboxMode::Auto, true), [Warning, Ok, Ok]);
        assert_eq!(levels(older, SandboxMode::Auto, false), [Ok, Ok, Ok]);
        assert_eq!(levels(older, SandboxMode::Required, true), [Warning, Ok, Ok]);
        assert_eq!(levels(Kernel { landlock: Some(3), seccomp: true }, SandboxMode::Required, false)[0], Problem);
    }
}
