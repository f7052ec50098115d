//! `schedule_create` and `schedule_update`.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::actor::Scheduler;
use super::due::WINDOW_S;
use super::people::rest;
use super::show::{LISTED, show, timing};
use super::timing::Timing;
use super::tools::{Target, unknown};
use base::{HumanDuration, Trust};
use config::{Missed, Moment, Overlap};
use store::StoreError;
use tools::{ToolCall, ToolError};

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
        let mut new = match old {
            Some(old) => old,
            None => Timing {
                cron: None,
                every_ms: None,
                anchor_at: None,
                run_at: None,
                timezone: owner_zone.to_owned(),
                start_at: None,
                until_at: None,
                stagger_s: 0,
            },
        };
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

fn next(timing: &Timing, now: Timestamp) -> Result<Option<Timestamp>, ToolError> {
    let times = timing.times().map_err(|e| ToolError::refused("invalid_cron", e.to_string()))?;
    Ok(times.next(now))
}

fn never() -> ToolError {
    ToolError::refused("never_due", "With these times and bounds the schedule would never be due.")
}

pub(super) async fn create(call: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    let f: Fields = call.parse()?;
    let mode = f.dispatch_mode.as_deref().unwrap_or("prompt");
    Fields::check_mode(mode, f.prompt.as_deref(), f.job_name.as_deref())?;
    f.check_priority(call.context().trust)?;
    let name = f.name.as_deref().unwrap_or_default();
    let now = call.store.clock().now();
    let timing = f.timing(None, &schedules.inner.time_zone, now)?;
    let Some(next) = next(&timing, now)? else { return Err(never()) };
    let id = Uuid::now_v7();
    let mut lease = call.lease().await?;
    let sql = format!(
        "INSERT INTO scheduled_tasks (id, name, cron, prompt, dispatch_mode, job_name, job_args, timezone, start_at,
             end_at, until_at, display_title, calendar_event_id, source, next_run_at, trust, every_ms, run_at, anchor_at,
             priority, require_idle, missed, missed_window_s, overlap)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'db', $14, $15, $16, $17, $18, $19, $20, $21,
                 $22, $23) RETURNING {LISTED}"
    );
    let inserted = call
        .effect_on(
            &mut lease,
            &sql,
            &[
                &id,
                &name,
                &timing.cron,
                &f.prompt,
                &mode,
                &f.job_name,
                &f.job_args,
                &timing.timezone,
                &timing.start_at,
                &f.end_at,
                &timing.until_at,
                &f.display_title,
                &f.calendar_event_id,
                &next,
                &call.context().trust.as_str(),
                &timing.every_ms,
                &timing.run_at,
                &timing.anchor_at,
                &f.priority.unwrap_or(3),
                &f.require_idle.unwrap_or(false),
                &f.missed.unwrap_or(Missed::RunOnce).into_str(),
                &f.window_s()?.unwrap_or(WINDOW_S),
                &f.overlap.unwrap_or(Overlap::Skip).into_str(),
            ],
        )
        .await;
    let rows = inserted.map_err(|e| match e.code() {
        Some(c) if *c == tokio_postgres::error::SqlState::UNIQUE_VIOLATION => taken(name),
        _ => ToolError::Store(StoreError::Query { step: "storing a schedule", source: e }),
    })?;
    schedules.wake();
    Ok(answer(rows.first(), id, "created"))
}

fn taken(name: &str) -> ToolError {
    ToolError::refused("already_exists", format!("There is a schedule `{name}` already; use schedule_update."))
}

fn answer(row: Option<&Row>, id: Uuid, status: &str) -> Value {
    let mut shown = row.map(show).unwrap_or_else(|| json!({}));
    if let Value::Object(o) = &mut shown {
        o.insert("id".into(), json!(id));
        o.insert("status".into(), json!(status));
    }
    shown
}

pub(super) async fn update(call: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    let f: Fields = call.parse()?;
    let id = f.target.id()?;
    let now = call.store.clock().now();
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let sql = format!("SELECT {LISTED} FROM scheduled_tasks WHERE id = $1 FOR UPDATE");
    let Some(old) = tx.query_opt(&sql, &[&id]).await? else {
        tx.rollback().await?;
        return Err(unknown(id));
    };
    let change = match Change::of(&f, &old, &schedules.inner.time_zone, now, call.context().trust) {
        Ok(change) => change,
        Err(e) => {
            tx.rollback().await?;
            return Err(e);
        }
    };
    if let Some(name) = f.name.as_ref().filter(|name| **name != old.get::<_, String>(1)) {
        let sql = "SELECT 1 FROM scheduled_tasks WHERE name = $1";
        if tx.query_opt(sql, &[name]).await?.is_some() {
            tx.rollback().await?;
            return Err(taken(name));
        }
    }
    let was_paused = old.get::<_, Option<Timestamp>>(23).is_some();
    match f.enabled {
        Some(false) if !was_paused => rest::begin(&mut tx, id, now).await?,
        Some(true) if was_paused => rest::end(&mut tx, id, now).await?,
        _ => {}
    }
    let row =
        if change.only_switch { change.switch(&mut tx, id).await? } else { change.write(&mut tx, &f, id).await? };
    tx.commit().await?;
    schedules.wake();
    Ok(answer(row.as_ref(), id, "updated"))
}

/// What an update makes of a row.
struct Change {
    timing: Timing,
    mode: String,
    prompt: Option<String>,
    job: Option<String>,
    trust: Trust,
    window_s: Option<i64>,
    /// `None`: the next time stays.
    next: Option<Option<Timestamp>>,
    only_switch: bool,
}

impl Change {
    fn of(f: &Fields, old: &Row, owner_zone: &str, now: Timestamp, trust: Trust) -> Result<Self, ToolError> {
        f.check_priority(trust)?;
        let mode = f.dispatch_mode.clone().unwrap_or_else(|| old.get(4));
        // A change of the mode takes the other mode's field away.
        let keep = |i: usize, of: &str| if mode == of { old.get::<_, Option<String>>(i) } else { None };
        let prompt = f.prompt.clone().or_else(|| keep(3, "prompt"));
        let job = f.job_name.clone().or_else(|| keep(5, "job"));
        Fields::check_mode(&mode, prompt.as_deref(), job.as_deref())?;
        let timing = f.timing(Some(timing(old)), owner_zone, now)?;
        let first = next(&timing, now)?;
        if f.retimed() && first.is_none() {
            return Err(never());
        }
        let over = old.get::<_, Option<Timestamp>>(15).is_none();
        let again = f.enabled == Some(true) && !old.get::<_, bool>(14);
        if over && again && first.is_none() {
            return Err(never());
        }
        let only_switch = *f == Fields { target: f.target, enabled: f.enabled, ..Fields::default() };
        let next = (f.retimed() || again).then_some(first);
        let trust = trust.min(Trust::from_name(old.get(20)));
        Ok(Self { timing, mode, prompt, job, trust, window_s: f.window_s()?, next, only_switch })
    }

    /// On or off, and nothing else: the schedule stays what its source says.
    async fn switch(&self, tx: &mut tools::EffectTx<'_, '_>, id: Uuid) -> Result<Option<Row>, ToolError> {
        let sql = format!(
            "UPDATE scheduled_tasks SET updated_at = shared.clock(), enabled = enabled OR $2,
                    next_run_at = CASE WHEN $2 THEN $3 ELSE next_run_at END
             WHERE id = $1 RETURNING {LISTED}"
        );
        tx.query_opt(&sql, &[&id, &self.next.is_some(), &self.next.flatten()]).await
    }

    /// Everything. From now on it is the tool's: `butler.toml` does not take the change back.
    async fn write(&self, tx: &mut tools::EffectTx<'_, '_>, f: &Fields, id: Uuid) -> Result<Option<Row>, ToolError> {
        let sql = format!(
            "UPDATE scheduled_tasks SET name = coalesce($2, name), cron = $3, prompt = $4, dispatch_mode = $5,
                 job_name = $6, job_args = coalesce($7, job_args), timezone = $8, start_at = $9,
                 end_at = coalesce($10, end_at), until_at = $11, display_title = coalesce($12, display_title),
                 calendar_event_id = coalesce($13, calendar_event_id), trust = $14, every_ms = $15, run_at = $16,
                 anchor_at = $17, priority = coalesce($18, priority), require_idle = coalesce($19, require_idle),
                 missed = coalesce($20, missed), missed_window_s = coalesce($21, missed_window_s),
                 overlap = coalesce($22, overlap), enabled = enabled OR $23,
                 next_run_at = CASE WHEN $23 THEN $24 ELSE next_run_at END, source = 'db', stagger_s = 0,
                 updated_at = shared.clock()
             WHERE id = $1 RETURNING {LISTED}"
        );
        let t = &self.timing;
        tx.query_opt(
            &sql,
            &[
                &id,
                &f.name,
                &t.cron,
                &self.prompt,
                &self.mode,
                &self.job,
                &f.job_args,
                &t.timezone,
                &t.start_at,
                &f.end_at,
                &t.until_at,
                &f.display_title,
                &f.calendar_event_id,
                &self.trust.as_str(),
                &t.every_ms,
                &t.run_at,
                &t.anchor_at,
                &f.priority,
                &f.require_idle,
                &f.missed.map(<&str>::from),
                &self.window_s,
                &f.overlap.map(<&str>::from),
                &self.next.is_some(),
                &self.next.flatten(),
            ],
        )
        .await
    }
}
