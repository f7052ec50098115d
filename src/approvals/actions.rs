//! The rows behind the door: parking a call, deciding on it, reading what is there.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::rules::{Rule, RuleError, allowing};
use super::sql::{self, NewEvent, ParkedRow, failed};
use super::types::{Action, ActionRecipient, Cause, Event, Filter, NewAction, Source, args_sha256, shown};
use base::text::visible::visible_line;
use base::{Clock, IdBeginning, RequestContext, TenantId, crash, text};
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
    /// the same work after a session that was killed: a person is not asked twice. `earlier_tries` is the query of
    /// those sessions. Returns it, and whether it is new.
    pub(super) async fn park(
        &self,
        butler: &str,
        earlier_tries: &str,
        new_action: &NewAction<'_>,
    ) -> Result<(Action, bool), StoreError> {
        let tenant = &new_action.request.tenant_id;
        let exact = new_action.args.to_string();
        let hash = args_sha256(butler, new_action.tool, &exact);
        let visible = shown(new_action.args, new_action.sensitive);
        let now = self.clock.now();
        let expires = now + SignedDuration::from_hours(i64::from(new_action.expiry_hours));
        // What a message proposes is done in the owner's name.
        let relabels = new_action.changes && new_action.cause != Cause::Influenced;
        let RequestContext { trust, audience, .. } = new_action.request;
        let exposure = json!({"trust": trust, "audience": audience, "changes": relabels});
        let mut lease = self.db.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let tries = (new_action.session, earlier_tries);
        if let Some(action) = sql::asked_before(&mut tx, (tenant, butler), tries, &hash).await? {
            tx.rollback().await.map_err(failed())?;
            return Ok((action, false));
        }
        let recipient = match new_action.to {
            Some(to) => Some(json!(recipient(&mut tx, tenant, to).await?)),
            None => None,
        };
        // What one message asks for is decided on together.
        let together = new_action.cause == Cause::Influenced;
        let row = ParkedRow {
            butler,
            session: new_action.session,
            tool: new_action.tool,
            args: &exact,
            args_sha256: &hash,
            args_shown: &visible,
            summary: &summary(butler, new_action, &visible),
            why: new_action.why,
            cause: new_action.cause,
            exposure: &exposure,
            request: &json!(new_action.request),
            risk_tier: new_action.risk_tier,
            expires_at: expires,
            requested_at: now,
            trust: new_action.request.trust,
            recipient: recipient.as_ref(),
            sources: &json!([Source::of(new_action.request)]),
            proposal: together.then_some(new_action.request.lineage.root_request_id.0),
        };
        let Some(action) = sql::park(&mut tx, tenant, &row).await? else {
            let action = sql::latest_like(&mut tx, new_action.session, &hash).await?;
            tx.rollback().await.map_err(failed())?;
            let gone = || StoreError::Unreachable("the action was decided just now".to_owned());
            return Ok((action.ok_or_else(gone)?, false));
        };
        let requested = NewEvent { action: Some(action.id), ..event("requested", butler, new_action) };
        sql::note(&mut tx, tenant, &requested).await?;
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
            if sql::use_up(&mut tx, tenant, *id, self.clock.now()).await? {
                let approved = NewEvent { rule: Some(*id), ..event("auto_approved", butler, new_action) };
                sql::note(&mut tx, tenant, &approved).await?;
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
        let rows = sql::expire(&mut tx, butler, self.clock.now()).await?;
        for row in &rows {
            let Ok(tenant) = TenantId::new(&row.tenant_id) else { continue };
            let expired = NewEvent {
                action: Some(row.id),
                rule: None,
                what: "expired",
                actor: "butlerd",
                reason: None,
                meta: json!({}),
            };
            sql::note(&mut tx, &tenant, &expired).await?;
        }
        tx.commit().await.map_err(failed())?;
        Ok(rows.len())
    }

    /// How many wait, of this butler.
    pub async fn waiting(&self, tenant: &TenantId, butler: &str) -> Result<i64, StoreError> {
        sql::count_waiting(&mut self.db.shared(tenant).await?, tenant, butler, self.clock.now()).await
    }

    /// The ids of calls and of proposals that begin so, each with its butler.
    pub async fn ids(
        &self,
        tenant: &TenantId,
        beginning: &IdBeginning,
        most: i64,
    ) -> Result<Vec<(Uuid, String)>, StoreError> {
        let rows = self.db.shared(tenant).await?.beginning(sql::IDS, tenant, beginning, most).await?;
        Ok(rows.iter().map(|row| (row.get("id"), row.get("butler"))).collect())
    }

    /// One wish.
    pub async fn get(&self, tenant: &TenantId, id: Uuid) -> Result<Option<Action>, StoreError> {
        sql::one(&mut self.db.shared(tenant).await?, tenant, id).await
    }

    /// Whether a call of one of these sessions waits or waited.
    pub async fn any_of(&self, tenant: &TenantId, sessions: &[Uuid]) -> Result<bool, StoreError> {
        sql::any_of(&mut self.db.shared(tenant).await?, tenant, sessions).await
    }

    /// Wishes, newest first.
    pub async fn list(&self, tenant: &TenantId, filter: &Filter, limit: i64) -> Result<Vec<Action>, StoreError> {
        sql::list(&mut self.db.shared(tenant).await?, tenant, filter, limit).await
    }

    /// What happened to a wish, in order.
    pub async fn events(&self, tenant: &TenantId, action: Uuid) -> Result<Vec<Event>, StoreError> {
        sql::events_of(&mut self.db.shared(tenant).await?, tenant, action).await
    }
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

/// What happened to a call or by it, for the log.
fn event<'a>(what: &'a str, butler: &'a str, new_action: &NewAction<'a>) -> NewEvent<'a> {
    NewEvent { action: None, rule: None, what, actor: butler, reason: new_action.why, meta: meta(new_action) }
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
