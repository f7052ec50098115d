use std::os::unix::fs::symlink;

use super::*;
use config::skills::testing::skills_of;
use what_was_left_out::left_out;

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

fn users() -> ChildUsers {
    ChildUsers::choose(None, None).unwrap()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A data directory that children can pass through, and a roster with a butler who has no skills.
fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let (data, roster) = (dir.path().join("data"), dir.path().join("roster"));
    fs::create_dir_all(roster.join("health")).unwrap();
    DirBuilder::new().mode(0o700).create(&data).unwrap();
    (dir, data, roster)
}

#[test]
fn directories_are_the_child_s_alone_and_those_above_can_only_be_passed() {
    let (_dir, data, _) = place();
    let spaces = Workspaces::open(&data, users()).unwrap();
    let session = SessionId::new();
    let mut space = spaces.create(session, &[]).unwrap();
    let root = data.canonicalize().unwrap().join("work").join(session.to_string());
    assert_eq!(space.paths, WorkspacePaths::under(root.clone()));
    assert_eq!(mode(&data.join("work")), 0o711);
    assert_eq!(mode(&data), if users().is_own() { 0o700 } else { 0o711 });
    let uid = space.user().map_or_else(|| nix::unistd::Uid::effective().as_raw(), |u| u.uid);
    for dir in [&space.paths.home, &space.paths.tmp, &space.paths.work] {
        assert_eq!((mode(dir), dir.metadata().unwrap().uid()), (0o700, uid), "{dir:?}");
    }
    assert_eq!(mode(&root), 0o700, "nobody else is in while it is filled");
    let own = nix::unistd::Uid::effective().as_raw();
    let file = SessionFile { path: "a/b/c.json".into(), contents: b"secret".to_vec(), mode: 0o600 };
    assert!(!format!("{file:?}").contains("secret"));
    space.fill(std::slice::from_ref(&file)).unwrap();
    assert_eq!((mode(&root), root.metadata().unwrap().uid()), (if users().is_own() { 0o700 } else { 0o711 }, own));
    let written = root.join("a/b/c.json");
    assert_eq!((mode(&written), written.metadata().unwrap().uid()), (0o600, uid));
    assert_eq!(fs::read(&written).unwrap(), b"secret");
    assert!(matches!(space.fill(&[]), Err(WorkspaceError::Filled(_))));
    for path in ["../x", "/tmp/x", "a/../../x"] {
        let mut other = spaces.create(SessionId::new(), &[]).unwrap();
        let wrong = SessionFile { path: path.into(), ..file.clone() };
        assert!(matches!(other.fill(&[wrong]), Err(WorkspaceError::Path(_))), "{path}");
    }
    assert!(spaces.create(session, &[]).is_err(), "a session has one workspace");
    assert!(written.exists(), "and the second attempt leaves it alone");
    space.remove().unwrap();
    assert!(!root.exists());
}

#[test]
fn a_directory_that_children_cannot_pass_is_named() {
    if users().is_own() {
        return left_out(
            "workspace::a_directory_that_children_cannot_pass_is_named",
            "only root runs children as somebody else",
        );
    }
    let (dir, data, _) = place();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    let error = Workspaces::open(&data, users()).unwrap_err();
    let closed = dir.path().canonicalize().unwrap();
    assert!(matches!(&error, WorkspaceError::Unreachable { dir, .. } if *dir == closed), "{error}");
    assert!(error.to_string().contains("chmod o+x"), "{error}");
}

#[test]
fn skills_are_copied_and_cannot_be_written() {
    let (_dir, data, roster) = place();
    let head = |name: &str| format!("---\nname: {name}\ndescription: d\n---\nbody\n");
    write(&roster.join("health/skills/own/SKILL.md"), &head("own"));
    write(&roster.join("health/skills/own/parts/run.sh"), "#!/bin/sh\n");
    let script = roster.join("health/skills/own/parts/run.sh");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    write(&roster.join("shared/skills/notes/SKILL.md"), &head("notes"));
    write(&roster.join("shared/skills/other/SKILL.md"), &head("other"));
    let skills = skills_of(&roster, "health", &["notes"]);
    let space = Workspaces::open(&data, users()).unwrap().create(SessionId::new(), &skills).unwrap();
    let skills = space.paths.root.join(SKILLS_DIR);
    let mut names: Vec<_> = fs::read_dir(&skills).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["notes", "own"]);
    assert_eq!(fs::read_to_string(skills.join("notes/SKILL.md")).unwrap(), head("notes"));
    assert_eq!((mode(&skills), mode(&skills.join("own")), mode(&skills.join("own/parts"))), (0o555, 0o555, 0o555));
    assert_eq!((mode(&skills.join("own/SKILL.md")), mode(&skills.join("own/parts/run.sh"))), (0o444, 0o555));
    assert_eq!(mode(&skills.join("../../work/.agents/skills/own/parts/run.sh")), 0o555, "where programs look for them");
    let own = nix::unistd::Uid::effective().as_raw();
    assert_eq!(skills.join("own/SKILL.md").metadata().unwrap().uid(), own, "as root they are not the child's");
    let root = space.paths.root.clone();
    space.remove().unwrap();
    assert!(!root.exists(), "also what nobody may write");
}

#[test]
fn a_link_that_came_later_is_not_followed() {
    let (dir, data, roster) = place();
    write(&dir.path().join("key"), "secret");
    write(&roster.join("health/skills/a/SKILL.md"), "---\nname: a\ndescription: d\n---\nbody\n");
    let skills = skills_of(&roster, "health", &[]);
    symlink(dir.path().join("key"), roster.join("health/skills/a/key")).unwrap();
    let spaces = Workspaces::open(&data, users()).unwrap();
    let session = SessionId::new();
    let error = spaces.create(session, &skills).unwrap_err();
    assert!(error.to_string().ends_with("skills/a/key is a link, and a skill has none"), "{error}");
    assert!(!data.join("work").join(session.to_string()).exists(), "nothing is left of it");
}

#[test]
fn a_sweep_removes_what_no_living_session_owns() {
    let (_dir, data, _) = place();
    let spaces = Workspaces::open(&data, users()).unwrap();
    let [alive, dead, failed] = [SessionId::new(), SessionId::new(), SessionId::new()];
    let _one = spaces.create(alive, &[]).unwrap();
    let two = spaces.create(dead, &[]).unwrap();
    // What a child may do to its own directories.
    write(&two.paths.home.join("a/b"), "");
    symlink("/etc", two.paths.home.join("link")).unwrap();
    fs::set_permissions(two.paths.home.join("a"), Permissions::from_mode(0o000)).unwrap();
    let mut three = spaces.create(failed, &[]).unwrap();
    let token = SessionFile { path: "mcp.json".into(), contents: b"token".to_vec(), mode: 0o600 };
    three.fill(std::slice::from_ref(&token)).unwrap();
    write(&three.paths.work.join("notes"), "what it wrote");
    let kept = three.keep(&[token]).unwrap();
    write(&data.join("work/README"), "of somebody else");

    assert_eq!(spaces.sweep(&HashSet::from([alive])).unwrap(), 1);
    let work = data.join("work");
    assert!(work.join(alive.to_string()).exists() && !work.join(dead.to_string()).exists());
    assert!(work.join("README").exists() && Path::new("/etc/passwd").exists());
    assert_eq!(fs::read_to_string(kept.join("work/notes")).unwrap(), "what it wrote");
    assert!(!kept.join("mcp.json").exists());
    assert_eq!(mode(kept.parent().unwrap()), 0o700);
}

#[test]
fn no_tree_is_too_deep_to_be_removed() {
    let (_dir, data, _) = place();
    let spaces = Workspaces::open(&data, users()).unwrap();
    let space = spaces.create(SessionId::new(), &[]).unwrap();
    // Deeper than a path can be long, or descriptors can follow.
    use nix::fcntl::{OFlag, open, openat};
    use nix::sys::stat::{Mode, mkdirat};
    let mut at = open(&space.paths.tmp, OFlag::O_DIRECTORY, Mode::empty()).unwrap();
    for i in 0..3000 {
        mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
        if i % 500 == 0 {
            mkdirat(&at, "closed", Mode::from_bits_truncate(0o500)).unwrap();
        }
        at = openat(&at, "d", OFlag::O_DIRECTORY, Mode::empty()).unwrap();
    }
    drop(at);
    let root = space.paths.root.clone();
    space.remove().unwrap();
    assert!(!root.exists());
}

#[test]
fn what_is_kept_holds_no_secret() {
    let secret = base::Secret::new("workspace-secret-1".to_owned());
    let _hidden = base::redact::household().hide_while(&secret);
    let (_dir, data, _roster) = place();
    let spaces = Workspaces::open(&data, users()).unwrap();
    let mut workspace = spaces.create(SessionId::new(), &[]).unwrap();
    workspace.fill(&[]).unwrap();
    let work = workspace.paths.work.clone();
    fs::create_dir_all(work.join("a/b-workspace-secret-1/c")).unwrap();
    fs::write(work.join("a/b-workspace-secret-1/c/plain"), "it is workspace-secret-1.").unwrap();
    fs::write(work.join("hex"), b"\xff776f726b73706163652d7365637265742d31").unwrap();
    fs::write(work.join("other"), "nothing").unwrap();
    fs::set_permissions(work.join("hex"), Permissions::from_mode(0o000)).unwrap();
    symlink("/workspace-secret-1", work.join("link")).unwrap();
    symlink("/etc/hostname", work.join("harmless")).unwrap();
    let long = fs::File::create(work.join("long")).unwrap();
    long.set_len(17 << 20).unwrap();
    let kept = workspace.keep(&[]).unwrap().join("work");
    assert_eq!(fs::read_to_string(kept.join("a/b-[hidden]/c/plain")).unwrap(), "it is [hidden].");
    assert_eq!(fs::read(kept.join("hex")).unwrap(), b"\xff[hidden]");
    assert_eq!(fs::read_to_string(kept.join("other")).unwrap(), "nothing");
    assert!(kept.join("link").symlink_metadata().is_err() && kept.join("harmless").symlink_metadata().is_ok());
    assert!(!kept.join("long").exists());
}
