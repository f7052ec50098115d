//! Session rows: written before the child exists, closed by exactly one outcome.

use jiff::Timestamp;
use rust_decimal::Decimal;
use uuid::Uuid;

use super::adapters::Usage;
use super::budget::{Bill, Meter};
use super::child::Identity;
use super::memory::Recalled;
use super::types::{SessionState, Trigger};
use base::redact::household;
use base::{RequestContext, SessionId};
use store::{Database, Store, StoreError};

/// The session log of one butler.
#[derive(Clone)]
pub struct SessionLog {
    store: Store,
    /// Who runs what is opened here.
    node: String,
}

/// A session that was left open.
#[derive(Debug)]
pub struct Interrupted {
    pub session: SessionId,
    pub child: Option<Identity>,
    /// By the last run of this daemon: its child may still be there.
    pub own: bool,
}

/// How a session ended, for its row.
#[derive(Clone, Debug)]
pub struct Ending {
    pub state: SessionState,
    pub result: Option<String>,
    pub error_class: Option<String>,
    pub error: Option<String>,
    pub turns: Option<i32>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    pub cache_creation_tokens: Option<i64>,
    /// Of a run: what its program computed, until [`Ending::settle`].
    pub cost_usd: Option<Decimal>,
    /// [`Bill::by_model`]
    pub usage_by_model: Option<serde_json::Value>,
    pub exit_status: Option<String>,
    /// Calls of tools in the program's output, its own ones included; not in the row.
    pub tools_seen: u32,
}

impl Ending {
    /// An end without a result.
    pub fn failed(state: SessionState, class: &str, error: impl Into<String>) -> Self {
        Self {
            state,
            result: None,
            error_class: Some(class.to_owned()),
            error: Some(error.into()),
            turns: None,
            input_tokens: None,
            output_tokens: None,
            cached_input_tokens: None,
            cache_creation_tokens: None,
            cost_usd: None,
            usage_by_model: None,
            exit_status: None,
            tools_seen: 0,
        }
    }

    /// Without secrets of the household's.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        for text in [&mut self.result, &mut self.error, &mut self.exit_status].into_iter().flatten() {
            *text = household().clean(std::mem::take(text));
        }
        self
    }

    /// Puts in what the meter counted; closes the meter.
    pub fn settle(&mut self, meter: &Meter) {
        let told = |n: Option<i64>| n.and_then(|n| u64::try_from(n).ok());
        let bill = meter.close(
            Usage {
                input: told(self.input_tokens),
                output: told(self.output_tokens),
                cache_read: told(self.cached_input_tokens),
                cache_write: told(self.cache_creation_tokens),
            },
            self.cost_usd,
        );
        let row = Tokens::of(&bill);
        (self.input_tokens, self.output_tokens) = (row.input, row.output);
        (self.cached_input_tokens, self.cache_creation_tokens) = (row.cache_read, row.cache_write);
        self.turns = row.turns.or(self.turns);
        self.cost_usd = bill.cost_usd;
        self.usage_by_model = bill.by_model;
    }
}

/// A bill in the row's own types.
struct Tokens {
    input: Option<i64>,
    output: Option<i64>,
    cache_read: Option<i64>,
    cache_write: Option<i64>,
    turns: Option<i32>,
}

impl Tokens {
    fn of(bill: &Bill) -> Self {
        let count = |n: Option<u64>| n.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        let Usage { input, output, cache_read, cache_write } = bill.usage;
        Self {
            input: count(input),
            output: count(output),
            cache_read: count(cache_read),
            cache_write: count(cache_write),
            turns: bill.turns.map(|n| i32::try_from(n).unwrap_or(i32::MAX)),
        }
    }
}

/// What the row tells once it is closed.
pub struct Closed {
    pub duration_ms: i64,
    pub tool_calls: i64,
}

impl SessionLog {
    pub fn new(store: Store, node: &str) -> Self {
        Self { store, node: node.to_owned() }
    }

    /// Writes the row of a new session.
    pub async fn open(
        &self,
        id: SessionId,
        trigger: &Trigger,
        runtime: &str,
        model: Option<&str>,
        retry_of: Option<SessionId>,
        remember: bool,
    ) -> Result<(), StoreError> {
        let ctx: &RequestContext = &trigger.request;
        let context = serde_json::json!({"request": ctx, "context": trigger.context});
        let mut lease = self.store.lease(ctx).await?;
        lease
            .execute(
                "INSERT INTO sessions (id, request_id, parent_session_id, trigger_source, state, context, trust, prompt,
                                       runtime, model, trace_id, queued_at, retry_of, route_id, run_id, node,
                                       remember)
                 VALUES ($1, $2, $3, $4, 'queued', $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
                         CASE WHEN $16 THEN 'pending' END)",
                &[
                    &id.0,
                    &ctx.request_id.0,
                    &ctx.lineage.parent_session_id.map(|s| s.0),
                    &trigger.source,
                    &context,
                    &ctx.trust.as_str(),
                    &base::text::clean(&trigger.prompt),
                    &runtime,
                    &model,
                    &ctx.trace_context.trace_id(),
                    &self.store.clock().now(),
                    &retry_of.map(|s| s.0),
                    &trigger.options.route,
                    &trigger.options.run,
                    &self.node,
                    &remember,
                ],
            )
            .await
            .map_err(StoreError::query("writing a session's row"))?;
        Ok(())
    }

    /// Puts into the row of a running session what it has used so far.
    pub async fn spent(&self, ctx: &RequestContext, id: SessionId, bill: &Bill) -> Result<(), StoreError> {
        let row = Tokens::of(bill);
        let mut lease = self.store.lease(ctx).await?;
        lease
            .execute(
                "UPDATE sessions SET input_tokens = $2, output_tokens = $3, cached_input_tokens = $4,
                        cache_creation_tokens = $5, turns = coalesce($6, turns), cost_usd = $7, usage_by_model = $8
                 WHERE id = $1 AND state IN ('queued', 'running')",
                &[
                    &id.0,
                    &row.input,
                    &row.output,
                    &row.cache_read,
                    &row.cache_write,
                    &row.turns,
                    &bill.cost_usd,
                    &bill.by_model,
                ],
            )
            .await
            .map_err(StoreError::query("putting into a session's row what it has used"))?;
        Ok(())
    }

    /// The session gets its slot: from now on it runs. What memory tells it counts as shown to it.
    pub async fn running(
        &self,
        ctx: &RequestContext,
        id: SessionId,
        system_prompt: &str,
        told: &Recalled,
    ) -> Result<(), StoreError> {
        let mut lease = self.store.lease(ctx).await?;
        lease
            .execute(
                "UPDATE sessions SET state = 'running', started_at = $2::timestamptz, system_prompt = $3, memory = $4,
                        trust = $5, exposed_at = CASE WHEN trust <> $5 THEN $2 END,
                        private_at = CASE WHEN $6 THEN $2 ELSE private_at END
                 WHERE id = $1 AND state = 'queued'",
                &[
                    &id.0,
                    &self.store.clock().now(),
                    &system_prompt,
                    &told.row,
                    &ctx.trust.min(told.seen).as_str(),
                    &told.block.is_some(),
                ],
            )
            .await
            .map_err(StoreError::query("marking a session as running"))?;
        Ok(())
    }

    /// Remembers the child, so that the next start finds it should this one die.
    pub async fn child(&self, ctx: &RequestContext, id: SessionId, child: &Identity) -> Result<(), StoreError> {
        let started = i64::try_from(child.started).unwrap_or(i64::MAX);
        let mut lease = self.store.lease(ctx).await?;
        lease
            .execute(
                "UPDATE sessions SET pid = $2, pid_started = $3, boot_id = $4 WHERE id = $1",
                &[&id.0, &child.pid, &started, &child.boot_id],
            )
            .await
            .map_err(StoreError::query("remembering a session's process"))?;
        Ok(())
    }

    /// How many tool calls of the session are on record.
    pub async fn tool_calls(&self, ctx: &RequestContext, id: SessionId) -> Result<i64, StoreError> {
        let mut lease = self.store.lease(ctx).await?;
        let rows = lease.read("SELECT count(*) FROM tool_calls WHERE session_id = $1", &[&id.0]).await;
        let rows = rows.map_err(StoreError::query("counting a session's tool calls"))?;
        Ok(rows.first().map_or(0, |r| r.get(0)))
    }

    /// Closes the row. A row that is closed already stays as it is, and `None` is returned. What is on record as used
    /// stays where the ending knows nothing of it.
    pub async fn close(&self, ctx: &RequestContext, id: SessionId, end: &Ending) -> Result<Option<Closed>, StoreError> {
        let mut lease = self.store.lease(ctx).await?;
        let row = lease
            .query_opt(
                "UPDATE sessions SET state = $2, result = $3, error_class = $4, error = $5, turns = coalesce($6, turns),
                        input_tokens = coalesce($7, input_tokens), output_tokens = coalesce($8, output_tokens),
                        cached_input_tokens = coalesce($9, cached_input_tokens),
                        cache_creation_tokens = coalesce($10, cache_creation_tokens),
                        cost_usd = CASE WHEN $14::jsonb IS NULL THEN coalesce($11, cost_usd) ELSE $11 END,
                        usage_by_model = coalesce($14, usage_by_model), exit_status = $12, completed_at = greatest($13, queued_at),
                        duration_ms = greatest(0, (extract(epoch FROM $13::timestamptz - queued_at) * 1000)::bigint)
                 WHERE id = $1 AND state IN ('queued', 'running')
                 RETURNING duration_ms, (SELECT count(*) FROM tool_calls c WHERE c.session_id = sessions.id)",
                &[
                    &id.0,
                    &end.state.as_str(),
                    &end.result.as_deref().map(base::text::clean),
                    &end.error_class,
                    &end.error.as_deref().map(base::text::clean),
                    &end.turns,
                    &end.input_tokens,
                    &end.output_tokens,
                    &end.cached_input_tokens,
                    &end.cache_creation_tokens,
                    &end.cost_usd,
                    &end.exit_status,
                    &self.store.clock().now(),
                    &end.usage_by_model,
                ],
            )
            .await
            .map_err(StoreError::query("closing a session's row"))?;
        Ok(row.map(|r| Closed { duration_ms: r.get(0), tool_calls: r.get(1) }))
    }

    /// Closes what daemons that are not there any more left open, and with `own` what the last run of this one did, of
    /// every tenant; returns it with its children. What another daemon on this database runs is left alone.
    pub async fn interrupt_open(&self, db: &Database, own: bool) -> Result<Vec<Interrupted>, StoreError> {
        let now: Timestamp = self.store.clock().now();
        let sql = format!(
            "UPDATE \"{}\".sessions SET state = 'interrupted', completed_at = greatest($1, queued_at),
                    error_class = 'interrupted', error = 'butlerd stopped before this session was over'
             WHERE state IN ('queued', 'running')
               AND CASE WHEN coalesce(node, $2) = $2 THEN $3 ELSE node NOT IN (SELECT name FROM shared.nodes) END
             RETURNING id, pid, pid_started, boot_id, node = $2",
            self.store.schema()
        );
        let mut lease = db.every_tenant().await?;
        let rows = lease
            .query(&sql, &[&now, &self.node, &own])
            .await
            .map_err(StoreError::query("closing interrupted sessions"))?;
        Ok(rows
            .into_iter()
            .map(|r| {
                let known = r.get::<_, Option<i32>>(1).zip(r.get::<_, Option<i64>>(2));
                let child = known.and_then(|(pid, started)| {
                    Some(Identity { pid, started: u64::try_from(started).ok()?, boot_id: r.get(3) })
                });
                let own = r.get::<_, Option<bool>>(4).unwrap_or_default();
                Interrupted { session: SessionId(r.get::<_, Uuid>(0)), child, own }
            })
            .collect())
    }
}
