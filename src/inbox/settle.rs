//! The end of a part of a message, of a question, and of the message itself: one transaction over the butler's row, the
//! answer, the part and the message, so that no kill leaves one of them behind.

use std::sync::atomic::Ordering;

use uuid::Uuid;

use super::handle::Inbox;
use super::lanes::{Item, Lanes};
use super::settlement::{Answer, Settlement};
use super::sql::messages;
use super::sql::{replies, segments};
use super::types::{LiveKind, RouteKind};
use base::{TenantId, crash};
use store::StoreError;

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("settling a part of a message")
}

impl Inbox {
    /// Settles the row. `false`: the claim does not hold it any more, and nothing was changed.
    pub async fn settle(&self, s: Settlement<'_>) -> Result<bool, StoreError> {
        let mut lease = self.db().shared(s.tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let (now, schema, id) = (self.clock().now(), self.schema(), s.claim.row);
        if !self.handed().end(&mut tx, &s, now).await? {
            tx.rollback().await.map_err(failed())?;
            return Ok(false);
        }
        if let Some(answer) = &s.answer {
            replies::add(&mut tx, s.request, Some(id), s.butler, answer).await?;
            crash::point("settle.replied");
        }
        let (mut ended, mut woken) = (None, None);
        match (s.kind, s.asked) {
            (RouteKind::Message, _) => {
                messages::lock(&mut tx, schema, s.request.0).await?;
                segments::settle(&mut tx, schema, id, (s.end.as_str(), s.error), now).await?;
                let closed = messages::close(&mut tx, schema, s.request.0, now).await?;
                ended = closed.and_then(|(message, state)| Some((Item::of(message)?, state)));
            }
            (RouteKind::Ask, Some(asked)) => {
                woken = self.handed().answer(&mut tx, &s, asked, now).await?.then_some(asked.0);
            }
            (RouteKind::Ask, None) | (RouteKind::Answer, _) => {}
        }
        crash::point("settle.before");
        tx.commit().await.map_err(failed())?;
        crash::point("settle.committed");
        drop(lease);
        if let Some(target) = woken.and_then(|asker| self.butlers().target(asker)) {
            target.wake.notify_one();
        }
        if s.answer.is_some() {
            self.tell(s.request, LiveKind::Replied);
        }
        self.tell(s.request, LiveKind::SegmentSettled { segment: id });
        if let Some((item, state)) = ended {
            self.over(item, &state).await;
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
        let (now, schema, request) = (self.clock().now(), self.schema(), item.request.0);
        if !messages::let_go(&mut tx, schema, request, claim, why).await? {
            tx.rollback().await.map_err(failed())?;
            return Ok(false);
        }
        segments::end_as_dead(&mut tx, schema, request, (&["draft", "open"], why), now).await?;
        let ended = messages::die(&mut tx, schema, request, now).await?;
        if let Some(answer) = &answer {
            replies::add(&mut tx, item.request, None, super::SWITCHBOARD, answer).await?;
        }
        crash::point("give_up.before");
        tx.commit().await.map_err(failed())?;
        crash::point("give_up.committed");
        drop(lease);
        if answer.is_some() {
            self.tell(item.request, LiveKind::Replied);
        }
        if ended {
            self.over(item.clone(), "dead").await;
        }
        Ok(true)
    }

    /// Whether a part of a message has its answer.
    pub async fn has_replied(&self, tenant: &TenantId, segment: Uuid) -> Result<bool, StoreError> {
        replies::is_there(&mut self.db().shared(tenant).await?, segment).await
    }

    /// A message is at its end, in this state: its lane is free.
    pub(super) async fn over(&self, item: Item, state: &str) {
        self.db().queue_metrics().work().message_ended(state);
        let fewer = |n: u64| Some(n.saturating_sub(1));
        let _ = self.inner.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        self.tell(item.request, LiveKind::Settled);
        let Some(up) = self.up() else { return };
        if up.lanes.ended(&item) {
            return;
        }
        // What stands behind it is not in memory, as after a start: it must not wait for the next scan.
        if let Err(e) = self.offer_next(&up.lanes, &item).await {
            tracing::debug!(error = %e, "the messages behind this one are left to the scanner");
            up.lanes.starved.notify_one();
        }
    }

    /// Puts the next messages of the lane into memory.
    async fn offer_next(&self, lanes: &Lanes, ended: &Item) -> Result<(), StoreError> {
        let mut lease = self.db().shared(&ended.tenant).await?;
        let next = messages::behind(&mut lease, self.schema(), (&ended.tenant, &ended.lane.0), ended.seq).await?;
        next.into_iter().filter_map(Item::of).for_each(|item| lanes.offer(item));
        Ok(())
    }
}
