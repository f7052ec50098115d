//! What the kernel offers. Most of it keeps sessions' children in bounds.

use super::{Finding, Level};
use config::SandboxMode;
use process::{Kernel, Mark, delegated};

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

/// Whether each session can have a control group of its own. The daemon itself may be asked from a terminal, which is
/// in another group than the service: so this is no more than said.
fn cgroup() -> Finding {
    Finding::ok(
        TOPIC,
        match delegated() {
            Ok(dir) => format!("control groups: {} is ours to divide among sessions", dir.display()),
            Err(e) => format!("control groups, as seen from here: {e}"),
        },
    )
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
