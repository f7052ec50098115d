//! Real children: shells and small programs that every Unix has.

mod exit;
mod groups;
mod leftovers;
mod output;
mod sandbox;
mod spawn;

use std::time::{Duration, Instant};

use super::cgroup::GroupLimits;
use super::*;
use base::SessionId;

/// A shell that runs `script`.
fn sh(script: &str) -> ChildSpec {
    ChildSpec::new("/bin/sh", vec!["-c".into(), script.into()], vec![("PATH".into(), "/usr/bin:/bin".into())])
}

/// What a child said and how it ended.
struct Said {
    lines: Vec<Line>,
    too_much: usize,
    ended: Ended,
    stderr: String,
}

impl Said {
    fn texts(&self) -> Vec<&str> {
        self.lines.iter().map(|l| l.text.as_str()).collect()
    }
}

/// A running child and what it writes.
async fn start(spec: ChildSpec) -> (ProcessSupervisor, Child, Lines) {
    let processes = ProcessSupervisor::start().unwrap();
    let mut child = processes.spawn(spec).await.unwrap();
    let out = child.stdout.take().unwrap();
    (processes, child, out)
}

/// Runs a child to its own end.
async fn run(spec: ChildSpec) -> Said {
    let (_processes, mut child, mut out) = start(spec).await;
    let (mut lines, mut too_much) = (Vec::new(), 0);
    while let Some(output) = out.next().await.unwrap() {
        match output {
            Output::Line(line) => lines.push(line),
            Output::TooMuch => too_much += 1,
        }
    }
    child.wait().await.unwrap();
    let ended = child.terminate(Duration::ZERO).await;
    Said { lines, too_much, ended, stderr: child.stderr_tail().await }
}

/// The next line of a running child, which must come.
async fn line(out: &mut Lines) -> String {
    match tokio::time::timeout(Duration::from_secs(20), out.next()).await.expect("a line in time").unwrap() {
        Some(Output::Line(line)) => line.text,
        other => panic!("expected a line, got {other:?}"),
    }
}

/// Living processes that carry the session's mark.
fn marked(session: SessionId) -> Vec<i32> {
    let mark = Mark::of(session).0;
    let all = proc::processes(0).unwrap();
    all.iter().filter(|s| !s.is_dead() && s.mark == Some(mark)).map(|s| s.pid).collect()
}

fn alive(pid: i32) -> bool {
    proc::stat(pid).is_some_and(|s| !s.is_dead())
}

/// Waits until something is so; fails, saying what was waited for, if it takes too long.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}
