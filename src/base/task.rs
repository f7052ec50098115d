//! The task wrapper: the only place that calls `tokio::spawn`.
//!
//! Every task has a kind, which says what its end means to whoever started it, and a name for the log. A loop that
//! panics fails its [`Group`]: the butler or the household that it belongs to.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::Instrument;

/// What a task is to the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Serves one connection or request; its panic is logged and concerns nobody else.
    Request,
    /// A loop that must run as long as its group, which learns of its panic.
    Actor,
    /// Work whose result somebody awaits.
    Job,
}

tokio::task_local! {
    static GROUP: Group;
}

/// What can't go on without its loops. Clones are the same.
#[derive(Clone, Debug)]
pub struct Group {
    failed: watch::Sender<Option<&'static str>>,
}

impl Default for Group {
    fn default() -> Self {
        Self { failed: watch::Sender::new(None) }
    }
}

impl Group {
    /// Runs `work` so that loops which it starts, and all that these start, belong to this group.
    pub async fn around<F: Future>(&self, work: F) -> F::Output {
        GROUP.scope(self.clone(), work).await
    }

    /// Waits for the panic of a loop. Gives its name.
    pub async fn failed(&self) -> &'static str {
        let mut failed = self.failed.subscribe();
        let name = failed.wait_for(Option::is_some).await.ok().and_then(|name| *name);
        // Its sender is this group's, so it is never closed.
        name.unwrap_or_default()
    }
}

/// Starts `future` as a task of this kind. A panic is logged here, once, with the task's name.
pub fn spawn<F>(kind: Kind, name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let span = tracing::debug_span!("task", kind = ?kind, name);
    let work = future.instrument(span);
    let group = GROUP.try_with(Group::clone).ok();
    let inner: std::pin::Pin<Box<dyn Future<Output = F::Output> + Send>> = match &group {
        Some(group) => Box::pin(GROUP.scope(group.clone(), work)),
        None => Box::pin(work),
    };
    tokio::spawn(LogPanic { name, group: group.filter(|_| kind == Kind::Actor), inner })
}

struct LogPanic<T> {
    name: &'static str,
    /// Of a loop.
    group: Option<Group>,
    inner: std::pin::Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> Future for LogPanic<T> {
    type Output = T;
    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<T> {
        let name = self.name;
        let inner = self.inner.as_mut();
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| inner.poll(cx))) {
            Ok(poll) => poll,
            Err(panic) => {
                tracing::error!(task = name, "task panicked");
                if let Some(group) = &self.group {
                    group.failed.send_replace(Some(name));
                }
                std::panic::resume_unwind(panic)
            }
        }
    }
}

/// Locks what tasks share, although one of them may have panicked with it in hand.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_panic_of_a_loop_fails_whoever_it_belongs_to() {
        let group = Group::default();
        let begun = group.around(async {
            // Work that somebody awaits is that one's business.
            assert!(spawn(Kind::Job, "job", async { panic!("a job") }).await.is_err());
            spawn(Kind::Request, "request", async { drop(spawn(Kind::Actor, "loop", async { panic!("a loop") })) })
                .await
        });
        begun.await.expect("the request");
        assert_eq!(group.failed().await, "loop");
    }
}
