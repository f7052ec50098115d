//! The end of a part of a message, of a question, and of the message itself: one transaction over the butler's row, the
//! answer, the part and the message, so that no kill leaves one of them behind.

use jiff::Timestamp;
use serde_json::{Value, json};
use strum::IntoStaticStr;
use uuid::Uuid;

use super::handle::Inbox;
use super::lanes::{Item, Lanes};
use super::queue::message_inbox;
use super::types::{Lane, LiveKind, RouteKind, Tier};
use base::{RequestContext, RequestId, TenantId, Trust, crash};
use store::{Claim, QueueTable, StoreError, Tx};

/// How a part came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum End {
    Done,
    Dead,
}

impl End {
    fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What the person is told for a butler that did not tell them itself.
#[derive(Clone, Debug)]
pub struct Answer {
    pub lane: Lane,
    pub text: String,
    pub trust: Trust,
    pub session: Option<Uuid>,
    /// The request that it answers, where that can be read: it says where the answer goes.
    pub context: Option<Box<RequestContext>>,
    /// It says that something failed, not what the butler said last. It is told even after an answer.
    pub failure: bool,
}

/// The end of one row of a butler's route inbox.
pub struct Settlement<'a> {
    pub tenant: &'a TenantId,
    pub butler: &'a str,
    /// The butler's schema.
    pub schema: &'a str,
    /// The butler's route inbox.
    pub table: &'a QueueTable,
    /// The claim that holds the row; another's settles nothing.
    pub claim: Claim,
    pub request: RequestId,
    pub kind: RouteKind,
    pub end: End,
    pub error: Option<&'a str>,
    pub answer: Option<Answer>,
    /// Of a question: the butler that asked, and what it is told.
    pub asked: Option<(&'a str, &'a str)>,
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("settling a part of a message")
}

impl Inbox {
    /// Settles the row. `false`: the claim does not hold it any more, and nothing was changed.
    pub async fn settle(&self, s: Settlement<'_>) -> Result<bool, StoreError> {
        let mut lease = self.db().shared(s.tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let now = self.clock().now();
        let Claim { row: id, id: claim } = s.claim;
        let sql = s.table.settling("state = $3, settled_at = $4, last_error = $5");
        if tx.execute(&sql, &[&id, &claim, &s.end.as_str(), &now, &s.error]).await.map_err(failed())? == 0 {
            tx.rollback().await.map_err(failed())?;
            return Ok(false);
        }
        let mut ended = None;
        if let Some(answer) = &s.answer {
            reply(&mut tx, s.request, Some(id), s.butler, answer).await?;
            crash::point("settle.replied");
        }
        match s.kind {
            RouteKind::Message => {
                lock(&mut tx, self.schema(), s.request).await?;
                let sql = format!(
                    "UPDATE \"{}\".route_segments SET state = $2, settled_at = $3, last_error = $4
                     WHERE id = $1 AND state <> 'rerouted'",
                    self.schema()
                );
                tx.execute(&sql, &[&id, &s.end.as_str(), &now, &s.error]).await.map_err(failed())?;
                ended = close(&mut tx, self.schema(), s.request, now).await?;
            }
            RouteKind::Ask => {
                if let Some((asker, text)) = s.asked {
                    self.answer_ask(&mut tx, &s, asker, text, now).await?;
                }
            }
            RouteKind::Answer => {}
        }
        crash::point("settle.before");
        tx.commit().await.map_err(failed())?;
        crash::point("settle.committed");
        drop(lease);
        if s.answer.is_some() {
            self.tell(s.request, LiveKind::Replied);
        }
        self.tell(s.request, LiveKind::SegmentSettled { segment: id });
        if let Some(item) = ended {
            self.over(item, s.tenant).await;
        }
        Ok(true)
    }

    /// Ends a message that comes to nothing, with what the person is told. Parts of it that are with their butlers come
    /// to their own ends, and the message with the last of them. `false`: the claim does not hold it.
    pub(super) async fn give_up(
        &self,
        item: &Item,
        claim: Uuid,
        why: &str,
        answer: Option<Answer>,
    ) -> Result<bool, StoreError> {
        let mut lease = self.db().shared(&item.tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let now = self.clock().now();
        let schema = self.schema();
        let sql = message_inbox(schema).settling("last_error = $3");
        if tx.execute(&sql, &[&item.request.0, &claim, &why]).await.map_err(failed())? == 0 {
            tx.rollback().await.map_err(failed())?;
            return Ok(false);
        }
        let sql = format!(
            "UPDATE \"{schema}\".route_segments SET state = 'dead', settled_at = $2, last_error = $3
             WHERE request_id = $1 AND state IN ('draft', 'open')"
        );
        tx.execute(&sql, &[&item.request.0, &now, &why]).await.map_err(failed())?;
        let sql = format!(
            "UPDATE \"{schema}\".message_inbox SET state = 'dead', settled_at = $2
             WHERE request_id = $1 AND NOT EXISTS (SELECT 1 FROM \"{schema}\".route_segments
                                                   WHERE request_id = $1 AND state = 'accepted')"
        );
        let ended = tx.execute(&sql, &[&item.request.0, &now]).await.map_err(failed())? > 0;
        if let Some(answer) = &answer {
            reply(&mut tx, item.request, None, super::SWITCHBOARD, answer).await?;
        }
        crash::point("give_up.before");
        tx.commit().await.map_err(failed())?;
        crash::point("give_up.committed");
        drop(lease);
        if answer.is_some() {
            self.tell(item.request, LiveKind::Replied);
        }
        if ended {
            self.over(item.clone(), &item.tenant).await;
        }
        Ok(true)
    }

    /// Whether a part of a message has its answer.
    pub async fn has_replied(&self, tenant: &TenantId, segment: Uuid) -> Result<bool, StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let sql = "SELECT 1 FROM shared.replies WHERE segment_id = $1 LIMIT 1";
        Ok(!lease.read(sql, &[&segment]).await.map_err(failed())?.is_empty())
    }

    /// A message is at its end: its lane is free.
    pub(super) async fn over(&self, item: Item, tenant: &TenantId) {
        use std::sync::atomic::Ordering;
        let fewer = |n: u64| Some(n.saturating_sub(1));
        let _ = self.inner.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        self.tell(item.request, LiveKind::Settled);
        let Some(up) = self.up() else { return };
        let item = Item { tenant: tenant.clone(), ..item };
        if up.lanes.ended(&item) {
            return;
        }
        // What stands behind it is not in memory, as after a start: it must not wait for the next scan.
        if let Err(e) = self.follow(&up.lanes, &item).await {
            tracing::debug!(error = %e, "what stands behind a message is left to the scanner");
            up.lanes.starved.notify_one();
        }
    }

    /// Puts the next messages of the lane into memory.
    async fn follow(&self, lanes: &Lanes, ended: &Item) -> Result<(), StoreError> {
        let mut lease = self.db().shared(&ended.tenant).await?;
        let sql = format!(
            "SELECT request_id, tier, seq FROM \"{}\".message_inbox
             WHERE tenant_id = $1 AND lane = $2 AND seq > $3 AND state = 'accepted' ORDER BY seq LIMIT 8",
            self.schema()
        );
        let rows = lease.read(&sql, &[&ended.tenant.as_str(), &ended.lane.0, &ended.seq]).await.map_err(failed())?;
        for row in rows {
            let (request, tier, seq) = (RequestId(row.get(0)), Tier::from_number(row.get(1)), row.get(2));
            lanes.offer(Item { request, tier, seq, ..ended.clone() });
        }
        Ok(())
    }

    /// Puts the answer where the question is; where nobody waits any more, it becomes work of the butler that asked.
    async fn answer_ask(
        &self,
        tx: &mut Tx<'_>,
        s: &Settlement<'_>,
        asker: &str,
        text: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let row = tx.query_opt("SELECT schema FROM shared.butler_roles WHERE butler = $1", &[&asker]).await;
        let Some(row) = row.map_err(failed())? else { return Ok(()) };
        let schema: String = row.get(0);
        let state = if s.end == End::Done { "answered" } else { "failed" };
        // The answer is believed no more than what its sessions were shown.
        let sql = format!(
            "UPDATE \"{schema}\".asks a SET state = $2, answer = $3, answered_at = $4,
                    trust = coalesce((SELECT t.name FROM (VALUES (1, 'stranger'), (2, 'known')) AS t(rank, name)
                                      WHERE t.name = a.trust OR EXISTS (SELECT 1 FROM \"{other}\".sessions s
                                                                        WHERE s.route_id = $1 AND s.trust = t.name)
                                      ORDER BY t.rank LIMIT 1), a.trust)
             FROM (SELECT state AS before FROM \"{schema}\".asks WHERE id = $1 FOR UPDATE) b
             WHERE a.id = $1 RETURNING b.before, a.context, a.question, a.trust",
            other = s.schema
        );
        let row = tx.query_opt(&sql, &[&s.claim.row, &state, &text, &now]).await.map_err(failed())?;
        let Some(row) = row.filter(|row| row.get::<_, &str>(0) == "late") else { return Ok(()) };
        // Whoever waited for the session that asked waits for this one too.
        let sql = format!(
            "SELECT coalesce((r.route ->> 'interactive')::boolean, false) FROM \"{schema}\".asks a
             JOIN \"{schema}\".sessions s ON s.id = a.session_id
             JOIN \"{schema}\".route_inbox r ON r.id = s.route_id WHERE a.id = $1"
        );
        let waits = tx.query_opt(&sql, &[&s.claim.row]).await.map_err(failed())?.is_some_and(|row| row.get(0));
        let (mut context, question): (Value, String) = (row.get(1), row.get(2));
        context["trust"] = json!(row.get::<_, &str>(3));
        let prompt = format!(
            "You asked {} a question and could not wait for the answer. It has come now. Do what is left to do with it.",
            s.butler
        );
        let data = json!({"question": question, "answered_by": s.butler, "answer": text});
        let sql = "SELECT shared.hand_back($1, $2, $3, $4, $5)";
        tx.query(sql, &[&asker, &context, &waits, &prompt, &data]).await.map_err(failed())?;
        if let Some(target) = self.target(asker) {
            target.wake.notify_one();
        }
        Ok(())
    }
}

/// The message's row, held until the end of the transaction: parts that end at the same time see one another.
async fn lock(tx: &mut Tx<'_>, schema: &str, request: RequestId) -> Result<(), StoreError> {
    let sql = format!("SELECT 1 FROM \"{schema}\".message_inbox WHERE request_id = $1 FOR UPDATE");
    tx.query(&sql, &[&request.0]).await.map(drop).map_err(failed())
}

/// Writes what the person is told, unless the butler answered itself.
async fn reply(
    tx: &mut Tx<'_>,
    request: RequestId,
    segment: Option<Uuid>,
    butler: &str,
    answer: &Answer,
) -> Result<(), StoreError> {
    let kind = if answer.failure { "failure" } else { "reply" };
    let auto = !answer.failure;
    tx.execute(
        "INSERT INTO shared.replies (request_id, segment_id, lane, butler, session_id, kind, message, auto, trust,
                                     context)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
         WHERE NOT $8 OR NOT EXISTS (SELECT 1 FROM shared.replies WHERE request_id = $1 AND segment_id = $2)
         ON CONFLICT DO NOTHING",
        &[
            &request.0,
            &segment,
            &answer.lane.0,
            &butler,
            &answer.session,
            &kind,
            &answer.text,
            &auto,
            &answer.trust.as_str(),
            &answer.context.as_ref().map(|context| json!(context)),
        ],
    )
    .await
    .map(drop)
    .map_err(failed())
}

/// Ends the message if none of its parts is open any more.
async fn close(tx: &mut Tx<'_>, schema: &str, request: RequestId, now: Timestamp) -> Result<Option<Item>, StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".message_inbox m
         SET state = CASE WHEN EXISTS (SELECT 1 FROM \"{schema}\".route_segments s
                                       WHERE s.request_id = m.request_id AND s.state = 'dead') THEN 'dead' ELSE 'done' END,
             settled_at = $2, claim_id = NULL, claimed_by = NULL, lease_until = NULL,
             last_error = (SELECT string_agg(s.butler || ': ' || s.last_error, '; ' ORDER BY s.n)
                           FROM \"{schema}\".route_segments s WHERE s.request_id = m.request_id AND s.state = 'dead')
         WHERE m.request_id = $1 AND m.state IN ('accepted', 'processing')
           AND NOT EXISTS (SELECT 1 FROM \"{schema}\".route_segments s
                           WHERE s.request_id = m.request_id AND s.state IN ('draft', 'open', 'accepted'))
         RETURNING m.tenant_id, m.lane, m.tier, m.seq"
    );
    let row = tx.query_opt(&sql, &[&request.0, &now]).await.map_err(failed())?;
    Ok(row.and_then(|row| {
        Some(Item {
            request,
            tenant: TenantId::new(row.get(0)).ok()?,
            lane: Lane(row.get(1)),
            tier: Tier::from_number(row.get(2)),
            seq: row.get(3),
        })
    }))
}
