//! What tools that write memories have in common, whichever module's they are.

use std::collections::HashSet;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use memory::Memory;
use memory::write::{Origin, Vector, WriteError};
use memory_index::rank::spoken;
use tools::{EffectTx, ToolCall, ToolError};

/// Does `work` in the call's own transaction. The connection is given back before another one reads for the index.
macro_rules! in_tx {
    ($call:expr, $with:expr, |$tx:ident| $work:expr) => {{
        let done = {
            let mut lease = $call.lease().await?;
            let mut $tx = $call.begin(&mut lease).await?;
            let done = $work.await;
            $crate::memory_calls::settled($tx, done).await
        };
        if done.is_ok() {
            $crate::memory_calls::stepped($call, &$with.memory).await;
        }
        done?
    }};
}

pub(crate) use in_tx;

/// Who writes, and what the session was told so far.
pub(crate) async fn origin(call: &ToolCall, memory: &Memory) -> Result<Origin, ToolError> {
    let mut told = HashSet::new();
    if let Some(session) = call.session() {
        told.extend(memory.told(session));
        let mut lease = call.store.lease(call.context()).await?;
        told.extend(sessions::sql::told_by_memory(&mut lease, call.store.schema(), &[session.0]).await?);
    }
    Ok(Origin {
        butler: call.butler.to_string(),
        actor: call.caller.label().to_owned(),
        session: call.session().map(|s| s.0),
        request: Some(call.context().request_id.0),
        told,
    })
}

/// The vector of what is to be kept; without, it is found by its words until there is one.
pub(crate) async fn vector(memory: &Memory, about: Option<&str>, said: &str) -> Option<Vector> {
    match memory.vector(&spoken(about, said)).await {
        Ok(numbers) => Some(Vector { model: memory.embedder.model().to_owned(), numbers }),
        Err(e) => {
            tracing::warn!(butler = %memory.butler, error = %e, "a memory was stored without its vector for now");
            None
        }
    }
}

/// A moment as people and models write it: with an offset, or a day or a time in this zone.
pub(crate) fn moment(given: &str, zone: &TimeZone) -> Option<Timestamp> {
    let day = || Some(given.parse::<Date>().ok()?.at(0, 0, 0, 0));
    let civil = || given.parse::<DateTime>().ok().or_else(day)?.to_zoned(zone.clone()).ok();
    // First those with an offset, which a time without one would take for nothing.
    given.parse().ok().or_else(|| civil().map(|at| at.timestamp()))
}

/// Ends a call's transaction as its work ended.
pub(crate) async fn settled<T>(tx: EffectTx<'_, '_>, done: Result<T, WriteError>) -> Result<T, ToolError> {
    match done {
        Ok(done) => {
            tx.commit().await?;
            Ok(done)
        }
        Err(refused) => {
            // A connection that is gone takes its transaction with it.
            let _ = tx.rollback().await;
            Err(refused.into())
        }
    }
}

/// Makes what was committed searchable.
pub(crate) async fn stepped(call: &ToolCall, memory: &Memory) {
    // What is not searchable yet will be at the next look.
    if let Err(e) = memory.step(&call.context().tenant_id).await {
        tracing::warn!(butler = %call.butler, error = %e, "stored memories are not searchable yet");
    }
}
