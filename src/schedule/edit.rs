//! `schedule_create` and `schedule_update`.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::actor::{Scheduler, Worker};
use super::due::WINDOW_S;
use super::show::show;
use super::sql::{self, TaskRow};
use super::target::{Target, unknown};
use super::times::Times;
use super::timing::Timing;
use base::{HumanDuration, Trust};
use config::{Missed, Moment, Overlap, SchedulesConfig};
use tools::{EffectTx, ToolCall, ToolError};

#[derive(Deserialize, Default, PartialEq)]
struct Fields {
    #[serde(flatten)]
    target: Target,
    name: Option<String>,
    cron: Option<String>,
    every: Option<String>,
    at: Option<String>,
    #[serde(rename = "in")]
    after: Option<String>,
    prompt: Option<String>,
    dispatch_mode: Option<String>,
    job_name: Option<String>,
    job_args: Option<Value>,
    timezone: Option<String>,
    start_at: Option<Timestamp>,
    end_at: Option<Timestamp>,
    until_at: Option<Timestamp>,
    priority: Option<i16>,
    require_idle: Option<bool>,
    missed: Option<Missed>,
    missed_window: Option<String>,
    overlap: Option<Overlap>,
    display_title: Option<String>,
    calendar_event_id: Option<String>,
    enabled: Option<bool>,
}

fn wrong(message: impl Into<String>) -> ToolError {
    ToolError::refused("invalid_arguments", message)
}

/// A duration of at least a second.
fn duration(name: &str, text: &str) -> Result<SignedDuration, ToolError> {
    let parsed = HumanDuration::parse(text).map_err(|e| wrong(format!("{name}: {e}.")))?;
    SignedDuration::try_from(parsed.0)
        .ok()
        .filter(|d| d.as_secs() >= 1 && d.as_hours() <= 100 * 366 * 24)
        .ok_or_else(|| wrong(format!("{name}: from a second to a hundred years are possible.")))
}

impl Fields {
    /// Exactly one of prompt and job, by the mode.
    fn check_mode(mode: &str, prompt: Option<&str>, job: Option<&str>) -> Result<(), ToolError> {
        let ok = match mode {
            "job" => job.is_some() && prompt.is_none(),
            _ => prompt.is_some_and(|p| !p.trim().is_empty()) && job.is_none(),
        };
        let need = if mode == "job" { "a job_name and no prompt" } else { "a prompt and no job_name" };
        if ok { Ok(()) } else { Err(wrong(format!("dispatch_mode {mode} takes {need}."))) }
    }

    /// Whether the times are to change.
    fn retimed(&self) -> bool {
        self.rule_given() || self.timezone.is_some() || self.start_at.is_some() || self.until_at.is_some()
    }

    fn rule_given(&self) -> bool {
        self.cron.is_some() || self.every.is_some() || self.at.is_some() || self.after.is_some()
    }

    /// The times, new or over old ones.
    fn timing(&self, old: Option<Timing>, owner_zone: &str, now: Timestamp) -> Result<Timing, ToolError> {
        let given = [&self.cron, &self.every, &self.at, &self.after].into_iter().flatten().count();
        if given > 1 || (given == 0 && old.is_none()) {
            return Err(wrong("Give one of cron, every, at and in."));
        }
        let mut new = old.unwrap_or_else(|| Timing { timezone: owner_zone.to_owned(), ..Timing::default() });
        if given == 1 {
            (new.cron, new.every_ms, new.run_at) = (self.cron.clone(), None, None);
        }
        if let Some(zone) = &self.timezone {
            new.timezone.clone_from(zone);
        }
        new.start_at = self.start_at.or(new.start_at);
        new.until_at = self.until_at.or(new.until_at);
        if let Some(every) = &self.every {
            new.every_ms = i64::try_from(duration("every", every)?.as_millis()).ok();
        }
        if new.every_ms.is_some() && (self.every.is_some() || self.start_at.is_some()) {
            new.anchor_at = new.start_at.or(Some(now));
        }
        if let Some(after) = &self.after {
            new.run_at = now.checked_add(duration("in", after)?).ok();
        }
        if let Some(at) = &self.at {
            let zone = TimeZone::get(&new.timezone).map_err(|_| {
                ToolError::refused("invalid_cron", super::CronError::Zone(new.timezone.clone()).to_string())
            })?;
            let moment = Moment::parse(at).and_then(|m| m.in_zone(&zone));
            new.run_at = Some(moment.ok_or_else(|| {
                wrong(format!("at: `{at}` is not a moment; an example: 2026-12-24T18:00, in the schedule's zone."))
            })?);
        }
        Ok(new)
    }

    /// Before people's messages goes only what the owner or the house asks for.
    fn check_priority(&self, trust: Trust) -> Result<(), ToolError> {
        if self.priority == Some(1) && trust < Trust::System {
            return Err(ToolError::refused("forbidden", "Only the owner makes a schedule of priority 1."));
        }
        Ok(())
    }

    fn window_s(&self) -> Result<Option<i64>, ToolError> {
        self.missed_window.as_deref().map(|w| duration("missed_window", w).map(|d| d.as_secs())).transpose()
    }
}

/// The times, as often as schedules may come.
fn spaced(timing: &Timing, limits: &SchedulesConfig) -> Result<Times, ToolError> {
    timing.times(limits.min_interval.0).map_err(|e| ToolError::refused("invalid_cron", e.to_string()))
}

/// The same, where new times that come more often are refused.
fn permitted(timing: &Timing, limits: &SchedulesConfig) -> Result<Times, ToolError> {
    let times = spaced(timing, limits)?;
    match times.shortest_gap().and_then(|gap| limits.refusal(gap)) {
        Some(why) => Err(ToolError::refused("too_often", format!("The schedule would come too often: {why}."))),
        None => Ok(times),
    }
}

fn never() -> ToolError {
    ToolError::refused("never_due", "With these times and bounds the schedule would never be due.")
}

pub(super) async fn create(call: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    let fields = call.parse()?;
    Ok(answer(&make(&call, &schedules, fields).await?, "created"))
}

/// Makes a schedule in the call's name that starts a session with this prompt once, at this moment. As it is shown.
pub async fn once(
    call: &ToolCall,
    schedules: &Scheduler,
    name: String,
    prompt: &str,
    at: Timestamp,
) -> Result<Value, ToolError> {
    let (prompt, at) = (Some(prompt.to_owned()), Some(at.to_string()));
    let made = make(call, schedules, Fields { name: Some(name), prompt, at, ..Fields::default() }).await?;
    Ok(answer(&made, "scheduled"))
}

async fn make(call: &ToolCall, schedules: &Scheduler, f: Fields) -> Result<TaskRow, ToolError> {
    let mode = f.dispatch_mode.as_deref().unwrap_or("prompt");
    Fields::check_mode(mode, f.prompt.as_deref(), f.job_name.as_deref())?;
    f.check_priority(call.context().trust)?;
    let now = call.store.clock().now();
    let timing = f.timing(None, &schedules.worker().time_zone, now)?;
    let Some(next) = permitted(&timing, &schedules.worker().limits)?.next(now) else { return Err(never()) };
    let task = TaskRow {
        id: Uuid::now_v7(),
        tenant_id: call.context().tenant_id.to_string(),
        name: f.name.clone().unwrap_or_default(),
        dispatch_mode: mode.to_owned(),
        priority: f.priority.unwrap_or(3),
        require_idle: f.require_idle.unwrap_or(false),
        missed: f.missed.unwrap_or(Missed::RunOnce).to_string(),
        missed_window_s: f.window_s()?.unwrap_or(WINDOW_S),
        overlap: f.overlap.unwrap_or(Overlap::Skip).to_string(),
        end_at: f.end_at,
        source: "db".to_owned(),
        trust: call.context().trust.as_str().to_owned(),
        enabled: true,
        next_run_at: Some(next),
        prompt: f.prompt,
        job_name: f.job_name,
        job_args: f.job_args,
        display_title: f.display_title,
        calendar_event_id: f.calendar_event_id,
        ..TaskRow::default()
    };
    let task = task.with_timing(timing);
    let made = sql::insert(call, &task).await?.ok_or_else(|| taken(&task.name))?;
    schedules.wake();
    Ok(made)
}

fn taken(name: &str) -> ToolError {
    ToolError::refused("already_exists", format!("There is a schedule `{name}` already; use schedule_update."))
}

fn answer(task: &TaskRow, status: &str) -> Value {
    let mut shown = show(task);
    shown["status"] = json!(status);
    shown
}

pub(super) async fn update(call: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    let f: Fields = call.parse()?;
    let id = f.target.id()?;
    let now = call.store.clock().now();
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let changed = apply(&mut tx, &f, id, (schedules.worker(), now, call.context().trust)).await;
    let task = match changed {
        Ok(task) => task,
        Err(e) => {
            tx.rollback().await?;
            return Err(e);
        }
    };
    tx.commit().await?;
    schedules.wake();
    Ok(answer(&task, "updated"))
}

/// Makes the change, whose transaction is rolled back if it can't be made.
async fn apply(
    tx: &mut EffectTx<'_, '_>,
    f: &Fields,
    id: Uuid,
    (worker, now, trust): (&Worker, Timestamp, Trust),
) -> Result<TaskRow, ToolError> {
    let old = sql::locked(tx, id).await?.ok_or_else(|| unknown(id))?;
    let Change { task, next } = Change::of(f, &old, worker, now, trust)?;
    if task.name != old.name && sql::name_is_taken(tx, &task.name).await? {
        return Err(taken(&task.name));
    }
    match f.enabled {
        Some(false) if old.paused_at.is_none() => sql::pause(tx, id, now).await?,
        Some(true) if old.paused_at.is_some() => sql::resume(tx, &old, (now, worker.limits.min_interval.0)).await?,
        _ => {}
    }
    // On or off, and nothing else: the schedule stays what its source says.
    let only_switch = *f == Fields { target: f.target, enabled: f.enabled, ..Fields::default() };
    let changed = if only_switch { sql::switch(tx, id, next).await? } else { sql::change(tx, &task, next).await? };
    changed.ok_or_else(|| unknown(id))
}

/// What an update makes of a schedule.
struct Change {
    /// From now on it is the tool's: `butler.toml` does not take the change back.
    task: TaskRow,
    /// `None`: the next time stays.
    next: Option<Option<Timestamp>>,
}

impl Change {
    fn of(f: &Fields, old: &TaskRow, worker: &Worker, now: Timestamp, trust: Trust) -> Result<Self, ToolError> {
        f.check_priority(trust)?;
        let mode = f.dispatch_mode.clone().unwrap_or_else(|| old.dispatch_mode.clone());
        // A change of the mode takes the other mode's field away.
        let prompt = f.prompt.clone().or_else(|| old.prompt.clone().filter(|_| mode == "prompt"));
        let job_name = f.job_name.clone().or_else(|| old.job_name.clone().filter(|_| mode == "job"));
        Fields::check_mode(&mode, prompt.as_deref(), job_name.as_deref())?;
        let timing = f.timing(Some(old.timing()), &worker.time_zone, now)?;
        // One that has come too often since before there was a limit can still be renamed or switched off.
        let times = if f.retimed() { permitted(&timing, &worker.limits)? } else { spaced(&timing, &worker.limits)? };
        let first = times.next(now);
        let again = f.enabled == Some(true) && !old.enabled;
        if first.is_none() && (f.retimed() || (again && old.next_run_at.is_none())) {
            return Err(never());
        }
        let next = (f.retimed() || again).then_some(first);
        let old = old.clone();
        let task = TaskRow {
            name: f.name.clone().unwrap_or(old.name),
            dispatch_mode: mode,
            prompt,
            job_name,
            job_args: f.job_args.clone().or(old.job_args),
            end_at: f.end_at.or(old.end_at),
            display_title: f.display_title.clone().or(old.display_title),
            calendar_event_id: f.calendar_event_id.clone().or(old.calendar_event_id),
            priority: f.priority.unwrap_or(old.priority),
            require_idle: f.require_idle.unwrap_or(old.require_idle),
            missed: f.missed.map_or(old.missed, |missed| missed.to_string()),
            missed_window_s: f.window_s()?.unwrap_or(old.missed_window_s),
            overlap: f.overlap.map_or(old.overlap, |overlap| overlap.to_string()),
            trust: trust.min(Trust::from_name(&old.trust)).as_str().to_owned(),
            source: "db".to_owned(),
            ..old
        };
        Ok(Self { task: TaskRow { stagger_s: 0, ..task.with_timing(timing) }, next })
    }
}
