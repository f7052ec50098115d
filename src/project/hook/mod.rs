//! What a coding assistant's hooks hear and say: `butlerd hook EVENT`. The same hook serves project memory and, when a
//! session starts and at each prompt, the person's journal.
//!
//! The assistant waits for a hook, so a hook has [`DEADLINE`] and is silent after it. It never fails either: what went
//! wrong is counted in a file, and `status` shows it.

mod block;
mod clean;
mod commit;
mod events;
mod extract;
mod injection;
mod input;
mod journal;
mod json;
mod missed;
mod prose;
mod recent;
mod said;
mod state;
mod stop;
mod transcript;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::connection::{Connection, ConnectionError};
use crate::place::{PlaceError, ProjectPlace};
use crate::rules;
use events::{Event, Hook, Work};
use injection::ProjectPart;
use input::Input;
use state::StateDirectory;
use worker::{Outcome, Report, Worker};

pub use events::{BUDGET, FLOOR};
pub use journal::{ASSISTANT_VARIABLE, CODEX};
pub use missed::{Missed, missed};
pub use said::Said;

/// The events that a hook is run for.
pub const EVENTS: &[&str] = <Event as strum::VariantNames>::VARIANTS;

/// A hook that has not spoken by then says nothing.
pub const DEADLINE: Duration = Duration::from_millis(100);
/// `Stop` stores, and nobody waits for its text.
pub const STOP_DEADLINE: Duration = Duration::from_secs(3);
/// What is left of the deadline for counting a miss.
const MARGIN: Duration = Duration::from_millis(10);
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
    #[error("journal: {0}")]
    Journal(#[source] ConnectionError),
    #[error("the transcript can't be read: {0}")]
    Transcript(std::io::Error),
    #[error("{0} can't be written: {1}")]
    State(std::path::PathBuf, std::io::Error),
    #[error("the deadline came before all was stored")]
    Unfinished,
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
/// `input` waits for what the assistant writes to standard input, and has all of it. It takes at most [`DEADLINE`]
/// ([`STOP_DEADLINE`] for `Stop`), whatever the assistant, the daemon and the disk do, and neither fails nor panics.
pub fn run(event: &str, input: impl FnOnce() -> String + Send + 'static, data_dir: Option<&Path>) -> Option<Said> {
    let began = Instant::now();
    let event = Event::from_name(event)?;
    let state = StateDirectory::of_environment();
    tell(event, input, data_dir, state.as_ref(), began + event.deadline() - MARGIN)
}

/// What is printed of what has come by `until`.
fn tell(
    event: Event,
    input: impl FnOnce() -> String + Send + 'static,
    data_dir: Option<&Path>,
    state: Option<&StateDirectory>,
    until: Instant,
) -> Option<Said> {
    // Beside each other, so that neither's trouble takes what the other says.
    let journal = journal::begin(event, data_dir, until);
    let found = Arc::new(OnceLock::new());
    let project = project_memory(event, input, data_dir, state.cloned(), until, found.clone()).wait(until);
    let journal = journal.map(|journal| journal.wait(until));
    let missed = [project.missed, journal.as_ref().and_then(|journal| journal.missed.clone())];
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    if let (false, Some(state)) = (missed.is_empty(), state) {
        missed::count(state, &missed.join("; "), until + MARGIN / 2);
    }
    let text = text_of(event, project.text.as_ref().map(|part| part.text.as_str()), journal)?;
    let told = project.text.unwrap_or_default().told;
    Some(Said::new(event, &text, told, found.get().cloned(), data_dir))
}

/// The text of what both say. Whoever has a journal gets one at each start of a session, also where there is nothing to
/// say: so a program sees that the hook works.
fn text_of(event: Event, project: Option<&str>, journal: Option<Outcome<journal::JournalPart>>) -> Option<String> {
    let Some(journal) = journal else { return project.map(str::to_owned) };
    let text = journal::together(&journal.text.unwrap_or_default(), project, journal::measure());
    (event == Event::SessionStart || !text.is_empty()).then_some(text)
}

/// Works on project memory's part. `found` gets the project that it is about.
fn project_memory(
    event: Event,
    input: impl FnOnce() -> String + Send + 'static,
    data_dir: Option<&Path>,
    state: Option<StateDirectory>,
    until: Instant,
    found: Arc<OnceLock<ProjectPlace>>,
) -> Worker<ProjectPart> {
    let data_dir = data_dir.map(Path::to_owned);
    Worker::begin("hook", move |reports| {
        let _ = reports.send(Report::AwaitsInput);
        let input = input();
        let _ = reports.send(Report::HasInput);
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
        let rules = |prompt: &str| {
            let rules = rules::load(&top).map_err(|error| error.to_string())?;
            Ok(rules::matching(&rules, prompt).into_iter().map(|rule| rule.content.clone()).collect())
        };
        let around = Surroundings { top: &top, name: &name, rules: &rules, until, state: state.as_ref() };
        let mut daemon = Asker { connection: None, data_dir, question, place };
        Hook { event, input: &input, around: &around, daemon: &mut daemon, reports }.perform(work)
    })
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
