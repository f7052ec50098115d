//! What a running session has used: its row is kept up to date, and the run ends when its meter says so.

use std::convert::Infallible;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::budget::Meter;
use super::state::Inner;
use super::types::Trigger;
use base::SessionId;

/// What was used is put into the row this much after it is known, so that a session that ends just then has one write.
const SAVE_AFTER: Duration = Duration::from_millis(250);

/// Ends the run once its meter wants it ended; beside the driving of the child, as long as that lasts.
pub(super) async fn end_when_stopped(meter: &Meter, ended_by: &CancellationToken) -> Infallible {
    meter.stop_signal().stopped().await;
    ended_by.cancel();
    std::future::pending().await
}

/// Keeps the row of a running session up to date with its meter, until `over`: what it has used must not be forgotten
/// if this process dies.
pub(super) async fn keep_row(inner: &Inner, id: SessionId, trigger: &Trigger, meter: &Meter, over: &CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = over.cancelled() => return,
            () = meter.changed() => {}
        }
        tokio::select! {
            biased;
            () = over.cancelled() => return,
            () = tokio::time::sleep(SAVE_AFTER) => {}
        }
        if let Err(e) = inner.log.spent(&trigger.request, id, &meter.bill()).await {
            tracing::warn!(session = %id, error = %e, "a session's usage could not be recorded yet");
        }
    }
}
