//! A module's work in the background: loops that are started after their butler is up, started again where they fail,
//! shown in `status` and `/readyz`, and stopped in reverse order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use base::Backoff;
use base::task::{self, lock};

/// After its first failure a task is started again within this.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// However often it failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A task that ran this long was well: its next failure counts as the first.
const WELL_AFTER: Duration = Duration::from_secs(60);
/// A task that was told to stop has this long to finish what it holds.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What the end of a background task means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// It runs as long as its module. However it ends, it is started again, after a pause that doubles up to a minute.
    Loop,
    /// It has one thing to do. It is started again until it returns `Ok`.
    Once,
    /// The module is nothing without it: its end is the module's failure.
    Vital,
}

/// Why a run of a task ended: a sentence for the owner.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TaskError(pub String);

/// The work of a background task.
#[async_trait]
pub trait Background: Send + Sync {
    /// Works until `stop` is cancelled, then returns `Ok` within 5 s. Called again after a failure, so it begins with
    /// what the rows say and not with what an earlier run knew.
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError>;
}

/// A background task with its name, which is unique in its module, and its kind.
///
/// ```
/// use std::sync::Arc;
/// use modules::{Background, BackgroundTask, TaskError, TaskKind};
/// use tokio_util::sync::CancellationToken;
///
/// struct Poll;
///
/// #[async_trait::async_trait]
/// impl Background for Poll {
///     async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
///         loop {
///             tokio::select! {
///                 () = stop.cancelled() => return Ok(()),
///                 () = tokio::time::sleep(std::time::Duration::from_secs(30)) => {}
///             }
///             // Look at the rows, and do what is due.
///         }
///     }
/// }
///
/// let task = BackgroundTask { name: "poll", kind: TaskKind::Loop, work: Arc::new(Poll) };
/// assert_eq!(task.name, "poll");
/// ```
#[derive(Clone)]
pub struct BackgroundTask {
    pub name: &'static str,
    pub kind: TaskKind,
    pub work: Arc<dyn Background>,
}

/// Where a background task stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    Running,
    /// It failed and is started again in a moment.
    Restarting,
    /// It had one thing to do, and did it.
    Done,
    Failed,
    Stopped,
}

/// A background task as people and tools see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TaskHealth {
    pub kind: TaskKind,
    pub state: TaskState,
    /// Starts beyond the first.
    pub restarts: u32,
    /// Why it ended last, if it ever failed.
    #[serde(default)]
    pub error: Option<String>,
}

impl TaskHealth {
    /// Whether it does what it is there for.
    pub fn well(&self) -> bool {
        matches!(self.state, TaskState::Running | TaskState::Done | TaskState::Stopped)
    }
}

/// The health of all tasks of a butler's modules, by module and task. Clones share it.
#[derive(Clone, Default)]
pub(super) struct TaskBoard {
    shown: Arc<Mutex<BTreeMap<String, BTreeMap<String, TaskHealth>>>>,
    /// What modules say of themselves.
    notes: Arc<Mutex<BTreeMap<String, String>>>,
}

impl TaskBoard {
    pub fn of(&self, module: &str) -> BTreeMap<String, TaskHealth> {
        lock(&self.shown).get(module).cloned().unwrap_or_default()
    }

    pub fn note_of(&self, module: &str) -> Option<String> {
        lock(&self.notes).get(module).cloned()
    }

    pub fn note(&self, module: &str, what: Option<String>) {
        let mut notes = lock(&self.notes);
        match what {
            Some(what) => notes.insert(module.to_owned(), what),
            None => notes.remove(module),
        };
    }

    fn show(&self, module: &str, task: &str, health: &TaskHealth) {
        lock(&self.shown).entry(module.to_owned()).or_default().insert(task.to_owned(), health.clone());
    }
}

/// Told that a vital task of a module ended, and why.
pub(super) type OnFailure = Arc<dyn Fn(&str, String) + Send + Sync>;

/// A task under supervision.
pub(super) struct Supervised {
    name: &'static str,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Supervised {
    /// Starts the task. `stop` ends it together with others of its module.
    pub fn start(
        butler: &str,
        module: &str,
        task: BackgroundTask,
        board: &TaskBoard,
        stop: &CancellationToken,
        failed: OnFailure,
    ) -> Self {
        let stop = stop.child_token();
        let name = task.name;
        let health = TaskHealth { kind: task.kind, state: TaskState::Running, restarts: 0, error: None };
        board.show(module, name, &health);
        let keeping = Keeping {
            butler: butler.to_owned(),
            module: module.to_owned(),
            task,
            board: board.clone(),
            stop: stop.clone(),
            health,
            failed,
        };
        Self { name, stop, task: task::spawn(task::Kind::Actor, "module-task", keeping.keep()) }
    }

    /// Tells the task to stop and waits for it; one that does not stop is dropped.
    pub async fn stop(self, module: &str) {
        self.stop.cancel();
        let mut task = self.task;
        if tokio::time::timeout(STOP_WITHIN, &mut task).await.is_err() {
            tracing::warn!(module, task = self.name, "a background task did not stop in time; it is dropped");
            task.abort();
            let _ = task.await;
        }
    }
}

/// Aborts the run of a task whose keeper is dropped.
struct Run(JoinHandle<Result<(), TaskError>>);

impl Drop for Run {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Keeping {
    butler: String,
    module: String,
    task: BackgroundTask,
    board: TaskBoard,
    stop: CancellationToken,
    health: TaskHealth,
    failed: OnFailure,
}

impl Keeping {
    async fn keep(mut self) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let begun = Instant::now();
            let (work, stop) = (self.task.work.clone(), self.stop.clone());
            // A task of its own, so that a panic ends this run and nothing else.
            let mut run = Run(task::spawn(task::Kind::Job, self.task.name, async move { work.run(stop).await }));
            let ended = (&mut run.0).await;
            if self.stop.is_cancelled() {
                return self.show(TaskState::Stopped);
            }
            let why = match ended {
                Ok(Ok(())) if self.task.kind == TaskKind::Once => return self.show(TaskState::Done),
                Ok(Ok(())) => "it ended by itself".to_owned(),
                Ok(Err(e)) => e.to_string(),
                Err(_) => "it panicked; the daemon's log says where".to_owned(),
            };
            let (butler, module, name) = (&self.butler, &self.module, self.task.name);
            tracing::error!(butler, module, task = name, "a background task ended: {why}");
            self.health.error = Some(why.clone());
            if self.task.kind == TaskKind::Vital {
                (self.failed)(&self.module, format!("its task `{name}` ended: {why}"));
                return self.show(TaskState::Failed);
            }
            self.health.restarts += 1;
            self.show(TaskState::Restarting);
            if begun.elapsed() >= WELL_AFTER {
                backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
            }
            if self.stop.run_until_cancelled(tokio::time::sleep(backoff.next_delay())).await.is_none() {
                return self.show(TaskState::Stopped);
            }
            self.show(TaskState::Running);
        }
    }

    fn show(&mut self, state: TaskState) {
        self.health.state = state;
        self.board.show(&self.module, self.task.name, &self.health);
    }
}
