//! What the owner is told of failures: found in the rows, written once each, told in groups, with no model asked.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::BUTLERD;
use super::handle::Outbox;
use super::household::CHAT;
use super::owner::OwnerNote;
use base::text::links::inert;
use base::{Priority, TenantId, Trust, crash, text};
use schedule::STANDS_FOR_IT;
use store::StoreError;

/// Nothing older is looked for: it was told, or nobody was there for a week.
const SINCE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Lines that one message shows; of the rest it says how many there are.
const LINES: usize = 10;
/// Notices that one message carries at most.
const MOST: i64 = 500;

/// Between two messages to one owner; tests make it shorter.
fn gap() -> SignedDuration {
    let wanted = || std::env::var("BUTLERD_NOTICE_SECONDS").ok()?.parse().ok().filter(|_| cfg!(debug_assertions));
    SignedDuration::from_secs(wanted().unwrap_or(60))
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("gathering notices")
}

/// Looks once. Returns when something that waits may be told, if anything waits.
pub(super) async fn round(outbox: &Outbox) -> Result<Option<Duration>, StoreError> {
    outbox.count_waiting().await?;
    gather(outbox).await?;
    let mut waits = Vec::new();
    for tenant in tenants(outbox).await? {
        waits.extend(tell(outbox, &tenant).await?);
    }
    Ok(waits.into_iter().min())
}

/// The tenants who have something to hear.
async fn tenants(outbox: &Outbox) -> Result<Vec<TenantId>, StoreError> {
    let mut lease = outbox.db().every_tenant().await?;
    let sql = "SELECT DISTINCT tenant_id FROM shared.notices WHERE delivery_id IS NULL";
    let rows = lease.query(sql, &[]).await.map_err(failed())?;
    Ok(rows.iter().filter_map(|row| TenantId::new(row.get(0)).ok()).collect())
}

/// Of the switchboard, the outbox and the approvals.
const HOUSE: &str = "
    SELECT tenant_id, 'message_dead' AS kind, request_id::text AS subject, settled_at AS happened_at,
           'A message over ' || channel || ' came to nothing: ' || coalesce(last_error, 'no reason is on record') AS told
    FROM {s}.message_inbox m WHERE state = 'dead' AND settled_at > $1
      AND NOT EXISTS (SELECT 1 FROM {s}.request_actions a
                      WHERE a.request_id = m.request_id AND a.action IN ('cancel', 'abort') AND a.at >= m.settled_at)
    UNION ALL
    SELECT tenant_id, 'delivery_' || state, id::text, settled_at,
           CASE state WHEN 'unknown' THEN 'It is not known whether something of ' ELSE 'Something of ' END || origin ||
           CASE state WHEN 'unknown' THEN ' over ' ELSE ' could not be delivered over ' END || channel ||
           CASE state WHEN 'unknown' THEN ' arrived; it is not sent again by itself: ' ELSE ': ' END || last_error
    FROM shared.outbox
    WHERE state IN ('unknown', 'failed', 'dead') AND settled_at > $1 AND kind <> 'notice' AND reason <> 'cancelled'
    UNION ALL
    SELECT tenant_id, 'channel_missing', channel, min(created_at), 'What butlers say over ' || channel
           || ' is not sent: no module of the messenger sends over it. It waits, and goes out once one does'
    FROM shared.outbox WHERE state = 'waiting' GROUP BY tenant_id, channel
    UNION ALL
    SELECT tenant_id, 'approval_abandoned', id::text, decided_at, 'The call of ' || tool_name || ' that you approved for '
           || butler || ' came to nothing: ' || coalesce(execution_result ->> 'error', 'no reason is on record')
    FROM shared.pending_actions WHERE status = 'abandoned' AND decided_at > $1";

/// Of each butler.
const BUTLER: &str = "
    UNION ALL
    SELECT tenant_id, 'work_dead', id::text, settled_at, '{name} could not do something that another asked of it: '
           || coalesce(last_error, 'no reason is on record')
    FROM {b}.route_inbox WHERE state = 'dead' AND kind <> 'message' AND settled_at > $1
    UNION ALL
    SELECT tenant_id, 'budget_spent', '{name}', day, '{name} has used up what it may spend: ' || min(error)
    FROM (SELECT tenant_id, error, date_trunc('day', queued_at) AS day FROM {b}.sessions
          WHERE error_class = 'budget' AND state = 'failed' AND started_at IS NULL AND queued_at > $1) spent
    GROUP BY tenant_id, day
    UNION ALL
    SELECT r.tenant_id, CASE r.state WHEN 'failed' THEN 'schedule_failed' ELSE 'schedule_missed' END,
           r.task_id::text, r.fire_at, '{name}: the schedule ' || t.name ||
           CASE r.state WHEN 'failed' THEN ' failed: ' ELSE ' was left out: ' END || coalesce(r.reason, 'no reason is on record')
    FROM {b}.schedule_runs r JOIN {b}.scheduled_tasks t ON t.id = r.task_id
    WHERE r.finished_at > $1 AND CASE r.state
          -- Whoever runs one by hand is told at once; a pause, a run in the way of the next, or a time that another run
          -- makes up for, is as it should be.
          WHEN 'failed' THEN r.cause <> 'manual'
          WHEN 'skipped' THEN r.cause = 'missed' AND r.reason NOT LIKE '%{stands}'
          ELSE false END";

/// Of each butler that remembers. What was given up together is one.
const MEMORY: &str = "
    UNION ALL
    SELECT tenant_id, 'memory_dead_letter', '{name}', settled_at, '{name} could not learn from ' || count(*)
           || CASE count(*) WHEN 1 THEN ' episode' ELSE ' episodes' END || ' and has given up: '
           || rtrim(coalesce(min(last_error), 'no reason is on record'), '.') || '. Try again: butlerd memory retry'
    FROM {b}.memory_episodes
    WHERE consolidation = 'dead_letter' AND forgotten_at IS NULL AND settled_at > $1 GROUP BY tenant_id, settled_at";

/// Writes a row for each thing that went wrong and has none.
async fn gather(outbox: &Outbox) -> Result<(), StoreError> {
    let since = outbox.clock().now() - SINCE;
    let mut lease = outbox.db().every_tenant().await?;
    let sql = "SELECT butler, schema, to_regclass(format('%I.memory_episodes', schema)) IS NOT NULL
               FROM shared.butler_roles WHERE to_regclass(format('%I.route_inbox', schema)) IS NOT NULL ORDER BY butler";
    let butlers = lease.query(sql, &[]).await.map_err(failed())?;
    let quoted = |schema: &str| format!("\"{schema}\"");
    let mut sources = HOUSE.replace("{s}", &quoted(&outbox.inner.parts.switchboard));
    for row in &butlers {
        let (name, schema): (&str, &str) = (row.get(0), row.get(1));
        for source in [BUTLER].into_iter().chain(row.get::<_, bool>(2).then_some(MEMORY)) {
            sources.push_str(
                &source.replace("{b}", &quoted(schema)).replace("{name}", name).replace("{stands}", STANDS_FOR_IT),
            );
        }
    }
    let sql = format!(
        "INSERT INTO shared.notices (tenant_id, kind, subject, happened_at, told)
         SELECT tenant_id, kind, subject, happened_at, left(told, 500) FROM ({sources}) found
         WHERE NOT EXISTS (SELECT 1 FROM shared.notices n
                           WHERE n.tenant_id = found.tenant_id AND n.kind = found.kind AND n.subject = found.subject
                             AND n.happened_at = found.happened_at)
         ON CONFLICT DO NOTHING"
    );
    lease.execute(&sql, &[&since]).await.map_err(failed())?;
    // What was to carry them did not get through: the chat will.
    let sql = "UPDATE shared.notices n SET delivery_id = NULL FROM shared.outbox o
               WHERE o.id = n.delivery_id AND o.channel <> 'chat' AND (o.state = 'waiting'
                 OR o.state IN ('failed', 'dead') AND o.reason <> 'cancelled' AND o.settled_at > $1)";
    lease.execute(sql, &[&since]).await.map_err(failed())?;
    Ok(())
}

/// One message for all that this owner does not know yet, if enough time has passed since the last. Returns how long to
/// wait where it has not.
async fn tell(outbox: &Outbox, tenant: &TenantId) -> Result<Option<Duration>, StoreError> {
    let now = outbox.clock().now();
    let mut lease = outbox.db().shared(tenant).await?;
    let mut tx = lease.begin().await.map_err(failed())?;
    let name = tenant.as_str();
    tx.execute("SELECT pg_advisory_xact_lock(hashtextextended('shared.notices ' || $1, 0))", &[&name])
        .await
        .map_err(failed())?;
    let last = tx
        .query_opt(
            "SELECT created_at, channel <> 'chat' AND state IN ('failed', 'dead', 'unknown', 'waiting') FROM shared.outbox
             WHERE tenant_id = $1 AND kind = 'notice' ORDER BY seq DESC LIMIT 1",
            &[&name],
        )
        .await
        .map_err(failed())?;
    let unreached = last.as_ref().is_some_and(|row| row.get(1));
    // Of a clock that was put back nobody waits for the future.
    let passed = last.map(|row| now.duration_since(row.get::<_, Timestamp>(0)).abs());
    if let Some(left) = passed.map(|passed| gap() - passed).filter(|left| left.is_positive()) {
        tx.rollback().await.map_err(failed())?;
        return Ok(Some(left.unsigned_abs()));
    }
    let rows = tx
        .query(
            "SELECT id, told FROM shared.notices WHERE tenant_id = $1 AND delivery_id IS NULL ORDER BY seq LIMIT $2",
            &[&name, &MOST],
        )
        .await
        .map_err(failed())?;
    let Some(first) = rows.first().map(|row| row.get::<_, Uuid>(0)) else {
        tx.rollback().await.map_err(failed())?;
        return Ok(None);
    };
    let lines: Vec<String> = rows.iter().map(|row| row.get(1)).collect();
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
    };
    let delivery = outbox.tell_owner(&mut tx, &note).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    tx.execute("UPDATE shared.notices SET delivery_id = $2 WHERE id = ANY($1)", &[&ids, &delivery])
        .await
        .map_err(failed())?;
    crash::point("notice.before");
    tx.commit().await.map_err(failed())?;
    crash::point("notice.committed");
    tracing::info!(tenant = name, things = ids.len(), first = %first, "told the owner what needs attention");
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
        let mut lease = self.db().shared(&tenant).await?;
        lease
            .execute(
                "INSERT INTO shared.notices (tenant_id, kind, subject, happened_at, told)
                 SELECT $1, $2, $3 || ' ' || md5($5), $4, $5 ON CONFLICT DO NOTHING",
                &[&tenant.as_str(), &kind, &subject, &at, &told],
            )
            .await
            .map_err(failed())?;
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
