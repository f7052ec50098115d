//! What a child in a sandbox can and cannot reach. Each attempt is made without it first, where it succeeds.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use what_was_left_out::left_out;

use super::*;

/// A directory that everybody may read, with a file in it.
fn open_dir() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "for everybody").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    (dir, file)
}

/// Whether this kernel can't keep children in bounds; `test` is left out then.
fn unconfined(test: &str) -> bool {
    let kernel = Kernel::here();
    if !kernel.is_enough() {
        left_out(test, &format!("{kernel:?} can't keep children in bounds"));
    }
    !kernel.is_enough()
}

/// A shell with `script`, as an unprivileged user where we may choose, in `sandbox`. The user is always the same: what
/// keeps children apart here is the sandbox alone.
fn sandboxed(script: &str, sandbox: Option<Sandbox>) -> ChildSpec {
    static USER: OnceLock<Option<ChildUser>> = OnceLock::new();
    let sandbox = sandbox.map(|sandbox| Sandbox { programs: true, ..sandbox });
    let user = *USER.get_or_init(|| ChildUsers::choose(None, None).unwrap().next());
    ChildSpec { sandbox, user, ..sh(script) }
}

/// The exit code of `script` outside of any sandbox and in this one.
async fn codes(script: &str, sandbox: Sandbox) -> [Option<i32>; 2] {
    let code = |said: Said| said.ended.exit.and_then(|exit| exit.code);
    [code(run(sandboxed(script, None)).await), code(run(sandboxed(script, Some(sandbox))).await)]
}

#[tokio::test]
async fn only_what_is_named_can_be_read_and_never_what_is_kept() {
    if unconfined("sandbox::only_what_is_named_can_be_read_and_never_what_is_kept") {
        return;
    }
    let (dir, file) = open_dir();
    let read = format!("cat {0} && ls {1}", file.display(), dir.path().display());
    let open = Sandbox { read: vec![dir.path().to_owned()], ..Sandbox::default() };
    assert_eq!(codes(&read, Sandbox::default()).await, [Some(0), Some(1)]);
    assert_eq!(codes(&read, open.clone()).await, [Some(0), Some(0)]);
    // To read is not to write, nor to remove.
    assert_eq!(codes(&format!("echo > {}", file.display()), open.clone()).await, [Some(0), Some(2)]);
    let moved = dir.path().join("moved");
    let there_and_back = format!("mv {0} {1} && mv {1} {0}", file.display(), moved.display());
    assert_eq!(codes(&there_and_back, open.clone()).await, [Some(0), Some(1)]);
    // What holds something kept is not opened, by whatever name, and neither is a part of it.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    let real = dir.path().canonicalize().unwrap();
    for (read, never) in [(dir.path(), file.as_path()), (&link, &file), (&file, &real)] {
        let never = vec![never.canonicalize().unwrap()];
        let kept = Sandbox { read: vec![read.to_owned()], never, ..Sandbox::default() };
        assert_eq!(codes(&format!("cat {}", file.display()), kept).await, [Some(0), Some(1)], "{}", read.display());
    }
}

#[tokio::test]
async fn the_workspace_is_written_and_nothing_in_it_is_run() {
    if unconfined("sandbox::the_workspace_is_written_and_nothing_in_it_is_run") {
        return;
    }
    let (dir, _) = open_dir();
    let inside = Sandbox { write: vec![dir.path().to_owned()], ..Sandbox::default() };
    let work = format!(
        "cd {} && mkdir -p a b && echo x > a/f && mv a/f b/f && ln -s f b/l && ln b/f b/h && cat b/l && : > b/f && rm -r a b",
        dir.path().display()
    );
    assert_eq!(codes(&work, inside.clone()).await, [Some(0), Some(0)]);
    let run = format!("cd {} && cp /bin/true t && chmod 755 t; ./t; c=$?; rm -f t; exit $c", dir.path().display());
    assert_eq!(codes(&run, inside).await, [Some(0), Some(126)]);
}

/// What was made for a child is its own to read and to run, and no more, also where it could change the modes.
#[tokio::test]
async fn scripts_are_run_and_not_written_although_what_holds_them_is_kept() {
    if unconfined("sandbox::scripts_are_run_and_not_written_although_what_holds_them_is_kept") {
        return;
    }
    let (dir, file) = open_dir();
    let real = dir.path().canonicalize().unwrap();
    let (scripts, work) = (real.join("scripts"), real.join("work"));
    for dir in [&scripts, &work] {
        std::fs::create_dir(dir).unwrap();
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    for place in [&scripts, &work, &real] {
        std::fs::write(place.join("run"), "#!/bin/sh\nexit 7\n").unwrap();
        std::fs::set_permissions(place.join("run"), std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let inside = Sandbox {
        never: vec![real.clone()],
        own: vec![scripts.clone(), file.clone()],
        scripts: vec![scripts.clone()],
        write: vec![work.clone()],
        ..Sandbox::default()
    };
    let (scripts, work, real) = (scripts.display(), work.display(), real.display());
    for (script, expected) in [
        (format!("{scripts}/run"), [7, 7]),
        (format!("cat {scripts}/run {}", file.display()), [0, 0]),
        (format!("{real}/run"), [7, 126]),
        (format!("cat {real}/run"), [0, 1]),
        (format!("{work}/run"), [7, 126]),
        (format!("echo >> {scripts}/run"), [0, 2]),
        (format!("echo > {scripts}/new"), [0, 2]),
        // Nor by another name, or from where it is written.
        (format!("ln {scripts}/run {work}/same && rm {work}/same"), [0, 1]),
        (format!("cp {work}/run {work}/moved && mv {work}/moved {scripts}/moved"), [0, 1]),
    ] {
        assert_eq!(codes(&script, inside.clone()).await, expected.map(Some), "{script}");
    }
}

#[tokio::test]
async fn a_plain_program_runs_nothing_else_and_one_that_must_exist_is_missed() {
    if unconfined("sandbox::a_plain_program_runs_nothing_else_and_one_that_must_exist_is_missed") {
        return;
    }
    let direct = |program: &str, args: &[&str]| ChildSpec {
        program: program.into(),
        args: args.iter().map(|a| (*a).into()).collect(),
        sandbox: Some(Sandbox::default()),
        ..sandboxed("", None)
    };
    let said = run(direct("/usr/bin/env", &["A=1"])).await;
    assert_eq!(said.ended.exit.and_then(|e| e.code), Some(0), "{}", said.stderr);
    let said = run(direct("/usr/bin/env", &["/bin/true"])).await;
    assert_eq!(said.ended.exit.and_then(|e| e.code), Some(126), "{}", said.stderr);

    let missing = Sandbox { write: vec!["/no/such/workspace".into()], ..Sandbox::default() };
    let error = ProcessSupervisor::start().unwrap().spawn(sandboxed("true", Some(missing))).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot allow /no/such/workspace"), "{error}");
    // What is only read need not be there.
    let absent = Sandbox { read: vec!["/no/such/file".into()], ..Sandbox::default() };
    assert_eq!(codes("true", absent).await, [Some(0), Some(0)]);
}

/// A shell may look into `/proc`; what is secret there stays closed, also where both are the same user.
#[tokio::test]
async fn the_environment_of_a_brother_stays_his_own() {
    if unconfined("sandbox::the_environment_of_a_brother_stays_his_own") {
        return;
    }
    let (dir, _) = open_dir();
    let processes = ProcessSupervisor::start().unwrap();
    let inside = || Some(Sandbox { write: vec![dir.path().to_owned()], ..Sandbox::default() });
    for brother_in in [None, inside()] {
        let mut brother = processes.spawn(sandboxed("echo ready; exec sleep 1000", brother_in)).await.unwrap();
        line(brother.stdout.as_mut().unwrap()).await;
        until("sleep runs", || exe_name(brother.pid()).is_some_and(|n| n == "sleep" || n == "coreutils")).await;
        let pid = brother.pid();
        for secret in ["environ", "mem", "maps", "fd/0", "cwd/", "root/"] {
            let look = format!("ls -l /proc/{pid}/{secret} && head -c 1 /proc/{pid}/{secret}");
            let look = if secret.ends_with('/') { format!("ls /proc/{pid}/{secret}") } else { look };
            let said = run(sandboxed(&look, inside())).await;
            assert_ne!(said.ended.exit.and_then(|e| e.code), Some(0), "{secret}: {:?}", said.texts());
        }
        let environ = format!("cat /proc/{pid}/environ > /dev/null");
        assert_eq!(codes(&environ, Sandbox::default()).await, [Some(0), Some(1)]);
        // Nor is it ended from there.
        assert_eq!(codes(&format!("kill -0 {pid}"), Sandbox::default()).await, [Some(0), Some(1)]);
        brother.terminate(Duration::ZERO).await;
    }
}

fn exe_name(pid: i32) -> Option<String> {
    let exe = std::fs::read_link(Path::new("/proc").join(pid.to_string()).join("exe")).ok()?;
    Some(exe.file_name()?.to_string_lossy().into_owned())
}

#[tokio::test]
async fn the_mark_stays_on() {
    let test = "sandbox::the_mark_stays_on";
    if unconfined(test) {
        return;
    }
    if !Mark::available() {
        return left_out(test, "a limit of file locks keeps this process from marking its children");
    }
    // The shell of a limit of file locks is `ulimit -x`, which only some have.
    let script = "bash -c 'ulimit -x 5'";
    if !Path::new("/bin/bash").exists() {
        return left_out(test, "there is no bash");
    }
    assert_eq!(codes(script, Sandbox::default()).await, [Some(0), Some(1)]);
}

#[tokio::test]
async fn what_must_be_enforced_and_cannot_is_not_started() {
    let required = Sandbox { required: true, ..Sandbox::default() };
    let started = ProcessSupervisor::start().unwrap().spawn(sandboxed("true", Some(required))).await;
    match Kernel::here().is_enough() {
        true => assert!(started.is_ok()),
        false => assert!(matches!(started, Err(ChildError::NoSandbox))),
    }
}
