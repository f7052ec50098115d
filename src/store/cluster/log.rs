//! The server's log: kept in a file of bounded size, and read on the way for what matters to supervision.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use base::text;

/// The log file moves aside (to `….1`, replacing the former) when it is this large.
const MAX_LOG_BYTES: u64 = 4 << 20;

/// The longest line that is kept whole.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// A log file that never takes more than twice its limit. What can't be written is dropped: a full disk must not make
/// the server wait for us.
pub(super) struct LogFile {
    path: PathBuf,
    limit: u64,
    open: Option<(File, u64)>,
}

impl LogFile {
    pub fn new(path: &Path) -> Self {
        Self::with_limit(path, MAX_LOG_BYTES)
    }

    fn with_limit(path: &Path, limit: u64) -> Self {
        Self { path: path.to_path_buf(), limit, open: None }
    }

    pub fn write(&mut self, line: &[u8]) {
        if self.open.as_ref().is_some_and(|(_, size)| size + line.len() as u64 > self.limit) {
            self.open = None;
            let mut aside = self.path.clone().into_os_string();
            aside.push(".1");
            let _ = std::fs::rename(&self.path, aside);
        }
        if self.open.is_none() {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path);
            self.open = file.ok().map(|f| {
                let size = f.metadata().map_or(0, |m| m.len());
                (f, size)
            });
        }
        if let Some((file, size)) = &mut self.open {
            match file.write_all(line) {
                Ok(()) => *size += line.len() as u64,
                Err(_) => self.open = None,
            }
        }
    }
}

/// What one run of the server has said.
#[derive(Default)]
pub(super) struct ServerOutput {
    /// Woken by "ready to accept connections".
    pub ready: Notify,
    fatal: Mutex<VecDeque<String>>,
}

/// More lines than this say nothing new about one end.
const MAX_FATAL_LINES: usize = 8;

impl ServerOutput {
    /// Reads the server's standard error to its end, into the file. Blocks; runs on a thread of its own.
    pub fn listen(&self, stderr: impl Read, file: &Mutex<LogFile>, postmaster: u32) {
        let mut reader = BufReader::new(stderr);
        let mut line = Vec::new();
        let mut hint_follows = false;
        loop {
            line.clear();
            match (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            file.lock().unwrap_or_else(PoisonError::into_inner).write(&line);
            let line = String::from_utf8_lossy(&line);
            hint_follows = self.consider(line.trim_end(), postmaster, hint_follows);
        }
    }

    /// Keeps the line if it tells why a server ends. Returns whether the next line may belong to it.
    fn consider(&self, line: &str, postmaster: u32, hint_follows: bool) -> bool {
        let entry = Entry::parse(line);
        let said = text::truncate(&text::clean(entry.said), 400);
        let keep = match entry.severity {
            Severity::Log if entry.pid == Some(postmaster) && entry.said.contains("ready to accept connections") => {
                self.ready.notify_one();
                self.lock().clear();
                return false;
            }
            // What the postmaster logs of its children's ends, and of its own.
            Severity::Log => entry.pid == Some(postmaster) && entry.said.contains("terminat"),
            // A FATAL of a session (a wrong password) is that session's affair, but a startup process also says FATAL:
            // before "ready" everything counts, and "ready" forgets it. Whoever comes too early is told so by a process
            // of their own, maybe after "ready": that explains no end.
            Severity::Fatal => !entry.said.contains("the database system is "),
            Severity::Panic | Severity::Unmarked => true,
            Severity::Hint => hint_follows,
            Severity::Other => false,
        };
        if keep {
            let mut fatal = self.lock();
            if fatal.len() == MAX_FATAL_LINES {
                fatal.pop_front();
            }
            fatal.push_back(said);
        }
        keep
    }

    /// The last things said about an end, in one line.
    pub fn last_words(&self) -> Option<String> {
        let fatal = self.lock();
        (!fatal.is_empty()).then(|| fatal.iter().cloned().collect::<Vec<_>>().join("; "))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<String>> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The prefix that [`Entry::parse`] reads: time, process id in brackets.
pub(super) const LINE_PREFIX: &str = "%m [%p] ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Log,
    Fatal,
    Panic,
    /// HINT or DETAIL: says more about the line before.
    Hint,
    Other,
    /// No prefix: said before the server had its settings.
    Unmarked,
}

struct Entry<'a> {
    pid: Option<u32>,
    severity: Severity,
    said: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Self {
        let unmarked = Entry { pid: None, severity: Severity::Unmarked, said: line };
        // A continuation line (a tab first) is part of something longer; an empty one says nothing.
        if line.starts_with('\t') || line.is_empty() {
            return Entry { severity: Severity::Other, ..unmarked };
        }
        let Some((_, rest)) = line.split_once(" [") else { return unmarked };
        let Some((pid, said)) = rest.split_once("] ") else { return unmarked };
        let Ok(pid) = pid.parse() else { return unmarked };
        let severity = match said.split_once(':').map(|(s, _)| s) {
            Some("LOG") => Severity::Log,
            Some("FATAL") => Severity::Fatal,
            Some("PANIC") => Severity::Panic,
            Some("HINT" | "DETAIL") => Severity::Hint,
            _ => Severity::Other,
        };
        Entry { pid: Some(pid), severity, said }
    }
}

/// Starts the thread that listens. The returned receiver answers when the stream has ended.
pub(super) fn listen_in_background(
    heard: Arc<ServerOutput>,
    stderr: impl Read + Send + 'static,
    file: Arc<Mutex<LogFile>>,
    postmaster: u32,
) -> std::io::Result<std::sync::mpsc::Receiver<()>> {
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("butlerd-pg-log".into()).spawn(move || {
        heard.listen(stderr, &file, postmaster);
        let _ = ended.send(());
    })?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(text: &str) -> ServerOutput {
        let dir = tempfile::tempdir().unwrap();
        let heard = ServerOutput::default();
        heard.listen(text.as_bytes(), &Mutex::new(LogFile::new(&dir.path().join("log"))), 7);
        assert_eq!(std::fs::read_to_string(dir.path().join("log")).unwrap_or_default(), text);
        heard
    }

    #[test]
    fn keeps_what_explains_an_end() {
        let heard = hear(
            "2026-11-21 01:02:03.004 UTC [7] LOG:  starting PostgreSQL\n\
             2026-11-21 01:02:03.004 UTC [7] FATAL:  lock file \"postmaster.pid\" already exists\n\
             2026-11-21 01:02:03.004 UTC [7] HINT:  Is another postmaster running?\n\
             2026-11-21 01:02:03.004 UTC [7] LOG:  database system is shut down\n\
             2026-11-21 01:02:03.004 UTC [7] HINT:  not kept\n",
        );
        let words = heard.last_words().unwrap();
        assert_eq!(words, "FATAL:  lock file \"postmaster.pid\" already exists; HINT:  Is another postmaster running?");
    }

    #[test]
    fn ready_forgets_the_wait_before() {
        let heard = hear(
            "2026-11-21 01:02:03.004 UTC [9] FATAL:  the database system is starting up\n\
             2026-11-21 01:02:03.004 UTC [7] LOG:  database system is ready to accept connections\n",
        );
        assert_eq!(heard.last_words(), None);
        let late = hear(
            "2026-11-21 01:02:03.004 UTC [7] LOG:  database system is ready to accept connections\n\
             2026-11-21 01:02:03.004 UTC [9] FATAL:  the database system is starting up\n",
        );
        assert_eq!(late.last_words(), None);
        let heard = hear("postgres: could not access directory\n\n");
        assert_eq!(heard.last_words().as_deref(), Some("postgres: could not access directory"));
    }

    #[test]
    fn the_file_stays_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = LogFile::with_limit(&path, 100);
        for i in 0..100 {
            log.write(format!("line number {i:03}\n").as_bytes());
        }
        let size = |p: &Path| std::fs::metadata(p).unwrap().len();
        assert!(size(&path) <= 100 && size(&dir.path().join("log.1")) <= 100);
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("line number 099\n"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
