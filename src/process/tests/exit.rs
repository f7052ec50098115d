//! How a child and everything below it ends.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use super::*;

const GRACE: Duration = Duration::from_millis(100);

/// After the end nothing is there any more, not even as a zombie of ours.
fn assert_gone(child: &Child, session: SessionId) {
    assert_eq!(marked(session), [0; 0]);
    assert_eq!(proc::stat(child.pid()).filter(|s| s.started == child.identity().started), None, "not reaped");
}

fn exited(code: i32) -> Option<ExitInfo> {
    Some(ExitInfo { code: Some(code), signal: None })
}

#[tokio::test]
async fn a_child_that_listens_goes_at_sigterm_with_its_group() {
    let (_n, mut child, mut out) = start(sh("trap 'exit 7' TERM; sleep 1000 & echo $!; wait")).await;
    let sleeper: i32 = line(&mut out).await.parse().unwrap();
    let session = child.held_session();
    let begun = Instant::now();
    let ended = child.terminate(Duration::from_secs(30)).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "it waited for the whole grace");
    assert_eq!(ended.exit, exited(7));
    assert!(!alive(sleeper));
    assert_gone(&child, session);
    assert_eq!(child.terminate(GRACE).await, ended, "a second call");
    assert_eq!(child.wait().await.unwrap(), ended.exit.unwrap());
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed_after_the_grace() {
    let (_n, mut child, mut out) = start(sh("trap '' TERM; echo ready; while :; do sleep 1000; done")).await;
    line(&mut out).await;
    let (session, begun) = (child.held_session(), Instant::now());
    assert_eq!(child.terminate(GRACE).await.exit, Some(ExitInfo { code: None, signal: Some(9) }));
    assert!(begun.elapsed() >= GRACE);
    assert_gone(&child, session);
}

#[tokio::test]
async fn a_grandchild_that_left_group_and_session_is_killed_too() {
    let stray = "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1000; done' & wait";
    let (_n, mut child, mut out) = start(sh(stray)).await;
    let grandchild: i32 = line(&mut out).await.parse().unwrap();
    assert_ne!(proc::stat(grandchild).unwrap().session, child.pid());
    let session = child.held_session();
    let ended = child.terminate(GRACE).await;
    assert!(ended.strays >= 1 && ended.survivors.is_empty(), "{ended:?}");
    assert!(!alive(grandchild));
    assert_gone(&child, session);
}

/// Detached in every way that a daemon detaches: a new session, an orphan, another directory, an empty environment.
const DAEMON: &str = "(setsid env -i /bin/sh -c 'cd /tmp; trap \"\" TERM; echo $$; while :; do sleep 1000; done' \
                      2>/dev/null &)";

#[tokio::test]
async fn a_daemon_that_outlives_its_parent_is_found_by_its_mark() {
    let (_n, mut child, mut out) = start(sh(&format!("{DAEMON}; exit 3"))).await;
    let daemon: i32 = line(&mut out).await.parse().unwrap();
    assert_eq!(child.wait().await.unwrap().code, Some(3));
    assert!(alive(daemon));
    let session = child.held_session();
    let ended = child.terminate(GRACE).await;
    assert_eq!(ended.exit, exited(3));
    assert!(ended.strays >= 1, "{ended:?}");
    assert!(!alive(daemon));
    assert_gone(&child, session);
    assert_eq!(out.next().await.unwrap(), None, "the pipe is closed");
}

#[tokio::test]
async fn an_orphan_stays_below_its_session_s_leader() {
    // The second means of finding strays, for kernels or hosts where the mark cannot be set.
    let (_n, mut child, mut out) = start(sh(&format!("{DAEMON}; echo made; while :; do sleep 1000; done"))).await;
    let mut daemon = None;
    for _ in 0..2 {
        daemon = line(&mut out).await.parse::<i32>().ok().or(daemon);
    }
    let daemon = daemon.unwrap();
    until("the orphan's adoption", || proc::stat(daemon).unwrap().ppid == child.pid()).await;
    assert!(super::super::process_tree::descendants(child.identity()).contains_key(&daemon));
    child.terminate(GRACE).await;
    assert!(!alive(daemon));
}

#[tokio::test]
async fn many_strays_are_all_found() {
    let script = format!("for i in 1 2 3 4 5 6 7 8; do {DAEMON}; (sleep 1000 &); done; echo made; sleep 1000");
    let (_n, mut child, mut out) = start(sh(&script)).await;
    for _ in 0..9 {
        line(&mut out).await;
    }
    let session = child.held_session();
    let ended = child.terminate(GRACE).await;
    // The eight that detached ignore SIGTERM and must be killed; of the eight others some leave at SIGTERM by
    // themselves.
    assert!(ended.strays >= 8, "{ended:?}");
    assert_gone(&child, session);
}

#[tokio::test]
async fn an_other_session_s_processes_are_left_alone() {
    let processes = ProcessSupervisor::start().unwrap();
    let mut one = processes.spawn(sh("sleep 1000 & wait")).await.unwrap();
    let mut other = processes.spawn(sh("sleep 1000 & echo $!; wait")).await.unwrap();
    let sleeper: i32 = line(&mut other.stdout.take().unwrap()).await.parse().unwrap();
    one.terminate(GRACE).await;
    assert!(alive(other.pid()) && alive(sleeper));
    other.terminate(GRACE).await;
    assert!(!alive(sleeper));
}

#[tokio::test]
async fn a_dropped_child_is_killed_and_reaped() {
    let (_n, child, mut out) = start(sh(&format!("{DAEMON}; while :; do sleep 1000; done"))).await;
    line(&mut out).await;
    let (session, who) = (child.held_session(), child.identity().clone());
    drop(child);
    until("its end", || marked(session).is_empty()).await;
    until("its reaping", || proc::stat(who.pid).is_none_or(|s| s.started != who.started)).await;
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_leaves_nothing() {
    let processes = ProcessSupervisor::start().unwrap();
    let spec = sh("sleep 1000");
    let session = spec.session;
    let mut birth = Box::pin(processes.spawn(spec));
    assert!(matches!(birth.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    drop(birth);
    // Orders are carried out in their sequence: when this one is there, the other was.
    processes.spawn(sh("true")).await.unwrap().terminate(GRACE).await;
    until("its end", || marked(session).is_empty()).await;
}

#[tokio::test]
async fn children_outlive_the_thread_that_asked_for_them() {
    let processes = ProcessSupervisor::start().unwrap();
    let asked = std::thread::spawn({
        let processes = processes.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(processes.spawn(sh("sleep 1000"))).unwrap()
        }
    });
    let child = asked.join().unwrap();
    drop(processes);
    // A death signal would have come at once with the thread's end.
    let mut probe = ProcessSupervisor::start().unwrap().spawn(sh("true")).await.unwrap();
    probe.wait().await.unwrap();
    assert!(alive(child.pid()));
    let session = child.held_session();
    drop(child);
    until("its end", || marked(session).is_empty()).await;
}

#[tokio::test]
async fn a_hundred_children_come_and_go() {
    let processes = ProcessSupervisor::start().unwrap();
    let mut all = Vec::new();
    for i in 0..100 {
        let processes = processes.clone();
        all.push(base::task::spawn(base::task::Kind::Job, "test", async move {
            let mut child = processes.spawn(sh(&format!("exit {i}"))).await.unwrap();
            let exit = child.wait().await.unwrap();
            (exit.code, child.terminate(GRACE).await.exit.unwrap().code)
        }));
    }
    for (i, one) in all.into_iter().enumerate() {
        assert_eq!(one.await.unwrap(), (Some(i as i32), Some(i as i32)));
    }
    let own = std::process::id() as i32;
    let zombies = proc::processes(u64::MAX).unwrap().iter().filter(|s| s.ppid == own && s.is_dead()).count();
    assert!(zombies < 20, "zombies of other tests come and go, but not a hundred");
}
