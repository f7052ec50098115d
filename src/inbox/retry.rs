//! Taking a message up again by a person's hand: another try at what died, another butler for what went wrong.
//!
//! The part that stood there so far is kept, as `rerouted`, and a new one takes its place: what an earlier part's
//! sessions did keeps a part from running twice by itself, and a new part really runs.

use std::sync::atomic::Ordering;

use serde_json::json;
use uuid::Uuid;

use super::operator::{Operator, OperatorActionError, Reopened, Requests, failed};
use super::sql::messages::{self, HeldRow};
use super::sql::segments::{self, NewPart, PartRow};
use base::TenantId;
use base::text::plain_identity;
use store::{StoreError, Tx};

impl Requests {
    /// A dead message, or its dead parts, from the beginning.
    pub async fn retry(
        &self,
        tenant: &TenantId,
        request: Uuid,
        operator: &Operator,
    ) -> Result<Reopened, OperatorActionError> {
        let mut lease = self.inbox.db().shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let held = self.hold(&mut tx, tenant, request).await?;
        if held.state != "dead" {
            let why = match held.state.as_str() {
                "done" => "it is done; there is nothing to try again",
                _ => "it is not at its end yet",
            };
            return Err(OperatorActionError::NotNow(format!("the message {request} is not dead: {why}")));
        }
        let (now, schema) = (self.inbox.clock().now(), self.inbox.schema());
        let parts = segments::all(&mut tx, schema, request).await?;
        let dead: Vec<&PartRow> = parts.iter().filter(|p| p.state == "dead").collect();
        let (mut taken_before, mut butlers) = (Vec::new(), Vec::new());
        if held.classified && !dead.is_empty() {
            taken_before = steps(&mut tx, tenant, &dead).await?;
            for (n, part) in (next(&parts)..).zip(dead) {
                segments::replace(&mut tx, schema, part.id, now).await?;
                segments::add(&mut tx, schema, tenant, request, again(part, n)).await?;
                butlers.push(part.butler.clone());
            }
        } else {
            // It died before its parts were settled: what is left of them are drafts.
            segments::forget(&mut tx, schema, request, "dead").await?;
        }
        messages::reopen(&mut tx, schema, request, held.classified, now).await?;
        self.note(&mut tx, (tenant, request), ("retry", json!({"butlers": butlers})), operator).await?;
        tx.commit().await.map_err(failed())?;
        drop(lease);
        self.begin_again(&held, tenant, request);
        Ok(Reopened { request_id: request, butlers, taken_before, rule: None })
    }

    /// Gives the message, or its part numbered `only`, to another butler.
    pub async fn reroute(
        &self,
        tenant: &TenantId,
        request: Uuid,
        butler: &str,
        only: Option<i32>,
        operator: &Operator,
    ) -> Result<Reopened, OperatorActionError> {
        if let Some(there) = self.inbox.butlers().others_than(butler) {
            return Err(OperatorActionError::NoButler { butler: butler.to_owned(), there });
        }
        let mut lease = self.inbox.db().shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let held = self.hold(&mut tx, tenant, request).await?;
        if held.claimed {
            let why = format!("the switchboard is dealing with the message {request} just now; try again in a moment");
            return Err(OperatorActionError::NotNow(why));
        }
        let (now, schema) = (self.inbox.clock().now(), self.inbox.schema());
        let parts = segments::all(&mut tx, schema, request).await?;
        let old = replaced(&parts, request, only)?;
        let taken_before = steps(&mut tx, tenant, &old).await?;
        for part in &old {
            self.withdraw(&mut tx, tenant, part).await?;
            segments::replace(&mut tx, schema, part.id, now).await?;
        }
        segments::forget(&mut tx, schema, request, "draft").await?;
        let part = old.first().filter(|_| only.is_some());
        let new = NewPart {
            id: Uuid::now_v7(),
            n: next(&parts),
            butler,
            prompt: part.map_or(&held.body, |part| &part.prompt),
            context: part.and_then(|part| part.context.as_ref()),
            chosen_by: "operator",
        };
        segments::add(&mut tx, schema, tenant, request, new).await?;
        messages::reopen(&mut tx, schema, request, true, now).await?;
        let detail = json!({"butler": butler, "part": only});
        self.note(&mut tx, (tenant, request), ("reroute", detail), operator).await?;
        tx.commit().await.map_err(failed())?;
        drop(lease);
        self.begin_again(&held, tenant, request);
        let rule = Some(rule(&held, butler));
        Ok(Reopened { request_id: request, butlers: vec![butler.to_owned()], taken_before, rule })
    }

    /// The row says that it waits; this only makes it quick.
    fn begin_again(&self, held: &HeldRow, tenant: &TenantId, request: Uuid) {
        if ["done", "dead"].contains(&held.state.as_str()) {
            self.inbox.inner.open.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(up) = self.inbox.up() {
            let item = held.item(tenant, request);
            // Handed on, its lane is taken until its end, which is not near any more.
            if held.state == "processing" {
                up.lanes.leave(&item, false);
            }
            up.lanes.offer(item);
            up.lanes.starved.notify_one();
        }
    }
}

/// The parts that make room for another: all, or the one of this number.
fn replaced(parts: &[PartRow], request: Uuid, only: Option<i32>) -> Result<Vec<&PartRow>, OperatorActionError> {
    let live = || parts.iter().filter(|p| p.state != "rerouted" && p.state != "draft");
    let old: Vec<&PartRow> = live().filter(|p| only.is_none_or(|n| n == p.n)).collect();
    match only {
        Some(n) if old.is_empty() => {
            let there: Vec<String> = live().map(|p| format!("{} ({})", p.n, p.butler)).collect();
            let why = format!("the message {request} has no part {n}; it has: {}", there.join(", "));
            Err(OperatorActionError::NotNow(why))
        }
        _ => Ok(old),
    }
}

/// The number of a message's next part.
fn next(parts: &[PartRow]) -> i32 {
    parts.iter().map(|p| p.n).max().unwrap_or(0) + 1
}

/// The same part anew.
fn again(part: &PartRow, n: i32) -> NewPart<'_> {
    let PartRow { butler, prompt, context, chosen_by, .. } = part;
    NewPart { id: Uuid::now_v7(), n, butler, prompt, context: context.as_ref(), chosen_by }
}

/// What the sessions of these parts did that may have changed something.
async fn steps(tx: &mut Tx<'_>, tenant: &TenantId, parts: &[&PartRow]) -> Result<Vec<String>, StoreError> {
    let ids: Vec<Uuid> = parts.iter().map(|p| p.id).collect();
    let names: Vec<&str> = parts.iter().map(|p| p.butler.as_str()).collect();
    let mut steps = Vec::new();
    for place in store::places_in(tx, &names).await? {
        let taken = sessions::sql::changing_steps(tx, &place.schema, tenant, &ids).await?;
        steps.extend(taken.into_iter().map(|tool| format!("{}: {tool}", place.butler)));
    }
    Ok(steps)
}

/// The command that makes a rule of it: a letter is known by who sent it, a chat by where it goes on.
fn rule(held: &HeldRow, butler: &str) -> String {
    let (kind, pattern) = match &held.thread {
        Some(thread) if held.channel != "email" => ("chat_id", thread.clone()),
        _ => ("sender_address", plain_identity(&held.sender)),
    };
    format!("butlerd rules add {kind} {} route_to {butler}", quoted(&pattern))
}

/// As a shell reads it.
fn quoted(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || "@._+:/-".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_proposed_as_it_is_typed() {
        let held = |channel: &str, sender: &str, thread: Option<&str>| HeldRow {
            state: "done".into(),
            claimed: false,
            classified: true,
            body: "b".into(),
            channel: channel.into(),
            sender: sender.into(),
            thread: thread.map(str::to_owned),
            lane: String::new(),
            tier: 2,
            trust: "known".into(),
            seq: 1,
        };
        let letter = held("email", "Bank <Mail@Bank.example>", Some("<id@x>"));
        assert_eq!(rule(&letter, "finance"), "butlerd rules add sender_address mail@bank.example route_to finance");
        let chat = held("telegram", "1", Some("it's; rm"));
        assert_eq!(rule(&chat, "travel"), "butlerd rules add chat_id 'it'\\''s; rm' route_to travel");
    }
}
