//! Taking a message up again by a person's hand: another try at what died, another butler for what went wrong.
//!
//! The part that stood there so far is kept, as `rerouted`, and a new one takes its place: what an earlier part's
//! sessions did keeps a part from running twice by itself, and a new part really runs.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::handle::Inbox;
use super::lanes::Item;
use super::operator_actions::Operator;
use super::types::{Lane, Tier};
use base::text::plain_identity;
use base::{RequestId, TenantId};
use store::{StoreError, Tx};

/// What was done with the message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reopened {
    pub request_id: Uuid,
    /// The butlers that it goes to now; empty: the switchboard finds out.
    pub butlers: Vec<String>,
    /// Steps that may have changed something and were taken for the parts that are replaced, as `butler: tool`. None of
    /// them is undone, and the new session may take it again.
    pub taken_before: Vec<String>,
    /// The rule that would have sent it there: ready to be typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Why it was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OperatorActionError {
    #[error("there is no message {0}")]
    Unknown(Uuid),
    #[error("{0}")]
    NotNow(String),
    #[error("there is no butler `{butler}` to route to; there are: {}", .there.join(", "))]
    NoButler { butler: String, there: Vec<String> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A message's row, held until the end of the transaction.
pub(super) struct Held {
    pub item: Item,
    pub state: String,
    pub claimed: bool,
    classified: bool,
    body: String,
    channel: String,
    sender: String,
    thread: Option<String>,
}

/// One of its parts.
pub(super) struct Part {
    id: Uuid,
    n: i32,
    butler: String,
    prompt: String,
    context: Option<Value>,
    pub state: String,
    chosen_by: String,
}

pub(super) fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("taking a message up again")
}

impl Inbox {
    /// A dead message, or its dead parts, from the beginning.
    pub async fn retry(
        &self,
        tenant: &TenantId,
        request: Uuid,
        operator: &Operator,
    ) -> Result<Reopened, OperatorActionError> {
        let mut lease = self.db().shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let held = self.hold(&mut tx, tenant, request).await?;
        if held.state != "dead" {
            let why = match held.state.as_str() {
                "done" => "it is done; there is nothing to try again",
                _ => "it is not at its end yet",
            };
            return Err(OperatorActionError::NotNow(format!("the message {request} is not dead: {why}")));
        }
        let parts = self.parts_of(&mut tx, request).await?;
        let dead: Vec<Part> = parts.iter().filter(|p| p.state == "dead").map(Part::copy).collect();
        let mut taken_before = Vec::new();
        let mut butlers = Vec::new();
        if held.classified && !dead.is_empty() {
            taken_before = self.steps(&mut tx, tenant, &dead).await?;
            let first = parts.iter().map(|p| p.n).max().unwrap_or(0) + 1;
            for (n, part) in (first..).zip(&dead) {
                self.replace(&mut tx, part).await?;
                let new = Part { id: Uuid::now_v7(), n, ..part.copy() };
                self.add(&mut tx, tenant, request, &new).await?;
                butlers.push(new.butler);
            }
        } else {
            // It died before its parts were settled: what is left of them are drafts.
            let sql =
                format!("DELETE FROM \"{}\".route_segments WHERE request_id = $1 AND state = 'dead'", self.schema());
            tx.execute(&sql, &[&request]).await.map_err(failed())?;
        }
        self.reopen(&mut tx, request, held.classified).await?;
        self.note(&mut tx, tenant, request, "retry", operator, json!({"butlers": butlers})).await?;
        tx.commit().await.map_err(failed())?;
        drop(lease);
        self.begin_again(&held);
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
        let there: Vec<String> = self.routable().into_iter().map(|(name, _)| name).collect();
        if !there.iter().any(|name| name == butler) {
            return Err(OperatorActionError::NoButler { butler: butler.to_owned(), there });
        }
        let mut lease = self.db().shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let held = self.hold(&mut tx, tenant, request).await?;
        if held.claimed {
            let why = format!("the switchboard is dealing with the message {request} just now; try again in a moment");
            return Err(OperatorActionError::NotNow(why));
        }
        let parts = self.parts_of(&mut tx, request).await?;
        let live = |p: &&Part| p.state != "rerouted" && p.state != "draft";
        let old: Vec<&Part> = parts.iter().filter(live).filter(|p| only.is_none_or(|n| n == p.n)).collect();
        let prompt = match (only, old.as_slice()) {
            (Some(n), []) => {
                let there: Vec<String> = parts.iter().filter(live).map(|p| format!("{} ({})", p.n, p.butler)).collect();
                let why = format!("the message {request} has no part {n}; it has: {}", there.join(", "));
                return Err(OperatorActionError::NotNow(why));
            }
            (Some(_), [part, ..]) => part.prompt.clone(),
            (None, _) => held.body.clone(),
        };
        let taken_before = self.steps(&mut tx, tenant, &old.iter().map(|p| p.copy()).collect::<Vec<_>>()).await?;
        for part in &old {
            self.withdraw_route(&mut tx, tenant, part).await?;
            self.replace(&mut tx, part).await?;
        }
        let sql = format!("DELETE FROM \"{}\".route_segments WHERE request_id = $1 AND state = 'draft'", self.schema());
        tx.execute(&sql, &[&request]).await.map_err(failed())?;
        let new = Part {
            id: Uuid::now_v7(),
            n: parts.iter().map(|p| p.n).max().unwrap_or(0) + 1,
            butler: butler.to_owned(),
            prompt,
            context: only.and_then(|_| old.first().and_then(|p| p.context.clone())),
            state: "open".to_owned(),
            chosen_by: "operator".to_owned(),
        };
        self.add(&mut tx, tenant, request, &new).await?;
        self.reopen(&mut tx, request, true).await?;
        self.note(&mut tx, tenant, request, "reroute", operator, json!({"butler": butler, "part": only})).await?;
        tx.commit().await.map_err(failed())?;
        drop(lease);
        self.begin_again(&held);
        let rule = Some(rule(&held, butler));
        Ok(Reopened { request_id: request, butlers: vec![new.butler], taken_before, rule })
    }

    pub(super) async fn hold(
        &self,
        tx: &mut Tx<'_>,
        tenant: &TenantId,
        request: Uuid,
    ) -> Result<Held, OperatorActionError> {
        let sql = format!(
            "SELECT state, claim_id IS NOT NULL, classified_at IS NOT NULL, body, channel, sender, thread, lane, tier, seq
             FROM \"{}\".message_inbox WHERE tenant_id = $1 AND request_id = $2 FOR UPDATE",
            self.schema()
        );
        let row = tx.query_opt(&sql, &[&tenant.as_str(), &request]).await.map_err(failed())?;
        let row = row.ok_or(OperatorActionError::Unknown(request))?;
        Ok(Held {
            state: row.get(0),
            claimed: row.get(1),
            classified: row.get(2),
            body: row.get(3),
            channel: row.get(4),
            sender: row.get(5),
            thread: row.get(6),
            item: Item {
                request: RequestId(request),
                tenant: tenant.clone(),
                lane: Lane(row.get(7)),
                tier: Tier::from_number(row.get(8)),
                seq: row.get(9),
            },
        })
    }

    pub(super) async fn parts_of(&self, tx: &mut Tx<'_>, request: Uuid) -> Result<Vec<Part>, StoreError> {
        let sql = format!(
            "SELECT id, n, butler, prompt, context, state, chosen_by FROM \"{}\".route_segments
             WHERE request_id = $1 ORDER BY n",
            self.schema()
        );
        let part = |r: &Row| Part {
            id: r.get(0),
            n: r.get(1),
            butler: r.get(2),
            prompt: r.get(3),
            context: r.get(4),
            state: r.get(5),
            chosen_by: r.get(6),
        };
        Ok(tx.query(&sql, &[&request]).await.map_err(failed())?.iter().map(part).collect())
    }

    /// The part makes room for another. What became of it stays on record.
    async fn replace(&self, tx: &mut Tx<'_>, part: &Part) -> Result<(), StoreError> {
        let sql = format!(
            "UPDATE \"{}\".route_segments SET state = 'rerouted', settled_at = coalesce(settled_at, $2) WHERE id = $1",
            self.schema()
        );
        tx.execute(&sql, &[&part.id, &self.clock().now()]).await.map(drop).map_err(failed())
    }

    async fn add(&self, tx: &mut Tx<'_>, tenant: &TenantId, request: Uuid, part: &Part) -> Result<(), StoreError> {
        let sql = format!(
            "INSERT INTO \"{}\".route_segments (tenant_id, id, request_id, n, butler, prompt, context, chosen_by, state)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'open')",
            self.schema()
        );
        let Part { id, n, butler, prompt, context, chosen_by, .. } = part;
        tx.execute(&sql, &[&tenant.as_str(), id, &request, n, butler, prompt, context, chosen_by])
            .await
            .map(drop)
            .map_err(failed())
    }

    async fn reopen(&self, tx: &mut Tx<'_>, request: Uuid, classified: bool) -> Result<(), StoreError> {
        let sql = format!(
            "UPDATE \"{}\".message_inbox
             SET state = 'accepted', attempts = 0, available_at = clock_timestamp(), settled_at = NULL, last_error = NULL,
                 claim_id = NULL, claimed_by = NULL, lease_until = NULL,
                 classified_at = CASE WHEN $2 THEN coalesce(classified_at, $3) END
             WHERE request_id = $1",
            self.schema()
        );
        tx.execute(&sql, &[&request, &classified, &self.clock().now()]).await.map(drop).map_err(failed())
    }

    /// The schemas of these parts' butlers.
    async fn homes(&self, tx: &mut Tx<'_>, parts: &[Part]) -> Result<BTreeMap<String, String>, StoreError> {
        let names: Vec<&str> = parts.iter().map(|p| p.butler.as_str()).collect();
        let sql = "SELECT butler, schema FROM shared.butler_roles WHERE butler = ANY($1)";
        let rows = tx.query(sql, &[&names]).await.map_err(failed())?;
        Ok(rows.iter().map(|r| (r.get(0), r.get(1))).collect())
    }

    /// What the sessions of these parts did that may have changed something.
    async fn steps(&self, tx: &mut Tx<'_>, tenant: &TenantId, parts: &[Part]) -> Result<Vec<String>, StoreError> {
        let ids: Vec<Uuid> = parts.iter().map(|p| p.id).collect();
        let mut steps = Vec::new();
        for (butler, schema) in self.homes(tx, parts).await? {
            let sql = format!(
                "SELECT c.tool FROM \"{schema}\".tool_calls c JOIN \"{schema}\".sessions s ON s.id = c.session_id
                 WHERE s.tenant_id = $1 AND s.route_id = ANY($2) AND c.effect <> 'none' AND c.outcome <> 'refused'
                 ORDER BY c.called_at, c.id"
            );
            let rows = tx.query(&sql, &[&tenant.as_str(), &ids]).await.map_err(failed())?;
            steps.extend(rows.iter().map(|r| format!("{butler}: {}", r.get::<_, String>(0))));
        }
        Ok(steps)
    }

    /// Takes back what its butler has not begun; what it works on is not taken out of its hands.
    pub(super) async fn withdraw_route(
        &self,
        tx: &mut Tx<'_>,
        tenant: &TenantId,
        part: &Part,
    ) -> Result<(), OperatorActionError> {
        let Some(schema) = self.homes(tx, &[part.copy()]).await?.remove(&part.butler) else { return Ok(()) };
        let sql = format!("SELECT state, session_id FROM \"{schema}\".route_inbox WHERE tenant_id = $1 AND id = $2");
        let row = tx.query_opt(&sql, &[&tenant.as_str(), &part.id]).await.map_err(failed())?;
        let Some(row) = row else { return Ok(()) };
        if ["done", "dead"].contains(&row.get::<_, &str>(0)) {
            return Ok(());
        }
        // Whoever settles it holds its row and waits for the message's, which is held here: not to be waited for.
        let sql = format!(
            "UPDATE \"{schema}\".route_inbox SET state = 'dead', settled_at = $2, last_error = 'rerouted'
             WHERE id = (SELECT id FROM \"{schema}\".route_inbox WHERE id = $1 AND state = 'accepted'
                         FOR UPDATE SKIP LOCKED)"
        );
        if tx.execute(&sql, &[&part.id, &self.clock().now()]).await.map_err(failed())? > 0 {
            return Ok(());
        }
        let butler = &part.butler;
        let session = row.get::<_, Option<Uuid>>(1).map(|id| format!(": butlerd sessions cancel {id}"));
        Err(OperatorActionError::NotNow(format!(
            "{butler} is working on it just now; wait for its end, or end its session first{}",
            session.unwrap_or_default()
        )))
    }

    /// The row says that it waits; this only makes it quick.
    fn begin_again(&self, held: &Held) {
        if ["done", "dead"].contains(&held.state.as_str()) {
            self.inner.open.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(up) = self.up() {
            // Handed on, its lane is taken until its end, which is not near any more.
            if held.state == "processing" {
                up.lanes.leave(&held.item, false);
            }
            up.lanes.offer(held.item.clone());
            up.lanes.starved.notify_one();
        }
    }
}

impl Part {
    fn copy(&self) -> Self {
        Self {
            id: self.id,
            n: self.n,
            butler: self.butler.clone(),
            prompt: self.prompt.clone(),
            context: self.context.clone(),
            state: self.state.clone(),
            chosen_by: self.chosen_by.clone(),
        }
    }
}

/// The command that makes a rule of it: a letter is known by who sent it, a chat by where it goes on.
fn rule(held: &Held, butler: &str) -> String {
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
        let held = |channel: &str, sender: &str, thread: Option<&str>| Held {
            item: Item {
                request: RequestId::new(),
                tenant: TenantId::owner(),
                lane: Lane(String::new()),
                tier: Tier::Default,
                seq: 1,
            },
            state: "done".into(),
            claimed: false,
            classified: true,
            body: "b".into(),
            channel: channel.into(),
            sender: sender.into(),
            thread: thread.map(str::to_owned),
        };
        let letter = held("email", "Bank <Mail@Bank.example>", Some("<id@x>"));
        assert_eq!(rule(&letter, "finance"), "butlerd rules add sender_address mail@bank.example route_to finance");
        let chat = held("telegram", "1", Some("it's; rm"));
        assert_eq!(rule(&chat, "travel"), "butlerd rules add chat_id 'it'\\''s; rm' route_to travel");
    }
}
