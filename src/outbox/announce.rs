//! Calls that wait for the owner's word are shown to the owner: each once, and many at a time together.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::BUTLERD;
use super::handle::Outbox;
use super::notices::{earlier, tenants};
use super::owner::OwnerNote;
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
    let sql = "SELECT DISTINCT tenant_id FROM shared.pending_actions WHERE status = 'pending' AND announced_at IS NULL";
    let mut next = None;
    for tenant in tenants(outbox, sql).await? {
        next = earlier(next, tell(outbox, &tenant).await?);
    }
    Ok(next)
}

async fn tell(outbox: &Outbox, tenant: &TenantId) -> Result<Option<Duration>, StoreError> {
    let now = outbox.clock().now();
    let mut lease = outbox.db().shared(tenant).await?;
    let mut tx = lease.begin().await.map_err(failed())?;
    let name = tenant.as_str();
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended('shared.pending_actions ' || $1, 0))";
    tx.execute(sql, &[&name]).await.map_err(failed())?;
    let sql = "SELECT max(announced_at) FROM shared.pending_actions WHERE tenant_id = $1 AND announced_at <= $2";
    let last: Option<Timestamp> = tx.query_opt(sql, &[&name, &now]).await.map_err(failed())?.and_then(|row| row.get(0));
    if let Some(left) = last.map(|last| GAP - now.duration_since(last)).filter(|left| left.is_positive()) {
        tx.rollback().await.map_err(failed())?;
        return Ok(Some(left.unsigned_abs()));
    }
    let rows = tx
        .query(
            "SELECT id, butler, agent_summary, why, cause, risk_tier, expires_at, args_sha256 FROM shared.pending_actions
             WHERE tenant_id = $1 AND status = 'pending' AND announced_at IS NULL ORDER BY seq LIMIT $2",
            &[&name, &MOST],
        )
        .await
        .map_err(failed())?;
    let Some(first) = rows.first().map(|row| row.get::<_, Uuid>(0)) else {
        tx.rollback().await.map_err(failed())?;
        return Ok(None);
    };
    let note = OwnerNote {
        tenant,
        origin: BUTLERD,
        key: &format!("approval:{first}"),
        subject: Some("butlerd asks for your approval"),
        text: &message(outbox, &rows),
        priority: Priority::High,
        trust: Trust::System,
        notice: false,
        channel: None,
    };
    outbox.tell_owner(&mut tx, &note).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let sql = "UPDATE shared.pending_actions SET announced_at = $2 WHERE id = ANY($1)";
    tx.execute(sql, &[&ids, &now]).await.map_err(failed())?;
    crash::point("approval.announcing");
    tx.commit().await.map_err(failed())?;
    crash::point("approval.announced");
    outbox.wake();
    Ok(None)
}

/// What the message says.
fn message(outbox: &Outbox, rows: &[Row]) -> String {
    let mut said = match rows.len() {
        1 => "A call waits for your approval:".to_owned(),
        n => format!("{n} calls wait for your approval:"),
    };
    for row in rows.iter().take(FULL) {
        let id: Uuid = row.get(0);
        let until = row.get::<_, Timestamp>(6).to_zoned(outbox.owner().zone.clone()).strftime("%Y-%m-%d %H:%M");
        let cause = match row.get::<_, &str>(4) {
            "gated" => "its tool is gated",
            _ => "a stranger's words and private data have met in its session, and it would leave the household",
        };
        // A text can always be written to.
        let _ = write!(said, "\n\n{}", row.get::<_, &str>(2));
        let _ = write!(said, "\nWhy it waits: {cause}. Risk: {}. Until {until}.", row.get::<_, &str>(5));
        if let Some(why) = row.get::<_, Option<&str>>(3) {
            let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = write!(said, "\nThe model's reason: \"{}\"", text::truncate(&why, 500));
        }
        let seen: &str = row.get(7);
        let _ = write!(said, "\nbutlerd approvals approve {id} --seen {seen}\nbutlerd approvals reject {id}");
    }
    if rows.len() > FULL {
        let _ = write!(said, "\n\nand {} more. See: butlerd approvals list", rows.len() - FULL);
    }
    said
}
