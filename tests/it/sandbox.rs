//! What a session's child gets at in its sandbox, and what it gets at without: the same attempts by the same
//! unprivileged user, once with `spawner.sandbox = "required"` and once with `"off"`. What fails in the first must work
//! in the second, so that it was the sandbox that refused it.
//!
//! As root, the files of the data directory are closed to the children's user anyway (0600 below 0700). There the
//! attempt on the real file is made too and fails both times; a stand-in beside it, readable for all, shows the
//! sandbox's part.

use std::net::UdpSocket;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use process::Kernel;
use serde_json::{Value, json};

use crate::support::{Daemon, FAKE, Household, eventually};
use what_was_left_out::left_out;

/// How an attempt is to end without the sandbox; within, each but `Free` fails by it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Without {
    /// It works, within too.
    Free,
    /// It works.
    Works,
    /// It may work or not: that depends on the machine.
    Either,
    /// It fails, for another reason: the file's owner and mode.
    Refused,
}
use Without::{Either, Free, Refused, Works};

fn is_root() -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() == 0 }
}

/// Runs a session of these steps and returns what it reports of each.
async fn report(daemon: &Daemon, steps: &[String]) -> Vec<Value> {
    let lines: Vec<String> = steps.iter().map(|step| format!("do {step}")).collect();
    let prompt = format!("do start\n{}\ndo finish", lines.join("\n"));
    let done = daemon.mcp(FAKE).ok("trigger", json!({"prompt": prompt})).await;
    assert_eq!(done["success"], true, "{done}\n{}", daemon.log());
    let report: Value = serde_json::from_str(done["output"].as_str().expect("a report")).expect("JSON");
    report["steps"].as_array().expect("steps").clone()
}

/// A session that hangs, and stays in the household's way: its workspace and its pid are what another would like to
/// have.
async fn bystander(household: &Household, daemon: &Daemon) -> (PathBuf, i32) {
    let mcp = daemon.mcp(FAKE);
    tokio::spawn(async move { mcp.call("trigger", json!({"prompt": "do start\ndo hang"})).await });
    eventually("the bystander runs", || async {
        let work: Vec<PathBuf> = household.workspaces().into_iter().filter(|p| p.join("mcp.json").exists()).collect();
        match (work.as_slice(), household.fakes().as_slice()) {
            ([work], [pid]) => Ok((work.clone(), *pid)),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// What stands about outside of the sandbox, for as long as this value lives.
struct Outside {
    udp: UdpSocket,
    _unix: UnixListener,
    _abstract: UnixListener,
    unix: PathBuf,
    name: String,
    readable: PathBuf,
}

fn outside(household: &Household, daemon: &Daemon) -> Outside {
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    };
    let unix = household.path().join("outside.sock");
    let listener = UnixListener::bind(&unix).expect("a socket");
    open(&unix, 0o777);
    let name = format!("butlerd-test-{}", daemon.pid());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    // The operator's token as it would be if somebody had copied it without care.
    let readable = household.data().join("readable.token");
    std::fs::write(&readable, daemon.token()).expect("the stand-in");
    open(&readable, 0o644);
    open(&household.roster(), 0o755);
    Outside {
        udp: UdpSocket::bind("127.0.0.1:0").expect("a port"),
        _unix: listener,
        _abstract: UnixListener::bind_addr(&address).expect("a socket"),
        unix,
        name,
        readable,
    }
}

/// Every attempt, with what becomes of it without the sandbox.
fn attempts(household: &Household, daemon: &Daemon, out: &Outside, other: &(PathBuf, i32)) -> Vec<(String, Without)> {
    let data = household.data();
    let (work, pid) = (other.0.display(), other.1);
    let ours = if is_root() { Refused } else { Works };
    let mut all = vec![
        // Its own.
        ("write ~/own".to_owned(), Free),
        ("read ~/own".to_owned(), Free),
        ("write own-work".to_owned(), Free),
        (format!("tcp 127.0.0.1:{}", daemon.port(FAKE)), Free),
        ("call state_list".to_owned(), Free),
        ("read /proc/self/maps".to_owned(), Free),
        ("read /proc/self/statm".to_owned(), Free),
        ("syscall socket-tcp".to_owned(), Free),
        ("syscall socketpair-unix".to_owned(), Free),
        // The data directory.
        (format!("read {}", data.join("master.key").display()), ours),
        (format!("read {}", data.join("run/operator.token").display()), ours),
        (format!("read {}", out.readable.display()), Works),
        (format!("list {}", data.display()), ours),
        (format!("write {}", data.join("run/x").display()), ours),
        // Other butlers, and other sessions, who as root's children are other users.
        (format!("read {}", household.roster().join("health/AGENTS.md").display()), Works),
        (format!("list {}", household.roster().display()), Works),
        (format!("read {work}/mcp.json"), ours),
        (format!("list {work}/home"), ours),
        (format!("write {work}/tmp/planted"), ours),
        (format!("read /proc/{pid}/environ"), ours),
        (format!("read /proc/{pid}/cmdline"), Works),
        (format!("read /proc/{pid}/maps"), ours),
        (format!("signal {pid}"), ours),
        // The system.
        ("read /etc/shadow".to_owned(), Refused),
        ("read /etc/passwd".to_owned(), Works),
        ("list /etc".to_owned(), Works),
        ("list /proc".to_owned(), Works),
        ("read /proc/self/environ".to_owned(), Works),
        (format!("write /tmp/butlerd-test-{}", daemon.pid()), Works),
        ("exec /bin/true".to_owned(), Works),
        // The network.
        (format!("tcp 127.0.0.1:{}", daemon.port("general")), Works),
        (format!("tcp {}", daemon.admin()), Works),
        (format!("fastopen 127.0.0.1:{}", daemon.port("general")), fastopen()),
        (format!("udp {}", out.udp.local_addr().expect("its address")), Works),
        ("bind 127.0.0.1:0".to_owned(), Works),
        (format!("unix {}", out.unix.display()), Works),
        (format!("abstract {}", out.name), Works),
        ("syscall socket-netlink".to_owned(), Works),
        ("syscall socket-udp".to_owned(), Works),
        // The kernel. What an unprivileged user is refused anyway says nothing, so it is not among these.
        ("syscall unshare".to_owned(), Either),
        ("syscall clone-newuser".to_owned(), Either),
        ("syscall keyctl".to_owned(), Either),
        ("unmark".to_owned(), Works),
    ];
    if mptcp() {
        all.push((format!("mptcp 127.0.0.1:{}", daemon.port("general")), Works));
    }
    all
}

/// TCP Fast Open can be switched off for clients.
fn fastopen() -> Without {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").unwrap_or_default();
    if text.trim().parse::<u32>().is_ok_and(|bits| bits & 1 == 1) { Works } else { Either }
}

/// Whether this kernel has MPTCP at all.
fn mptcp() -> bool {
    const IPPROTO_MPTCP: libc::c_int = 262;
    // SAFETY: plain system calls.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, IPPROTO_MPTCP);
        fd >= 0 && libc::close(fd) == 0
    }
}

/// Makes all attempts in a household with this setting and judges each by `judge`.
async fn try_all(setting: &str, judge: impl Fn(Without, &Value) -> bool) {
    // A model on this machine, whose name need not be looked up: nobody asks it anything.
    let model = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let model = format!("http://{}", model.local_addr().expect("its address"));
    let household = Household::new()
        .with_fake()
        .env("BUTLERD_SPAWNER__SANDBOX", setting)
        .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &model);
    let daemon = household.start().await;
    let other = bystander(&household, &daemon).await;
    let out = outside(&household, &daemon);
    let (steps, expected): (Vec<String>, Vec<Without>) =
        attempts(&household, &daemon, &out, &other).into_iter().unzip();
    let told = report(&daemon, &steps).await;
    assert_eq!(told.len(), steps.len(), "{told:?}");
    let wrong: Vec<String> = told
        .iter()
        .zip(&expected)
        .filter(|(told, expected)| !judge(**expected, told))
        .map(|(told, expected)| format!("{expected:?}: {told}"))
        .collect();
    assert!(wrong.is_empty(), "sandbox = {setting:?}:\n{}", wrong.join("\n"));
    // Whatever was tried, the bystander is still there and got nothing.
    assert!(household.fakes().contains(&other.1), "the bystander is gone");
    let _ = std::fs::remove_file(format!("/tmp/butlerd-test-{}", daemon.pid()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_sandbox_a_child_gets_at_nothing_that_is_not_its_own() {
    let kernel = Kernel::here();
    if !kernel.is_enough() {
        return left_out("sandbox", &format!("this kernel has {kernel:?}"));
    }
    let refusals = ["EACCES", "EPERM"];
    try_all("required", |expected, told| match expected {
        Free => told["ok"] == true,
        Works | Either | Refused => told["error"].as_str().is_some_and(|e| refusals.contains(&e)),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_sandbox_the_same_child_gets_at_it_all() {
    try_all("off", |expected, told| expected == Either || told["ok"] == (expected != Refused)).await;
}

/// A skill of this butler with the script `scripts/run.sh`, which says `words` if somebody runs it.
fn with_script(household: Household, butler: &str, skill: &str, words: &str) -> Household {
    let dir = format!("{butler}/skills/{skill}");
    let script = format!("{dir}/scripts/run.sh");
    let household = household
        .write(&format!("{dir}/SKILL.md"), &format!("---\nname: {skill}\ndescription: d\n---\nRun scripts/run.sh.\n"))
        .write(&format!("{dir}/scripts/plain.sh"), "#!/bin/sh\necho never\n")
        .write(&script, &format!("#!/bin/sh\necho {words}\n"));
    let (roster, mode) = (household.roster(), std::fs::Permissions::from_mode);
    std::fs::set_permissions(roster.join(script), mode(0o755)).expect("its mode");
    // What keeps sessions out of it is not that.
    std::fs::set_permissions(roster, mode(0o755)).expect("its mode");
    household
}

/// What becomes of attempts on scripts in a household with this `spawner.sandbox`, where sessions are granted this
/// tool: what a script says, or the name of the error. And the system prompt.
async fn tried(setting: &str, granted: &str, paths: &[&str]) -> (Vec<String>, String) {
    let household = Household::misbehaving().env("BUTLERD_SPAWNER__SANDBOX", setting).replace(
        "faker/butler.toml",
        "type = \"claude-code\"\n",
        &format!("type = \"claude-code\"\ntools = [\"{granted}\"]\n"),
    );
    let other = "[butler]\nname = \"other\"\nport = 40190\ndescription = \"for tests\"\n";
    let household = with_script(household.butler("other", other), "other", "packing", "packed");
    let household = with_script(household, FAKE, "weighing", "weighed");
    let daemon = household.start().await;
    let roster = household.roster().display().to_string();
    let steps: Vec<String> = paths.iter().map(|path| path.replace("{roster}", &roster)).collect();
    let outcome = |told: &Value| match told["found"]["said"].as_str() {
        Some(said) => said.trim().to_owned(),
        None => told["error"].as_str().unwrap_or("worked").to_owned(),
    };
    let told = report(&daemon, &steps).await.iter().map(outcome).collect();
    let (_, shown, err) = household.cli(&["trigger", FAKE, "hello", "--dry-run", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap_or_else(|e| panic!("{e}: {shown}{err}"));
    (told, shown["system_prompt"].as_str().expect("a system prompt").to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_of_a_session_s_skills_run_where_a_shell_is_granted_and_no_others_do() {
    let kernel = Kernel::here();
    if !kernel.is_enough() {
        return left_out("sandbox", &format!("this kernel has {kernel:?}"));
    }
    let paths = [
        "exec .agents/skills/weighing/scripts/run.sh",
        // Where a program that takes the skills for a plug-in has them.
        "exec ../agents/skills/weighing/scripts/run.sh",
        "read .agents/skills/weighing/SKILL.md",
        // One that its author has not made executable.
        "exec .agents/skills/weighing/scripts/plain.sh",
        "write .agents/skills/weighing/scripts/run.sh",
        "write .agents/skills/weighing/scripts/new.sh",
        "write ../agents/new",
        // In the roster nothing is run or read, be it its own or another butler's.
        "exec {roster}/faker/skills/weighing/scripts/run.sh",
        "exec {roster}/other/skills/packing/scripts/run.sh",
        "read {roster}/other/skills/packing/scripts/run.sh",
    ];
    let no = "EACCES";
    let (told, prompt) = tried("required", "Bash", &paths).await;
    assert_eq!(told, ["weighed", "weighed", "worked", no, no, no, no, no, no, no]);
    assert!(prompt.contains("they are in .agents/skills/<skill>/ of your working directory"), "{prompt}");
    let (told, prompt) = tried("required", "Read", &paths).await;
    assert_eq!(told, [no, no, "worked", no, no, no, no, no, no, no]);
    assert!(prompt.contains("- weighing: d") && !prompt.contains(".agents/skills"), "{prompt}");
    // It was the sandbox that refused it.
    let (told, _) = tried("off", "Read", &paths).await;
    assert_eq!(
        (&told[1], &told[7], &told[8], &told[9]),
        (&"weighed".into(), &"weighed".into(), &"packed".into(), &"worked".into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_and_doctor_say_what_is_on() {
    let household = Household::new().with_fake();
    let daemon = household.start().await;
    let (_, report, err) = household.cli(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap_or_else(|e| panic!("{e}: {report}{err}"));
    let findings = report["findings"].as_array().expect("findings");
    for line in Kernel::here().report(!is_root()) {
        daemon.logged(&[&line.text], 1).await;
        let found = findings.iter().find(|f| f["text"] == line.text.as_str());
        let found = found.unwrap_or_else(|| panic!("not in doctor: {}", line.text));
        assert_eq!(found["level"], if line.on { "ok" } else { "warning" }, "{found}");
    }
    drop(daemon);
    let off = household.env("BUTLERD_SPAWNER__SANDBOX", "off");
    let daemon = off.start().await;
    daemon.logged(&["spawner.sandbox is \"off\""], 1).await;
}
