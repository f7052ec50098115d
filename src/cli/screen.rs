//! A terminal on which somebody types while others write: what is printed goes above the line that is being typed, or
//! above the status line while something is waited for.

use std::io::Write;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The pictures of the sign that something goes on.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// So much of a status is shown.
const LONGEST: usize = 120;

/// The terminal. All clones are the same.
#[derive(Clone, Debug)]
pub struct Screen {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    /// Prints above the line that is being typed.
    above: Sender<String>,
    typing: bool,
    /// What goes on, and since when.
    status: Option<(String, Instant)>,
    drawn: bool,
    turn: usize,
}

impl Screen {
    /// `above`: whoever prints above a line that is being typed.
    pub fn new(above: Sender<String>) -> Self {
        let inner = Inner { above, typing: false, status: None, drawn: false, turn: 0 };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Prints whole lines.
    pub fn print(&self, text: &str) {
        let mut inner = self.inner();
        if inner.typing {
            // Its thread ends with the process.
            let _ = inner.above.send(text.to_owned());
            return;
        }
        inner.wipe();
        write_or_leave(&mut std::io::stdout().lock(), text);
        inner.draw();
    }

    /// Whether a line is being typed from now on. Then nothing else stands below the text.
    pub fn typing(&self, typing: bool) {
        let mut inner = self.inner();
        inner.wipe();
        (inner.typing, inner.status) = (typing, None);
    }

    /// Shows what goes on, below all text, until something else does.
    pub fn status(&self, what: &str) {
        let mut inner = self.inner();
        let since = inner.status.take().map_or_else(Instant::now, |(_, since)| since);
        inner.status = Some((what.chars().take(LONGEST).collect(), since));
        inner.draw();
    }

    /// The next picture of the sign that something goes on.
    pub fn turn(&self) {
        let mut inner = self.inner();
        inner.turn += 1;
        inner.draw();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn wipe(&mut self) {
        if std::mem::take(&mut self.drawn) {
            to_terminal("\r\x1b[K");
        }
    }

    fn draw(&mut self) {
        let Some((what, since)) = self.status.as_ref().filter(|_| !self.typing) else { return };
        let picture = SPINNER[self.turn % SPINNER.len()];
        let took = match since.elapsed().as_secs() {
            0..3 => String::new(),
            seconds => format!(" {seconds} s"),
        };
        // The terminal itself cuts what is too long for a line, so that one line is all there is to wipe.
        to_terminal(&format!("\r\x1b[K\x1b[?7l{picture} {what}{took}\x1b[?7h"));
        self.drawn = true;
    }
}

fn to_terminal(text: &str) {
    let mut out = std::io::stdout().lock();
    // A terminal that is gone shows nothing, and its reader's end is noticed by what is printed.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The reader may be gone (`butlerd status | head -1`): then there is nothing left to say, and no fault.
pub fn write_or_leave(to: &mut impl Write, text: &str) {
    if to.write_all(text.as_bytes()).and_then(|()| to.flush()).is_err() {
        std::process::exit(1);
    }
}
