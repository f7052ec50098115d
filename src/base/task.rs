//! The task wrapper: the only place that calls `tokio::spawn`.
//!
//! Every task has a kind, which says what its end means to whoever started it, and a name for the log.

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::Instrument;

/// What a task is to the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Serves one connection or request; its panic is logged and concerns nobody else.
    Request,
    /// A loop that must run as long as its owner; its end is reported to the owner through the handle.
    Actor,
    /// Work whose result somebody awaits.
    Job,
}

/// Starts `future` as a task of this kind. A panic is logged here, once, with the task's name.
pub fn spawn<F>(kind: Kind, name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let span = tracing::debug_span!("task", kind = ?kind, name);
    tokio::spawn(LogPanic { name, inner: Box::pin(future.instrument(span)) })
}

struct LogPanic<F> {
    name: &'static str,
    inner: std::pin::Pin<Box<F>>,
}

impl<F: Future> Future for LogPanic<F> {
    type Output = F::Output;
    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<F::Output> {
        let name = self.name;
        let inner = self.inner.as_mut();
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| inner.poll(cx))) {
            Ok(poll) => poll,
            Err(panic) => {
                tracing::error!(task = name, "task panicked");
                std::panic::resume_unwind(panic)
            }
        }
    }
}
