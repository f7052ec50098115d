//! Rows that are only added, gathered and written within 50 ms: of calls that had no transaction of their own, and of
//! what happens in sessions. Both go together, in one transaction.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use strum::IntoStaticStr;
use tokio::sync::{Notify, oneshot};

use super::definition::Definition;
use super::sql::record::INSERT_CALLS;
use base::{RequestId, SessionId, TenantId, task, text};
use store::{Store, StoreError};

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Outcome {
    Ok,
    Refused,
    Error,
    Cancelled,
}

base::named!(Outcome);

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

/// Something that happened in a session, still to be written.
pub struct EventRecord {
    pub session_id: SessionId,
    pub tenant: TenantId,
    /// Counts from 1 in each session.
    pub seq: i32,
    pub at: Timestamp,
    pub kind: &'static str,
    /// Redacted, and of bounded size.
    pub body: Value,
}

/// Rows of one tenant.
#[derive(Default)]
struct Rows {
    calls: Vec<CallRecord>,
    events: Vec<EventRecord>,
}

impl Rows {
    fn len(&self) -> usize {
        self.calls.len() + self.events.len()
    }
}

/// Rows wait at most this long.
const DELAY: Duration = Duration::from_millis(40);
/// Rows that could not be written are tried again after this long.
const AGAIN: Duration = Duration::from_secs(1);
/// Rows kept while the database is away; what comes after is counted and lost, and the log says so.
const MOST: usize = 20_000;

impl Pending {
    fn len(&self) -> usize {
        self.rows.iter().map(|(_, rows)| rows.len()).sum()
    }

    fn of(&mut self, tenant: &TenantId) -> &mut Rows {
        let at = self.rows.iter().position(|(t, _)| t == tenant).unwrap_or_else(|| {
            self.rows.push((tenant.clone(), Rows::default()));
            self.rows.len() - 1
        });
        &mut self.rows[at].1
    }
}

#[derive(Default)]
struct Pending {
    /// By tenant, of which a household has few.
    rows: Vec<(TenantId, Rows)>,
    waiters: Vec<oneshot::Sender<()>>,
    lost: u64,
    /// Rows that were taken out of here are on their way.
    writing: bool,
}

/// Writes one butler's audit rows. Cheap to clone; its task ends with the last clone.
#[derive(Clone)]
pub struct Auditor {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    sessions: SessionStatements,
    pending: Mutex<Pending>,
    wake: Notify,
}

/// The statements on the tables of sessions that calls need. Their owner, a crate above this one, gives them at boot.
#[derive(Clone, Copy, Debug)]
pub struct SessionStatements {
    /// Stores events: arrays of session, number, time, kind and body. A batch that is written again, because the answer to
    /// the first try was lost, does no harm.
    pub insert_events: &'static str,
    /// Notes what a session was shown: its id, the trust, and whether it was private.
    pub note_taint: &'static str,
}

impl Auditor {
    /// An auditor over this butler's store.
    pub fn start(store: Store, sessions: SessionStatements) -> Self {
        let shared = Arc::new(Shared { store, sessions, pending: Mutex::default(), wake: Notify::new() });
        let weak = Arc::downgrade(&shared);
        task::spawn(task::Kind::Actor, "auditor", async move {
            loop {
                let Some(shared) = weak.upgrade() else { return };
                // A strong reference is held while waiting only for as long as it takes to look again for others.
                let patience = if shared.lock().len() == 0 { Duration::from_secs(5) } else { AGAIN };
                let _ = tokio::time::timeout(patience, shared.wake.notified()).await;
                shared.write_pending().await;
            }
        });
        Self { shared }
    }

    pub(super) fn sessions(&self) -> &SessionStatements {
        &self.shared.sessions
    }

    /// Hands over a call's row; it is durable within 50 ms, or when [`Auditor::flush`] returns.
    pub fn record(&self, row: CallRecord) {
        let tenant = row.tenant.clone();
        self.add(&tenant, |rows| rows.calls.push(row));
    }

    /// As [`Auditor::record`], for an event. A row that is there already, of this session and number, stays as it is.
    pub fn event(&self, row: EventRecord) {
        let tenant = row.tenant.clone();
        self.add(&tenant, |rows| rows.events.push(row));
    }

    fn add(&self, tenant: &TenantId, add: impl FnOnce(&mut Rows)) {
        let mut pending = self.shared.lock();
        if pending.len() >= MOST {
            pending.lost += 1;
            return;
        }
        add(pending.of(tenant));
        let first = pending.len() == 1;
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
            if pending.len() == 0 && pending.waiters.is_empty() && !pending.writing {
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
        let left = self.lock().len();
        if left > 0 {
            tracing::error!(
                left,
                schema = self.store.schema(),
                "rows of calls and events were not written before the end"
            );
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(|e| e.into_inner())
    }

    async fn write_pending(&self) {
        let hurry = !self.lock().waiters.is_empty();
        if !hurry && self.lock().len() > 0 {
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
            pending.writing = true;
            (std::mem::take(&mut pending.rows), std::mem::take(&mut pending.waiters), std::mem::take(&mut pending.lost))
        };
        if lost > 0 {
            tracing::error!(
                lost,
                schema = self.store.schema(),
                "rows were lost: the database was unreachable for too long"
            );
        }
        for (tenant, rows) in rows.into_iter().filter(|(_, rows)| rows.len() > 0) {
            if let Err(e) = self.insert(&tenant, &rows.calls, &rows.events).await {
                if e.fault().is_none() {
                    self.one_by_one(&tenant, &rows).await;
                    continue;
                }
                tracing::warn!(error = %e, rows = rows.len(), "rows could not be written; trying again");
                self.keep(&tenant, rows);
            }
        }
        // Who began to wait meanwhile is answered in the next round, when what comes now is written too.
        self.lock().writing = false;
        for waiter in waiters {
            let _ = waiter.send(());
        }
    }

    /// Puts rows back, before what came meanwhile.
    fn keep(&self, tenant: &TenantId, mut rows: Rows) {
        let mut pending = self.lock();
        let room = MOST.saturating_sub(pending.len());
        pending.lost += rows.len().saturating_sub(room) as u64;
        rows.calls.truncate(room);
        rows.events.truncate(room - rows.calls.len());
        let newer = std::mem::replace(pending.of(tenant), rows);
        let kept = pending.of(tenant);
        kept.calls.extend(newer.calls);
        kept.events.extend(newer.events);
    }

    /// One row that can't be stored must not keep the others out.
    async fn one_by_one(&self, tenant: &TenantId, rows: &Rows) {
        for row in &rows.calls {
            if let Err(e) = self.insert(tenant, std::slice::from_ref(row), &[]).await {
                tracing::error!(tool = row.tool.name, error = %e, "an audit row can't be stored");
            }
        }
        for row in &rows.events {
            if let Err(e) = self.insert(tenant, &[], std::slice::from_ref(row)).await {
                tracing::error!(session = %row.session_id, kind = row.kind, error = %e, "an event can't be stored");
            }
        }
    }

    async fn insert(&self, tenant: &TenantId, calls: &[CallRecord], events: &[EventRecord]) -> Result<(), StoreError> {
        let (calls, events) = (CallColumns::of(calls), EventColumns::of(events));
        let mut lease = self.store.tenant(tenant).await?;
        let done = match (calls.sessions.is_empty(), events.sessions.is_empty()) {
            (false, true) => lease.execute(INSERT_CALLS, &calls.params()).await.map(drop),
            (true, false) => lease.execute(self.sessions.insert_events, &events.params()).await.map(drop),
            (false, false) => {
                let (calls, events) = (calls.params(), events.params());
                lease.query_with((INSERT_CALLS, &calls), (self.sessions.insert_events, &events)).await.map(drop)
            }
            (true, true) => Ok(()),
        };
        done.map_err(StoreError::query("recording calls and events"))
    }
}

type Columns<'a, const N: usize> = [&'a (dyn tokio_postgres::types::ToSql + Sync); N];

struct CallColumns<'a> {
    sessions: Vec<Option<uuid::Uuid>>,
    requests: Vec<uuid::Uuid>,
    callers: Vec<&'a str>,
    tools: Vec<&'a str>,
    arguments: Vec<&'a Value>,
    outcomes: Vec<&'static str>,
    details: Vec<Option<String>>,
    effects: Vec<&'static str>,
    times: Vec<Timestamp>,
    durations: Vec<i64>,
}

impl<'a> CallColumns<'a> {
    fn of(rows: &'a [CallRecord]) -> Self {
        Self {
            sessions: rows.iter().map(|r| r.session_id.map(|s| s.0)).collect(),
            requests: rows.iter().map(|r| r.request_id.0).collect(),
            callers: rows.iter().map(|r| r.caller.as_str()).collect(),
            tools: rows.iter().map(|r| r.tool.name.as_str()).collect(),
            arguments: rows.iter().map(|r| &*r.arguments).collect(),
            outcomes: rows.iter().map(|r| r.outcome.as_str()).collect(),
            details: rows.iter().map(|r| r.detail.as_deref().map(text::clean)).collect(),
            effects: rows.iter().map(|r| r.tool.effect().as_str()).collect(),
            times: rows.iter().map(|r| r.called_at).collect(),
            durations: rows.iter().map(|r| r.duration_us).collect(),
        }
    }

    fn params(&self) -> Columns<'_, 10> {
        [
            &self.sessions,
            &self.requests,
            &self.callers,
            &self.tools,
            &self.arguments,
            &self.outcomes,
            &self.details,
            &self.effects,
            &self.times,
            &self.durations,
        ]
    }
}

struct EventColumns<'a> {
    sessions: Vec<uuid::Uuid>,
    numbers: Vec<i32>,
    times: Vec<Timestamp>,
    kinds: Vec<&'static str>,
    bodies: Vec<&'a Value>,
}

impl<'a> EventColumns<'a> {
    fn of(rows: &'a [EventRecord]) -> Self {
        Self {
            sessions: rows.iter().map(|r| r.session_id.0).collect(),
            numbers: rows.iter().map(|r| r.seq).collect(),
            times: rows.iter().map(|r| r.at).collect(),
            kinds: rows.iter().map(|r| r.kind).collect(),
            bodies: rows.iter().map(|r| &r.body).collect(),
        }
    }

    fn params(&self) -> Columns<'_, 5> {
        [&self.sessions, &self.numbers, &self.times, &self.kinds, &self.bodies]
    }
}
