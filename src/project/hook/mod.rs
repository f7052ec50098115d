//! What a coding assistant's hooks hear and say: `butlerd hook EVENT`.
//!
//! The assistant waits for a hook, so a hook has [`DEADLINE`] and is silent after it. It never fails either: what went
//! wrong is counted in a file, and `status` shows it.

mod block;
mod clean;
mod commit;
mod events;
mod extract;
mod input;
mod json;
mod missed;
mod prose;
mod recent;
mod state;
mod stop;
mod transcript;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::connection::{Connection, ConnectionError};
use crate::place::{PlaceError, ProjectPlace};
use crate::rules;
use events::{Event, Work};
use input::Input;
use state::StateDirectory;

pub use events::{BUDGET, FLOOR};
pub use missed::{Missed, missed};

/// The events that a hook is run for.
pub const EVENTS: [&str; 9] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "PreCompact",
];

/// A hook that has not spoken by then says nothing.
pub const DEADLINE: Duration = Duration::from_millis(100);
/// `Stop` stores, and nobody waits for its text.
pub const STOP_DEADLINE: Duration = Duration::from_secs(3);
/// What is left of the deadline for counting a miss.
const MARGIN: Duration = Duration::from_millis(10);
/// So long a hook that has printed waits to be heard.
const CONFIRMATION: Duration = Duration::from_millis(2);
/// `Stop` asks several things; each of them is answered within this time or lost.
const STOP_QUESTION: Duration = Duration::from_millis(800);

/// Whoever has the memories.
///
/// ```
/// use project::connection::ConnectionError;
/// use project::hook::Daemon;
/// use serde_json::{Value, json};
///
/// /// Remembers nothing.
/// struct Empty;
///
/// impl Daemon for Empty {
///     fn ask(&mut self, _op: &str, _args: Value) -> Result<Value, ConnectionError> {
///         Ok(json!({"lines": []}))
///     }
/// }
/// ```
pub trait Daemon {
    /// Asks for one thing about the project that this one knows. `args` is an object, as is mostly the result.
    fn ask(&mut self, op: &str, args: Value) -> Result<Value, ConnectionError>;
}

/// Why a hook said less than it could have.
#[derive(Debug, thiserror::Error)]
enum HookError {
    #[error("the input is not valid JSON: {0}")]
    Json(serde_json::Error),
    #[error("the input is no JSON object")]
    NoObject,
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Daemon(#[from] ConnectionError),
    #[error("the transcript can't be read: {0}")]
    Transcript(std::io::Error),
    #[error("{0} can't be written: {1}")]
    State(std::path::PathBuf, std::io::Error),
    #[error("the deadline came before all was stored")]
    Unfinished,
}

/// Which memories stand in a text, and which session is told them.
#[derive(Default)]
struct Injection {
    session: String,
    memories: Vec<Uuid>,
}

/// What a hook says.
pub struct Said {
    line: String,
    told: Injection,
    /// None: no memory stands in it.
    place: Option<ProjectPlace>,
    data_dir: Option<PathBuf>,
}

impl Said {
    /// One line of JSON, to be printed.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Tells the daemon that the line was printed, so that the session is told its memories no more. Where that gets
    /// lost they are told once again, which is better than never.
    pub fn printed(self) {
        let (Some(place), false) = (&self.place, self.told.memories.is_empty()) else { return };
        let args = json!({"session": self.told.session, "ids": self.told.memories});
        // The daemon does it whether or not somebody waits for its answer.
        let _ = Connection::open(self.data_dir.as_deref(), CONFIRMATION)
            .and_then(|mut connection| connection.ask(place, "told", args));
    }
}

/// What the thread that works says to the one that watches the clock.
enum Report {
    Text(String, Injection),
    Missed(String),
    Done,
}

/// Where a hook runs.
struct Surroundings<'a> {
    /// The top of the working tree.
    top: &'a Path,
    /// The project's name.
    name: &'a str,
    /// The rules that fit a prompt, or why they can't be read.
    rules: &'a dyn Fn(&str) -> Result<Vec<String>, String>,
    until: Instant,
    /// None: there is no home directory.
    state: Option<&'a StateDirectory>,
}

/// What is to be printed for this event, or nothing. Whoever has printed it says so by [`Said::printed`].
///
/// `input` is what the assistant wrote to standard input. It takes at most [`DEADLINE`] ([`STOP_DEADLINE`] for `Stop`),
/// whatever the daemon and the disk do, and neither fails nor panics.
pub fn run(event: &str, input: &str, data_dir: Option<&Path>) -> Option<Said> {
    let began = Instant::now();
    let event = Event::read(event)?;
    let state = StateDirectory::of_environment();
    let (input, data_dir, kept) = (input.to_owned(), data_dir.map(Path::to_owned), state.clone());
    let until = began + event.deadline() - MARGIN;
    let worked_at = Arc::new(OnceLock::new());
    let (found, asked) = (worked_at.clone(), data_dir.clone());
    let (line, told) = within(until, state.as_ref(), move |reports| {
        let input = Input::read(&input)?;
        let work = events::work(event, &input);
        if matches!(work, Work::Nothing) {
            return Ok(());
        }
        let place = ProjectPlace::of(&input.directory(), None)?;
        let _ = found.set(place.clone());
        let question =
            if event == Event::Stop { STOP_QUESTION } else { until.saturating_duration_since(Instant::now()) };
        let (top, name) = (place.top.clone(), place.identity.name.clone());
        let rules = |prompt: &str| rules_of(&top, prompt);
        let around = Surroundings { top: &top, name: &name, rules: &rules, until, state: kept.as_ref() };
        events::perform(
            event,
            &input,
            work,
            &around,
            &mut Asker { connection: None, data_dir: asked, question, place },
            reports,
        )
    })?;
    Some(Said { line, told, place: worked_at.get().cloned(), data_dir })
}

/// The contents of the rules of which a topic stands in the prompt; or why they can't be read.
fn rules_of(top: &Path, prompt: &str) -> Result<Vec<String>, String> {
    let rules = rules::load(top).map_err(|error| error.to_string())?;
    Ok(rules::matching(&rules, prompt).into_iter().map(|rule| rule.content.clone()).collect())
}

/// Works on a thread of its own, so that nothing that it waits for (a disk, a daemon) makes the assistant wait longer.
fn within(
    until: Instant,
    state: Option<&StateDirectory>,
    work: impl FnOnce(&Sender<Report>) -> Result<(), HookError> + Send + 'static,
) -> Option<(String, Injection)> {
    let (sender, reports) = channel();
    // The process ends when this function has returned, and the thread with it.
    let spawned = std::thread::Builder::new().name("hook".to_owned()).spawn(move || {
        if let Err(error) = work(&sender) {
            let _ = sender.send(Report::Missed(error.to_string()));
        }
        let _ = sender.send(Report::Done);
    });
    let (mut said, mut why) = (None, spawned.err().map(|error| format!("no thread could be started: {error}")));
    loop {
        match reports.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Report::Text(text, told)) => said = Some((text, told)),
            Ok(Report::Missed(reason)) => why = Some(reason),
            Ok(Report::Done) => break,
            Err(RecvTimeoutError::Timeout) => {
                why = Some("the deadline came before the answer".to_owned());
                break;
            }
            // The thread panicked, or there is none.
            Err(RecvTimeoutError::Disconnected) => {
                why = why.or_else(|| Some("the hook broke off".to_owned()));
                break;
            }
        }
    }
    if let (Some(why), Some(state)) = (why, state) {
        missed::count(state, &why, until + MARGIN / 2);
    }
    said
}

/// The daemon at the other end of the socket.
struct Asker {
    /// Opened by the first question: some of what a hook says needs no daemon.
    connection: Option<Connection>,
    data_dir: Option<PathBuf>,
    /// How long each question may take.
    question: Duration,
    place: ProjectPlace,
}

impl Daemon for Asker {
    fn ask(&mut self, op: &str, args: Value) -> Result<Value, ConnectionError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(Connection::open(self.data_dir.as_deref(), self.question)?),
        };
        let (project, result) = connection.ask(&self.place, op, args)?;
        if self.place.identity.id != Some(project) {
            // Without it the next hook reads the same from the repository again.
            let _ = self.place.keep(project);
            self.place.identity.id = Some(project);
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests;
