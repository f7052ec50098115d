//! The rows behind the door: parking a call, deciding on it, reading what is there.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::rules::{Rule, RuleError, allowing};
use super::types::{Action, ActionRecipient, Cause, Event, NewAction, Source, Status, args_sha256, shown};
use base::text::visible::visible_line;
use base::{Clock, IdBeginning, TenantId, crash, text};
use conversation::written_to;
use store::{Database, StoreError, Tx};
use tools::{EgressRecipient, EgressTarget};

/// All wishes of the household. Cheap to clone.
#[derive(Clone)]
pub struct Actions {
    pub(super) db: Arc<Database>,
    pub(super) clock: Clock,
}

/// Why a decision did not count.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    #[error("there is no action {0}")]
    Unknown(Uuid),
    #[error("it is {0} already")]
    Decided(&'static str),
    #[error("what it would do is not what you saw; look at it again")]
    Changed,
    #[error(
        "part {missing} of {of} of what it would do was not shown to you; see all of it first: butlerd approvals show {id}"
    )]
    Unseen { id: Uuid, missing: String, of: i32 },
    #[error(transparent)]
    Rule(#[from] RuleError),
    #[error("`{0}` is not gated, so no rule is asked about its calls; see [modules.approvals.gated_tools]")]
    NotGated(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DecideError {
    /// A stable name for clients.
    pub fn code(&self) -> &'static str {
        match self {
            DecideError::Unknown(_) => "not_found",
            DecideError::Decided(_) => "already_decided",
            DecideError::Changed => "changed",
            DecideError::Unseen { .. } => "not_shown",
            DecideError::Rule(_) => "invalid_rule",
            DecideError::NotGated(_) => "not_gated",
            DecideError::Store(_) => "unavailable",
        }
    }
}

impl From<DecideError> for tools::ToolError {
    fn from(e: DecideError) -> Self {
        match e {
            DecideError::Store(e) => e.into(),
            e => tools::ToolError::refused(e.code(), format!("Not done: {e}.")),
        }
    }
}

/// Which wishes to list. Nothing set: all of them.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub butler: Option<String>,
    pub status: Option<Status>,
    pub tool_name: Option<String>,
    pub rule: Option<Uuid>,
    pub since: Option<Timestamp>,
}

pub(super) fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("looking after approvals")
}

/// Arguments that a summary shows, in characters: all of them stand on the pages.
const SUMMARY: usize = 300;

/// What a call would do, on one line, for lists.
fn summary(butler: &str, new_action: &NewAction<'_>, shown: &Value) -> String {
    let to = new_action.to.map(|to| format!(" to {}", visible_line(&to.to))).unwrap_or_default();
    let args = visible_line(&shown.to_string());
    let cut = args.char_indices().nth(SUMMARY).map_or("", |_| "…");
    let args: String = args.chars().take(SUMMARY).collect();
    format!("{butler} wants to call `{}`{to} with {args}{cut}", new_action.tool)
}

impl Actions {
    pub fn new(db: &Arc<Database>, clock: &Clock) -> Self {
        Self { db: db.clone(), clock: clock.clone() }
    }

    /// Puts a call on record to wait; the same wish of the same session waits once, and so does that of another try at
    /// the same work after a session that was killed: a person is not asked twice. Returns it, and whether it is new.
    pub(super) async fn park(
        &self,
        butler: &str,
        schema: &str,
        new_action: &NewAction<'_>,
    ) -> Result<(Action, bool), StoreError> {
        let tenant = &new_action.request.tenant_id;
        let exact = new_action.args.to_string();
        let hash = args_sha256(butler, new_action.tool, &exact);
        let visible = shown(new_action.args, new_action.sensitive);
        let now = self.clock.now();
        let expires = now + SignedDuration::from_hours(i64::from(new_action.expiry_hours));
        let exposure = json!({"trust": new_action.request.trust, "audience": new_action.request.audience});
        let mut lease = self.db.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        if let Some(action) = asked_before(&mut tx, (tenant, butler, schema), new_action.session, &hash).await? {
            tx.rollback().await.map_err(failed())?;
            return Ok((action, false));
        }
        let recipient = match new_action.to {
            Some(to) => Some(json!(recipient(&mut tx, tenant, to).await?)),
            None => None,
        };
        // What one message asks for is decided on together.
        let together = new_action.cause == Cause::Influenced;
        let proposal = together.then_some(new_action.request.lineage.root_request_id.0);
        let sql = format!(
            "INSERT INTO shared.pending_actions (id, tenant_id, butler, session_id, tool_name, tool_args, args_sha256,
                 args_shown, agent_summary, why, cause, exposure, request, risk_tier, expires_at, requested_at, trust,
                 recipient, sources, proposal)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
             ON CONFLICT (session_id, args_sha256) WHERE status = 'pending' DO NOTHING RETURNING {}",
            Action::COLUMNS
        );
        let row = tx
            .query_opt(
                &sql,
                &[
                    &Uuid::now_v7(),
                    &tenant.as_str(),
                    &butler,
                    &new_action.session,
                    &new_action.tool,
                    &exact,
                    &hash,
                    &visible,
                    &summary(butler, new_action, &visible),
                    &new_action.why,
                    &new_action.cause.as_str(),
                    &exposure,
                    &json!(new_action.request),
                    &new_action.risk_tier.as_str(),
                    &expires,
                    &now,
                    &new_action.request.trust.as_str(),
                    &recipient,
                    &json!([Source::of(new_action.request)]),
                    &proposal,
                ],
            )
            .await
            .map_err(failed())?;
        let Some(row) = row else {
            let sql = format!(
                "SELECT {} FROM shared.pending_actions WHERE session_id = $1 AND args_sha256 = $2 ORDER BY seq DESC LIMIT 1",
                Action::COLUMNS
            );
            let row = tx.query_opt(&sql, &[&new_action.session, &hash]).await.map_err(failed())?;
            tx.rollback().await.map_err(failed())?;
            let gone = || StoreError::Unreachable("the action was decided just now".to_owned());
            return Ok((Action::of_row(&row.ok_or_else(gone)?), false));
        };
        let action = Action::of_row(&row);
        note(&mut tx, tenant, Some(action.id), None, "requested", butler, new_action.why, meta(new_action)).await?;
        crash::point("approval.parking");
        tx.commit().await.map_err(failed())?;
        crash::point("approval.parked");
        Ok((action, true))
    }

    /// Uses up one allowance of a rule that allows the call. `None`: no rule does.
    pub(super) async fn by_rule(
        &self,
        butler: &str,
        new_action: &NewAction<'_>,
        args: &Map<String, Value>,
    ) -> Result<Option<Uuid>, StoreError> {
        let tenant = &new_action.request.tenant_id;
        let rules = self.rules(tenant, Some(butler), Some(new_action.tool), true).await?;
        let mut lease = self.db.shared(tenant).await?;
        let (trust, sources) = (new_action.request.trust, [Source::of(new_action.request)]);
        for Rule { id, .. } in allowing(&rules, args, (trust, &sources), self.clock.now()) {
            let mut tx = lease.begin().await.map_err(failed())?;
            // Asked again in the row itself: its last use may have been taken meanwhile.
            let used = tx
                .execute(
                    "UPDATE shared.approval_rules SET use_count = use_count + 1
                     WHERE id = $1 AND tenant_id = $3 AND active AND (expires_at IS NULL OR expires_at > $2)
                       AND (max_uses IS NULL OR use_count < max_uses)",
                    &[id, &self.clock.now(), &tenant.as_str()],
                )
                .await
                .map_err(failed())?;
            if used == 1 {
                note(&mut tx, tenant, None, Some(*id), "auto_approved", butler, new_action.why, meta(new_action))
                    .await?;
                tx.commit().await.map_err(failed())?;
                return Ok(Some(*id));
            }
            tx.rollback().await.map_err(failed())?;
        }
        Ok(None)
    }

    /// Ends what nobody decided in time. Returns how many there were.
    pub async fn expire(&self, butler: &str) -> Result<usize, StoreError> {
        let mut lease = self.db.every_tenant().await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let rows = tx
            .query(
                "UPDATE shared.pending_actions SET status = 'expired'
                 WHERE butler = $1 AND status = 'pending' AND expires_at <= $2 RETURNING id, tenant_id",
                &[&butler, &self.clock.now()],
            )
            .await
            .map_err(failed())?;
        for row in &rows {
            let Ok(tenant) = TenantId::new(row.get::<_, &str>(1)) else { continue };
            note(&mut tx, &tenant, Some(row.get(0)), None, "expired", "butlerd", None, json!({})).await?;
        }
        tx.commit().await.map_err(failed())?;
        Ok(rows.len())
    }

    /// How many wait, of this butler.
    pub async fn waiting(&self, tenant: &TenantId, butler: &str) -> Result<i64, StoreError> {
        let sql = "SELECT count(*) FROM shared.pending_actions
                   WHERE tenant_id = $1 AND butler = $2 AND status = 'pending' AND expires_at > $3";
        let mut lease = self.db.shared(tenant).await?;
        let rows = lease.read(sql, &[&tenant.as_str(), &butler, &self.clock.now()]).await.map_err(failed())?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }

    /// The ids of calls and of proposals that begin so, each with its butler.
    pub async fn ids(
        &self,
        tenant: &TenantId,
        beginning: &IdBeginning,
        most: i64,
    ) -> Result<Vec<(Uuid, String)>, StoreError> {
        let (first, last) = beginning.range();
        let sql = "SELECT id, butler FROM shared.pending_actions WHERE tenant_id = $1 AND id BETWEEN $2 AND $3
                   UNION SELECT proposal, butler FROM shared.pending_actions
                         WHERE tenant_id = $1 AND proposal BETWEEN $2 AND $3
                   ORDER BY 1 LIMIT $4";
        let mut lease = self.db.shared(tenant).await?;
        let rows = lease.read(sql, &[&tenant.as_str(), &first, &last, &most]).await.map_err(failed())?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// One wish.
    pub async fn get(&self, tenant: &TenantId, id: Uuid) -> Result<Option<Action>, StoreError> {
        let sql = format!("SELECT {} FROM shared.pending_actions WHERE id = $1 AND tenant_id = $2", Action::COLUMNS);
        let mut lease = self.db.shared(tenant).await?;
        let rows = lease.read(&sql, &[&id, &tenant.as_str()]).await.map_err(failed())?;
        Ok(rows.first().map(Action::of_row))
    }

    /// Whether a call of one of these sessions waits or waited.
    pub async fn any_of(&self, tenant: &TenantId, sessions: &[Uuid]) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM shared.pending_actions WHERE tenant_id = $1 AND session_id = ANY($2) LIMIT 1";
        let mut lease = self.db.shared(tenant).await?;
        Ok(!lease.read(sql, &[&tenant.as_str(), &sessions]).await.map_err(failed())?.is_empty())
    }

    /// Wishes, newest first.
    pub async fn list(&self, tenant: &TenantId, filter: &Filter, limit: i64) -> Result<Vec<Action>, StoreError> {
        let sql = format!(
            "SELECT {} FROM shared.pending_actions
             WHERE tenant_id = $1 AND ($2::text IS NULL OR butler = $2) AND ($3::text IS NULL OR status = $3)
               AND ($4::text IS NULL OR tool_name = $4) AND ($5::uuid IS NULL OR approval_rule_id = $5)
               AND ($6::timestamptz IS NULL OR requested_at >= $6)
             ORDER BY seq DESC LIMIT $7",
            Action::COLUMNS
        );
        let status = filter.status.map(Status::as_str);
        let Filter { butler, tool_name, rule, since, .. } = filter;
        let mut lease = self.db.shared(tenant).await?;
        let rows = lease
            .read(&sql, &[&tenant.as_str(), butler, &status, tool_name, rule, since, &limit])
            .await
            .map_err(failed())?;
        Ok(rows.iter().map(Action::of_row).collect())
    }

    /// What happened to a wish, in order.
    pub async fn events(&self, tenant: &TenantId, action: Uuid) -> Result<Vec<Event>, StoreError> {
        let mut lease = self.db.shared(tenant).await?;
        let rows = lease
            .read(
                "SELECT event_type, actor, reason, event_metadata, occurred_at FROM shared.approval_events
                 WHERE action_id = $1 AND tenant_id = $2 ORDER BY event_id",
                &[&action, &tenant.as_str()],
            )
            .await
            .map_err(failed())?;
        let event = |row: &tokio_postgres::Row| Event {
            event_type: row.get(0),
            actor: row.get(1),
            reason: row.get(2),
            event_metadata: row.get(3),
            occurred_at: row.get(4),
        };
        Ok(rows.iter().map(event).collect())
    }
}

/// The same call of another try at the same work, by a session that was killed.
async fn asked_before(
    tx: &mut Tx<'_>,
    (tenant, butler, schema): (&TenantId, &str, &str),
    session: Uuid,
    hash: &str,
) -> Result<Option<Action>, StoreError> {
    let sql = format!(
        "SELECT {} FROM shared.pending_actions
         WHERE tenant_id = $3 AND butler = $4 AND args_sha256 = $2 AND status IN ('pending', 'approved', 'executed', 'rejected')
           AND session_id IN (SELECT earlier.id FROM \"{schema}\".sessions this JOIN \"{schema}\".sessions earlier
                              ON earlier.route_id = this.route_id OR earlier.run_id = this.run_id
                              WHERE this.id = $1 AND earlier.id <> this.id)
         ORDER BY seq DESC LIMIT 1",
        Action::COLUMNS
    );
    let row = tx.query_opt(&sql, &[&session, &hash, &tenant.as_str(), &butler]).await.map_err(failed())?;
    Ok(row.as_ref().map(Action::of_row))
}

/// To whom a call goes, and whether anything was sent there before.
async fn recipient(tx: &mut Tx<'_>, tenant: &TenantId, to: &EgressTarget) -> Result<ActionRecipient, StoreError> {
    let known = to.recipient.as_ref();
    let written_before = match known {
        Some(EgressRecipient { channel, address, .. }) => Some(written_to(tx, tenant, channel, address).await?),
        None => None,
    };
    Ok(ActionRecipient {
        to: to.to.clone(),
        name: known.and_then(|recipient| recipient.name.clone()),
        channel: known.map(|recipient| recipient.channel.clone()),
        address: known.map(|recipient| recipient.address.clone()),
        written_before,
    })
}

/// Writes down what happened.
#[allow(clippy::too_many_arguments)]
pub(super) async fn note(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    action: Option<Uuid>,
    rule: Option<Uuid>,
    what: &str,
    actor: &str,
    reason: Option<&str>,
    meta: Value,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO shared.approval_events (tenant_id, action_id, rule_id, event_type, actor, reason, event_metadata)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[&tenant.as_str(), &action, &rule, &what, &actor, &reason, &meta],
    )
    .await
    .map(drop)
    .map_err(failed())
}

/// Names of arguments that the log of events keeps no values of: it stays longer than what it tells of.
const UNLOGGED: [&str; 10] =
    ["to", "recipient", "recipients", "email", "address", "url", "uri", "amount", "price", "cost"];

fn meta(new_action: &NewAction<'_>) -> Value {
    let mut args = shown(new_action.args, new_action.sensitive);
    for (name, value) in args.as_object_mut().into_iter().flatten() {
        if UNLOGGED.contains(&name.to_lowercase().as_str()) {
            *value = json!("[not logged]");
        } else if text::json_length(value) > 512 {
            *value = json!(text::truncate(&value.to_string(), 256));
        }
    }
    let cause: Cause = new_action.cause;
    json!({"tool": new_action.tool, "args": args, "cause": cause, "session_id": new_action.session,
           "trust": new_action.request.trust, "audience": new_action.request.audience})
}
