//! Rows of calls that had no transaction of their own: gathered, and written within 50 ms.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use super::definition::Definition;
use crate::base::{RequestId, SessionId, TenantId, task, text};
use crate::store::{Store, StoreError};

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Ok,
    Refused,
    Error,
    Cancelled,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Refused => "refused",
            Outcome::Error => "error",
            Outcome::Cancelled => "cancelled",
        }
    }
}

/// One audit row that is still to be written.
pub struct CallRecord {
    pub session_id: Option<SessionId>,
    pub request_id: RequestId,
    pub tenant: TenantId,
    pub caller: String,
    pub tool: Arc<Definition>,
    /// Redacted.
    pub arguments: Arc<Value>,
    pub outcome: Outcome,
    pub detail: Option<String>,
    pub called_at: Timestamp,
    pub duration_us: i64,
}

/// Rows wait at most this long.
const DELAY: Duration = Duration::from_millis(40);
/// Rows that could not be written are tried again after this long.
const AGAIN: Duration = Duration::from_secs(1);
/// Rows kept while the database is away; what comes after is counted and lost, and the log says so.
const MOST: usize = 20_000;

#[derive(Default)]
struct Pending {
    rows: Vec<CallRecord>,
    waiters: Vec<oneshot::Sender<()>>,
    lost: u64,
}

/// Writes one butler's audit rows. Cheap to clone; its task ends with the last clone.
#[derive(Clone)]
pub struct Auditor {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    pending: Mutex<Pending>,
    wake: Notify,
}

impl Auditor {
    /// An auditor over this butler's store.
    pub fn start(store: Store) -> Self {
        let shared = Arc::new(Shared { store, pending: Mutex::default(), wake: Notify::new() });
        let weak = Arc::downgrade(&shared);
        task::spawn(task::Kind::Actor, "auditor", async move {
            loop {
                let Some(shared) = weak.upgrade() else { return };
                // A strong reference is held while waiting only for as long as it takes to look again for others.
                let patience = if shared.lock().rows.is_empty() { Duration::from_secs(5) } else { AGAIN };
                let _ = tokio::time::timeout(patience, shared.wake.notified()).await;
                shared.write_pending().await;
            }
        });
        Self { shared }
    }

    /// Hands over a row; it is durable within 50 ms, or when [`Auditor::flush`] returns.
    pub fn record(&self, row: CallRecord) {
        let mut pending = self.shared.lock();
        if pending.rows.len() >= MOST {
            pending.lost += 1;
            return;
        }
        pending.rows.push(row);
        let first = pending.rows.len() == 1;
        drop(pending);
        // The others are gathered with the first.
        if first {
            self.shared.wake.notify_one();
        }
    }

    /// Waits until every row recorded so far was tried to be written.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        {
            let mut pending = self.shared.lock();
            if pending.rows.is_empty() && pending.waiters.is_empty() {
                return;
            }
            pending.waiters.push(done);
        }
        self.shared.wake.notify_one();
        // The sender only goes away with the daemon itself.
        let _ = wait.await;
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let left = self.lock().rows.len();
        if left > 0 {
            tracing::error!(left, schema = self.store.schema(), "audit rows were not written before the end");
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(|e| e.into_inner())
    }

    async fn write_pending(&self) {
        let hurry = !self.lock().waiters.is_empty();
        if !hurry && !self.lock().rows.is_empty() {
            // Gather what comes meanwhile into one statement, unless somebody starts to wait.
            let gathering = tokio::time::sleep(DELAY);
            tokio::pin!(gathering);
            loop {
                tokio::select! {
                    () = &mut gathering => break,
                    () = self.wake.notified() => if !self.lock().waiters.is_empty() { break },
                }
            }
        }
        let (rows, waiters, lost) = {
            let mut pending = self.lock();
            (std::mem::take(&mut pending.rows), std::mem::take(&mut pending.waiters), std::mem::take(&mut pending.lost))
        };
        if lost > 0 {
            tracing::error!(lost, schema = self.store.schema(), "audit rows were lost: the database was away too long");
        }
        for (tenant, rows) in by_tenant(rows) {
            if let Err(e) = self.insert(&tenant, &rows).await {
                if !e.is_connection() {
                    self.one_by_one(&tenant, &rows).await;
                    continue;
                }
                tracing::warn!(error = %e, rows = rows.len(), "audit rows could not be written, trying again");
                let mut pending = self.lock();
                let room = MOST.saturating_sub(pending.rows.len());
                pending.lost += rows.len().saturating_sub(room) as u64;
                pending.rows.extend(rows.into_iter().take(room));
            }
        }
        for waiter in waiters {
            let _ = waiter.send(());
        }
    }

    /// One row that can't be stored must not keep the others out.
    async fn one_by_one(&self, tenant: &TenantId, rows: &[CallRecord]) {
        for row in rows {
            if let Err(e) = self.insert(tenant, std::slice::from_ref(row)).await {
                tracing::error!(tool = row.tool.name, error = %e, "an audit row can't be stored");
            }
        }
    }

    async fn insert(&self, tenant: &TenantId, rows: &[CallRecord]) -> Result<(), StoreError> {
        let sessions: Vec<Option<uuid::Uuid>> = rows.iter().map(|r| r.session_id.map(|s| s.0)).collect();
        let requests: Vec<uuid::Uuid> = rows.iter().map(|r| r.request_id.0).collect();
        let callers: Vec<&str> = rows.iter().map(|r| r.caller.as_str()).collect();
        let tools: Vec<&str> = rows.iter().map(|r| r.tool.name.as_str()).collect();
        let arguments: Vec<&Value> = rows.iter().map(|r| &*r.arguments).collect();
        let outcomes: Vec<&str> = rows.iter().map(|r| r.outcome.as_str()).collect();
        let details: Vec<Option<String>> = rows.iter().map(|r| r.detail.as_deref().map(text::clean)).collect();
        let effects: Vec<&str> = rows.iter().map(|r| r.tool.effect().as_str()).collect();
        let times: Vec<Timestamp> = rows.iter().map(|r| r.called_at).collect();
        let durations: Vec<i64> = rows.iter().map(|r| r.duration_us).collect();
        let mut lease = self.store.tenant(tenant).await?;
        lease
            .execute(
                "INSERT INTO tool_calls
                     (session_id, request_id, caller, tool, arguments, outcome, detail, effect, called_at, duration_us)
                 SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::jsonb[], $6::text[],
                                      $7::text[], $8::text[], $9::timestamptz[], $10::bigint[])",
                &[
                    &sessions, &requests, &callers, &tools, &arguments, &outcomes, &details, &effects, &times,
                    &durations,
                ],
            )
            .await
            .map_err(StoreError::query("recording tool calls"))?;
        Ok(())
    }
}

fn by_tenant(rows: Vec<CallRecord>) -> Vec<(TenantId, Vec<CallRecord>)> {
    let mut groups: Vec<(TenantId, Vec<CallRecord>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(t, _)| *t == row.tenant) {
            Some((_, list)) => list.push(row),
            None => groups.push((row.tenant.clone(), vec![row])),
        }
    }
    groups
}
