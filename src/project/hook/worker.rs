//! Work on threads of its own, so that nothing that it waits for (a disk, a daemon) makes the assistant wait longer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use super::HookError;
use super::injection::ProjectPart;

/// What a thread that works says to the one that watches the clock.
pub enum Report<T = ProjectPart> {
    /// It waits for the end of what the assistant writes.
    AwaitsInput,
    HasInput,
    /// What is to be told. Another one takes its place.
    Text(T),
    Missed(String),
    Done,
}

/// What came of the work until the deadline.
#[derive(PartialEq, Eq, Debug)]
pub struct Outcome<T> {
    pub text: Option<T>,
    /// Why it is less than it could be.
    pub missed: Option<String>,
}

/// Work that was begun. The process ends without waiting for it.
pub struct Worker<T> {
    reports: Receiver<Report<T>>,
    /// Why there is no thread.
    failed: Option<String>,
}

impl<T: Send + 'static> Worker<T> {
    pub fn begin(name: &str, work: impl FnOnce(&Sender<Report<T>>) -> Result<(), HookError> + Send + 'static) -> Self {
        let (sender, reports) = channel();
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(error) = work(&sender) {
                let _ = sender.send(Report::Missed(error.to_string()));
            }
            let _ = sender.send(Report::Done);
        });
        Self { reports, failed: spawned.err().map(|error| format!("no thread could be started: {error}")) }
    }

    /// Waits until it is done, or for no longer than `until`. What was said before that counts.
    pub fn wait(self, until: Instant) -> Outcome<T> {
        let (mut text, mut missed, mut awaited) = (None, self.failed, "the answer");
        loop {
            match self.reports.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Report::AwaitsInput) => awaited = "the end of standard input",
                Ok(Report::HasInput) => awaited = "the answer",
                Ok(Report::Text(said)) => text = Some(said),
                Ok(Report::Missed(reason)) => missed = Some(reason),
                Ok(Report::Done) => break,
                Err(RecvTimeoutError::Timeout) => {
                    missed = Some(format!("the deadline came before {awaited}"));
                    break;
                }
                // The thread panicked, or there is none.
                Err(RecvTimeoutError::Disconnected) => {
                    missed = missed.or_else(|| Some("the hook broke off".to_owned()));
                    break;
                }
            }
        }
        Outcome { text, missed }
    }
}
