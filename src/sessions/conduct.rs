//! Sessions that a module works on in the place of a model: it asks several, and answers for all of them.
//!
//! Such a session has its row, its transcript, its deadline and its end like any other. It starts no child and takes no
//! slot, so that the sessions that are started under it can wait for theirs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rust_decimal::Decimal;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::adapters::{ErrorClass, Failure};
use super::conductor::{Conducted, Conductor};
use super::log::Ending;
use super::memory::Recalled;
use super::prompt::SystemPrompt;
use super::remedy::{blamed, broken};
use super::state::{Attempt, Inner};
use super::trace;
use super::types::{EventKind, SessionState, Trigger};
use access::Taint;
use base::{SessionId, text};

/// The longest answer that a row keeps, in bytes.
const MAX_RESULT: usize = 256 * 1024;

/// Runs a conducted session to its end.
pub(super) async fn run(
    inner: &Inner,
    conductor: Arc<dyn Conductor>,
    trigger: &Trigger,
    attempt: &Attempt,
    cancel: &CancellationToken,
) -> Ending {
    let mut span = trace::session(inner, trigger, attempt);
    let trigger = trigger.under(span.context());
    let begun = Instant::now();
    let end = conducted(inner, conductor, trigger, attempt.id, cancel).await.unwrap_or_else(|end| end);
    let end = blamed(end, inner.parts.db.machine(), begun).await.redacted();
    trace::ending(&mut span, &end);
    end
}

async fn conducted(
    inner: &Inner,
    conductor: Arc<dyn Conductor>,
    trigger: Trigger,
    id: SessionId,
    cancel: &CancellationToken,
) -> Result<Ending, Ending> {
    let recalled = match inner.memory(&trigger) {
        Some(memory) => memory.recall(&trigger).await,
        None => Recalled::unasked(),
    };
    if let Some(row) = &recalled.row {
        inner.tell(id, EventKind::Memory { recalled: row.clone() });
    }
    let mut prompt = SystemPrompt::plain(String::new());
    prompt.remember(recalled.block.as_deref());
    let running = inner.log.running(&trigger.request, id, &prompt, &recalled, 0).await;
    running.map_err(|e| broken("the session's row", &e))?;
    let stop = CancellationToken::new();
    let session = Conducted {
        id,
        taint: Arc::new(Taint::of(&trigger.request.label().join(&recalled.label()))),
        trigger: Arc::new(trigger),
        told_ids: ids(&recalled),
        told: recalled.block,
        stop: stop.clone(),
        log: inner.log.clone(),
        transcript: inner.transcript.clone(),
    };
    let limit = inner.parts.config.sessions.session_timeout.0;
    let work = conductor.conduct(session);
    tokio::pin!(work);
    let stopped = tokio::select! {
        done = &mut work => return Ok(ending(done, inner.closing.is_cancelled())),
        () = tokio::time::sleep(limit) => timed_out(limit),
        () = cancel.cancelled() => none_used(SessionState::Cancelled, ErrorClass::Cancelled, "the session was cancelled"),
        () = inner.killing.cancelled() => {
            none_used(SessionState::Interrupted, ErrorClass::Cancelled, "the daemon stopped before the session was over")
        }
    };
    stop.cancel();
    // What it began ends with it.
    let _ = work.await;
    Ok(stopped)
}

/// The memories that a session is told.
fn ids(recalled: &Recalled) -> Vec<Uuid> {
    let ids = recalled.row.as_ref().and_then(|row| row["ids"].as_array());
    ids.into_iter().flatten().filter_map(|id| id.as_str()?.parse().ok()).collect()
}

fn timed_out(limit: Duration) -> Ending {
    let limit = base::HumanDuration(limit);
    let why = format!("the session was ended after {limit}; [butler.runtime] session_timeout allows more");
    none_used(SessionState::TimedOut, ErrorClass::TimedOut, why)
}

/// It asked no model by itself: what was used stands in the rows of the sessions under it.
fn none_used(state: SessionState, class: ErrorClass, why: impl Into<String>) -> Ending {
    Ending::unstarted(state, class.as_str(), why)
}

/// `closing`: the daemon stops, and what failed then may be tried again after it.
fn ending(done: Result<String, Failure>, closing: bool) -> Ending {
    match done {
        Err(failure) if closing => none_used(SessionState::Interrupted, failure.class, failure.message),
        Ok(answer) => Ending {
            state: SessionState::Succeeded,
            result: Some(text::truncate(&answer, MAX_RESULT)),
            error_class: None,
            error: None,
            cost_usd: Some(Decimal::ZERO),
            ..Ending::failed(SessionState::Succeeded, "", "")
        },
        Err(failure) => none_used(SessionState::Failed, failure.class, text::truncate(&failure.message, 4096)),
    }
}
