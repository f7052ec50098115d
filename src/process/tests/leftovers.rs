//! What a daemon leaves behind that dies, and how the next one finds it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::*;

const HELPER: &str = "BUTLERD_TEST_CHILD_HELPER";

/// Not a test of its own: run by the test below in a process that it kills.
#[tokio::test]
async fn helper() {
    let Ok(session) = std::env::var(HELPER) else { return };
    let mut spec = sh("sleep 1000 & echo group $!; \
                       (setsid env -i /bin/sh -c 'trap \"\" TERM; echo daemon $$; while :; do sleep 1000; done' &); \
                       echo leader $$; wait");
    spec.session = session.parse().unwrap();
    spec.user = ChildUsers::choose(None, None).unwrap().next();
    let (_processes, child, mut out) = start(spec).await;
    println!();
    for _ in 0..3 {
        println!("helper: {}", line(&mut out).await);
    }
    println!("helper: started {}", child.identity().started);
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_daemon_s_child_dies_and_the_rest_is_found_by_the_session_s_id() {
    let session = SessionId::new();
    let mut helper = Command::new(std::env::current_exe().unwrap());
    let (_, here) = module_path!().split_once("::").unwrap();
    helper.args(["--exact", &format!("{here}::helper"), "--nocapture"]);
    helper.env(HELPER, session.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut helper = helper.spawn().unwrap();
    let said = BufReader::new(helper.stdout.take().unwrap()).lines();
    let mut facts = std::collections::HashMap::new();
    for text in said.map_while(Result::ok) {
        if let Some((what, number)) = text.strip_prefix("helper: ").and_then(|t| t.split_once(' ')) {
            facts.insert(what.to_owned(), number.parse::<u64>().unwrap());
            if what == "started" {
                break;
            }
        }
    }
    let pid = |what: &str| facts[what] as i32;
    let (leader, group, daemon) = (pid("leader"), pid("group"), pid("daemon"));
    assert!([leader, group, daemon].into_iter().all(alive));

    helper.kill().unwrap();
    helper.wait().unwrap();
    until("the leader's death", || !alive(leader)).await;
    assert!(alive(group) && alive(daemon), "only the child itself gets the death signal");

    let processes = ProcessSupervisor::start().unwrap();
    // Another session is another session.
    let record = Identity { pid: leader, started: facts["started"], boot_id: boot_id() };
    let other = Leftover { session: SessionId::new(), leader: None };
    assert_eq!(processes.kill_leftovers(&[other]).await.unwrap(), Cleared::default());
    assert!(alive(group) && alive(daemon));

    let ours = Leftover { session, leader: Some(record) };
    let cleared = processes.kill_leftovers(std::slice::from_ref(&ours)).await.unwrap();
    // The shell of the daemon has a child of its own.
    assert!(cleared.killed >= 2 && cleared.survivors.is_empty(), "{cleared:?}");
    assert!(!alive(group) && !alive(daemon));
    assert_eq!(marked(session), [0; 0]);
    assert_eq!(processes.kill_leftovers(&[ours]).await.unwrap(), Cleared::default(), "a second time");
}

#[tokio::test]
async fn a_process_with_another_start_time_or_boot_is_not_touched() {
    // A process of the machine that has nothing to do with us, with a pid that once was a child's.
    let mut stranger = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = stranger.id() as i32;
    let who = Identity::of(pid).unwrap();
    let processes = ProcessSupervisor::start().unwrap();
    let session = SessionId::new();
    for wrong in [
        Identity { started: who.started + 1, ..who.clone() },
        Identity { started: who.started - 1, ..who.clone() },
        Identity { boot_id: Some("another".into()), ..who.clone() },
    ] {
        let left = Leftover { session, leader: Some(wrong.clone()) };
        assert_eq!(processes.kill_leftovers(&[left]).await.unwrap(), Cleared::default(), "{wrong:?}");
        assert!(alive(pid), "{wrong:?}");
    }
    let left = Leftover { session, leader: None };
    assert_eq!(processes.kill_leftovers(&[left]).await.unwrap(), Cleared::default());
    assert!(alive(pid));
    // With all three right it is believed to be ours.
    let reap = base::task::spawn(base::task::Kind::Job, "test", async move {
        until("the stranger's end", || !alive(pid)).await;
        stranger.wait().unwrap();
    });
    let left = Leftover { session, leader: Some(who) };
    processes.kill_leftovers(&[left]).await.unwrap();
    reap.await.unwrap();
}
