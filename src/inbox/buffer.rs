//! The buffer: workers that take accepted messages one by one, and the scanner that finds what was left. Start-up and
//! steady state are the same code.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::accept::Acceptor;
use super::attempt::{Claimed, Pass, TRIES, Tried, interactive, pause, somebody_waits};
use super::handle::{Inbox, Up};
use super::queue::{Item, Queue};
use super::settlement::Answer;
use super::types::{Lane, Tier};
use base::{HumanDuration, RequestContext, RequestId, TenantId, Trust, crash, task};
use config::BufferSection;
use sessions::Spawner;
use store::{Claim, ClaimTable, Store, StoreError, lease_seconds, settle};

/// The running buffer of a switchboard that is up.
pub struct Buffer {
    inbox: Inbox,
    tasks: Vec<JoinHandle<()>>,
    /// Dropped, it ends them: a switchboard that dies takes its workers along.
    stop: DropGuard,
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("looking for messages that wait")
}

impl Inbox {
    /// Opens the desk for messages: releases what the last run held, then begins to work.
    pub async fn open(&self, store: Store, spawner: Spawner, settings: &BufferSection) -> Result<Buffer, StoreError> {
        let queue = Arc::new(Queue::new(settings.queue_capacity as usize));
        let waiting = self.release_own().await?;
        self.inner.open.store(waiting, Ordering::Relaxed);
        let acceptor = Acceptor::start(
            store.clone(),
            self.inner.parts.owner.clone(),
            self.inner.rules.clone(),
            self.conversation().clone(),
            queue.clone(),
            self.inner.open.clone(),
            u64::from(settings.max_backlog),
        );
        self.set_up(Some(Up { store, spawner, acceptor, queue: queue.clone() }));
        let stop = CancellationToken::new();
        let mut tasks = Vec::new();
        for _ in 0..settings.worker_count {
            tasks.push(task::spawn(task::Kind::Actor, "buffer-worker", self.clone().work(queue.clone(), stop.clone())));
        }
        let (every, batch) = (settings.scanner_interval.0, settings.scanner_batch_size);
        let grace = settings.scanner_grace.0;
        let scanning = self.clone().scan(queue, (every, grace), i64::from(batch), stop.clone());
        tasks.push(task::spawn(task::Kind::Actor, "buffer-scanner", scanning));
        let keeping = super::registrar::keep(self.clone(), stop.clone());
        tasks.push(task::spawn(task::Kind::Actor, "butler-registry", keeping));
        let ordering = self.conversation().clone().keep(stop.clone());
        tasks.push(task::spawn(task::Kind::Actor, "conversation-log", ordering));
        Ok(Buffer { inbox: self.clone(), tasks, stop: stop.drop_guard() })
    }

    /// Lets go of what an earlier run of this daemon held. Returns how many messages are not done.
    async fn release_own(&self) -> Result<u64, StoreError> {
        let (mut lease, schema) = (self.db().every_tenant().await?, self.schema());
        let sql = format!(
            "UPDATE \"{schema}\".message_inbox SET state = 'accepted', claim_id = NULL, claimed_by = NULL, lease_until = NULL
             WHERE state = 'processing' AND claim_id IS NOT NULL AND claimed_by = $1"
        );
        let held = lease.execute(&sql, &[&self.node()]).await.map_err(failed())?;
        if held > 0 {
            tracing::warn!(
                messages = held,
                "messages were being dealt with as the last run ended; they are taken up again"
            );
        }
        let sql = format!("SELECT count(*) FROM \"{schema}\".message_inbox WHERE state IN ('accepted', 'processing')");
        let rows = lease.query(&sql, &[]).await.map_err(failed())?;
        Ok(rows.first().map_or(0, |r| u64::try_from(r.get::<_, i64>(0)).unwrap_or(0)))
    }

    async fn scan(self, queue: Arc<Queue>, (every, grace): (Duration, Duration), batch: i64, stop: CancellationToken) {
        loop {
            let next = match self.scan_once(&queue, grace, batch).await {
                Ok(next) => next,
                Err(e) => {
                    tracing::warn!(error = %e, "messages that wait could not be looked for");
                    Some(Duration::from_secs(1))
                }
            };
            let pause = next.map_or(every, |next| next.min(every));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = queue.starved.notified() => {}
            }
        }
    }

    /// Takes back what nobody holds any more, and puts what is next in each lane into the queue. Returns when there is
    /// something to look for again, if that is known.
    async fn scan_once(&self, queue: &Queue, grace: Duration, batch: i64) -> Result<Option<Duration>, StoreError> {
        let (mut lease, schema) = (self.db().every_tenant().await?, self.schema());
        let sql = format!(
            "UPDATE \"{schema}\".message_inbox SET state = 'accepted', claim_id = NULL, claimed_by = NULL, lease_until = NULL
             WHERE state = 'processing' AND claim_id IS NOT NULL
               AND lease_until < clock_timestamp() - make_interval(secs => $2) AND request_id <> ALL($1)"
        );
        lease.execute(&sql, &[&queue.known(), &grace.as_secs_f64()]).await.map_err(failed())?;
        let room = i64::try_from(queue.room()).unwrap_or(0).min(batch);
        if room == 0 {
            queue.there_is_more();
            return Ok(None);
        }
        let sql = format!(
            "SELECT m.request_id, m.tenant_id, m.lane, m.tier, m.seq FROM \"{schema}\".message_inbox m
             WHERE m.state = 'accepted' AND m.available_at <= clock_timestamp() AND m.request_id <> ALL($2)
               AND NOT EXISTS (SELECT 1 FROM \"{schema}\".message_inbox e
                               WHERE e.tenant_id = m.tenant_id AND e.lane = m.lane AND e.seq < m.seq
                                 AND e.state IN ('accepted', 'processing'))
             ORDER BY m.tier, m.seq LIMIT $1"
        );
        let known = queue.known();
        let rows = lease.query(&sql, &[&room, &known]).await.map_err(failed())?;
        let found = rows.len();
        for row in rows {
            if let Ok(tenant) = TenantId::new(row.get(1)) {
                let (request, lane, tier) = (RequestId(row.get(0)), Lane(row.get(2)), Tier::from_number(row.get(3)));
                queue.offer(Item { request, tenant, lane, tier, seq: row.get(4) });
            }
        }
        if i64::try_from(found).unwrap_or(i64::MAX) >= room {
            queue.there_is_more();
            return Ok(Some(Duration::from_millis(200)));
        }
        let sql = format!(
            "SELECT extract(epoch FROM min(available_at) - clock_timestamp())::float8 FROM \"{schema}\".message_inbox
             WHERE state = 'accepted' AND available_at > clock_timestamp()"
        );
        let rows = lease.query(&sql, &[]).await.map_err(failed())?;
        let next = rows.first().and_then(|r| r.get::<_, Option<f64>>(0));
        Ok(next.map(|seconds| Duration::from_secs_f64(seconds.clamp(0.01, 3600.0))))
    }

    /// One worker, until `stop`.
    async fn work(self, queue: Arc<Queue>, stop: CancellationToken) {
        let mut complete = self.butlers().complete();
        loop {
            let next = async {
                // The desk lives as long as this does.
                let _ = complete.wait_for(|complete| *complete).await;
                queue.next().await
            };
            let item = tokio::select! {
                () = stop.cancelled() => return,
                item = next => item,
            };
            if *complete.borrow() {
                self.deal_with(&queue, item).await;
            } else {
                queue.leave(&item, false);
                queue.starved.notify_one();
            }
        }
    }

    async fn deal_with(&self, queue: &Arc<Queue>, item: Item) {
        let claim = Uuid::now_v7();
        let claimed = match self.claim(&item, claim).await {
            Ok(Some(claimed)) => claimed,
            Ok(None) => {
                queue.leave(&item, false);
                // What stood before it in its lane may have ended in between.
                return queue.starved.notify_one();
            }
            Err(e) => {
                tracing::warn!(request = %item.request, error = %e, "a message could not be claimed");
                queue.there_is_more();
                tokio::time::sleep(Duration::from_millis(500)).await;
                self.unclaim(&item, claim).await;
                return queue.leave(&item, false);
            }
        };
        crash::point("claim.committed");
        let lost = CancellationToken::new();
        let tried = if claimed.attempts > TRIES {
            // Tries that ended without a word count as well: each of them may have been the daemon's own end.
            Tried::Failed(claimed.last_error.clone().unwrap_or_else(|| format!("none of {TRIES} tries came to an end")))
        } else {
            let pass = Pass { inbox: self, claimed: &claimed, lost: &lost };
            let table = ClaimTable::of(self.schema(), "message_inbox", "request_id");
            let held = Claim { row: item.request.0, id: claimed.claim };
            let (work, renewing) = (pass.run(), table.hold(self.db(), held));
            tokio::pin!(work);
            tokio::select! {
                tried = &mut work => tried,
                () = renewing => {
                    // Its session is cancelled, and its end awaited: it must not go on unwatched.
                    lost.cancel();
                    match work.await {
                        Tried::HandedOn => Tried::HandedOn,
                        _ => Tried::Lost,
                    }
                }
            }
        };
        match &tried {
            // Its lane stays taken until its parts are at their end.
            Tried::HandedOn => return,
            Tried::Lost => {
                tracing::warn!(request = %item.request, "a message's claim was lost; whoever holds it goes on");
                return queue.leave(&item, false);
            }
            Tried::Failed(why) if claimed.attempts >= TRIES => {
                tracing::error!(request = %item.request, error = why, "a message is dead: it failed {TRIES} times");
            }
            Tried::Failed(why) => {
                tracing::warn!(request = %item.request, attempt = claimed.attempts, error = why, "a message is tried again");
            }
            Tried::Later(_) => {}
        }
        settle("a message", item.request, || self.put_back(&claimed, &tried)).await;
        queue.leave(&item, false);
        queue.starved.notify_one();
    }

    /// Claims a message, if it is the next of its lane and nobody holds it.
    async fn claim(&self, item: &Item, claim: Uuid) -> Result<Option<Claimed>, StoreError> {
        let Some(up) = self.up() else { return Ok(None) };
        let mut lease = up.store.tenant(&item.tenant).await?;
        let row = lease
            .query_opt(
                "UPDATE message_inbox m SET state = 'processing', claim_id = $2, claimed_by = $3, attempts = attempts + 1,
                        lease_until = clock_timestamp() + make_interval(secs => $4)
                 WHERE request_id = $1 AND state = 'accepted' AND available_at <= clock_timestamp()
                   AND NOT EXISTS (SELECT 1 FROM message_inbox e WHERE e.lane = m.lane AND e.seq < m.seq
                                                                   AND e.state IN ('accepted', 'processing'))
                 RETURNING attempts, body, attachments, envelope, context, triage, classified_at IS NOT NULL, last_error,
                           channel",
                &[&item.request.0, &claim, &self.node(), &lease_seconds()],
            )
            .await
            .map_err(StoreError::query("claiming a message"))?;
        drop(lease);
        let Some(row) = row else { return Ok(None) };
        let Ok(context) = serde_json::from_value(row.get(4)) else {
            // Of a later version: it must not keep its lane waiting for ever.
            tracing::error!(request = %item.request, "a message is dead: its context can't be read");
            let why = "this version of butlerd can't read its request context";
            let answer = somebody_waits(row.get(8), &row.get(3));
            let answer = answer.then(|| failure(item, why, Trust::Stranger, None));
            self.give_up(item, claim, why, answer).await?;
            return Ok(None);
        };
        Ok(Some(Claimed {
            item: item.clone(),
            claim,
            attempts: row.get(0),
            body: row.get(1),
            attachments: row.get(2),
            envelope: row.get(3),
            context: Arc::new(context),
            triage: row.get::<_, Option<Value>>(5).and_then(|t| serde_json::from_value(t).ok()),
            classified: row.get(6),
            last_error: row.get(7),
        }))
    }

    /// Gives back a claim whose answer was lost, if it was made: else its lane would wait until the lease runs out.
    async fn unclaim(&self, item: &Item, claim: Uuid) {
        let Some(up) = self.up() else { return };
        let given_back = async {
            let mut lease = up.store.tenant(&item.tenant).await?;
            let sql = "UPDATE message_inbox SET state = 'accepted', attempts = attempts - 1, claim_id = NULL,
                              claimed_by = NULL, lease_until = NULL
                       WHERE request_id = $1 AND claim_id = $2";
            lease.execute(sql, &[&item.request.0, &claim]).await.map_err(StoreError::query("giving a claim back"))
        };
        if let Err(e) = given_back.await {
            tracing::debug!(request = %item.request, error = %e, "a claim may be left; its lease runs out");
        }
    }

    /// What becomes of a message that was not handed on.
    async fn put_back(&self, claimed: &Claimed, tried: &Tried) -> Result<(), StoreError> {
        match tried {
            Tried::Failed(why) if claimed.attempts >= TRIES => self.dead_letter(claimed, why).await,
            Tried::Failed(why) => self.release(claimed, pause(claimed.attempts), Some(why)).await,
            Tried::Later(after) => self.release(claimed, *after, None).await,
            Tried::HandedOn | Tried::Lost => Ok(()),
        }
    }

    /// Puts a message back for a later try. One that failed has one try less.
    async fn release(&self, claimed: &Claimed, after: Duration, why: Option<&str>) -> Result<(), StoreError> {
        let Some(up) = self.up() else { return Ok(()) };
        let mut lease = up.store.tenant(&claimed.item.tenant).await?;
        let spent = i32::from(why.is_none());
        let params: store::Params<'_> = &[&claimed.item.request.0, &claimed.claim, &after.as_secs_f64(), &spent, &why];
        lease
            .execute(
                "UPDATE message_inbox SET state = 'accepted', claim_id = NULL, claimed_by = NULL, lease_until = NULL,
                        available_at = clock_timestamp() + make_interval(secs => $3), attempts = attempts - $4,
                        last_error = coalesce($5, last_error)
                 WHERE request_id = $1 AND claim_id = $2 AND state = 'processing'",
                params,
            )
            .await
            .map_err(StoreError::query("putting a message back"))?;
        Ok(())
    }

    /// A message that has failed too often: on record as dead, and whoever waits for an answer is told.
    async fn dead_letter(&self, claimed: &Claimed, why: &str) -> Result<(), StoreError> {
        let answer = interactive(claimed).then(|| {
            let context = Some(Box::new((*claimed.context).clone()));
            failure(&claimed.item, why, claimed.context.trust, context)
        });
        self.give_up(&claimed.item, claimed.claim, why, answer).await.map(drop)
    }
}

/// What the person is told of a message that came to nothing.
fn failure(item: &Item, why: &str, trust: Trust, context: Option<Box<RequestContext>>) -> Answer {
    let text = format!("Your message could not be dealt with: {why}. It is kept; you can have it tried again.");
    Answer { lane: item.lane.clone(), text, trust, session: None, context, failure: true }
}

impl Buffer {
    /// No message is taken up or taken in any more; what is under way with the butlers goes on.
    pub async fn stop(self, within: Duration) {
        drop(self.stop);
        let all = futures_util::future::join_all(self.tasks);
        if tokio::time::timeout(within, all).await.is_err() {
            let limit = HumanDuration(within);
            tracing::warn!(
                "the buffer's workers did not end within {limit}; their messages are taken up at the next start"
            );
        }
        self.inbox.set_up(None);
    }
}
