//! One run from the child's start to its end: reads, watches the clock, stops what must be stopped, judges.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::adapters::{ErrorClass, Outcome, Parser, RunError, RunEvent};
use super::child::{Child, Ended, Line, Lines, Output};
use base::redact::Redactor;
use base::text;

/// How long what may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadlines {
    /// The whole run.
    pub session: Duration,
    /// Between the final event and the child's leaving.
    pub after_final: Duration,
    /// Between being told to end and being killed.
    pub grace: Duration,
}

/// How one run ended, and what is left to know of its child.
#[derive(Clone, PartialEq, Debug)]
pub struct Driven {
    pub outcome: Outcome,
    /// Why it was ended before it had given its final event; `outcome` has the words. A program's own error of the same
    /// class (a model request that took too long, say) is none of these.
    pub stopped: Option<Stopped>,
    pub ended: Ended,
    /// The end of its standard error, at most 16 KiB, for the log of a failure.
    pub stderr_tail: String,
}

/// Why a child was ended before it had given its final event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    Cancelled,
    /// The whole run took too long.
    TimedOut,
    /// It wrote more than it may.
    TooMuchOutput,
    /// It said that it has none of the butler's tools.
    NoTools,
}

impl Stopped {
    fn error(self, deadlines: &Deadlines) -> RunError {
        let session = base::HumanDuration(deadlines.session);
        let late = format!("the session was ended after {session}; [butler.runtime] session_timeout allows more");
        let (class, message) = match self {
            Stopped::Cancelled => (ErrorClass::Cancelled, "the session was cancelled"),
            Stopped::TimedOut => (ErrorClass::TimedOut, late.as_str()),
            Stopped::TooMuchOutput => {
                (ErrorClass::Crashed, "the session was ended because it wrote more output than it may")
            }
            Stopped::NoTools => (
                ErrorClass::McpUnreachable,
                "the session was ended at its start because it could not reach its butler's tools",
            ),
        };
        RunError::new(class, message)
    }
}

/// What happens while a child is driven.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// The program said so.
    Said(RunEvent),
    /// The child is sent this signal, or was.
    Signal { signal: &'static str, why: String },
}

/// Drives a child to its end. Every line goes through `redactor`, then to `parser`; every step goes to `on_step`,
/// which must not block. When this returns no process of the session is left, but for those that `ended` names. If the
/// future is dropped the session's processes are killed.
pub async fn drive(
    mut child: Child,
    mut parser: Box<dyn Parser>,
    deadlines: Deadlines,
    redactor: &Redactor,
    cancel: &CancellationToken,
    mut on_step: impl FnMut(Step) + Send,
) -> Driven {
    let (mut lines, flooded) = (child.stdout.take(), child.flooded.clone());
    let mut reader = Reader { parser: &mut *parser, redactor, on_step: &mut on_step, last: false, no_tools: false };
    let start = Instant::now();
    let mut leave_by: Option<Instant> = None;
    let stopped = loop {
        let deadline = leave_by.unwrap_or(start + deadlines.session);
        tokio::select! {
            biased;
            () = cancel.cancelled() => break Some(Stopped::Cancelled),
            () = sleep_until(deadline) => break Some(Stopped::TimedOut),
            output = next(&mut lines) => match output {
                Some(Output::Line(line)) => {
                    reader.lines(line, &mut lines);
                    if reader.last {
                        leave_by.get_or_insert_with(|| Instant::now() + deadlines.after_final);
                    } else if reader.no_tools {
                        break Some(Stopped::NoTools);
                    }
                }
                Some(Output::TooMuch) => break Some(Stopped::TooMuchOutput),
                // It has closed its output; it may still be at work.
                None => lines = None,
            },
            () = flooded.cancelled() => break Some(Stopped::TooMuchOutput),
            _ = child.wait() => break None,
        }
    };
    // After its final event it had its time to leave.
    let grace = if leave_by.is_some() { Duration::ZERO } else { deadlines.grace };
    let told_to_end = stopped.is_some();
    if let Some(stopped) = stopped {
        let why = match leave_by {
            // With its final event it was done, whatever ends its stay after that.
            Some(_) => "it stayed after its final event".to_owned(),
            None => stopped.error(&deadlines).message,
        };
        (reader.on_step)(Step::Signal { signal: "SIGTERM", why });
    }
    // While it ends it must not be held up by a full pipe; and what it said last is still in there.
    let ended = {
        let mut ending = std::pin::pin!(child.terminate(grace));
        loop {
            tokio::select! {
                biased;
                ended = &mut ending => break ended,
                output = next(&mut lines) => match output {
                    Some(Output::Line(line)) => reader.lines(line, &mut lines),
                    Some(Output::TooMuch) => {}
                    None => lines = None,
                },
            }
        }
    };
    if told_to_end && ended.exit.as_ref().is_none_or(|exit| exit.signal == Some(libc::SIGKILL)) {
        let why = format!("it was still there {} after SIGTERM", base::HumanDuration(grace));
        (reader.on_step)(Step::Signal { signal: "SIGKILL", why });
    }
    // Nobody is left to write, but for one that nothing can kill; what was written is read to its end.
    let rest = async {
        while let Some(output) = next_or_end(&mut lines).await {
            if let Output::Line(line) = output {
                reader.line(line.text);
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(5), rest).await;
    let stderr_tail = redactor.clean(child.stderr_tail().await);
    let mut outcome = parser.finish(ended.exit.unwrap_or_default(), &stderr_tail);
    let stopped = stopped.filter(|_| leave_by.is_none());
    if let Some(stopped) = stopped {
        outcome.ok = false;
        outcome.error = Some(stopped.error(&deadlines));
    }
    Driven { outcome, stopped, ended, stderr_tail: text::truncate(&stderr_tail, 16 << 10) }
}

struct Reader<'a, F: FnMut(Step)> {
    parser: &'a mut dyn Parser,
    redactor: &'a Redactor,
    on_step: &'a mut F,
    /// Its final event has come.
    last: bool,
    no_tools: bool,
}

impl<F: FnMut(Step)> Reader<'_, F> {
    /// A line, and those that were read with it.
    fn lines(&mut self, first: Line, rest: &mut Option<Lines>) {
        self.line(first.text);
        while let Some(line) = rest.as_mut().and_then(Lines::at_hand) {
            self.line(line.text);
        }
    }

    fn line(&mut self, line: String) {
        for event in self.parser.line(&self.redactor.clean(line)) {
            match event {
                RunEvent::Final => self.last = true,
                RunEvent::McpConnected(connected) => self.no_tools = !connected,
                _ => {}
            }
            (self.on_step)(Step::Said(event));
        }
    }
}

/// The next output; never, once there is none.
async fn next(lines: &mut Option<Lines>) -> Option<Output> {
    match lines {
        // An error of reading a pipe ends it as well.
        Some(lines) => lines.next().await.unwrap_or(None),
        None => std::future::pending().await,
    }
}

async fn next_or_end(lines: &mut Option<Lines>) -> Option<Output> {
    lines.as_mut()?.next().await.unwrap_or(None)
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;
