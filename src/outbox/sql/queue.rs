//! The outbox as a queue: claims, tries, ends, and what follows from ends.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::delivery::Delivery;
use crate::files::OutFile;
use crate::handle::Outbox;
use crate::household::CHAT;
use base::{Trust, crash, text};
use conversation::Lane;
use store::{Also, Claim, Claimed, Outlook, QueueTable, StoreError, lease_seconds};

/// What of a failure is kept.
const MOST_ERROR: usize = 1000;

/// A row in this worker's hands.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub delivery: Delivery,
    pub lane: String,
    pub failures: i32,
    pub due_at: Timestamp,
    /// How far what it says is believed.
    pub trust: Trust,
    /// It was under way as its worker died; whether a repetition is known is on record from then.
    pub lost: Option<bool>,
}

/// What a try comes to, for the row, and what it is called in the record of tries, if there was one.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub settled: Settled,
    pub outcome: Option<&'static str>,
}

/// The end of a try, for the row.
#[derive(Clone, Debug)]
pub(crate) enum Settled {
    Sent {
        receipt: Value,
        follow: bool,
    },
    Unknown {
        why: String,
        reason: &'static str,
    },
    Failed {
        why: String,
        reason: &'static str,
    },
    Dead {
        why: String,
        reason: &'static str,
    },
    /// Another try after this long. `failed`: it counts among those that failed.
    Again {
        why: String,
        after: Duration,
        failed: bool,
    },
    /// Nothing was tried.
    Later {
        due: Option<(Timestamp, &'static str)>,
        after: Duration,
    },
    /// The household has no such channel. Its row says why.
    Waiting,
}

impl Settled {
    fn state(&self) -> &'static str {
        match self {
            Settled::Sent { .. } => "sent",
            Settled::Unknown { .. } => "unknown",
            Settled::Failed { .. } => "failed",
            Settled::Dead { .. } => "dead",
            Settled::Later { due: Some(_), .. } => "deferred",
            Settled::Again { .. } | Settled::Later { .. } => "pending",
            Settled::Waiting => "waiting",
        }
    }

    /// The state of an end; `None`: it is none.
    pub fn end(&self) -> Option<&'static str> {
        (!matches!(self, Settled::Again { .. } | Settled::Later { .. } | Settled::Waiting)).then(|| self.state())
    }

    /// Why it is in its state, in a word.
    fn reason(&self) -> Option<&'static str> {
        match self {
            Settled::Unknown { reason, .. } | Settled::Failed { reason, .. } | Settled::Dead { reason, .. } => {
                Some(reason)
            }
            Settled::Later { due, .. } => due.map(|(_, reason)| reason),
            Settled::Sent { .. } | Settled::Again { .. } | Settled::Waiting => None,
        }
    }

    /// Why it is in its state, in a sentence.
    fn why(&self) -> Option<String> {
        match self {
            Settled::Unknown { why, .. }
            | Settled::Failed { why, .. }
            | Settled::Dead { why, .. }
            | Settled::Again { why, .. } => Some(text::truncate(why, MOST_ERROR)),
            Settled::Sent { .. } | Settled::Later { .. } | Settled::Waiting => None,
        }
    }
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("working on the outbox")
}

const COLUMNS: &str = "q.id, q.tenant_id, q.origin, q.request_id, q.kind, q.intent, q.channel, q.endpoint, q.target, \
    q.thread, q.subject, q.message, q.emoji, q.priority, q.context, q.created_at, q.attempts, q.lane, q.failures, \
    q.due_at, q.repeatable, q.trust, EXISTS (SELECT 1 FROM shared.outbox_files f WHERE f.outbox_id = q.id) AS has_files";

fn claimed(row: &Row, id: Uuid, lost: bool) -> Claimed<Queued> {
    let queued = Queued {
        delivery: row.into(),
        lane: row.get("lane"),
        failures: row.get("failures"),
        due_at: row.get("due_at"),
        trust: Trust::from_name(row.get("trust")),
        lost: lost.then(|| row.get("repeatable")),
    };
    Claimed { claim: Claim { row: queued.delivery.id, id }, attempts: queued.delivery.attempt, row: queued }
}

/// The rows of the outbox, as its worker sees them.
pub(crate) struct DeliveryRows {
    pub outbox: Outbox,
    /// Those that wait.
    pub waiting: QueueTable,
    /// Those that are being sent.
    sending: QueueTable,
}

impl DeliveryRows {
    pub fn new(outbox: &Outbox) -> Self {
        let table = |open: &str, order: &str| QueueTable {
            table: "shared.outbox".to_owned(),
            key: "id",
            open: open.to_owned(),
            take: None,
            give: None,
            order: order.to_owned(),
            // How often it is tried depends on what became of each try.
            retry: None,
            leases: 1.0,
        };
        let waiting = table("state IN ('pending', 'deferred')", "n.urgency, n.seq");
        Self { outbox: outbox.clone(), waiting, sending: table("state = 'sending'", "n.seq") }
    }

    /// What an earlier run of this daemon held is nobody's any more. What it was sending is looked at first.
    pub async fn recover(&self) -> Result<u64, StoreError> {
        let (db, node) = (self.outbox.db(), self.outbox.node());
        let untried = self.waiting.give_back(db, node, &[], true).await?;
        let mut lease = db.every_tenant().await?;
        let sql = "UPDATE shared.outbox SET lease_until = clock_timestamp() - interval '1 s'
                   WHERE state = 'sending' AND claimed_by = $1";
        Ok(untried + lease.execute(sql, &[&node]).await.map_err(failed())?)
    }

    /// Takes over one that was being sent by somebody who is not there any more.
    pub async fn claim_lost(&self, in_hand: &[Uuid]) -> Result<Option<Claimed<Queued>>, StoreError> {
        let (id, mut lease) = (Uuid::now_v7(), self.outbox.db().every_tenant().await?);
        let (by, asked) = ((id, self.outbox.node()), (1, in_hand));
        let rows = self.sending.claim(&mut lease, by, asked, Also::default(), COLUMNS).await.map_err(failed())?;
        Ok(rows.first().map(|row| claimed(row, id, true)))
    }

    /// Claims the next that is due: the first of its lane, where nothing of the lane is in anybody's hands.
    pub async fn claim(&self, in_hand: &[Uuid]) -> Result<Option<Claimed<Queued>>, StoreError> {
        let (id, mut lease) = (Uuid::now_v7(), self.outbox.db().every_tenant().await?);
        let first_of_its_lane = Also {
            sql: "AND n.claim_id IS NULL AND n.due_at <= $6 AND n.available_at <= clock_timestamp()
                  AND NOT EXISTS (SELECT 1 FROM shared.outbox e
                                  WHERE e.tenant_id = n.tenant_id AND e.lane = n.lane
                                    AND e.state IN ('pending', 'deferred', 'sending')
                                    AND (e.claim_id IS NOT NULL
                                         OR (e.due_at <= $6 AND (e.urgency, e.seq) < (n.urgency, n.seq))))",
            params: &[&self.outbox.clock().now()],
        };
        let (by, asked) = ((id, self.outbox.node()), (1, in_hand));
        match self.waiting.claim(&mut lease, by, asked, first_of_its_lane, COLUMNS).await {
            Ok(rows) => Ok(rows.first().map(|row| claimed(row, id, false))),
            // Somebody else took one of the lane in the same moment.
            Err(e) if e.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(None),
            Err(e) => Err(failed()(e)),
        }
    }

    /// A try begins: committed before anything leaves. The number of the try; `None`: the claim does not hold it.
    /// `lane`: the conversation in which it will have been said, where an answer could come.
    pub async fn begin_try(
        &self,
        claim: Claim,
        repeatable: bool,
        lane: Option<&Lane>,
    ) -> Result<Option<i32>, StoreError> {
        let mut lease = self.outbox.db().every_tenant().await?;
        let sql = "WITH o AS (UPDATE shared.outbox SET state = 'sending', attempts = attempts + 1, repeatable = $3,
                              lease_until = clock_timestamp() + make_interval(secs => $4),
                              conversation = coalesce(conversation, $5)
                              WHERE id = $1 AND claim_id = $2 AND state IN ('pending', 'deferred')
                              RETURNING id, tenant_id, lane, attempts)
                   INSERT INTO shared.outbox_attempts (outbox_id, n, lane, tenant_id)
                   SELECT id, attempts, lane, tenant_id FROM o RETURNING n";
        let lane = lane.map(|lane| lane.0.as_str());
        let row = lease.query_opt(sql, &[&claim.row, &claim.id, &repeatable, &lease_seconds(), &lane]).await;
        Ok(row.map_err(failed())?.map(|row| row.get("n")))
    }

    /// The files that go along.
    pub async fn files_of(&self, delivery: Uuid) -> Result<Vec<OutFile>, StoreError> {
        let mut lease = self.outbox.db().every_tenant().await?;
        let sql = "SELECT name, media_type, content FROM shared.outbox_files
                   WHERE outbox_id = $1 AND content IS NOT NULL ORDER BY n";
        let rows = lease.query(sql, &[&delivery]).await.map_err(failed())?;
        let file = |row: &Row| OutFile {
            name: row.get("name"),
            media_type: row.get("media_type"),
            content: row.get("content"),
        };
        Ok(rows.iter().map(file).collect())
    }

    /// What has left need not be kept any longer; the chat shows its own.
    async fn forget_files(&self, delivery: Uuid) -> Result<(), StoreError> {
        let mut lease = self.outbox.db().every_tenant().await?;
        let sql = "UPDATE shared.outbox_files f SET content = NULL FROM shared.outbox o
                   WHERE f.outbox_id = $1 AND o.id = $1 AND o.state = 'sent' AND o.channel <> $2";
        lease.execute(sql, &[&delivery, &CHAT]).await.map(drop).map_err(failed())
    }

    /// How long a lane must wait that bears so many tries a minute.
    pub async fn lane_wait(&self, queued: &Queued, per_minute: u32) -> Result<Option<Duration>, StoreError> {
        let mut lease = self.outbox.db().every_tenant().await?;
        // The oldest of as many as a minute bears: when it is a minute old, there is room for another.
        let sql = "SELECT extract(epoch FROM begun_at + interval '1 minute' - clock_timestamp())::float8 AS wait
                   FROM shared.outbox_attempts
                   WHERE tenant_id = $1 AND lane = $2 AND begun_at > clock_timestamp() - interval '1 minute'
                   ORDER BY begun_at DESC OFFSET $3 LIMIT 1";
        let tenant = queued.delivery.tenant.as_str();
        let row = lease.query_opt(sql, &[&tenant, &queued.lane, &i64::from(per_minute.saturating_sub(1))]).await;
        let seconds = row.map_err(failed())?.map(|row| row.get::<_, f64>("wait"));
        Ok(seconds.filter(|s| *s > 0.0).map(Duration::from_secs_f64))
    }

    /// Writes what became of it. `false`: the claim does not hold it any more, and nothing was changed.
    pub async fn settle(&self, claim: Claim, end: &End, has_files: bool) -> Result<bool, StoreError> {
        let now = self.outbox.clock().now();
        let End { settled, outcome } = end;
        let (mut receipt, mut due, mut after, mut failures) = (None, None, Duration::ZERO, 0);
        match settled {
            Settled::Sent { receipt: its, .. } => receipt = Some(its),
            Settled::Again { after: pause, failed, .. } => (after, failures) = (*pause, i32::from(*failed)),
            Settled::Later { due: at, after: pause } => (due, after) = (at.map(|(at, _)| at), *pause),
            Settled::Unknown { .. } | Settled::Failed { .. } | Settled::Dead { .. } | Settled::Waiting => {}
        }
        let ended = settled.end().map(|_| now);
        let followed = matches!(settled, Settled::Sent { follow: false, .. }).then_some(now);
        let sql = format!(
            "WITH o AS ({} RETURNING id),
                  a AS (UPDATE shared.outbox_attempts t
                        SET ended_at = clock_timestamp(), outcome = $12, detail = $5
                        FROM o WHERE t.outbox_id = o.id AND t.ended_at IS NULL AND $12::text IS NOT NULL)
             SELECT id FROM o",
            self.waiting.settling(
                "state = $3, reason = $4,
                 last_error = CASE WHEN $3 = 'sent' THEN NULL ELSE coalesce($5, last_error) END,
                 receipt = $6, settled_at = $7, followed_at = $8, failures = failures + $9,
                 available_at = clock_timestamp() + make_interval(secs => $10), due_at = coalesce($11, due_at)"
            )
        );
        let params: store::Params<'_> = &[
            &claim.row,
            &claim.id,
            &settled.state(),
            &settled.reason(),
            &settled.why(),
            &receipt,
            &ended,
            &followed,
            &failures,
            &after.as_secs_f64(),
            &due,
            outcome,
        ];
        let mut lease = self.outbox.db().every_tenant().await?;
        let held = lease.query_opt(&sql, params).await.map_err(failed())?.is_some();
        drop(lease);
        if held && has_files && matches!(settled, Settled::Sent { .. }) {
            // It is settled either way; what stays goes with its row.
            if let Err(e) = self.forget_files(claim.row).await {
                tracing::warn!(delivery = %claim.row, error = %e, "files that have left are still kept");
            }
        }
        Ok(held)
    }

    /// What waits for its time by either clock or for the end of a lease, and since when something waits whose time has
    /// come.
    pub async fn outlook(&self) -> Result<Outlook, StoreError> {
        let mut lease = self.outbox.db().every_tenant().await?;
        // A lease that ended since the last claim is looked at again during its first second.
        let sql = "SELECT min(wait) FILTER (WHERE wait > 0 OR held AND wait > -1) AS next,
                          -min(wait) FILTER (WHERE wait <= 0) AS oldest, count(*) FILTER (WHERE wait <= 0) AS waiting
                   FROM (SELECT claim_id IS NOT NULL AS held,
                                coalesce(extract(epoch FROM lease_until - clock_timestamp()),
                                         greatest(extract(epoch FROM due_at - $1::timestamptz),
                                                  extract(epoch FROM available_at - clock_timestamp())))::float8 AS wait
                         FROM shared.outbox WHERE state IN ('pending', 'deferred', 'sending')) waits";
        let row = lease.query_opt(sql, &[&self.outbox.clock().now()]).await.map_err(failed())?;
        let seconds = |name: &str| row.as_ref().and_then(|row| row.get::<_, Option<f64>>(name));
        let wait = |name: &str| seconds(name).map(|s| Duration::from_secs_f64(s.clamp(0.0, 86_400.0)));
        let waiting = row.as_ref().and_then(|row| u64::try_from(row.get::<_, i64>("waiting")).ok());
        Ok(Outlook { next: wait("next"), oldest: wait("oldest"), waiting })
    }

    /// Those at their end from which something still follows, but for those whose callers wait for the end themselves.
    /// With each: whether it was sent.
    pub async fn to_follow(&self) -> Result<Vec<(Delivery, bool)>, StoreError> {
        let mut lease = self.outbox.db().every_tenant().await?;
        let sql = format!(
            "SELECT {COLUMNS}, q.state = 'sent' AS sent FROM shared.outbox q
             WHERE q.settled_at IS NOT NULL AND q.followed_at IS NULL AND q.id <> ALL($1) ORDER BY q.seq LIMIT 100"
        );
        let rows = lease.query(&sql, &[&self.outbox.awaited()]).await.map_err(failed())?;
        Ok(rows.iter().map(|row| (row.into(), row.get("sent"))).collect())
    }

    /// What follows is done. Of a bad end the butler that wanted it said is told here, once; whether it was.
    pub async fn followed(&self, ended: &Delivery) -> Result<bool, StoreError> {
        let mut lease = self.outbox.db().shared(&ended.tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let told = tx.query_opt("SELECT shared.tell_origin($1) AS told", &[&ended.id]).await.map_err(failed())?;
        let sql = "UPDATE shared.outbox SET followed_at = $2 WHERE id = $1 AND followed_at IS NULL";
        tx.execute(sql, &[&ended.id, &self.outbox.clock().now()]).await.map_err(failed())?;
        crash::point("outbox.before_followed");
        tx.commit().await.map_err(failed())?;
        crash::point("outbox.followed");
        Ok(told.is_some_and(|row| row.get("told")))
    }
}
