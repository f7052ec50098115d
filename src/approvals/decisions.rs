//! Deciding: on one call, or on all that one message asks for. Nobody approves what was not shown to them whole.

use uuid::Uuid;

use super::actions::{Actions, DecideError};
use super::rendering::shown_sha256_of;
use super::sql::{self, Decision, NewEvent, failed};
use super::types::{Action, Status};
use base::{TenantId, crash};
use serde_json::json;
use store::Tx;

/// What is decided on: one call, or those of a proposal that still wait.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    Action(Uuid),
    Proposal(Uuid),
}

/// What a person decides.
#[derive(Clone, Debug)]
pub enum Ruling {
    /// It is let through. With the hash of what the person saw, if they say which: of a call, or of all calls of a
    /// proposal together, as a notice and [`Actions::proposal`] have it.
    Approve(Option<String>),
    /// It is turned down. With the reason, if there is one.
    Reject(Option<String>),
}

impl Actions {
    /// Decides on one call that waits, as [`Actions::decide`] does.
    pub async fn decide_on(
        &self,
        tenant: &TenantId,
        id: Uuid,
        actor: &str,
        ruling: &Ruling,
    ) -> Result<Action, DecideError> {
        self.decide(tenant, Subject::Action(id), actor, ruling).await?.pop().ok_or(DecideError::Unknown(id))
    }

    /// Decides on what waits. A call of several pages is approved only by somebody to whom each of them was shown; so
    /// is each call of a proposal, without the hash of all.
    pub async fn decide(
        &self,
        tenant: &TenantId,
        subject: Subject,
        actor: &str,
        ruling: &Ruling,
    ) -> Result<Vec<Action>, DecideError> {
        let at = self.clock.now();
        let which = match subject {
            Subject::Action(id) => (Some(id), None),
            Subject::Proposal(proposal) => (None, Some(proposal)),
        };
        let mut lease = self.db.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let waiting = sql::waiting(&mut tx, tenant, which, at).await?;
        let (to, reason, allowed) = match ruling {
            Ruling::Approve(seen) => {
                let allowed = may_approve(&mut tx, tenant, subject, &waiting, (actor, seen.as_deref())).await;
                (Status::Approved, None, allowed)
            }
            Ruling::Reject(reason) => (Status::Rejected, reason.as_deref(), Ok(())),
        };
        if waiting.is_empty() || allowed.is_err() {
            tx.rollback().await.map_err(failed())?;
            drop(lease);
            allowed?;
            return Err(self.decided_already(tenant, subject).await?);
        }
        let mut decided = Vec::with_capacity(waiting.len());
        let decision = Decision { to, actor, reason, at };
        for action in waiting {
            decided.extend(sql::decide(&mut tx, action.id, &decision).await?);
            let meta = json!({"shown_sha256": action.shown_sha256()});
            let event = NewEvent { action: Some(action.id), rule: None, what: to.as_str(), actor, reason, meta };
            sql::note(&mut tx, tenant, &event).await?;
        }
        tx.commit().await.map_err(failed())?;
        match to {
            Status::Approved => crash::point("approval.approved"),
            _ => crash::point("approval.rejected"),
        }
        Ok(decided)
    }

    /// What a message asks for and what still waits of it, in order, and the hash of all of it.
    pub async fn proposal(&self, tenant: &TenantId, proposal: Uuid) -> Result<(Vec<Action>, String), DecideError> {
        let mut lease = self.db.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let calls = sql::waiting(&mut tx, tenant, (None, Some(proposal)), self.clock.now()).await?;
        tx.rollback().await.map_err(failed())?;
        match calls.is_empty() {
            true => Err(DecideError::Unknown(proposal)),
            false => Ok((calls.clone(), shown_sha256_of(&calls))),
        }
    }

    /// Notes which pages of a call were shown to somebody who may decide on it: from 1.
    pub async fn note_shown(
        &self,
        tenant: &TenantId,
        action: &Action,
        decider: &str,
        pages: &[i32],
    ) -> Result<(), DecideError> {
        let sha256 = action.shown_sha256();
        let mut lease = self.db.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        sql::note_shown(&mut tx, tenant, (action.id, &sha256), decider, pages).await?;
        tx.commit().await.map_err(failed())?;
        Ok(())
    }

    /// Why nothing waits under this id.
    async fn decided_already(&self, tenant: &TenantId, subject: Subject) -> Result<DecideError, DecideError> {
        let (Subject::Action(id) | Subject::Proposal(id)) = subject;
        let action = match subject {
            Subject::Action(id) => self.get(tenant, id).await?,
            Subject::Proposal(_) => None,
        };
        let Some(action) = action else { return Ok(DecideError::Unknown(id)) };
        // One that is past its time and not yet marked is as good as expired.
        let status = if action.status == Status::Pending { Status::Expired } else { action.status };
        Ok(DecideError::Decided(status.as_str()))
    }
}

/// Whether the person saw what they approve.
async fn may_approve(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    subject: Subject,
    calls: &[Action],
    (actor, seen): (&str, Option<&str>),
) -> Result<(), DecideError> {
    let hash = match (subject, calls) {
        (_, []) => return Ok(()),
        (Subject::Action(_), [one, ..]) => one.shown_sha256(),
        (Subject::Proposal(_), _) => shown_sha256_of(calls),
    };
    if seen.is_some_and(|seen| seen != hash) {
        return Err(DecideError::Changed);
    }
    // What is of one page, a notice shows whole; that of a proposal, to whoever has its hash.
    let shown_by_notice = seen.is_some() || matches!(subject, Subject::Action(_));
    for call in calls {
        if shown_by_notice && call.pages().len() == 1 {
            continue;
        }
        seen_whole(tx, tenant, call, actor).await?;
    }
    Ok(())
}

/// Whether each page of a call, as it looks now, was shown to the person.
pub(super) async fn seen_whole(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    call: &Action,
    actor: &str,
) -> Result<(), DecideError> {
    let of = i32::try_from(call.pages().len()).unwrap_or(i32::MAX);
    let shown = sql::pages_shown(tx, tenant, (call.id, &call.shown_sha256()), actor).await?;
    let missing: Vec<String> = (1..=of).filter(|page| !shown.contains(page)).map(|page| page.to_string()).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(DecideError::Unseen { id: call.id, missing: missing.join(", "), of }),
    }
}
