//! Keeps an eye on what the owner should be told: calls that wait for approval, and what went wrong.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_util::sync::CancellationToken;

use super::handle::Outbox;
use super::{announce, notices};
use store::StoreError;

/// Rows are looked at this often.
const LOOK: Duration = Duration::from_secs(10);
/// After a look that failed.
const AGAIN: Duration = Duration::from_secs(2);

/// Keeps looking until `stop`.
pub(super) async fn keep(outbox: Outbox, stop: CancellationToken) {
    loop {
        let both = async { Ok::<_, StoreError>([announce::round(&outbox).await?, notices::round(&outbox).await?]) };
        let next = match both.await {
            Ok(next) => next.into_iter().flatten().fold(LOOK, Duration::min),
            // On a household's first day the switchboard is still making its tables.
            Err(e) if e.db().is_some_and(|db| *db.code() == SqlState::UNDEFINED_TABLE) => {
                tracing::debug!(error = %e, "pending notices for the owner can't be read yet");
                AGAIN
            }
            Err(e) => {
                tracing::warn!(error = %e, "pending notices for the owner can't be read");
                AGAIN
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = outbox.inner.alarm.notified() => {}
            () = tokio::time::sleep(next) => {}
        }
    }
}
