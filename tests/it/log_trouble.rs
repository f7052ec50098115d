//! A log that can't be written hurts nobody: its reader is gone or stands still, its terminal is closed, its disk is
//! full.

use std::fs::File;
use std::io::{PipeReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Daemon, Household, eventually, model};

/// Works with the household and ends it: triggers answer, and SIGTERM is heeded at once.
async fn works_and_ends(mut daemon: Daemon, lost: bool) {
    for n in 0..3 {
        let done = daemon.mcp("general").ok("trigger", json!({"prompt": format!("hello {n}")})).await;
        assert_eq!(done["success"], true, "{done}");
    }
    if lost {
        eventually("the lost lines are told", || async {
            let status = daemon.status().await;
            if status["log_lines_lost"].as_u64() > Some(0) { Ok(()) } else { Err(status["log_lines_lost"].to_string()) }
        })
        .await;
    }
    let begun = Instant::now();
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?} to end", begun.elapsed());
}

async fn household() -> (testkit::model::ScriptedModel, Household) {
    let model = model(json!([{"when": "hello", "steps": [{"say": "good day"}]}])).await;
    let household = Household::with_model(&model).env("BUTLERD_LOG", "debug");
    (model, household)
}

async fn started(household: &Household, log: impl Into<OwnedFd>) -> Daemon {
    let daemon = Daemon::spawn_with_log(household, log.into());
    tokio::task::spawn_blocking(move || daemon.wait_ready()).await.expect("the wait")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_gone_stops_nobody() {
    let (_model, household) = household().await;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    works_and_ends(started(&household, writer).await, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stands_still_stops_nobody_and_later_gets_what_waited() {
    let (_model, household) = household().await;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // One page: full at once.
    unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    let daemon = started(&household, writer).await;
    let full = |reader: &PipeReader| {
        let mut bytes: libc::c_int = 0;
        unsafe { libc::ioctl(reader.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
        bytes
    };
    // A thread of its own writes the log.
    eventually("something is logged", || {
        std::future::ready(if full(&reader) > 0 { Ok(()) } else { Err("it is empty".to_owned()) })
    })
    .await;
    works_and_ends(daemon, false).await;
    // The same with a reader that wakes up: what waited is there, whole and in order.
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    let daemon = started(&household, writer).await;
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        text
    });
    works_and_ends(daemon, false).await;
    let text = reading.join().expect("the reader");
    assert!(text.contains("starting the embedded database") && text.trim_end().ends_with("stopped"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_below_the_log_stops_nobody() {
    let (_model, household) = household().await;
    let full = File::options().write(true).open("/dev/full").expect("the device");
    works_and_ends(started(&household, full).await, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_is_closed_stops_nobody() {
    let (_model, household) = household().await;
    let (mut near, mut far) = (0, 0);
    let none = std::ptr::null_mut();
    let opened = unsafe { libc::openpty(&raw mut near, &raw mut far, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // Held by the daemon too, it would never be closed.
    unsafe { libc::fcntl(near, libc::F_SETFD, libc::FD_CLOEXEC) };
    let (near, far) = unsafe { (OwnedFd::from_raw_fd(near), OwnedFd::from_raw_fd(far)) };
    // Somebody reads until the household is up.
    let read = near.try_clone().expect("a copy");
    let reading = std::thread::spawn(move || {
        let (mut terminal, mut text, mut part) = (File::from(read), Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&text).contains("butlers up") {
            match terminal.read(&mut part) {
                Ok(n) if n > 0 => text.extend_from_slice(&part[..n]),
                _ => break,
            }
        }
    });
    let daemon = started(&household, far).await;
    reading.join().expect("the reader");
    drop(near);
    works_and_ends(daemon, true).await;
}
