//! What owners are to be told of what failed: found once each, told in groups.

use jiff::Timestamp;
use uuid::Uuid;

use base::TenantId;
use schedule::notices as of_schedules;
use store::{AsRows, Lease, StoreError, Tx, places_with};

/// Where notices come from whose tables belong to crates beside this one or above it. Each makes a piece of SQL of its
/// owner's, for a time that is SQL: rows of `tenant_id`, `kind`, `subject`, `happened_at` and `told`.
#[derive(Clone, Copy)]
pub struct NoticeSources {
    /// Messages that came to nothing, of the switchboard's schema.
    pub messages: fn(&str, &str) -> String,
    /// What failed at a butler, by its schema and name.
    pub of_butler: &'static [fn(&str, &str, &str) -> String],
    /// What a butler that remembers could not learn, by its schema and name.
    pub of_memory: fn(&str, &str, &str) -> String,
}

pub(crate) fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("gathering notices")
}

/// Of deliveries.
fn of_deliveries(since: &str) -> String {
    format!(
        "SELECT tenant_id, 'delivery_' || state AS kind, id::text AS subject, settled_at AS happened_at,
           CASE state WHEN 'unknown' THEN 'It is not known whether something of ' ELSE 'Something of ' END || origin ||
           CASE state WHEN 'unknown' THEN ' over ' ELSE ' could not be delivered over ' END || channel ||
           CASE state WHEN 'unknown' THEN ' arrived; it is not sent again by itself: ' ELSE ': ' END || last_error AS told
    FROM shared.outbox
    WHERE state IN ('unknown', 'failed', 'dead') AND settled_at > {since} AND kind <> 'notice' AND reason <> 'cancelled'
    UNION ALL
    SELECT tenant_id, 'channel_missing', channel, min(created_at), 'What butlers say over ' || channel
           || ' is not sent: no module of the messenger sends over it. It waits, and goes out once one does'
    FROM shared.outbox WHERE state = 'waiting' GROUP BY tenant_id, channel"
    )
}

/// Writes a row for each thing that went wrong since then and has none.
pub(crate) async fn gather(
    lease: &mut Lease,
    sources: &NoticeSources,
    switchboard: &str,
    since: Timestamp,
) -> Result<(), StoreError> {
    let butlers = places_with(lease, "route_inbox").await?;
    let remember = places_with(lease, "memory_episodes").await?;
    let mut found = vec![(sources.messages)(switchboard, "$1"), of_deliveries("$1"), approvals::notices("$1")];
    for at in &butlers {
        let (schema, butler) = (at.schema.as_str(), at.butler.as_str());
        found.extend(sources.of_butler.iter().map(|notices| notices(schema, butler, "$1")));
        found.push(of_schedules(schema, butler, "$1"));
        if remember.iter().any(|other| other.schema == at.schema) {
            found.push((sources.of_memory)(schema, butler, "$1"));
        }
    }
    let sql = format!(
        "INSERT INTO shared.notices (tenant_id, kind, subject, happened_at, told)
         SELECT tenant_id, kind, subject, happened_at, left(told, 500) FROM ({}) found
         WHERE NOT EXISTS (SELECT 1 FROM shared.notices n
                           WHERE n.tenant_id = found.tenant_id AND n.kind = found.kind AND n.subject = found.subject
                             AND n.happened_at = found.happened_at)
         ON CONFLICT DO NOTHING",
        found.join(" UNION ALL ")
    );
    lease.execute(&sql, &[&since]).await.map_err(failed())?;
    // What was to carry them did not get through: the chat will.
    let sql = "UPDATE shared.notices n SET delivery_id = NULL FROM shared.outbox o
               WHERE o.id = n.delivery_id AND o.channel <> 'chat' AND (o.state = 'waiting'
                 OR o.state IN ('failed', 'dead') AND o.reason <> 'cancelled' AND o.settled_at > $1)";
    lease.execute(sql, &[&since]).await.map(drop).map_err(failed())
}

/// The tenants who have something to hear.
pub(crate) async fn tenants(lease: &mut Lease) -> Result<Vec<TenantId>, StoreError> {
    let sql = "SELECT DISTINCT tenant_id FROM shared.notices WHERE delivery_id IS NULL";
    let rows = lease.query(sql, &[]).await.map_err(failed())?;
    Ok(rows.iter().filter_map(|row| TenantId::new(row.get("tenant_id")).ok()).collect())
}

store::row! {
    /// The last message that told an owner of notices.
    pub(crate) struct LastTold {
        pub created_at: Timestamp,
        /// It did not get through, and it was not for the chat.
        pub unreached: bool,
    }
}

/// Lets nobody else tell this owner until the transaction ends. Returns what told them last.
pub(crate) async fn last_told(tx: &mut Tx<'_>, tenant: &TenantId) -> Result<Option<LastTold>, StoreError> {
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended('shared.notices ' || $1, 0))";
    tx.execute(sql, &[&tenant.as_str()]).await.map_err(failed())?;
    let sql = "SELECT created_at, channel <> 'chat' AND state IN ('failed', 'dead', 'unknown', 'waiting') AS unreached FROM shared.outbox
             WHERE tenant_id = $1 AND kind = 'notice' ORDER BY seq DESC LIMIT 1";
    tx.query_opt(sql, &[&tenant.as_str()]).await.first_typed().map_err(failed())
}

store::row! {
    /// Something that an owner does not know yet.
    pub(crate) struct NoticeRow {
        pub id: Uuid,
        pub told: String,
    }
}

/// What an owner does not know yet, at most so much, the oldest first.
pub(crate) async fn untold(tx: &mut Tx<'_>, tenant: &TenantId, most: i64) -> Result<Vec<NoticeRow>, StoreError> {
    let sql = "SELECT id, told FROM shared.notices WHERE tenant_id = $1 AND delivery_id IS NULL ORDER BY seq LIMIT $2";
    tx.query(sql, &[&tenant.as_str(), &most]).await.typed().map_err(failed())
}

/// Notes that a delivery tells of these.
pub(crate) async fn told(tx: &mut Tx<'_>, ids: &[Uuid], delivery: Uuid) -> Result<(), StoreError> {
    let sql = "UPDATE shared.notices SET delivery_id = $2 WHERE id = ANY($1)";
    tx.execute(sql, &[&ids, &delivery]).await.map(drop).map_err(failed())
}

/// Something that no row tells of.
pub(crate) struct NewNotice<'a> {
    pub kind: &'a str,
    pub subject: &'a str,
    pub at: Timestamp,
    pub told: &'a str,
}

/// Notes something that no row tells of: once for each kind, subject, time and text.
pub(crate) async fn note(lease: &mut Lease, tenant: &TenantId, notice: &NewNotice<'_>) -> Result<(), StoreError> {
    let sql = "INSERT INTO shared.notices (tenant_id, kind, subject, happened_at, told)
                 SELECT $1, $2, $3 || ' ' || md5($5), $4, $5 ON CONFLICT DO NOTHING";
    let NewNotice { kind, subject, at, told } = notice;
    lease.execute(sql, &[&tenant.as_str(), kind, subject, at, told]).await.map(drop).map_err(failed())
}
