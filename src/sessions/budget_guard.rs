//! A session and its money: refused before it starts, metered while it runs, billed at its end.

use std::convert::Infallible;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::budget::Meter;
use super::core::{Attempt, Inner};
use super::log::Ending;
use super::types::{EventKind, SessionState, Trigger, TriggerError};
use base::SessionId;
use store::StoreError;

/// What was used is put into the row this much after it is known, so that a session that ends just then has one write.
const SAVE_AFTER: Duration = Duration::from_millis(250);

/// Gives the attempt back if there is money and there are tokens left for it today. Else the trigger is refused, and the
/// refusal is on record as a session that failed before it started.
pub(super) async fn may_start(inner: &Inner, trigger: &Trigger, attempt: Attempt) -> Result<Attempt, TriggerError> {
    let parts = &inner.parts;
    let account = parts.budgets.account(&parts.config, &trigger.request.tenant_id).await?;
    let Err(over) = account.check(attempt.access.model.as_deref()) else { return Ok(attempt) };
    parts.metrics.session_stopped(over.class.as_str());
    let end = Ending::failed(SessionState::Failed, over.class.as_str(), over.message.as_str());
    inner.refuse(attempt, trigger, end).await?;
    Err(TriggerError::Budget(over.message))
}

/// Runs a session that has its slot, with a meter of its own.
pub(super) async fn run(inner: &Inner, trigger: &Trigger, attempt: Attempt, cancel: &CancellationToken) -> Ending {
    let parts = &inner.parts;
    let account = match parts.budgets.account(&parts.config, &trigger.request.tenant_id).await {
        Ok(account) => account,
        Err(e) => return Ending::failed(SessionState::Failed, "unavailable", unread(&e)),
    };
    let (id, model) = (attempt.id, attempt.access.model.clone());
    let end = match account.check(model.as_deref()) {
        Ok(()) => {
            let meter = account.meter(model.as_deref());
            let mut end = super::session::run(inner, trigger, attempt, cancel, &meter).await;
            end.settle(&meter);
            end
        }
        // Others used it up while this one waited.
        Err(over) => Ending::failed(SessionState::Failed, over.class.as_str(), over.message),
    };
    // The last two have no other cause; a budget may also be the account's with the model's vendor.
    if let Some(class @ ("budget" | "turns" | "runaway")) = end.error_class.as_deref() {
        parts.metrics.session_stopped(class);
        let message = end.error.clone().unwrap_or_default();
        inner.tell(id, EventKind::Stopped { class: class.to_owned(), message });
    }
    end
}

fn unread(e: &StoreError) -> String {
    format!("what was used today could not be read: {e}")
}

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
            tracing::warn!(session = %id, error = %e, "what a session has used is not on record yet");
        }
    }
}
