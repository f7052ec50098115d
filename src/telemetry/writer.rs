//! The way of the log's lines to standard error: a bounded queue and a thread of its own. Whoever logs never waits for
//! a reader that stands still, and never fails with a disk that is full.

use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use base::redact::household;

/// Lines that wait to be written take so many bytes at most; what comes then is dropped and counted.
const LARGEST: usize = 4 * 1024 * 1024;
/// Between two looks at what is to be told of repeated lines.
const LOOK: Duration = Duration::from_secs(1);

/// Lines that could not be written.
pub(crate) static LOST: LazyLock<Counter<u64, AtomicU64>> = LazyLock::new(Counter::default);

/// The process's own lines.
pub(crate) static LINES: LazyLock<Arc<Lines>> = LazyLock::new(Arc::default);

/// Lines on their way.
#[derive(Default)]
pub(crate) struct Lines {
    waiting: Mutex<Waiting>,
    /// A line came, or the last one was written.
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// One is being written.
    writing: bool,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Vec<u8>) {
        let mut waiting = self.lock();
        if waiting.bytes + line.len() > LARGEST {
            LOST.inc();
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        self.changed.notify_all();
    }

    /// The next line; `None`: none came for a while.
    fn next(&self) -> Option<Vec<u8>> {
        let mut waiting = self.lock();
        if waiting.lines.is_empty() {
            (waiting, _) = self.changed.wait_timeout(waiting, LOOK).unwrap_or_else(PoisonError::into_inner);
        }
        let line = waiting.lines.pop_front()?;
        waiting.bytes -= line.len();
        waiting.writing = true;
        Some(line)
    }

    fn written(&self) {
        let mut waiting = self.lock();
        waiting.writing = false;
        if waiting.lines.is_empty() {
            self.changed.notify_all();
        }
    }

    /// Writes what comes, for ever. `look` is called from time to time.
    fn write_to(&self, mut out: impl Write, look: impl Fn()) {
        let (mut torn, mut looked) = (false, Instant::now());
        loop {
            if let Some(line) = self.next() {
                torn = !write(&mut out, &line, torn);
                self.written();
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                look();
            }
        }
    }

    /// Waits until all lines are written, at most so long.
    pub fn flush(&self, within: Duration) {
        let until = Instant::now() + within;
        let mut waiting = self.lock();
        while waiting.writing || !waiting.lines.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            (waiting, _) = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Writes a line; whether it could. `torn`: the one before may have ended in its middle.
fn write(out: &mut impl Write, line: &[u8], torn: bool) -> bool {
    let begun = if torn { out.write_all(b"\n") } else { Ok(()) };
    let written = begun.and_then(|()| out.write_all(line)).is_ok();
    if !written {
        LOST.inc();
    }
    written
}

/// Starts the thread that writes to standard error. It holds no lock of the standard library's meanwhile, so that
/// nobody who prints there waits for it.
pub(crate) fn start(look: impl Fn() + Send + 'static) -> std::io::Result<()> {
    let out = std::fs::File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
    let lines = LINES.clone();
    std::thread::Builder::new().name("butlerd-log".into()).spawn(move || lines.write_to(out, look))?;
    Ok(())
}

/// Makes a line of each event.
pub(crate) struct ToLines {
    pub lines: Arc<Lines>,
    /// Each line begins with its priority, as the journal wants it.
    pub journal: bool,
}

impl<'a> MakeWriter<'a> for ToLines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: &self.lines, priority: None }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        Line { lines: &self.lines, priority: self.journal.then(|| priority(*meta.level())) }
    }
}

/// By `sd-daemon(3)`.
fn priority(level: Level) -> &'static [u8] {
    match level {
        Level::ERROR => b"<3>",
        Level::WARN => b"<4>",
        Level::INFO => b"<6>",
        _ => b"<7>",
    }
}

/// One line on its way to the queue. The log writes each as a whole, so no secret can hide between two writes.
pub(crate) struct Line<'a> {
    lines: &'a Lines,
    priority: Option<&'static [u8]>,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let clean = household().cleaned(line);
        let clean = clean.as_deref().unwrap_or(line);
        self.lines.push(match self.priority {
            // The journal makes an entry of each line.
            Some(priority) => {
                clean.split_inclusive(|b| *b == b'\n').flat_map(|part| [priority, part].concat()).collect()
            }
            None => clean.to_vec(),
        });
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    fn text(lines: &Lines) -> String {
        lines.lock().lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    #[test]
    fn a_line_is_written_without_secrets() {
        let secret = base::Secret::new("log\"secret-1".to_owned());
        let _hidden = household().hide_while(&secret);
        let lines: Arc<Lines> = Arc::default();
        let writer = || ToLines { lines: lines.clone(), journal: false };
        let layers = tracing_subscriber::registry()
            .with(tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer()))
            .with(tracing_subscriber::fmt::layer().json().with_writer(writer()));
        tracing::subscriber::with_default(layers, || {
            tracing::warn!(field = secret.expose(), shown = %secret.expose(), "words {}", secret.expose());
        });
        let text = text(&lines);
        assert_eq!(text.matches("[hidden]").count(), 6, "{text}");
        assert!(!text.contains("secret-1"), "{text}");
    }

    #[test]
    fn the_journal_hears_of_each_lines_priority() {
        let lines = Lines::default();
        let mut line = Line { lines: &lines, priority: Some(priority(Level::WARN)) };
        line.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(text(&lines), "<4>one\n<4>two\n");
    }

    #[test]
    fn a_line_that_cannot_be_written_stops_nobody() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let before = LOST.get();
        assert!(!write(&mut Gone, b"a line\n", false));
        let mut out = Vec::new();
        assert!(write(&mut out, b"the next\n", true));
        assert_eq!(out, b"\nthe next\n", "what was torn ends first");
        let lines = Lines::default();
        lines.push(vec![b'x'; LARGEST]);
        lines.push(b"too much\n".to_vec());
        assert_eq!(lines.lock().lines.len(), 1);
        assert!(LOST.get() >= before + 2);
        lines.flush(Duration::from_millis(1));
    }
}
