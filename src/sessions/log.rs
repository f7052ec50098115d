//! Session rows: written before the child exists, closed by exactly one outcome.

use std::sync::LazyLock;

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::budget::{Bill, Meter};
use super::memory::Recalled;
use super::prompt::SystemPrompt;
use super::shown::Shown;
use super::sql::{self, ClosedRow, OpenRow};
use super::types::{SessionState, Trigger};
use base::redact::household;
use base::{RequestContext, SessionId};
use llm_api::Usage;
use process::Identity;
use store::{AsRows, Database, Params, Store, StoreError};
use tools::sql::calls;
use tools::{Reason, ShownTool};

/// So many of the newest sessions are looked through for the last one of a conversation.
const LOOKED_THROUGH: i64 = 500;

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
#[derive(Clone, Debug, Default)]
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
    /// Its model was shown pictures and may have failed of them; not in the row.
    pub of_pictures: bool,
}

impl Ending {
    /// An end without a result.
    pub fn failed(state: SessionState, class: &str, error: impl Into<String>) -> Self {
        Self { state, error_class: Some(class.to_owned()), error: Some(error.into()), ..Self::default() }
    }

    /// An end without a result before anything was started, so that no model was used.
    pub fn unstarted(state: SessionState, class: &str, error: impl Into<String>) -> Self {
        Self { cost_usd: Some(Decimal::ZERO), ..Self::failed(state, class, error) }
    }

    /// The tokens of all kinds together, as budgets count them; `None`: nobody knows how many there were.
    pub fn all_tokens(&self) -> Option<u64> {
        let kinds = [self.cached_input_tokens.unwrap_or(0), self.cache_creation_tokens.unwrap_or(0)];
        let all = kinds.into_iter().fold(self.input_tokens?.saturating_add(self.output_tokens?), i64::saturating_add);
        u64::try_from(all).ok()
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

static CLOSE: LazyLock<String> = LazyLock::new(|| sql::CLOSE.replace("{count}", calls::COUNT));

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
        let params: Params<'_> = &[
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
        ];
        self.write(ctx, sql::OPEN, params, "writing a session's row").await
    }

    /// Puts into the row of a running session what it has used so far.
    pub async fn spent(&self, ctx: &RequestContext, id: SessionId, bill: &Bill) -> Result<(), StoreError> {
        let row = Tokens::of(bill);
        let params: Params<'_> = &[
            &id.0,
            &row.input,
            &row.output,
            &row.cache_read,
            &row.cache_write,
            &row.turns,
            &bill.cost_usd,
            &bill.by_model,
        ];
        self.write(ctx, sql::SPENT, params, "putting into a session's row what it has used").await
    }

    /// The session gets its slot: from now on it runs. What memory tells it counts as shown to it. `tool_tokens`: what the
    /// schemas of its tools cost, about.
    pub async fn running(
        &self,
        ctx: &RequestContext,
        id: SessionId,
        system_prompt: &SystemPrompt,
        told: &Recalled,
        tool_tokens: u32,
    ) -> Result<(), StoreError> {
        let SystemPrompt { before, notes, after, memory } = system_prompt;
        let label = ctx.label().join(&told.label());
        let (seal, around) = (self.store.seal(), [before, after].map(String::as_str));
        let params: Params<'_> = &[
            &id.0,
            &self.store.clock().now(),
            memory,
            &told.row,
            &label.trust.as_str(),
            &label.audience.names(),
            &around.as_slice(),
            seal.expose(),
            notes,
            &i32::try_from(tool_tokens).unwrap_or(i32::MAX),
        ];
        self.write(ctx, sql::RUNNING, params, "marking a session as running").await
    }

    /// Writes the label of what a session was shown by now.
    pub async fn note_label(&self, ctx: &RequestContext, id: SessionId, label: &base::Label) -> Result<(), StoreError> {
        let params: Params<'_> = &[&id.0, &label.trust.as_str(), &label.audience.names()];
        self.write(ctx, sql::STATEMENTS.note_taint, params, "writing what a session was shown").await
    }

    /// Remembers the child, so that the next start finds it should this one die.
    pub async fn child(&self, ctx: &RequestContext, id: SessionId, child: &Identity) -> Result<(), StoreError> {
        let started = i64::try_from(child.started).unwrap_or(i64::MAX);
        let params: Params<'_> = &[&id.0, &child.pid, &started, &child.boot_id];
        self.write(ctx, sql::CHILD, params, "remembering a session's process").await
    }

    /// Changes a session's row in the name of its request. `step`: what is done, for the error.
    async fn write(
        &self,
        ctx: &RequestContext,
        sql: &str,
        params: Params<'_>,
        step: &'static str,
    ) -> Result<(), StoreError> {
        let written = self.store.lease(ctx).await?.execute(sql, params).await;
        written.map(drop).map_err(StoreError::query(step))
    }

    /// Which tools the last session of this request's conversation was told of, where those were chosen.
    pub async fn shown_before(&self, ctx: &RequestContext) -> Result<Option<Shown>, StoreError> {
        let mut lease = self.store.lease(ctx).await?;
        let params: Params<'_> = &[
            &ctx.source_channel,
            &ctx.source_endpoint_identity,
            &ctx.source_sender_identity,
            &ctx.source_thread_identity,
            &LOOKED_THROUGH,
        ];
        let asked = lease.read(sql::SHOWN_BEFORE, params).await;
        let rows = asked.map_err(StoreError::query("reading which tools a conversation had"))?;
        // One of another version may be of another shape.
        let shown =
            |row: &Row| serde_json::from_value::<Vec<ShownTool>>(row.get::<_, Value>("body")["shown"].take()).ok();
        let chosen = rows.first().and_then(shown).filter(|shown| shown.iter().all(|tool| tool.reason != Reason::All));
        Ok(chosen.map(|shown| shown.into_iter().map(|tool| (tool.name, tool.detail)).collect()))
    }

    /// How many tool calls of the session are on record.
    pub async fn tool_calls(&self, ctx: &RequestContext, id: SessionId) -> Result<i64, StoreError> {
        calls::count(&mut self.store.lease(ctx).await?, id.0).await
    }

    /// Closes the row. A row that is closed already stays as it is, and `None` is returned. What is on record as used
    /// stays where the ending knows nothing of it.
    pub async fn close(
        &self,
        ctx: &RequestContext,
        id: SessionId,
        end: &Ending,
    ) -> Result<Option<ClosedRow>, StoreError> {
        let mut lease = self.store.lease(ctx).await?;
        let params: Params<'_> = &[
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
        ];
        let closed = lease.query_opt(&CLOSE, params).await;
        closed.first_typed().map_err(StoreError::query("closing a session's row"))
    }

    /// Closes what daemons that are not there any more left open, and with `own` what the last run of this one did, of
    /// every tenant; returns it with its children. What another daemon on this database runs is left alone, but for what
    /// works on `claimed`, a route or run whose claim this one holds.
    pub async fn interrupt_open(
        &self,
        db: &Database,
        own: bool,
        claimed: Option<Uuid>,
    ) -> Result<Vec<Interrupted>, StoreError> {
        let now: Timestamp = self.store.clock().now();
        let sql = sql::INTERRUPT.replace("{schema}", self.store.schema()).replace("{nodes}", store::NODES);
        let mut lease = db.every_tenant().await?;
        let rows = lease
            .query(&sql, &[&now, &self.node, &own, &claimed])
            .await
            .map_err(StoreError::query("closing interrupted sessions"))?;
        let interrupted = |row: OpenRow| {
            let child = row.pid.zip(row.pid_started).and_then(|(pid, started)| {
                Some(Identity { pid, started: u64::try_from(started).ok()?, boot_id: row.boot_id })
            });
            Interrupted { session: SessionId(row.id), child, own: row.own.unwrap_or_default() }
        };
        Ok(rows.iter().map(OpenRow::from).map(interrupted).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_from_a_cache_counts_as_well() {
        let mut end = Ending::failed(SessionState::Failed, "crashed", "");
        (end.input_tokens, end.output_tokens) = (Some(100), Some(20));
        assert_eq!(end.all_tokens(), Some(120));
        (end.cached_input_tokens, end.cache_creation_tokens) = (Some(900), Some(7));
        assert_eq!(end.all_tokens(), Some(1027));
        end.output_tokens = None;
        assert_eq!(end.all_tokens(), None, "nobody knows");
    }
}
