//! What a child has and has not when it begins.

use std::os::fd::AsRawFd;

use what_was_left_out::left_out;

use super::*;

fn direct(program: &str, args: &[&str]) -> ChildSpec {
    ChildSpec { program: program.into(), args: args.iter().map(|a| (*a).into()).collect(), ..sh("") }
}

/// The fields of a `name: value` or `name   value` table.
fn field<'a>(texts: &[&'a str], name: &str) -> Vec<&'a str> {
    let line = texts.iter().find_map(|l| l.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {texts:?}"));
    line.trim_start_matches(':').split_whitespace().collect()
}

#[tokio::test]
async fn the_environment_is_exactly_the_given_one() {
    let mut spec = direct("/usr/bin/env", &[]);
    spec.env = vec![("B".into(), "2 two".into()), ("A".into(), String::new())];
    let said = run(spec).await;
    let mut texts = said.texts();
    texts.sort_unstable();
    assert_eq!(texts, ["A=", "B=2 two"]);
    assert_eq!(said.ended.exit, Some(ExitInfo { code: Some(0), signal: None }));
}

#[tokio::test]
async fn there_are_three_descriptors_and_nothing_to_read() {
    // One that a careless library opened without close-on-exec.
    let open = std::fs::File::open("/etc/passwd").unwrap();
    // SAFETY: a descriptor that stays open to the end of this test.
    unsafe { libc::fcntl(open.as_raw_fd(), libc::F_SETFD, 0) };
    let said = run(sh("ls /proc/$$/fd; readlink /proc/$$/fd/0; cat")).await;
    assert_eq!(said.texts(), ["0", "1", "2", "/dev/null"], "{}", said.stderr);
}

#[tokio::test]
async fn standard_input_may_be_one_file_that_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("prompt");
    std::fs::write(&file, "words of the owner").unwrap();
    let mut spec = sh("cat; echo; echo more >&0 || echo refused");
    spec.stdin = Stdin::File(file.clone());
    assert_eq!(run(spec.clone()).await.texts(), ["words of the owner", "refused"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "words of the owner");

    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let processes = ProcessSupervisor::start().unwrap();
    for wrong in [link, dir.path().to_owned(), dir.path().join("missing")] {
        spec.stdin = Stdin::File(wrong.clone());
        let error = processes.spawn(spec.clone()).await.unwrap_err();
        assert!(matches!(&error, ChildError::Stdin { path, .. } if *path == wrong), "{error:?}");
    }
}

#[tokio::test]
async fn standard_input_may_be_a_pipe_that_the_daemon_writes_to() {
    use tokio::io::AsyncWriteExt;
    let spec = ChildSpec { stdin: Stdin::Pipe, ..sh("cat; echo over") };
    let mut child = ProcessSupervisor::start().unwrap().spawn(spec).await.unwrap();
    let (mut input, mut lines) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    input.write_all(b"one\n").await.unwrap();
    assert_eq!(line(&mut lines).await, "one");
    drop(input);
    assert_eq!(line(&mut lines).await, "over");
}

#[tokio::test]
async fn limits_are_set_and_the_mark_is_among_them() {
    let mut spec = direct("/bin/cat", &["/proc/self/limits"]);
    spec.limits = Rlimits {
        core: Some(0),
        nofile: Some(100),
        nproc: Some(500),
        fsize: Some(1 << 20),
        data: Some(1 << 30),
        session_tasks: None,
    };
    let mark = Mark::of(spec.session).0.to_string();
    let said = run(spec).await;
    let texts = said.texts();
    for (name, value) in [
        ("Max core file size", "0"),
        ("Max open files", "100"),
        ("Max processes", "500"),
        ("Max file size", "1048576"),
        ("Max data size", "1073741824"),
        ("Max file locks", mark.as_str()),
    ] {
        assert_eq!(field(&texts, name)[..2], [value, value], "{name}");
    }
}

#[tokio::test]
async fn a_limit_above_our_own_is_cut_to_it() {
    let mut spec = direct("/bin/cat", &["/proc/self/limits"]);
    spec.limits.nofile = Some(u64::MAX - 1);
    let own = super::super::limits::hard_limit(libc::RLIMIT_NOFILE as _).unwrap().to_string();
    assert_eq!(field(&run(spec).await.texts(), "Max open files")[1], own);
}

#[tokio::test]
async fn it_leads_a_session_with_fresh_signals_and_no_new_privileges() {
    let said = run(direct("/bin/cat", &["/proc/self/status", "/proc/self/stat"])).await;
    let texts = said.texts();
    for (name, value) in [
        ("NoNewPrivs", "1"),
        ("Umask", "0077"),
        ("SigBlk", "0000000000000000"),
        // The test's own process ignores SIGPIPE, as all of Rust does.
        ("SigIgn", "0000000000000000"),
        ("SigCgt", "0000000000000000"),
    ] {
        assert_eq!(field(&texts, name), [value], "{name}");
    }
    let stat: Vec<&str> = texts.last().unwrap().split(' ').collect();
    assert_eq!((stat[0], stat[0]), (stat[4], stat[5]), "pid, group and session");
}

#[tokio::test]
async fn as_root_it_is_somebody_else_without_groups_or_capabilities() {
    if !is_root() {
        return left_out(
            "spawn::as_root_it_is_somebody_else_without_groups_or_capabilities",
            "only root can change the user",
        );
    }
    let user = ChildUsers::choose(None, None).unwrap().next().unwrap();
    let mut spec = direct("/bin/cat", &["/proc/self/status"]);
    spec.user = Some(user);
    let said = run(spec).await;
    let texts = said.texts();
    let (uid, gid) = (user.uid.to_string(), user.gid.to_string());
    assert_eq!(field(&texts, "Uid"), [&uid; 4]);
    assert_eq!(field(&texts, "Gid"), [&gid; 4]);
    assert_eq!(field(&texts, "Groups"), [&gid]);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(&texts, set), ["0000000000000000"], "{set}");
    }
}

#[tokio::test]
async fn its_own_binary_is_reachable_wherever_it_lies() {
    // `/proc/self/exe` in the child means what the parent is, here the test's own binary.
    let mut spec = direct("/proc/self/exe", &["--list", "--exact", "tests::birth::no_such_test"]);
    spec.user = ChildUsers::choose(None, None).unwrap().next();
    let said = run(spec).await;
    assert_eq!(said.ended.exit, Some(ExitInfo { code: Some(0), signal: None }), "{}", said.stderr);
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let processes = ProcessSupervisor::start().unwrap();
    let error = processes.spawn(direct("/no/such/program", &[])).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot start /no/such/program: the program itself"), "{error}");
    let error = processes.spawn(direct("sh", &[])).await.unwrap_err();
    assert!(matches!(error, ChildError::Relative(_)), "{error}");
    let error = processes.spawn(ChildSpec { cwd: "/no/such/directory".into(), ..sh("true") }).await.unwrap_err();
    assert!(error.to_string().contains("its working directory is gone"), "{error}");
    if !is_root() {
        let user = Some(ChildUser { uid: 65_533, gid: 65_533 });
        let error = processes.spawn(ChildSpec { user, ..sh("true") }).await.unwrap_err();
        assert!(error.to_string().contains("its groups failed"), "{error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let program = dir.path().join("program");
    std::fs::copy("/bin/true", &program).unwrap();
    let user = Some(ChildUser { uid: 65_533, gid: 65_533 });
    let error = processes.spawn(ChildSpec { program, user, ..sh("") }).await.unwrap_err();
    assert!(error.to_string().contains("may the children's user run it"), "{error}");
}
