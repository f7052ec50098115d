//! Calls that wait for the owner's word are shown to the owner: each once, and many at a time together.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::SignedDuration;

use super::BUTLERD;
use super::handle::Outbox;
use super::owner::OwnerNote;
use approvals::{Unannounced, UnannouncedCall, announced, unannounced, unannounced_tenants};
use base::{Priority, TenantId, Trust, crash, text};
use store::StoreError;

/// Between two messages to one owner: a session that asks for many things asks for them together.
const GAP: SignedDuration = SignedDuration::from_secs(10);
/// Calls that one message shows in full.
const FULL: usize = 3;
/// Calls that one message speaks of.
const MOST: i64 = 100;

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("showing the owner what waits")
}

/// Tells each owner what waits and was not shown yet. Returns when to look again, if something has to wait.
pub(super) async fn round(outbox: &Outbox) -> Result<Option<Duration>, StoreError> {
    let mut waits = Vec::new();
    for tenant in unannounced_tenants(outbox.db()).await? {
        waits.extend(tell(outbox, &tenant).await?);
    }
    Ok(waits.into_iter().min())
}

async fn tell(outbox: &Outbox, tenant: &TenantId) -> Result<Option<Duration>, StoreError> {
    let now = outbox.clock().now();
    let mut lease = outbox.db().shared(tenant).await?;
    let mut tx = lease.begin().await.map_err(failed())?;
    let Unannounced { last, calls } = unannounced(&mut tx, tenant, now, MOST).await?;
    let wait = last.map(|last| GAP - now.duration_since(last)).filter(|left| left.is_positive());
    let (Some(first), None) = (calls.first(), wait) else {
        tx.rollback().await.map_err(failed())?;
        return Ok(wait.map(SignedDuration::unsigned_abs));
    };
    let note = OwnerNote {
        tenant,
        origin: BUTLERD,
        key: &format!("approval:{}", first.id),
        subject: Some("butlerd asks for your approval"),
        text: &message(outbox, &calls),
        priority: Priority::High,
        trust: Trust::System,
        notice: false,
        channel: None,
    };
    outbox.tell_owner(&mut tx, &note).await?;
    announced(&mut tx, &calls, now).await?;
    crash::point("approval.announcing");
    tx.commit().await.map_err(failed())?;
    crash::point("approval.announced");
    outbox.wake();
    Ok(None)
}

/// What the message says.
fn message(outbox: &Outbox, calls: &[UnannouncedCall]) -> String {
    let mut said = match calls.len() {
        1 => "A call waits for your approval:".to_owned(),
        n => format!("{n} calls wait for your approval:"),
    };
    for call in calls.iter().take(FULL) {
        let UnannouncedCall { id, agent_summary, risk_tier, args_sha256, .. } = call;
        let until = call.expires_at.to_zoned(outbox.owner().zone.clone()).strftime("%Y-%m-%d %H:%M");
        let cause = match call.cause.as_str() {
            "gated" => "its tool is gated",
            _ => "a stranger's words and private data have met in its session, and it would leave the household",
        };
        // A text can always be written to.
        let _ = write!(said, "\n\n{agent_summary}\nWhy it waits: {cause}. Risk: {risk_tier}. Until {until}.");
        if let Some(why) = &call.why {
            let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = write!(said, "\nThe model's reason: \"{}\"", text::truncate(&why, 500));
        }
        let _ = write!(said, "\nbutlerd approvals approve {id} --seen {args_sha256}\nbutlerd approvals reject {id}");
    }
    if calls.len() > FULL {
        let _ = write!(said, "\n\nand {} more. See: butlerd approvals list", calls.len() - FULL);
    }
    said
}
