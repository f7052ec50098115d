//! What a call shows to its session is noted in the session's row before the session is shown it.

use super::audit::SessionStatements;
use access::Caller;
use base::Trust;
use store::{Store, StoreError};

/// Notes on the caller's session that it is shown private data, or text of this trust. Does nothing for callers that are
/// no session, and for what was noted before.
pub(super) async fn note(
    (store, sessions): (&Store, &SessionStatements),
    caller: &Caller,
    trust: Trust,
    private: bool,
) -> Result<(), StoreError> {
    let (Some(taint), Some(session)) = (caller.taint(), caller.session()) else { return Ok(()) };
    let (trust, private) = (trust.min(taint.trust()), private || taint.private());
    if trust == taint.trust() && private == taint.private() {
        return Ok(());
    }
    let mut lease = store.tenant(&caller.context.tenant_id).await?;
    lease
        .execute(sessions.note_taint, &[&session.0, &trust.as_str(), &private])
        .await
        .map_err(StoreError::query("noting what a session was shown"))?;
    taint.observe(trust);
    if private {
        taint.observe_private();
    }
    Ok(())
}
