//! Control groups of sessions, in a part of the tree that the test makes for itself.

use std::fs;
use std::path::{Path, PathBuf};

use what_was_left_out::left_out;

use super::*;

/// A group for the groups of one test; removed at its end.
struct Base(PathBuf);

impl Base {
    /// `None`, and a word about it, where this user may not make groups.
    fn make(test: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = mounts.lines().find(|l| l.contains(" - cgroup2 ")).and_then(|l| l.split(' ').nth(4));
        let dir = Path::new(mount.unwrap_or("/nowhere")).join(format!("butlerd-test-{test}-{}", std::process::id()));
        match fs::create_dir(&dir) {
            Ok(()) => Some(Self(dir)),
            Err(e) => {
                left_out(&format!("groups::{test}"), &format!("{}: {e}", dir.display()));
                None
            }
        }
    }

    fn groups(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap().flatten();
        names.filter(|e| e.path().is_dir()).map(|e| e.file_name().to_string_lossy().into_owned()).collect()
    }

    fn members(&self, session: SessionId) -> Vec<i32> {
        let text = fs::read_to_string(self.0.join(format!("session-{session}/cgroup.procs"))).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[tokio::test]
async fn a_session_is_born_into_its_group_and_the_group_ends_with_it() {
    let Some(base) = Base::make("born") else { return };
    let processes = ProcessSupervisor::with_groups(Some(Groups::at(base.0.clone(), false))).unwrap();
    // In a session of its own, and never at rest: it forks faster than anybody can look.
    let restless = "setsid sh -c 'trap \"\" TERM; echo there; while :; do (:); done' & wait";
    let mut child = processes.spawn(sh(restless)).await.unwrap();
    let session = child.held_session();
    line(child.stdout.as_mut().unwrap()).await;
    assert!(base.members(session).contains(&child.pid()));
    assert!(base.members(session).len() > 1);
    let ended = child.terminate(Duration::from_millis(50)).await;
    assert_eq!(ended.survivors, [0_i32; 0], "{ended:?}");
    assert!(ended.strays > 0, "{ended:?}");
    assert_eq!(marked(session), [0_i32; 0]);
    // The dead leave theirs a moment after they are gone.
    until("no group is left", || base.groups().is_empty()).await;
    // A child that can't start leaves none either.
    processes.spawn(ChildSpec { program: "/no/such/program".into(), ..sh("") }).await.unwrap_err();
    until("no group is left", || base.groups().is_empty()).await;
}

#[tokio::test]
async fn groups_of_an_earlier_run_are_ended_and_others_are_left_alone() {
    let Some(base) = Base::make("cleared") else { return };
    let groups = Groups::at(base.0.clone(), false);
    let (ours, other) = (base.0.join(format!("session-{}", SessionId::new())), base.0.join("daemon"));
    let mut left = Vec::new();
    for dir in [&ours, &other] {
        fs::create_dir(dir).unwrap();
        let sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(dir.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
        left.push(sleeper);
    }
    groups.clear();
    assert_eq!(base.groups(), ["daemon"]);
    assert!(!alive(left[0].id() as i32) && alive(left[1].id() as i32));
    for mut sleeper in left {
        let _ = sleeper.kill();
        sleeper.wait().unwrap();
    }
    fs::remove_dir(other).unwrap();
}

#[test]
fn bounds_are_written_where_there_are_controllers() {
    let dir = tempfile::tempdir().unwrap();
    let read = |session: SessionId, file: &str| {
        fs::read_to_string(dir.path().join(format!("session-{session}")).join(file)).unwrap_or_default()
    };
    let limits = GroupLimits { memory: Some(4 << 30), processes: Some(64) };
    for bounds in [true, false] {
        let session = SessionId::new();
        let group = Groups::at(dir.path().to_owned(), bounds).make(session, limits).unwrap();
        let files = ["memory.max", "pids.max", "memory.swap.max", "memory.oom.group"];
        let expected = if bounds { ["4294967296", "64", "0", "1"] } else { [""; 4] };
        assert_eq!(files.map(|file| read(session, file)), expected);
        // Twice the same is a mistake, not a shared group.
        Groups::at(dir.path().to_owned(), bounds).make(session, limits).unwrap_err();
        drop(group);
    }
}
