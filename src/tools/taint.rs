//! What a call shows to its session is noted in the session's row before the session is shown it.

use super::audit::SessionStatements;
use access::Caller;
use base::Label;
use store::{Store, StoreError};

/// Notes on the caller's session that it is shown something with this label. Does nothing for callers that are no session,
/// and for what was noted before.
pub(super) async fn note(
    (store, sessions): (&Store, &SessionStatements),
    caller: &Caller,
    shown: &Label,
) -> Result<(), StoreError> {
    let (Some(taint), Some(session)) = (caller.taint(), caller.session()) else { return Ok(()) };
    let before = taint.label();
    let label = before.join(shown);
    if label == before {
        return Ok(());
    }
    let mut lease = store.tenant(&caller.context.tenant_id).await?;
    lease
        .execute(sessions.note_taint, &[&session.0, &label.trust.as_str(), &label.audience.names()])
        .await
        .map_err(StoreError::query("noting what a session was shown"))?;
    taint.observe(&label);
    Ok(())
}
