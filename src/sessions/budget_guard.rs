//! A session and its money: refused before it starts, given a meter while it runs, billed at its end.

use tokio_util::sync::CancellationToken;

use super::log::Ending;
use super::state::{Attempt, Inner};
use super::types::{EventKind, SessionState, Trigger, TriggerError};
use store::StoreError;

/// Gives the attempt back if there is money and there are tokens left for it today. Else the trigger is refused, and the
/// refusal is on record as a session that failed before it started.
pub(super) async fn may_start(inner: &Inner, trigger: &Trigger, attempt: Attempt) -> Result<Attempt, TriggerError> {
    let parts = &inner.parts;
    let account = parts
        .budgets
        .account(&parts.config, &trigger.request, trigger.is_strangers(), inner.is_local(&attempt, &trigger.options))
        .await?
        .within(trigger.options.limits);
    let Err(over) = account.check(attempt.access.model.as_deref()) else { return Ok(attempt) };
    parts.metrics.session_stopped(over.class.as_str());
    let end = Ending::unstarted(SessionState::Failed, over.class.as_str(), over.message.as_str());
    inner.refuse(attempt, trigger, end).await?;
    Err(TriggerError::Budget(over.message))
}

/// Runs a session that has its slot, with a meter of its own.
pub(super) async fn run(inner: &Inner, trigger: &Trigger, attempt: Attempt, cancel: &CancellationToken) -> Ending {
    let parts = &inner.parts;
    let (strangers, local) = (trigger.is_strangers(), inner.is_local(&attempt, &trigger.options));
    let account = match parts.budgets.account(&parts.config, &trigger.request, strangers, local).await {
        Ok(account) => account.within(trigger.options.limits),
        Err(e) => return Ending::unstarted(SessionState::Failed, "unavailable", unread(&e)),
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
        Err(over) => Ending::unstarted(SessionState::Failed, over.class.as_str(), over.message),
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
