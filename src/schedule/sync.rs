//! Schedules declared in `butler.toml`, and the house's own, become rows at boot; rows made by a tool are left alone.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use uuid::Uuid;

use super::due::WINDOW_S;
use super::jobs::{BuiltInSchedule, of_every_butler};
use super::times::stagger;
use super::timing::{Timing, TimingError};
use base::{TenantId, Trust};
use config::{DispatchMode, Missed, Moment, Overlap, ScheduleEntry};
use store::{Database, Store, StoreError};

/// A schedule as its row is to be, but for what happened to it.
struct Declared {
    name: String,
    source: &'static str,
    timing: Timing,
    mode: DispatchMode,
    prompt: Option<String>,
    job_name: Option<String>,
    job_args: Option<serde_json::Value>,
    priority: i16,
    require_idle: bool,
    missed: Missed,
    window_s: i64,
    overlap: Overlap,
    enabled: bool,
}

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

fn of_entry(entry: &ScheduleEntry, owner_zone: &str) -> Declared {
    let timezone = entry.timezone.as_ref().map_or(owner_zone, |z| z.name()).to_owned();
    let zone = TimeZone::get(&timezone).unwrap_or(TimeZone::UTC);
    let moment = |m: Option<Moment>| m.and_then(|m| m.in_zone(&zone));
    Declared {
        name: entry.name.clone(),
        source: "toml",
        timing: Timing {
            cron: entry.cron.clone(),
            every_ms: entry.every.map(|e| i64::try_from(e.0.as_millis()).unwrap_or(i64::MAX)),
            anchor_at: None,
            run_at: moment(entry.at),
            start_at: moment(entry.start_at),
            until_at: moment(entry.until_at),
            stagger_s: 0,
            timezone,
        },
        mode: entry.dispatch_mode,
        prompt: entry.prompt.clone(),
        job_name: entry.job_name.clone(),
        job_args: entry.job_args.clone(),
        priority: i16::from(entry.priority),
        require_idle: entry.require_idle,
        missed: entry.missed,
        window_s: i64::try_from(entry.missed_window.0.as_secs()).unwrap_or(i64::MAX),
        overlap: entry.overlap,
        enabled: entry.enabled,
    }
}

/// One of the house's own schedules of a butler, at a time that nobody chose and that differs from butler to butler.
fn of_house(schedule: BuiltInSchedule, butler: &str, owner_zone: &str) -> Declared {
    Declared {
        source: "house",
        timing: Timing {
            cron: Some(schedule.cron),
            every_ms: None,
            anchor_at: None,
            run_at: None,
            timezone: owner_zone.to_owned(),
            start_at: None,
            until_at: None,
            stagger_s: i32::try_from(stagger(butler, &schedule.name).as_secs()).unwrap_or(0),
        },
        name: schedule.name,
        mode: DispatchMode::Job,
        prompt: None,
        job_name: schedule.job.first().map(|job| (*job).to_owned()),
        job_args: None,
        priority: i16::from(schedule.priority),
        require_idle: false,
        missed: Missed::RunOnce,
        window_s: WINDOW_S,
        overlap: Overlap::Skip,
        enabled: true,
    }
}

/// Makes the rows of the sources `toml` and `house` match what is declared; what is no longer declared is switched off.
///
/// As the owner role: under the butler's own, a stranger's row that is only looked at would lower what is written here.
#[allow(clippy::too_many_lines, reason = "one transaction, whose statements share what they find")]
pub async fn sync(
    db: &Database,
    store: &Store,
    butler: &str,
    entries: &[ScheduleEntry],
    house: Vec<BuiltInSchedule>,
    owner_zone: &str,
) -> Result<(), SyncError> {
    let now = store.clock().now();
    let tenant = TenantId::owner();
    let schema = store.schema();
    let mut lease = db.shared(&tenant).await?;
    let mut names = Vec::new();
    let own = house.into_iter().chain([of_every_butler()]);
    // What butler.toml has under any of a job's names, it has instead.
    let own = own.filter(|s| !entries.iter().filter_map(|e| e.job_name.as_deref()).any(|job| s.job.contains(&job)));
    let own = own.map(|s| of_house(s, butler, owner_zone));
    let declared: Vec<Declared> = entries.iter().map(|e| of_entry(e, owner_zone)).chain(own).collect();
    for mut d in declared {
        let old = lease
            .query_opt(
                &format!(
                    "SELECT cron, every_ms, anchor_at, run_at, timezone, start_at, until_at, stagger_s, enabled,
                            next_run_at, source
                     FROM \"{schema}\".scheduled_tasks WHERE name = $1 AND tenant_id = $2"
                ),
                &[&d.name, &tenant.as_str()],
            )
            .await
            .map_err(StoreError::query("looking at a declared schedule"))?;
        if old.as_ref().is_some_and(|row| row.get::<_, String>(10) == "db") {
            // Somebody has changed it, or made one of this name: it is theirs.
            names.push(d.name);
            continue;
        }
        let known = old.as_ref().map(|row| {
            let timing = Timing {
                cron: row.get(0),
                every_ms: row.get(1),
                anchor_at: row.get(2),
                run_at: row.get(3),
                timezone: row.get(4),
                start_at: row.get(5),
                until_at: row.get(6),
                stagger_s: row.get(7),
            };
            (timing, row.get::<_, bool>(8), row.get::<_, Option<Timestamp>>(9))
        });
        let kept = known.filter(|(timing, ..)| timing.same_as(&d.timing));
        if d.timing.every_ms.is_some() {
            let anchor = kept.as_ref().and_then(|(timing, ..)| timing.anchor_at);
            d.timing.anchor_at = anchor.or(d.timing.start_at).or(Some(now));
        }
        let times = d.timing.times().map_err(|source| SyncError::Times { name: d.name.clone(), source })?;
        // A kept schedule keeps its next time, so that a due time that passed while butlerd was down is not forgotten.
        // One that was switched off meanwhile has missed nothing.
        let next = match kept {
            Some((_, true, next)) | Some((_, _, next @ None)) => next,
            _ => times.next(now),
        };
        let enabled = d.enabled && next.is_some();
        lease
            .execute(
                &format!("INSERT INTO \"{schema}\".scheduled_tasks AS t
                     (id, name, cron, every_ms, anchor_at, run_at, timezone, start_at, until_at, stagger_s, prompt,
                      dispatch_mode, job_name, job_args, priority, require_idle, missed, missed_window_s, overlap, source,
                      trust, enabled, next_run_at, tenant_id)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
                         $22, $23, $24)
                 ON CONFLICT (tenant_id, name) DO UPDATE SET
                     cron = $3, every_ms = $4, anchor_at = $5, run_at = $6, timezone = $7, start_at = $8, until_at = $9,
                     stagger_s = $10, prompt = $11, dispatch_mode = $12, job_name = $13, job_args = $14, priority = $15,
                     require_idle = $16, missed = $17, missed_window_s = $18, overlap = $19, source = $20, trust = $21,
                     enabled = $22, next_run_at = $23, updated_at = shared.clock()
                 WHERE t.source <> 'db'"),
                &[
                    &Uuid::now_v7(),
                    &d.name,
                    &d.timing.cron,
                    &d.timing.every_ms,
                    &d.timing.anchor_at,
                    &d.timing.run_at,
                    &d.timing.timezone,
                    &d.timing.start_at,
                    &d.timing.until_at,
                    &d.timing.stagger_s,
                    &d.prompt,
                    &d.mode.into_str(),
                    &d.job_name,
                    &d.job_args,
                    &d.priority,
                    &d.require_idle,
                    &d.missed.into_str(),
                    &d.window_s,
                    &d.overlap.into_str(),
                    &d.source,
                    &Trust::System.as_str(),
                    &enabled,
                    &next,
                    &tenant.as_str(),
                ],
            )
            .await
            .map_err(StoreError::query("storing a declared schedule"))?;
        names.push(d.name);
    }
    lease
        .query_with(
            (
                &format!(
                    "UPDATE \"{schema}\".schedule_runs r
                     SET state = 'skipped', reason = 'its schedule is no longer declared', finished_at = shared.clock()
                     FROM \"{schema}\".scheduled_tasks t
                     WHERE t.id = r.task_id AND t.tenant_id = $2 AND r.state = 'due' AND t.source <> 'db'
                       AND NOT t.name = ANY($1)"
                ),
                &[&names, &tenant.as_str()],
            ),
            (
                &format!(
                    "UPDATE \"{schema}\".scheduled_tasks SET enabled = false, updated_at = shared.clock()
                     WHERE source <> 'db' AND tenant_id = $2 AND enabled AND NOT name = ANY($1)"
                ),
                &[&names, &tenant.as_str()],
            ),
        )
        .await
        .map_err(StoreError::query("switching off schedules that are no longer declared"))?;
    Ok(())
}
