//! What the owner is told of failures: found in the rows, written once each, told in groups, with no model asked.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::BUTLERD;
use super::handle::Outbox;
use super::household::CHAT;
use super::owner::OwnerNote;
use super::sql::notices::{self as sql, NewNotice, failed};
use base::text::links::inert;
use base::{Priority, TenantId, Trust, crash, text};
use store::StoreError;

/// Nothing older is looked for: it was told, or nobody was there for a week.
const SINCE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Lines that one message shows; of the rest it says how many there are.
const LINES: usize = 10;
/// Notices that one message carries at most.
const MOST: i64 = 500;

/// Between two messages to one owner; tests make it shorter.
fn gap() -> SignedDuration {
    let wanted = || crash::variable("BUTLERD_NOTICE_SECONDS")?.parse().ok();
    SignedDuration::from_secs(wanted().unwrap_or(60))
}

/// Looks once. Returns when something that waits may be told, if anything waits.
pub(super) async fn round(outbox: &Outbox) -> Result<Option<Duration>, StoreError> {
    outbox.count_waiting().await?;
    let parts = &outbox.inner.parts;
    let mut lease = outbox.db().every_tenant().await?;
    let since = outbox.clock().now() - SINCE;
    sql::gather(&mut lease, &parts.notices, &parts.switchboard, since).await?;
    let tenants = sql::tenants(&mut lease).await?;
    drop(lease);
    let mut waits = Vec::new();
    for tenant in tenants {
        waits.extend(tell(outbox, &tenant).await?);
    }
    Ok(waits.into_iter().min())
}

/// One message for all that this owner does not know yet, if enough time has passed since the last. Returns how long to
/// wait where it has not.
async fn tell(outbox: &Outbox, tenant: &TenantId) -> Result<Option<Duration>, StoreError> {
    let now = outbox.clock().now();
    let mut lease = outbox.db().shared(tenant).await?;
    let mut tx = lease.begin().await.map_err(failed())?;
    let last = sql::last_told(&mut tx, tenant).await?;
    let unreached = last.as_ref().is_some_and(|last| last.unreached);
    // Of a clock that was put back nobody waits for the future.
    let passed = last.map(|last| now.duration_since(last.created_at).abs());
    if let Some(left) = passed.map(|passed| gap() - passed).filter(|left| left.is_positive()) {
        tx.rollback().await.map_err(failed())?;
        return Ok(Some(left.unsigned_abs()));
    }
    let rows = sql::untold(&mut tx, tenant, MOST).await?;
    let Some(first) = rows.first().map(|row| row.id) else {
        tx.rollback().await.map_err(failed())?;
        return Ok(None);
    };
    let (ids, lines): (Vec<Uuid>, Vec<String>) = rows.into_iter().map(|row| (row.id, row.told)).unzip();
    let note = OwnerNote {
        tenant,
        origin: BUTLERD,
        key: &format!("notice:{first}:{now}"),
        subject: Some("butlerd needs a hand"),
        text: &message(&lines),
        priority: Priority::High,
        trust: Trust::System,
        notice: true,
        channel: unreached.then_some(CHAT),
        asks: &[],
    };
    let delivery = outbox.tell_owner(&mut tx, &note).await?;
    sql::told(&mut tx, &ids, delivery).await?;
    crash::point("notice.before");
    tx.commit().await.map_err(failed())?;
    crash::point("notice.committed");
    tracing::info!(tenant = tenant.as_str(), things = ids.len(), first = %first, "told the owner what needs attention");
    outbox.wake();
    Ok(None)
}

/// What the message says.
fn message(told: &[String]) -> String {
    let mut said = match told.len() {
        1 => "Something needs your attention:".to_owned(),
        n => format!("{n} things need your attention:"),
    };
    for line in told.iter().take(LINES) {
        let line = text::truncate(&line.split_whitespace().collect::<Vec<_>>().join(" "), 300);
        // Why something failed, anybody may have said: a model, another side's answer.
        let line = inert(&line);
        // A text can always be written to.
        let _ = write!(said, "\n- {line}");
    }
    if told.len() > LINES {
        let _ = write!(said, "\nand {} more.", told.len() - LINES);
    }
    said.push_str(
        "\nSee: butlerd deliveries list, butlerd inbox list --state dead, butlerd memory stats, butlerd status",
    );
    said
}

impl Outbox {
    /// Notes something that no row tells of: a butler that is parked. Once for each day, butler and reason.
    pub async fn note_parked(&self, butler: &str, why: &str) -> Result<(), StoreError> {
        let now = self.clock().now().to_zoned(self.owner().zone.clone());
        let day = now.start_of_day().map_or_else(|_| now.timestamp(), |day| day.timestamp());
        self.note("butler_parked", butler, day, &format!("The butler {butler} is parked: {why}")).await
    }

    /// Notes that the machine began to fail, or does not fail any more.
    pub async fn note_machine(&self, fault: &str, at: Timestamp, told: &str) -> Result<(), StoreError> {
        self.note("machine", fault, at, &text::capital(told)).await
    }

    /// Notes that backups are missing, or are made again.
    pub async fn note_backup(&self, at: Timestamp, told: &str) -> Result<(), StoreError> {
        self.note("backup_missing", "backup", at, &text::capital(told)).await
    }

    async fn note(&self, kind: &str, subject: &str, at: Timestamp, told: &str) -> Result<(), StoreError> {
        let (tenant, told) = (TenantId::owner(), text::truncate(told, 500));
        let notice = NewNotice { kind, subject, at, told: &told };
        sql::note(&mut self.db().shared(&tenant).await?, &tenant, &notice).await?;
        self.alarm();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_counts_what_it_groups() {
        let one = message(&["It  broke\nhere.".to_owned()]);
        assert!(one.starts_with("Something needs your attention:\n- It broke here.\nSee: "), "{one}");
        let many: Vec<String> = (0..13).map(|n| format!("thing {n}")).collect();
        let many = message(&many);
        assert!(
            many.starts_with("13 things") && many.contains("\nand 3 more.") && !many.contains("thing 10"),
            "{many}"
        );
    }
}
