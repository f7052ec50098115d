//! The line that a person types: an editor in a thread of its own, because a terminal can't be waited for otherwise.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as blocking;
use std::thread;

use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::config::{BellStyle, Configurer};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, ExternalPrinter, Helper};
use tokio::sync::mpsc;

use super::history::{ENTRIES, may_keep};
use super::slash;
use crate::problem::{FAILED, Problem};
use crate::screen::Screen;

/// What was typed.
#[derive(Debug, PartialEq)]
pub enum Typed {
    /// Of several lines where they were pasted.
    Text(String),
    /// Taken back with Ctrl-C.
    Cleared,
    /// Ctrl-D, or Ctrl-C where there was nothing to take back.
    Ended,
}

/// A question that a line is typed behind.
struct Question {
    prompt: String,
    /// Whether the answer is one of the conversation, and kept.
    kept: bool,
}

/// The editor.
pub struct LineEditor {
    asks: blocking::Sender<Question>,
    typed: mpsc::Receiver<Typed>,
    screen: Screen,
    /// A line is being typed: whoever waits next waits for that one.
    asked: bool,
    /// The terminal as it was.
    before: Option<Termios>,
}

impl LineEditor {
    /// Begins to edit on this process's terminal. `history`: where lines are kept.
    pub fn start(history: Option<PathBuf>) -> Result<(Self, Screen), Problem> {
        let failed = |e: ReadlineError| {
            Problem::new(FAILED, "terminal", format!("The terminal can't be used: {e}."), "Try it with TERM=dumb.")
        };
        let before = tcgetattr(std::io::stdin()).ok();
        let mut config = Config::builder().build();
        config.set_bell_style(BellStyle::None);
        config.set_max_history_size(ENTRIES).map_err(failed)?;
        config.set_history_ignore_dups(true).map_err(failed)?;
        let mut lines = rustyline::Editor::<Slash, FileHistory>::with_config(config).map_err(failed)?;
        let empty = Arc::new(AtomicBool::new(true));
        lines.set_helper(Some(Slash { empty: empty.clone() }));
        if let Some(file) = &history {
            // Without what was typed before the chat is as good.
            let _ = lines.load_history(file);
        }
        let mut above = lines.create_external_printer().map_err(failed)?;
        let (print, texts) = blocking::channel::<String>();
        thread::spawn(move || {
            while let Ok(text) = texts.recv() {
                if above.print(text).is_err() {
                    return;
                }
            }
        });
        let (asks, questions) = blocking::channel::<Question>();
        let (give, typed) = mpsc::channel(1);
        thread::spawn(move || {
            while let Ok(question) = questions.recv() {
                empty.store(true, Ordering::Relaxed);
                let typed = match lines.readline(question.prompt.as_str()) {
                    Ok(text) => {
                        if question.kept && may_keep(&text) && lines.add_history_entry(text.as_str()).unwrap_or(false) {
                            history.iter().for_each(|file| drop(lines.append_history(file)));
                        }
                        Typed::Text(text)
                    }
                    Err(ReadlineError::Interrupted) if !empty.load(Ordering::Relaxed) => Typed::Cleared,
                    Err(_) => Typed::Ended,
                };
                if give.blocking_send(typed).is_err() {
                    return;
                }
            }
        });
        let screen = Screen::new(print);
        Ok((Self { asks, typed, screen: screen.clone(), asked: false, before }, screen))
    }

    /// The next line of the conversation. Dropped while somebody types, it is the next one's.
    pub async fn line(&mut self) -> Typed {
        self.read("> ", true).await
    }

    /// The answer to a question, which is not kept. Nothing may be asked before it is there.
    pub async fn answer(&mut self, question: &str) -> Option<String> {
        match self.read(&format!("{question} "), false).await {
            Typed::Text(answer) => Some(answer.trim().to_lowercase()),
            Typed::Cleared | Typed::Ended => None,
        }
    }

    async fn read(&mut self, prompt: &str, kept: bool) -> Typed {
        if !self.asked {
            self.screen.typing(true);
            if self.asks.send(Question { prompt: prompt.to_owned(), kept }).is_err() {
                return Typed::Ended;
            }
            self.asked = true;
        }
        let typed = self.typed.recv().await;
        self.asked = false;
        self.screen.typing(false);
        typed.unwrap_or(Typed::Ended)
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        // Somebody may be typing still, with a terminal that shows no line ends by itself.
        if let Some(before) = self.before.as_ref().filter(|_| self.asked) {
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, before);
        }
    }
}

/// Completes the commands of the chat, and knows whether there is something typed.
struct Slash {
    empty: Arc<AtomicBool>,
}

impl Completer for Slash {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = &line[..at];
        let commands = slash::NAMES.iter().filter(|name| begun.starts_with('/') && name.starts_with(begun));
        Ok((0, commands.map(|name| format!("{name} ")).collect()))
    }
}

impl Hinter for Slash {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.empty.store(line.is_empty(), Ordering::Relaxed);
        None
    }
}

impl Highlighter for Slash {}
impl Validator for Slash {}
impl Helper for Slash {}
