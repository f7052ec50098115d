//! Schedules declared in `butler.toml`, by modules, and by the house become rows at boot; rows made by a tool are left alone.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use uuid::Uuid;

use super::due::WINDOW_S;
use super::jobs::{BuiltInSchedule, BuiltInTimes, of_every_butler};
use super::sql::{TaskRow, store_declared, stored, switch_off_others};
use super::times::stagger;
use super::timing::TimingError;
use base::{TenantId, Trust};
use config::{DispatchMode, Missed, Moment, Overlap, ScheduleEntry, SchedulesConfig};
use store::{Database, Store, StoreError};

/// Why schedules could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("schedule `{name}`: {source}")]
    Times {
        name: String,
        #[source]
        source: TimingError,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn of_entry(entry: &ScheduleEntry, owner_zone: &str) -> TaskRow {
    let timezone = entry.timezone.as_ref().map_or(owner_zone, |z| z.name()).to_owned();
    let zone = TimeZone::get(&timezone).unwrap_or(TimeZone::UTC);
    let moment = |m: Option<Moment>| m.and_then(|m| m.in_zone(&zone));
    TaskRow {
        name: entry.name.clone(),
        source: "toml".to_owned(),
        cron: entry.cron.clone(),
        every_ms: entry.every.map(|e| i64::try_from(e.0.as_millis()).unwrap_or(i64::MAX)),
        run_at: moment(entry.at),
        start_at: moment(entry.start_at),
        until_at: moment(entry.until_at),
        timezone,
        dispatch_mode: entry.dispatch_mode.to_string(),
        prompt: entry.prompt.clone(),
        job_name: entry.job_name.clone(),
        job_args: entry.job_args.clone(),
        priority: i16::from(entry.priority),
        require_idle: entry.require_idle,
        missed: entry.missed.to_string(),
        missed_window_s: i64::try_from(entry.missed_window.0.as_secs()).unwrap_or(i64::MAX),
        overlap: entry.overlap.to_string(),
        enabled: entry.enabled,
        ..TaskRow::default()
    }
}

/// One of a butler's built-in schedules. Upkeep has a time that nobody chose and that differs from butler to butler.
fn of_house(schedule: BuiltInSchedule, butler: &str, owner_zone: &str) -> TaskRow {
    let (cron, every_ms) = match schedule.times {
        BuiltInTimes::Cron(cron) => (Some(cron), None),
        BuiltInTimes::Every(period) => (None, Some(i64::try_from(period.as_millis()).unwrap_or(i64::MAX))),
    };
    let stagger_s = if schedule.listed { 0 } else { stagger(butler, &schedule.name).as_secs() };
    TaskRow {
        source: if schedule.listed { "module" } else { "house" }.to_owned(),
        cron,
        every_ms,
        timezone: owner_zone.to_owned(),
        stagger_s: i32::try_from(stagger_s).unwrap_or(0),
        name: schedule.name,
        dispatch_mode: DispatchMode::Job.to_string(),
        job_name: schedule.job.first().map(|job| (*job).to_owned()),
        priority: i16::from(schedule.priority),
        require_idle: schedule.require_idle,
        missed: Missed::RunOnce.to_string(),
        missed_window_s: WINDOW_S,
        overlap: Overlap::Skip.to_string(),
        enabled: true,
        ..TaskRow::default()
    }
}

/// Everything that is declared. What `butler.toml` has under any of a job's names, it has instead of the house's own.
fn declared(butler: &str, entries: &[ScheduleEntry], house: Vec<BuiltInSchedule>, owner_zone: &str) -> Vec<TaskRow> {
    let jobs: Vec<&str> = entries.iter().filter_map(|e| e.job_name.as_deref()).collect();
    let own = house.into_iter().chain([of_every_butler()]).filter(|s| !jobs.iter().any(|job| s.job.contains(job)));
    let own = own.map(|s| of_house(s, butler, owner_zone));
    entries.iter().map(|e| of_entry(e, owner_zone)).chain(own).collect()
}

/// As its row is to be, after what its row was.
///
/// A kept schedule keeps its next time, so that a due time that passed while butlerd was down is not forgotten. One
/// that was switched off meanwhile has missed nothing.
fn after(
    old: Option<TaskRow>,
    mut task: TaskRow,
    (now, spacing): (Timestamp, Duration),
) -> Result<TaskRow, TimingError> {
    let kept = old.filter(|old| old.timing().same_as(&task.timing()));
    if task.every_ms.is_some() {
        task.anchor_at = kept.as_ref().and_then(|old| old.anchor_at).or(task.start_at).or(Some(now));
    }
    let times = task.timing().times(spacing)?;
    task.next_run_at = match kept {
        Some(old) if old.enabled || old.next_run_at.is_none() => old.next_run_at,
        _ => times.next(now),
    };
    task.enabled = task.enabled && task.next_run_at.is_some();
    Ok(task)
}

/// Makes the rows of the sources `toml`, `module` and `house` match what is declared; what is no longer declared is switched off.
///
/// As the owner role: under the butler's own, a stranger's row that is only looked at would lower what is written here.
pub async fn sync(
    db: &Database,
    store: &Store,
    butler: &str,
    entries: &[ScheduleEntry],
    house: Vec<BuiltInSchedule>,
    owner_zone: &str,
    limits: &SchedulesConfig,
) -> Result<(), SyncError> {
    let (now, schema, tenant) = (store.clock().now(), store.schema(), TenantId::owner());
    let mut lease = db.shared(&tenant).await?;
    let mut names = Vec::new();
    for task in declared(butler, entries, house, owner_zone) {
        let old = stored(&mut lease, schema, tenant.as_str(), &task.name).await?;
        names.push(task.name.clone());
        // Somebody has changed it, or made one of this name: it is theirs.
        if old.as_ref().is_some_and(|old| old.source == "db") {
            continue;
        }
        let name = task.name.clone();
        let task =
            after(old, task, (now, limits.min_interval.0)).map_err(|source| SyncError::Times { name, source })?;
        let (id, trust) = (Uuid::now_v7(), Trust::System.as_str().to_owned());
        let task = TaskRow { id, tenant_id: tenant.to_string(), trust, ..task };
        store_declared(&mut lease, schema, &task).await?;
    }
    Ok(switch_off_others(&mut lease, schema, tenant.as_str(), &names).await?)
}
