//! `schedule_create` and `schedule_update`.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::actor::{Scheduler, Worker};
use super::due::WINDOW_S;
use super::fields::{Fields, over, permitted, spaced};
use super::show::show;
use super::sql::{self, TaskRow};
use super::target::unknown;
use base::Trust;
use config::{Missed, Overlap};
use tools::{EffectTx, ToolCall, ToolError};

/// A schedule without a name is called by so many words of its prompt, at most.
const NAME_WORDS: usize = 5;
/// And by so many characters.
const NAME_LENGTH: usize = 40;

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

pub(super) async fn make(call: &ToolCall, schedules: &Scheduler, f: Fields) -> Result<TaskRow, ToolError> {
    let mode = f.dispatch_mode.as_deref().unwrap_or("prompt");
    Fields::check_mode(mode, f.prompt.as_deref(), f.job_name.as_deref())?;
    f.check_priority(call.context().trust)?;
    let now = call.store.clock().now();
    let timing = f.timing(None, &schedules.worker().time_zone, now)?;
    let (reply_channel, reply_to) = f.reply(None, mode)?;
    let Some(next) = permitted(&timing, &schedules.worker().limits)?.next(now) else {
        return Err(over(&timing, now));
    };
    let name = match f.name.clone() {
        Some(name) => name,
        None => free_name(call, &f).await?,
    };
    let task = TaskRow {
        id: Uuid::now_v7(),
        tenant_id: call.context().tenant_id.to_string(),
        name,
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
        location: f.location,
        description: f.description,
        reply_channel,
        reply_to,
        ..TaskRow::default()
    };
    let task = task.with_timing(timing);
    let made = sql::insert(call, &task).await?.ok_or_else(|| taken(&task.name))?;
    schedules.wake();
    Ok(made)
}

/// The first words of what it does, with a number where a schedule is called so already.
async fn free_name(call: &ToolCall, f: &Fields) -> Result<String, ToolError> {
    let what = f.prompt.as_deref().or(f.job_name.as_deref()).unwrap_or_default().to_lowercase();
    let words = what.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).take(NAME_WORDS);
    let name: String = words.collect::<Vec<_>>().join("-").chars().take(NAME_LENGTH).collect();
    let name = name.trim_end_matches('-');
    let name = if name.is_empty() { "schedule" } else { name };
    let taken = sql::names_like(call, name).await?;
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    Ok(names.find(|name| !taken.contains(name)).unwrap_or_else(|| name.to_owned()))
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
    let fields = call.parse()?;
    Ok(answer(&change(&call, &schedules, fields).await?, "updated"))
}

/// Makes a change in the call's name. The schedule as it is then.
pub(super) async fn change(call: &ToolCall, schedules: &Scheduler, f: Fields) -> Result<TaskRow, ToolError> {
    let id = f.target.id()?;
    let now = call.store.clock().now();
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let changed = apply(&mut tx, &f, id, (schedules.worker(), now, call.context().trust)).await;
    let task = finished(tx, changed).await?;
    schedules.wake();
    Ok(task)
}

/// Makes a change durable, or takes back what was begun of one that can't be made.
pub(super) async fn finished<T>(tx: EffectTx<'_, '_>, changed: Result<T, ToolError>) -> Result<T, ToolError> {
    match changed {
        Ok(_) => tx.commit().await?,
        Err(_) => tx.rollback().await?,
    }
    changed
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
    // On or off, or its next run at another time, and nothing else: the schedule stays what its source says.
    let bare = Fields { target: f.target, enabled: f.enabled, ..Fields::default() };
    let moved = f.moved(&old.timing(), now)?.is_some();
    let same = *f == bare || (moved && *f == Fields { at: f.at.clone(), after: f.after.clone(), ..bare });
    let changed = if same { sql::switch(tx, id, next).await? } else { sql::change(tx, &task, next).await? };
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
        let moved = f.moved(&old.timing(), now)?;
        let (reply_channel, reply_to) = f.reply(Some(old).filter(|_| mode == "prompt"), &mode)?;
        let timing = match moved {
            Some(_) => old.timing(),
            None => f.timing(Some(old.timing()), &worker.time_zone, now)?,
        };
        // One that has come too often since before there was a limit can still be renamed or switched off.
        let retimed = f.retimed() && moved.is_none();
        let times = if retimed { permitted(&timing, &worker.limits)? } else { spaced(&timing, &worker.limits)? };
        let first = times.next(now);
        let again = f.enabled == Some(true) && !old.enabled;
        // Whatever else is to come stays: a run that was moved, and one that nobody has decided on yet.
        let taken = f.taken_out.zip(old.next_run_at).is_some_and(|(out, next)| out.has(next));
        if first.is_none() && (retimed || taken || (again && old.next_run_at.is_none())) {
            return Err(over(&timing, now));
        }
        let next = (retimed || taken || again || moved.is_some()).then_some(moved.or(first));
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
            location: f.location.clone().or(old.location),
            description: f.description.clone().or(old.description),
            reply_channel,
            reply_to,
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
