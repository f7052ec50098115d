//! One call: its arguments, its caller, its butler's data, and the audit row it must leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio_postgres::Row;
use tokio_util::sync::CancellationToken;

use super::audit::{CallRecord, Outcome};
use super::definition::{Definition, Effect};
use super::sql::record::{INSERT_WITH_EFFECT, objects};
use access::Caller;
use base::{ButlerName, Fault, Label, RequestContext, Seen, SessionId, text};
use store::{Lease, Params, Store, StoreError};

/// The code of [`ToolError::for_trusted_sessions`].
pub(super) const UNTRUSTED: &str = "untrusted_session";
/// What is said where the database keeps a row from others' words ([`StoreError::is_untrusted`]).
pub const UNTRUSTED_CHANGE: &str = "Not done: what the owner or the house wrote is not changed on the word of others, \
                                    who have influenced this call. The owner can make the change.";

/// How a call can fail.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The trade says no: a normal result that the model can act on.
    #[error("{message}")]
    Refused { code: &'static str, message: String },
    /// What a person decides on first, and why, as a tool sees only once it has looked: the call of a session that others may
    /// have influenced waits for the owner. Nothing was changed.
    #[error("{0}")]
    NeedsApproval(&'static str),
    /// The database is away or refused the statement.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A bug or a broken set-up.
    #[error("{0}")]
    Internal(String),
    /// The session has used what it may and is being ended.
    #[error("{0}")]
    Ended(String),
    /// The client went away before the end.
    #[error("the call was cancelled")]
    Cancelled,
}

impl ToolError {
    /// A refusal with a stable code and a sentence.
    pub fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self::Refused { code, message: message.into() }
    }

    /// What a session that others influenced may not do, whatever rows there are: the refusal shows nothing.
    pub fn for_trusted_sessions(message: impl Into<String>) -> Self {
        Self::refused(UNTRUSTED, message)
    }

    /// How the audit row names this end.
    pub fn outcome(&self) -> Outcome {
        match self {
            ToolError::Refused { .. } | ToolError::NeedsApproval(_) | ToolError::Ended(_) => Outcome::Refused,
            ToolError::Cancelled => Outcome::Cancelled,
            ToolError::Store(_) | ToolError::Internal(_) => Outcome::Error,
        }
    }

    /// Whether the machine below failed, and the call can be made again without doing anything twice.
    pub(super) fn may_be_waited_out(&self, effect: Effect) -> bool {
        match self {
            ToolError::Store(e) => e.fault().is_some() && !Self::may_have_changed(e, effect),
            _ => false,
        }
    }

    /// Whether the database may have made the change of a call whose answer is this.
    fn may_have_changed(e: &StoreError, effect: Effect) -> bool {
        e.is_connection() && effect != Effect::None && !e.before_any_change()
    }

    /// What the client sees: a status, a sentence and a code. Inner workings stay in the log.
    ///
    /// `effect`: what the call may have changed, for the case that the database went away in its middle. `committed`: its
    /// effect is there all the same.
    pub fn to_json(&self, effect: Effect, committed: bool) -> Value {
        let (code, message) = match self {
            ToolError::Store(_) | ToolError::Internal(_) if committed => (
                "done_but_unreadable",
                "It was done, but its result can't be shown. Don't do it again; read what is there now.".to_owned(),
            ),
            ToolError::Refused { code, message } => (*code, message.clone()),
            ToolError::NeedsApproval(why) => ("needs_approval", (*why).to_owned()),
            ToolError::Ended(why) => ("session_ended", format!("Not done: {why}.")),
            ToolError::Store(e) if Self::may_have_changed(e, effect) => (
                "outcome_unknown",
                "The database went away during the call. Look whether it was done before you try again.".to_owned(),
            ),
            ToolError::Store(e) if e.is_connection() => {
                ("unavailable", "The database can't be reached just now. Nothing was changed; try again later.".into())
            }
            ToolError::Store(e) if e.fault().is_some() => {
                let what = match e.fault() {
                    Some(Fault::Disk) => "The household's storage is full or can't be written",
                    Some(Fault::Memory) => "The database is out of memory",
                    _ => "The database's machine has run out of something that it needs",
                };
                ("unavailable", format!("{what}. Nothing was changed; try again later, or ask the owner to look."))
            }
            ToolError::Store(e) if e.is_untrusted() => ("untrusted", UNTRUSTED_CHANGE.to_owned()),
            ToolError::Store(_) | ToolError::Internal(_) => {
                ("internal", "The tool failed. Nothing was changed; the daemon's log says why.".to_owned())
            }
            ToolError::Cancelled => ("cancelled", "The call was cancelled.".to_owned()),
        };
        json!({"status": "error", "error": message, "code": code})
    }
}

/// A validated call on its way through a handler. Clones are the same call.
#[derive(Clone)]
pub struct ToolCall {
    pub args: Arc<Map<String, Value>>,
    pub caller: Caller,
    pub butler: ButlerName,
    pub store: Store,
    pub def: Arc<Definition>,
    /// Set when the client goes away.
    pub cancelled: CancellationToken,
    pub(super) started: Instant,
    pub(super) called_at: Timestamp,
    pub(super) audited: Arc<AtomicBool>,
    pub(super) redacted: Arc<Value>,
    /// How far the rows are believed that were read for it.
    pub(super) seen: Arc<Seen>,
}

/// What of a call's audit row is made for it, kept alive while a statement borrows it.
struct AuditRow<'a> {
    call: &'a ToolCall,
    session: Option<uuid::Uuid>,
    request: uuid::Uuid,
    caller: &'a str,
    effect: &'static str,
    elapsed_us: i64,
}

impl AuditRow<'_> {
    fn params(&self) -> [&(dyn tokio_postgres::types::ToSql + Sync); 8] {
        let call = self.call;
        [
            &self.session,
            &self.request,
            &self.caller,
            &call.def.name,
            &*call.redacted,
            &self.effect,
            &call.called_at,
            &self.elapsed_us,
        ]
    }
}

impl ToolCall {
    /// Who asks, and on whose behalf.
    pub fn context(&self) -> &RequestContext {
        &self.caller.context
    }

    /// The session whose child calls.
    pub fn session(&self) -> Option<SessionId> {
        self.caller.session()
    }

    /// The arguments as a type. They were checked against the schema, so a mismatch is the tool's own bug.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        serde_json::from_value(Value::Object((*self.args).clone()))
            .map_err(|e| ToolError::Internal(format!("{}: schema and handler disagree: {e}", self.def.name)))
    }

    /// A string argument.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.args.get(name).and_then(Value::as_str)
    }

    /// Notes that the call's result shows something with this label, which did not come out of the butler's own rows.
    pub fn shows(&self, label: &Label) {
        self.seen.observe(label);
    }

    /// A connection for what this call does, whose rows get the label of `context`. The right that an approval gives goes
    /// with the call alone, and not with its context, which sessions and other butlers are handed.
    async fn lease_under(&self, context: &RequestContext) -> Result<Lease, StoreError> {
        match self.caller.approval() {
            Some(_) => self.store.lease_approved(context).await,
            None => self.store.lease(context).await,
        }
    }

    /// A connection that speaks for the caller's tenant. What it reads counts as shown to the caller.
    pub async fn lease(&self) -> Result<Lease, ToolError> {
        Ok(self.lease_under(self.context()).await?.telling(&self.seen))
    }

    /// As [`ToolCall::lease`], for writing what the call was shown before: its rows carry the label of all that on.
    pub async fn lease_of_shown(&self) -> Result<Lease, ToolError> {
        let context = self.context().clone().joined(&self.seen.label());
        Ok(self.lease_under(&context).await?.telling(&self.seen))
    }

    /// Reads rows.
    pub async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, ToolError> {
        Ok(self.lease().await?.read(sql, params).await.map_err(StoreError::query("reading"))?)
    }

    /// Reads rows as objects, a timestamp with its offset.
    pub async fn objects(&self, sql: &str, params: Params<'_>) -> Result<Vec<Value>, ToolError> {
        let rows = self.query(&objects(sql), params).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// A moment among the arguments: with an offset, or as the owner's clock shows it.
    pub fn moment(&self, name: &str) -> Result<Option<Timestamp>, ToolError> {
        let Some(given) = self.text(name).map(str::trim) else { return Ok(None) };
        if let Ok(at) = given.parse::<Timestamp>() {
            return Ok(Some(at));
        }
        let local = given.parse::<jiff::civil::DateTime>().ok();
        let at = local.and_then(|local| local.to_zoned(self.store.time_zone().clone()).ok());
        at.map(|zoned| Some(zoned.timestamp())).ok_or_else(|| {
            let why = format!("{name} is not a time: {given}. Write it as 2026-11-24T09:00, or with an offset.");
            ToolError::refused("no_time", why)
        })
    }

    /// The moments `since` and `until` among the arguments, in this order.
    pub fn span(&self) -> Result<(Option<Timestamp>, Option<Timestamp>), ToolError> {
        let (since, until) = (self.moment("since")?, self.moment("until")?);
        if let (Some(from), Some(to)) = (since, until)
            && from >= to
        {
            return Err(ToolError::refused("no_span", "until must be after since."));
        }
        if since.is_some_and(|from| from > self.store.clock().now()) {
            return Err(ToolError::refused("no_span", "since lies in the future; nothing can have happened yet."));
        }
        Ok((since, until))
    }

    fn audit_row(&self) -> AuditRow<'_> {
        AuditRow {
            call: self,
            session: self.session().map(|s| s.0),
            request: self.context().request_id.0,
            caller: self.caller.label(),
            effect: self.def.effect().as_str(),
            elapsed_us: elapsed_us(self.started),
        }
    }

    /// Runs one statement and writes the audit row in the same transaction, in one round trip.
    pub async fn effect(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, ToolError> {
        let mut lease = self.lease().await?;
        let rows = self.effect_on(&mut lease, sql, params).await.map_err(StoreError::query("writing"))?;
        Ok(rows)
    }

    /// As [`ToolCall::effect`], for rows that hold something with this label which the call itself is not shown: they carry
    /// it on, and the call's own label stays.
    pub async fn effect_holding(&self, held: &Label, sql: &str, params: Params<'_>) -> Result<Vec<Row>, ToolError> {
        let mut lease = self.lease_under(&self.context().clone().joined(held)).await?;
        let rows = self.effect_on(&mut lease, sql, params).await.map_err(StoreError::query("writing"))?;
        Ok(rows)
    }

    /// As [`ToolCall::effect`], on a connection the caller holds.
    pub async fn effect_on(
        &self,
        lease: &mut Lease,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let rows = lease.query_with((sql, params), (INSERT_WITH_EFFECT, &self.audit_row().params())).await?;
        self.audited.store(true, Ordering::Release);
        Ok(rows)
    }

    /// A transaction for an effect of several statements. Its commit writes the audit row.
    pub async fn begin<'l>(&self, lease: &'l mut Lease) -> Result<EffectTx<'_, 'l>, ToolError> {
        let tx = lease.begin().await.map_err(StoreError::query("beginning"))?;
        Ok(EffectTx { tx, call: self })
    }

    /// The row of a call that left none in a transaction of its own.
    pub(super) fn record(&self, outcome: Outcome, detail: Option<String>) -> CallRecord {
        CallRecord {
            session_id: self.session(),
            request_id: self.context().request_id,
            tenant: self.context().tenant_id.clone(),
            caller: self.caller.label().to_owned(),
            tool: self.def.clone(),
            arguments: self.redacted.clone(),
            outcome,
            detail,
            called_at: self.called_at,
            duration_us: elapsed_us(self.started),
        }
    }
}

fn elapsed_us(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_micros()).unwrap_or(i64::MAX)
}

/// Most bytes of arguments that an audit row keeps.
const MAX_ARGUMENTS: usize = 16 * 1024;

/// The arguments as they may be stored: sensitive ones hidden, big ones cut.
pub(super) fn redact(def: &Definition, args: &Map<String, Value>) -> Value {
    let mut shown = args.clone();
    shown.values_mut().for_each(text::strip_nul);
    for name in &def.meta.sensitive {
        if let Some(value) = shown.get_mut(name) {
            *value = json!("[redacted]");
        }
    }
    if text::json_length(&shown) > MAX_ARGUMENTS {
        for value in shown.values_mut().filter(|v| text::json_length(v) > 512) {
            *value = json!(text::truncate(&value.to_string(), 256));
        }
    }
    Value::Object(shown)
}

/// An open transaction of a call with an effect.
pub struct EffectTx<'c, 'l> {
    tx: store::Tx<'l>,
    call: &'c ToolCall,
}

impl EffectTx<'_, '_> {
    pub async fn query(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, ToolError> {
        Ok(self.tx.query(sql, params).await.map_err(StoreError::query("writing"))?)
    }

    pub async fn query_opt(&mut self, sql: &str, params: Params<'_>) -> Result<Option<Row>, ToolError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Writes the audit row and makes everything durable.
    pub async fn commit(mut self) -> Result<(), ToolError> {
        let recorded = self.tx.execute(INSERT_WITH_EFFECT, &self.call.audit_row().params()).await;
        recorded.map_err(StoreError::query("recording the call"))?;
        self.tx.commit().await.map_err(StoreError::query("committing"))?;
        self.call.audited.store(true, Ordering::Release);
        Ok(())
    }

    /// Undoes it; the call is then recorded as what it answers.
    pub async fn rollback(self) -> Result<(), ToolError> {
        Ok(self.tx.rollback().await.map_err(StoreError::query("rolling back"))?)
    }
}

/// Whether a call of this effect may be dropped while it runs.
pub(super) fn may_be_dropped(effect: Effect) -> bool {
    effect == Effect::None
}
