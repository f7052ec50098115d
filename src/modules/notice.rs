//! What only the owner can mend, told to them once a day for each reason.

use crate::contract::ModuleContext;
use base::{Priority, TenantId, Trust};
use outbox::{BUTLERD, OwnerNote};

/// Tells the owner what is wrong with `of`, unless they were told the same today. A failure is logged: whoever looks at the
/// module sees what is wrong anyway.
pub(crate) async fn tell_owner(cx: &ModuleContext, of: &str, why: &str) {
    let tenant = TenantId::owner();
    let day = cx.clock.now().to_zoned(cx.store.time_zone().clone()).date();
    let note = OwnerNote {
        tenant: &tenant,
        origin: BUTLERD,
        key: &format!("{of}:{day}:{why}"),
        subject: Some("butlerd needs a hand"),
        text: why,
        priority: Priority::High,
        // Servers' own words are in it, and names of what others sent there.
        trust: Trust::Stranger,
        notice: true,
        channel: None,
        asks: &[],
    };
    if let Err(e) = cx.outbox.tell_owner_all(&tenant, &[note]).await {
        tracing::warn!(of, error = %e, "the owner can't be told of it yet");
    }
}
