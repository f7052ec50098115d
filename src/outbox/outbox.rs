//! The outbox's statements. Rows of every tenant: a claim, an end and what follows are the owner role's.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::delivery::{Delivery, Intent};
use super::handle::Outbox;
use base::{Priority, TenantId, crash, text};
use conversation::Lane;
use store::{Claim, ClaimTable, StoreError, lease_seconds};

pub(super) static CLAIMS: ClaimTable = ClaimTable::shared("shared.outbox");

/// What of a failure is kept.
const MOST_ERROR: usize = 1000;

/// A row in this worker's hands.
#[derive(Clone, Debug)]
pub(super) struct Claimed {
    pub delivery: Delivery,
    pub claim: Claim,
    pub lane: String,
    pub failures: i32,
    pub due_at: Timestamp,
    /// It was under way as its worker died; whether a repetition is known is on record from then.
    pub lost: Option<bool>,
}

/// The end of a try, for the row.
#[derive(Clone, Debug)]
pub(super) enum Settled {
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
        }
    }

    /// The state of an end; `None`: it is none.
    pub fn end(&self) -> Option<&'static str> {
        (!matches!(self, Settled::Again { .. } | Settled::Later { .. })).then(|| self.state())
    }
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("working on the outbox")
}

const COLUMNS: &str = "o.id, o.tenant_id, o.origin, o.request_id, o.kind, o.intent, o.channel, o.endpoint, o.target, \
    o.thread, o.subject, o.message, o.emoji, o.priority, o.context, o.created_at, o.attempts, o.lane, o.failures, \
    o.due_at, o.repeatable";

fn claimed(row: &Row, claim: Uuid, lost: bool) -> Claimed {
    let id: Uuid = row.get(0);
    let delivery = Delivery {
        id,
        tenant: TenantId::new(row.get(1)).unwrap_or_else(|_| TenantId::owner()),
        origin: row.get(2),
        request_id: row.get(3),
        kind: row.get(4),
        intent: Intent::from_name(row.get(5)),
        channel: row.get(6),
        endpoint: row.get(7),
        target: row.get(8),
        thread: row.get(9),
        subject: row.get(10),
        message: row.get(11),
        emoji: row.get(12),
        priority: Priority::from_name(row.get(13)),
        context: row.get(14),
        created_at: row.get(15),
        attempt: row.get(16),
    };
    Claimed {
        delivery,
        claim: Claim { row: id, id: claim },
        lane: row.get(17),
        failures: row.get(18),
        due_at: row.get(19),
        lost: lost.then(|| row.get(20)),
    }
}

impl Outbox {
    /// Lets go of what nobody holds any more before anything was tried. `own`: what an earlier run of this daemon held.
    pub(super) async fn release_untried(&self, own: bool) -> Result<u64, StoreError> {
        let mut lease = self.db().every_tenant().await?;
        let sql = "UPDATE shared.outbox SET claim_id = NULL, claimed_by = NULL, lease_until = NULL
                   WHERE state IN ('pending', 'deferred') AND claim_id IS NOT NULL
                     AND (lease_until < clock_timestamp() OR ($1 AND claimed_by = $2))";
        lease.execute(sql, &[&own, &self.node()]).await.map_err(failed())
    }

    /// What an earlier run of this daemon was sending is nobody's any more.
    pub(super) async fn expire_own(&self) -> Result<u64, StoreError> {
        let mut lease = self.db().every_tenant().await?;
        let sql = "UPDATE shared.outbox SET lease_until = clock_timestamp() - interval '1 s'
                   WHERE state = 'sending' AND claimed_by = $1";
        lease.execute(sql, &[&self.node()]).await.map_err(failed())
    }

    /// Takes over one that was being sent by somebody who is not there any more.
    pub(super) async fn claim_lost(&self, in_hand: &[Uuid]) -> Result<Option<Claimed>, StoreError> {
        let claim = Uuid::now_v7();
        let mut lease = self.db().every_tenant().await?;
        let sql = format!(
            "UPDATE shared.outbox o SET claim_id = $1, claimed_by = $2,
                    lease_until = clock_timestamp() + make_interval(secs => $3)
             WHERE o.id = (SELECT id FROM shared.outbox WHERE state = 'sending' AND lease_until < clock_timestamp()
                             AND id <> ALL($4) ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED)
             RETURNING {COLUMNS}"
        );
        let row = lease.query_opt(&sql, &[&claim, &self.node(), &lease_seconds(), &in_hand]).await;
        Ok(row.map_err(failed())?.map(|row| claimed(&row, claim, true)))
    }

    /// Claims the next that is due: the first of its lane, where nothing of the lane is in anybody's hands.
    pub(super) async fn claim(&self) -> Result<Option<Claimed>, StoreError> {
        let claim = Uuid::now_v7();
        let now = self.clock().now();
        let mut lease = self.db().every_tenant().await?;
        let sql = format!(
            "UPDATE shared.outbox o SET claim_id = $1, claimed_by = $2,
                    lease_until = clock_timestamp() + make_interval(secs => $3)
             WHERE o.id = (
                 SELECT n.id FROM shared.outbox n
                 WHERE n.state IN ('pending', 'deferred') AND n.claim_id IS NULL AND n.due_at <= $4
                   AND n.available_at <= clock_timestamp()
                   AND NOT EXISTS (SELECT 1 FROM shared.outbox e
                                   WHERE e.tenant_id = n.tenant_id AND e.lane = n.lane
                                     AND e.state IN ('pending', 'deferred', 'sending')
                                     AND (e.claim_id IS NOT NULL
                                          OR (e.due_at <= $4 AND (e.urgency, e.seq) < (n.urgency, n.seq))))
                 ORDER BY n.urgency, n.seq LIMIT 1 FOR UPDATE SKIP LOCKED)
             RETURNING {COLUMNS}"
        );
        let row = lease.query_opt(&sql, &[&claim, &self.node(), &lease_seconds(), &now]).await;
        match row {
            Ok(row) => Ok(row.map(|row| claimed(&row, claim, false))),
            // Somebody else took one of the lane in the same moment.
            Err(e) if e.code() == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION) => Ok(None),
            Err(e) => Err(failed()(e)),
        }
    }

    /// A try begins: committed before anything leaves. The number of the try; `None`: the claim does not hold it. `lane`:
    /// the conversation in which it will have been said, where an answer could come.
    pub(super) async fn begin_try(
        &self,
        claimed: &Claimed,
        repeatable: bool,
        lane: Option<&Lane>,
    ) -> Result<Option<i32>, StoreError> {
        let mut lease = self.db().every_tenant().await?;
        let sql = "WITH o AS (UPDATE shared.outbox SET state = 'sending', attempts = attempts + 1, repeatable = $3,
                              lease_until = clock_timestamp() + make_interval(secs => $4),
                              conversation = coalesce(conversation, $5)
                              WHERE id = $1 AND claim_id = $2 AND state IN ('pending', 'deferred')
                              RETURNING id, tenant_id, lane, attempts)
                   INSERT INTO shared.outbox_attempts (outbox_id, n, lane, tenant_id)
                   SELECT id, attempts, lane, tenant_id FROM o RETURNING n";
        let Claim { row, id } = &claimed.claim;
        let lane = lane.map(|lane| lane.0.as_str());
        let row = lease.query_opt(sql, &[row, id, &repeatable, &lease_seconds(), &lane]).await;
        Ok(row.map_err(failed())?.map(|row| row.get(0)))
    }

    /// How long a lane must wait that bears so many tries a minute.
    pub(super) async fn lane_wait(&self, claimed: &Claimed, per_minute: u32) -> Result<Option<Duration>, StoreError> {
        let mut lease = self.db().every_tenant().await?;
        // The oldest of as many as a minute bears: when it is a minute old, there is room for another.
        let sql = "SELECT extract(epoch FROM begun_at + interval '1 minute' - clock_timestamp())::float8
                   FROM shared.outbox_attempts
                   WHERE tenant_id = $1 AND lane = $2 AND begun_at > clock_timestamp() - interval '1 minute'
                   ORDER BY begun_at DESC OFFSET $3 LIMIT 1";
        let tenant = claimed.delivery.tenant.as_str();
        let row = lease.query_opt(sql, &[&tenant, &claimed.lane, &i64::from(per_minute.saturating_sub(1))]).await;
        let seconds = row.map_err(failed())?.map(|row| row.get::<_, f64>(0));
        Ok(seconds.filter(|s| *s > 0.0).map(Duration::from_secs_f64))
    }

    /// Writes what became of it. `false`: the claim does not hold it any more, and nothing was changed.
    pub(super) async fn settle(
        &self,
        claimed: &Claimed,
        settled: &Settled,
        outcome: Option<&'static str>,
    ) -> Result<bool, StoreError> {
        let now = self.clock().now();
        let (reason, why) = match settled {
            Settled::Unknown { why, reason } | Settled::Failed { why, reason } | Settled::Dead { why, reason } => {
                (Some(*reason), Some(text::truncate(why, MOST_ERROR)))
            }
            Settled::Again { why, .. } => (None, Some(text::truncate(why, MOST_ERROR))),
            Settled::Later { due: Some((_, reason)), .. } => (Some(*reason), None),
            _ => (None, None),
        };
        let receipt = match settled {
            Settled::Sent { receipt, .. } => Some(receipt),
            _ => None,
        };
        let (after, counts) = match settled {
            Settled::Again { after, failed, .. } => (after.as_secs_f64(), i32::from(*failed)),
            Settled::Later { after, .. } => (after.as_secs_f64(), 0),
            _ => (0.0, 0),
        };
        let due = match settled {
            Settled::Later { due, .. } => due.map(|(at, _)| at),
            _ => None,
        };
        let ended = settled.end().map(|_| now);
        let followed = matches!(settled, Settled::Sent { follow: false, .. }).then_some(now);
        let mut lease = self.db().every_tenant().await?;
        let sql = "WITH o AS (UPDATE shared.outbox
                       SET state = $3, reason = $4, last_error = CASE WHEN $3 = 'sent' THEN NULL ELSE coalesce($5, last_error) END,
                           receipt = $6, settled_at = $7, followed_at = $8, failures = failures + $9,
                           available_at = clock_timestamp() + make_interval(secs => $10), due_at = coalesce($11, due_at),
                           claim_id = NULL, claimed_by = NULL, lease_until = NULL
                       WHERE id = $1 AND claim_id = $2 RETURNING id),
                   a AS (UPDATE shared.outbox_attempts t
                         SET ended_at = clock_timestamp(), outcome = $12, detail = $5
                         FROM o WHERE t.outbox_id = o.id AND t.ended_at IS NULL AND $12::text IS NOT NULL)
                   SELECT count(*) FROM o";
        let rows = lease
            .query(
                sql,
                &[
                    &claimed.claim.row,
                    &claimed.claim.id,
                    &settled.state(),
                    &reason,
                    &why,
                    &receipt,
                    &ended,
                    &followed,
                    &counts,
                    &after,
                    &due,
                    &outcome,
                ],
            )
            .await
            .map_err(failed())?;
        Ok(rows.first().is_some_and(|row| row.get::<_, i64>(0) == 1))
    }

    /// In how many seconds the next row is due, if any waits.
    pub(super) async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        let now = self.clock().now();
        let mut lease = self.db().every_tenant().await?;
        let sql = "SELECT min(greatest(extract(epoch FROM due_at - $1::timestamptz),
                                       extract(epoch FROM available_at - clock_timestamp())))::float8
                   FROM shared.outbox WHERE state IN ('pending', 'deferred') AND claim_id IS NULL
                     AND (due_at > $1 OR available_at > clock_timestamp())";
        let row = lease.query_opt(sql, &[&now]).await.map_err(failed())?;
        let seconds = row.and_then(|row| row.get::<_, Option<f64>>(0));
        Ok(seconds.map(|s| Duration::from_secs_f64(s.clamp(0.005, 3600.0))))
    }
}

/// A delivery at its end, from which something follows.
pub(super) struct Ended {
    pub delivery: Delivery,
    pub sent: bool,
}

impl Outbox {
    /// Those at their end from which something still follows, but for those whose callers wait for the end themselves.
    pub(super) async fn to_follow(&self) -> Result<Vec<Ended>, StoreError> {
        let mut lease = self.db().every_tenant().await?;
        let sql = format!(
            "SELECT {COLUMNS}, o.state = 'sent' FROM shared.outbox o
             WHERE o.settled_at IS NOT NULL AND o.followed_at IS NULL AND o.id <> ALL($1) ORDER BY o.seq LIMIT 100"
        );
        let rows = lease.query(&sql, &[&self.awaited()]).await.map_err(failed())?;
        let ended = |row: &Row| Ended { delivery: claimed(row, Uuid::nil(), false).delivery, sent: row.get(21) };
        Ok(rows.iter().map(ended).collect())
    }

    /// What follows is done. Of a bad end the butler that wanted it said is told here, once; whether it was.
    pub(super) async fn followed(&self, ended: &Ended) -> Result<bool, StoreError> {
        let mut lease = self.db().shared(&ended.delivery.tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let told = tx.query_opt("SELECT shared.tell_origin($1)", &[&ended.delivery.id]).await.map_err(failed())?;
        let sql = "UPDATE shared.outbox SET followed_at = $2 WHERE id = $1 AND followed_at IS NULL";
        tx.execute(sql, &[&ended.delivery.id, &self.clock().now()]).await.map_err(failed())?;
        crash::point("outbox.before_followed");
        tx.commit().await.map_err(failed())?;
        crash::point("outbox.followed");
        Ok(told.is_some_and(|row| row.get(0)))
    }
}
