//! A test that can't run here says so, and is listed when `cargo test` ends. In the gate, which installs everything, it
//! fails instead.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, getppid};

/// What the list of one run is called; behind it stands the id of the process that runs the tests.
const LIST: &str = "left-out-of-";

/// Tells that `test` was left out and why; the caller returns then.
///
/// Written past the test harness, which shows what a test prints only when it fails.
///
/// # Panics
/// If nothing may be left out (`BUTLERD_TEST_LEAVE_NOTHING_OUT`), or the list can't be written.
pub fn left_out(test: &str, reason: &str) {
    let line = format!("{test}: {}\n", reason.replace('\n', " "));
    assert!(std::env::var_os("BUTLERD_TEST_LEAVE_NOTHING_OUT").is_none(), "left out: {line}");
    let told = io::stderr().write_all(format!("left out: {line}").as_bytes());
    let noted = told.and_then(|()| lists()).and_then(|dir| note(&dir, getppid(), &line));
    assert!(noted.is_ok(), "{test} was left out, and that could not be noted: {noted:?}");
}

/// What this run's tests noted, each line once; the list is empty then.
///
/// # Errors
/// If a list is there and can't be read or removed.
pub fn take() -> io::Result<Vec<String>> {
    take_from(&lists()?, getppid())
}

/// Where the lists are: the profile's folder below the target folder, which holds the tests in `deps`.
fn lists() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let above = program.parent().and_then(Path::parent).map(Path::to_owned);
    above.ok_or_else(|| io::Error::other(format!("{} is not in a target folder", program.display())))
}

/// All test programs of one `cargo test` have the same parent, which names the run.
fn note(dir: &Path, run: Pid, line: &str) -> io::Result<()> {
    // One write at the end of the file: tests that run side by side don't mix their lines.
    let mut list = OpenOptions::new().create(true).append(true).open(dir.join(format!("{LIST}{run}")))?;
    list.write_all(line.as_bytes())
}

fn take_from(dir: &Path, run: Pid) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(LIST)?.parse().ok()).map(Pid::from_raw);
        let Some(of) = of else { continue };
        if of == run {
            lines.extend(std::fs::read_to_string(entry.path())?.lines().map(str::to_owned));
        }
        // What runs that were broken off have left goes as well, before a process with the same id comes.
        if of == run || kill(of, None) == Err(Errno::ESRCH) {
            std::fs::remove_file(entry.path())?;
        }
    }
    lines.sort();
    lines.dedup();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_takes_its_own_lines_each_once_and_clears_up() {
        let dir = tempfile::tempdir().unwrap();
        let (own, other) = (getppid(), nix::unistd::getpid());
        // No process has so high an id.
        let ended = Pid::from_raw(i32::MAX);
        for line in ["b: no shell\n", "a: no kernel\n", "b: no shell\n"] {
            note(dir.path(), own, line).unwrap();
        }
        note(dir.path(), other, "of a run beside this one\n").unwrap();
        note(dir.path(), ended, "of a run that was broken off\n").unwrap();
        std::fs::write(dir.path().join("left-out-of-sight"), "something else").unwrap();
        assert_eq!(take_from(dir.path(), own).unwrap(), ["a: no kernel", "b: no shell"]);
        assert_eq!(take_from(dir.path(), own).unwrap(), [] as [&str; 0]);
        let exists = |name: &str| dir.path().join(name).exists();
        assert!(exists(&format!("{LIST}{other}")) && exists("left-out-of-sight") && !exists(&format!("{LIST}{ended}")));
    }
}
