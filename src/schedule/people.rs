//! What people are shown of schedules, and how one is named on a command line.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::actor::Scheduler;
use super::show::show;
use super::sql::{self, TaskRow, marks, open_runs, runs_of, source_of_sessions, traced, with_last_runs};
use base::{IdBeginning, TenantId};
use store::StoreError;

/// Runs that a trace is shown with.
const TRACED: i64 = 200;
/// Marks of one schedule in a calendar, of each kind.
const MARKS: usize = 100;

impl Scheduler {
    /// The tenant's schedules with their last runs; those named by an id, its beginning, or a name, if one is given.
    pub async fn listed(&self, tenant: &TenantId, key: Option<&str>) -> Result<Vec<Value>, StoreError> {
        let mut lease = self.worker().store.tenant(tenant).await?;
        let butler = self.worker().butler.as_str();
        let shown = with_last_runs(&mut lease, &self.worker().pieces, key).await?.into_iter().map(|(task, last)| {
            let mut shown = show(&task);
            shown["butler"] = json!(butler);
            shown["last"] = json!(last);
            shown
        });
        Ok(shown.collect())
    }

    /// The tenant's schedules with their `runs` from one moment to another and the `coming` times until then, of each at
    /// most 100.
    pub async fn calendar(&self, tenant: &TenantId, from: Timestamp, to: Timestamp) -> Result<Vec<Value>, StoreError> {
        let worker = self.worker();
        let mut lease = worker.store.tenant(tenant).await?;
        let all = with_last_runs(&mut lease, &worker.pieces, None).await?;
        let mut runs: BTreeMap<Uuid, Vec<Value>> = BTreeMap::new();
        for run in marks(&mut lease, (from, to), MARKS as i64).await? {
            runs.entry(run.task_id).or_default().push(json!(run));
        }
        drop(lease);
        let rows = all.into_iter().map(|(task, last)| {
            let mut shown = show(&task);
            shown["butler"] = json!(worker.butler.as_str());
            shown["last"] = json!(last);
            shown["runs"] = json!(runs.remove(&task.id).unwrap_or_default());
            shown["coming"] = json!(self.coming(&task, to));
            shown
        });
        Ok(rows.collect())
    }

    /// When a schedule is due from its next time on, until a moment. None where it is paused or off.
    fn coming(&self, task: &TaskRow, to: Timestamp) -> Vec<Timestamp> {
        let next = task.next_run_at.filter(|_| task.enabled && task.paused_at.is_none());
        let times = task.timing().times(self.worker().limits.min_interval.0).ok();
        let following = |at: &Timestamp| times.as_ref().and_then(|times| times.next(*at));
        std::iter::successors(next, following).take_while(|at| *at < to).take(MARKS).collect()
    }

    /// The tenant's runs at work and those that wait.
    pub async fn open(&self, tenant: &TenantId) -> Result<Vec<Value>, StoreError> {
        let mut lease = self.worker().store.tenant(tenant).await?;
        let butler = self.worker().butler.as_str();
        let open = open_runs(&mut lease, &self.worker().pieces).await?.into_iter().map(|(name, id, row)| {
            let mut shown = json!(row);
            (shown["butler"], shown["schedule"], shown["task_id"]) = (json!(butler), json!(name), json!(id));
            shown
        });
        Ok(open.collect())
    }

    /// The newest runs of a schedule, the newest first; those that came before the run `before`, if it is named.
    pub async fn history(
        &self,
        tenant: &TenantId,
        id: Uuid,
        before: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Value>, StoreError> {
        let mut lease = self.worker().store.tenant(tenant).await?;
        Ok(runs_of(&mut lease, &self.worker().pieces, id, before, limit).await?.iter().map(|run| json!(run)).collect())
    }

    /// The ids of schedules that begin so.
    pub async fn ids(&self, tenant: &TenantId, beginning: &IdBeginning, most: i64) -> Result<Vec<Uuid>, StoreError> {
        let rows = self.worker().store.tenant(tenant).await?.beginning(sql::IDS, tenant, beginning, most).await?;
        Ok(rows.iter().map(|row| row.get("id")).collect())
    }

    /// What starts the sessions of a schedule, as their rows have it. `None`: this butler and tenant have no such
    /// schedule.
    pub async fn source_of_sessions(&self, tenant: &TenantId, id: Uuid) -> Result<Option<String>, StoreError> {
        source_of_sessions(&mut self.worker().store.tenant(tenant).await?, id).await
    }

    /// The runs of the schedule `id` and of these sessions, in the order of their times; the newest, if there are many.
    pub async fn traced(&self, tenant: &TenantId, id: Uuid, sessions: &[Uuid]) -> Result<Vec<Value>, StoreError> {
        let mut lease = self.worker().store.tenant(tenant).await?;
        Ok(traced(&mut lease, id, sessions, TRACED).await?.iter().rev().map(|run| json!(run)).collect())
    }
}
