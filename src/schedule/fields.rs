//! What a call says that a schedule is to be.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::cron::CronError;
use super::sql::TaskRow;
use super::target::Target;
use super::times::Times;
use super::timing::Timing;
use super::words;
use base::Trust;
use config::{Missed, Overlap, SchedulesConfig};
use tools::ToolError;

/// The arguments of `schedule_create` and `schedule_update`.
#[derive(Deserialize, Default, PartialEq)]
pub(super) struct Fields {
    #[serde(flatten)]
    pub target: Target,
    pub name: Option<String>,
    pub cron: Option<String>,
    pub every: Option<String>,
    pub at: Option<String>,
    #[serde(rename = "in")]
    pub after: Option<String>,
    pub prompt: Option<String>,
    pub dispatch_mode: Option<String>,
    pub job_name: Option<String>,
    pub job_args: Option<Value>,
    pub timezone: Option<String>,
    pub start_at: Option<Timestamp>,
    pub end_at: Option<Timestamp>,
    pub until_at: Option<Timestamp>,
    /// Without `until_at` it has no end, whatever it had.
    #[serde(skip)]
    pub ends_anew: bool,
    pub priority: Option<i16>,
    pub require_idle: Option<bool>,
    pub missed: Option<Missed>,
    pub missed_window: Option<String>,
    pub overlap: Option<Overlap>,
    pub display_title: Option<String>,
    pub calendar_event_id: Option<String>,
    pub location: Option<String>,
    pub description: Option<String>,
    pub reply_channel: Option<String>,
    pub reply_to: Option<String>,
    pub clear_reply: Option<bool>,
    pub enabled: Option<bool>,
    /// What is taken out of its times.
    #[serde(skip)]
    pub taken_out: Option<TakenOut>,
}

/// Times to come that a schedule loses.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum TakenOut {
    This(Timestamp),
    /// It and all later ones.
    Following(Timestamp),
}

impl TakenOut {
    /// Whether this time is among them.
    pub fn has(self, time: Timestamp) -> bool {
        match self {
            Self::This(at) => time == at,
            Self::Following(at) => time >= at,
        }
    }
}

/// How long calendars show of a schedule what it was without.
const SHOWN: SignedDuration = SignedDuration::from_hours(24 * 400);

pub(super) fn wrong(message: impl Into<String>) -> ToolError {
    ToolError::refused("invalid_arguments", message)
}

impl Fields {
    /// Exactly one of prompt and job, by the mode.
    pub fn check_mode(mode: &str, prompt: Option<&str>, job: Option<&str>) -> Result<(), ToolError> {
        let ok = match mode {
            "job" => job.is_some() && prompt.is_none(),
            _ => prompt.is_some_and(|p| !p.trim().is_empty()) && job.is_none(),
        };
        let need = if mode == "job" { "a job_name and no prompt" } else { "a prompt and no job_name" };
        if ok { Ok(()) } else { Err(wrong(format!("dispatch_mode {mode} takes {need}."))) }
    }

    /// Whether the times are to change.
    pub fn retimed(&self) -> bool {
        let rule = self.cron.is_some() || self.every.is_some() || self.at.is_some() || self.after.is_some();
        rule || self.timezone.is_some() || self.start_at.is_some() || self.until_at.is_some()
    }

    /// The times, new or over old ones.
    pub fn timing(&self, old: Option<Timing>, owner_zone: &str, now: Timestamp) -> Result<Timing, ToolError> {
        let given = [&self.cron, &self.every, &self.at, &self.after].into_iter().flatten().count();
        if given > 1 || (given == 0 && old.is_none()) {
            return Err(wrong("Say when: give one of cron, every, at and in."));
        }
        let mut new = old.unwrap_or_else(|| Timing { timezone: owner_zone.to_owned(), ..Timing::default() });
        if given == 1 {
            (new.cron, new.every_ms, new.run_at) = (self.cron.clone(), None, None);
        }
        if let Some(zone) = &self.timezone {
            new.timezone.clone_from(zone);
        }
        new.start_at = self.start_at.or(new.start_at);
        new.until_at = self.until_at.or(new.until_at.filter(|_| !self.ends_anew));
        if let Some(every) = &self.every {
            let every = words::length(every).map_err(|e| wrong(format!("every: {e}.")))?;
            new.every_ms = i64::try_from(every.as_millis()).ok();
        }
        if new.every_ms.is_some() && (self.every.is_some() || self.start_at.is_some()) {
            new.anchor_at = new.start_at.or(Some(now));
        }
        if let Some(at) = self.moment(&new.timezone, now)? {
            new.run_at = Some(at);
        }
        match self.taken_out {
            Some(TakenOut::This(at)) => {
                let oldest = now.saturating_sub(SHOWN).unwrap_or(now);
                new.except_at.retain(|gone| *gone > oldest);
                new.except_at.push(at);
            }
            // As exactly as rows keep times.
            Some(TakenOut::Following(at)) => new.until_at = at.checked_sub(SignedDuration::from_millis(1)).ok(),
            None => {}
        }
        Ok(new)
    }

    /// The one moment that `at` or `in` names.
    fn moment(&self, timezone: &str, now: Timestamp) -> Result<Option<Timestamp>, ToolError> {
        let (name, text) = match (&self.at, &self.after) {
            (Some(at), _) => ("at", at),
            (None, Some(after)) => ("in", after),
            (None, None) => return Ok(None),
        };
        let zone = TimeZone::get(timezone)
            .map_err(|_| ToolError::refused("invalid_cron", CronError::Zone(timezone.to_owned()).to_string()))?;
        let read = if name == "at" { words::moment } else { words::after };
        read(text, now, &zone).map(Some).map_err(|e| wrong(format!("{name}: {e}.")))
    }

    /// The moment to which the next run of a schedule that comes again and again is moved: it goes on as before then.
    /// `None`: the change says something else of its times, or nothing.
    pub fn moved(&self, old: &Timing, now: Timestamp) -> Result<Option<Timestamp>, ToolError> {
        let rule = self.cron.is_some() || self.every.is_some() || (self.at.is_some() && self.after.is_some());
        let bounds = self.timezone.is_some() || self.start_at.is_some() || self.until_at.is_some();
        if old.run_at.is_some() || rule || bounds {
            return Ok(None);
        }
        match self.moment(&old.timezone, now)? {
            Some(at) if at <= now => Err(passed()),
            moved => Ok(moved),
        }
    }

    /// Where the outcome goes, new or over what it was: the channel, and to whom there.
    pub fn reply(&self, old: Option<&TaskRow>, mode: &str) -> Result<(Option<String>, Option<String>), ToolError> {
        let old = old.filter(|_| self.clear_reply != Some(true));
        let given = |new: &Option<String>, old: Option<&Option<String>>| new.clone().or_else(|| old.cloned().flatten());
        let channel = given(&self.reply_channel, old.map(|old| &old.reply_channel));
        // Who is meant there says nothing of another channel.
        let kept = old.filter(|old| old.reply_channel == channel);
        let to = given(&self.reply_to, kept.map(|old| &old.reply_to));
        match (&channel, &to) {
            (None, Some(_)) => Err(wrong("reply_to needs a reply_channel.")),
            (Some(_), _) if mode != "prompt" => {
                Err(wrong("reply_channel is for prompts; a job says in its file whom it notifies."))
            }
            _ => Ok((channel, to)),
        }
    }

    /// Before people's messages goes only what the owner or the house asks for.
    pub fn check_priority(&self, trust: Trust) -> Result<(), ToolError> {
        if self.priority == Some(1) && trust < Trust::System {
            return Err(ToolError::refused("forbidden", "Only the owner makes a schedule of priority 1."));
        }
        Ok(())
    }

    pub fn window_s(&self) -> Result<Option<i64>, ToolError> {
        self.missed_window
            .as_deref()
            .map(|w| words::length(w).map(|d| d.as_secs()).map_err(|e| wrong(format!("missed_window: {e}."))))
            .transpose()
    }
}

/// The times, as often as schedules may come.
pub(super) fn spaced(timing: &Timing, limits: &SchedulesConfig) -> Result<Times, ToolError> {
    timing.times(limits.min_interval.0).map_err(|e| ToolError::refused("invalid_cron", e.to_string()))
}

/// The same, where new times that come more often are refused.
pub(super) fn permitted(timing: &Timing, limits: &SchedulesConfig) -> Result<Times, ToolError> {
    let times = spaced(timing, limits)?;
    match times.shortest_gap().and_then(|gap| limits.refusal(gap)) {
        Some(why) => Err(ToolError::refused("too_often", format!("The schedule would come too often: {why}."))),
        None => Ok(times),
    }
}

/// The schedule has no time from now on.
pub(super) fn over(timing: &Timing, now: Timestamp) -> ToolError {
    let never = || ToolError::refused("never_due", "With these times and bounds the schedule would never be due.");
    if timing.run_at.is_some_and(|at| at <= now) { passed() } else { never() }
}

fn passed() -> ToolError {
    ToolError::refused("never_due", "That moment has passed already.")
}
