//! A butler's own events in its calendar: schedules that calendars show. There is no second scheduler behind them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::actor::Scheduler;
use super::edit::{change, make};
use super::fields::{Fields, TakenOut, wrong};
use super::sql::{self, TaskRow};
use super::target::{Target, unknown};
use super::{rrule, words};
use base::TenantId;
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// Times of one schedule that a list shows.
const MOST_TIMES: usize = 100;

/// An event that comes again and again is no longer than this.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// What stands in `calendar_event_id` of a schedule that is an event of its butler's.
const OWN: &str = "butler";

/// The tools of [`calendar_event_tools`], for who looks at a roster that is not served.
pub const CALENDAR_EVENT_TOOLS: [&str; 4] = [
    "calendar_create_butler_event",
    "calendar_update_butler_event",
    "calendar_delete_butler_event",
    "calendar_toggle_butler_event",
];

/// `calendar_create|update|delete|toggle_butler_event`, for butlers that have a calendar.
pub fn calendar_event_tools(schedules: &Scheduler) -> Vec<Tool> {
    static DEFS: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(definitions);
    macro_rules! with {
        ($f:ident) => {{
            let schedules = schedules.clone();
            handler(move |call| $f(call, schedules.clone()))
        }};
    }
    let handlers = [with!(create), with!(update), with!(delete), with!(update)];
    DEFS.iter().zip(handlers).map(|(d, h)| Tool::new(d, h)).collect()
}

fn definitions() -> Vec<Arc<Definition>> {
    let define = |name: &str, description: &str, properties: Value, required: Value, meta: Meta| {
        let schema =
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        let definition = Definition::new(name, description, schema, meta).expect("a schema in the source is right");
        let aliases = [("action", "prompt"), ("recurrence_rule", "cron"), ("body", "description")];
        Arc::new(definition.with_aliases(&aliases))
    };
    let text = |about: &str| json!({"type": "string", "description": about});
    let time = |about: &str| json!({"type": "string", "format": "date-time", "description": about});
    let id = json!({"type": "string", "format": "uuid", "description": "Id of the event, from calendar_list_events or schedule_list"});
    let mut fields = json!({
        "title": {"type": "string", "minLength": 1, "maxLength": 100, "description": "How the calendar shows it"},
        "prompt": text("What you are to do then"),
        "start_at": text("When, once; with cron the first time: 2026-12-24T18:00, tomorrow 9:00"),
        "cron": text("When it comes again and again: minute hour day month weekday, as 0 8 * * 1-5"),
        "timezone": text("IANA name; the owner's zone by default"),
        "end_at": time("When it ends in the calendar"),
        "until_at": time("Not after this"),
        "location": {"type": "string", "maxLength": 500},
        "description": {"type": "string", "maxLength": 20_000},
    });
    let mut created = fields.clone();
    created["butler_name"] = json!({"type": "string", "maxLength": 100});
    fields["event_id"] = id.clone();
    fields["enabled"] = json!({"type": "boolean", "description": "false switches it off"});
    let switched = json!({"event_id": id, "enabled": {"type": "boolean"}});
    let deleted = json!({
        "event_id": id,
        "scope": {"type": "string", "enum": ["this", "following", "series"], "description": "series by default"},
        "instance_start_at": time("An instance's start_at, as listed"),
    });
    let [create, update, delete, toggle] = CALENDAR_EVENT_TOOLS;
    vec![
        define(
            create,
            "Put an event of your own into the calendar: at its time you get a session with its prompt.",
            created,
            json!(["title", "prompt"]),
            Meta::write(Effect::Once),
        ),
        define(
            update,
            "Change an event of your own. Only what is given changes.",
            fields,
            json!(["event_id"]),
            Meta { reads_private: true, ..Meta::write(Effect::Idempotent) },
        ),
        define(
            delete,
            "Take an event of your own away.",
            deleted,
            json!(["event_id"]),
            Meta { destructive: true, ..Meta::write(Effect::Idempotent) },
        ),
        define(
            toggle,
            "Switch an event of your own on or off.",
            switched,
            json!(["event_id", "enabled"]),
            Meta { reads_private: true, ..Meta::write(Effect::Idempotent) },
        ),
    ]
}

#[derive(Deserialize)]
struct Event {
    event_id: Option<Uuid>,
    title: Option<String>,
    prompt: Option<String>,
    start_at: Option<String>,
    cron: Option<String>,
    timezone: Option<String>,
    end_at: Option<Timestamp>,
    until_at: Option<Timestamp>,
    location: Option<String>,
    description: Option<String>,
    enabled: Option<bool>,
    #[serde(default)]
    scope: Scope,
    instance_start_at: Option<Timestamp>,
}

/// How much of an event is meant.
#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Scope {
    This,
    Following,
    #[default]
    Series,
}

impl Event {
    fn fields(mut self, call: &ToolCall, old: Option<&TaskRow>) -> Result<Fields, ToolError> {
        let now = call.store.clock().now();
        let named = self.timezone.as_ref().or(old.map(|task| &task.timezone));
        let zone = named.map_or_else(|| Ok(call.store.time_zone().clone()), |name| TimeZone::get(name));
        let zone = zone.map_err(|_| wrong("timezone is an IANA name such as Europe/Berlin, or UTC."))?;
        let first = self.start_at.take_if(|_| self.cron.is_some());
        let read = first.as_deref().map(|start| words::moment(start, now, &zone)).transpose();
        let mut start_at = read.map_err(|e| wrong(format!("start_at: {e}.")))?;
        let rule = self.cron.take_if(|cron| cron.to_ascii_uppercase().contains("FREQ="));
        if let Some(rule) = &rule {
            start_at = start_at.or(old.and_then(|task| task.run_at));
            // Cron has no seconds: a start within the minute would come after that day's time.
            start_at = start_at.and_then(|at| Timestamp::from_second(at.as_second().div_euclid(60) * 60).ok());
            let given = start_at.map(|at| at.to_zoned(zone.clone()).datetime());
            let missing = match old {
                None => "start_at is missing: a recurrence_rule names no time of day. Give it, as 2026-12-24T18:00.",
                Some(_) => "The event does not come at one hour and minute to be kept. Give start_at, too.",
            };
            let start = given.or_else(|| regular(old?, now)).ok_or_else(|| wrong(missing))?;
            // Read as later, it would be the rule's time for good.
            let skipped = |time: &Time| (time.hour(), time.minute()) != (start.hour(), start.minute());
            if let Some(time) = first.as_deref().and_then(words::clock).filter(skipped) {
                let (day, zone) = (start.date(), zone.iana_name().unwrap_or("this zone"));
                return Err(wrong(format!("start_at: on {day} the clock of {zone} skips {time}. Name another time.")));
            }
            let unsaid = || {
                let why = "can't be said as a cron here. Give cron instead, as 0 8 * * 1-5, or make several events.";
                wrong(format!("recurrence_rule `{rule}` {why}"))
            };
            let (cron, until) = rrule::cron(rule, start, &zone).ok_or_else(unsaid)?;
            (self.cron, self.until_at) = (Some(cron), self.until_at.into_iter().chain(until).min());
        }
        Ok(Fields {
            target: self.event_id.map(Target::of).unwrap_or_default(),
            name: self.title.clone(),
            display_title: self.title,
            prompt: self.prompt,
            cron: self.cron,
            timezone: self.timezone,
            at: self.start_at,
            start_at,
            end_at: self.end_at,
            until_at: self.until_at,
            ends_anew: rule.is_some(),
            location: self.location,
            description: self.description,
            enabled: self.enabled,
            ..Fields::default()
        })
    }
}

/// When an event comes next by the one hour and minute of its cron: its next run may have been moved, also by the clock.
fn regular(task: &TaskRow, now: Timestamp) -> Option<DateTime> {
    let fields: Vec<&str> = task.cron.as_ref()?.split_whitespace().collect();
    let [minute, hour, _, _, _] = fields.as_slice() else { return None };
    let time = Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()?;
    let next = task.timing().times(Duration::ZERO).ok()?.next(now)?;
    Some(DateTime::from_parts(next.to_zoned(TimeZone::get(&task.timezone).ok()?).date(), time))
}

/// How long an event is: from its last time before its end to that, and as long each time.
fn length(task: &TaskRow) -> Option<SignedDuration> {
    let end = task.end_at?;
    let mut times = task.timing().times(Duration::ZERO).ok()?;
    // It is as long as it was, whichever time was taken out.
    times.except.clear();
    let (mut last, mut after) = (task.run_at.filter(|at| *at < end), end.checked_sub(LONGEST).ok()?);
    while let Some(at) = times.next(after).filter(|at| *at < end) {
        (last, after) = (Some(at), at);
    }
    Some(end.duration_since(last?))
}

/// An event as calendars show it, at one of its times, in a zone.
fn shown(task: &TaskRow, at: Option<Timestamp>, zone: &TimeZone) -> Value {
    let end = at.zip(length(task)).and_then(|(at, length)| at.checked_add(length).ok());
    let of =
        |at: Option<Timestamp>| at.map(|at| at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string());
    let mut shown = json!({"event_id": task.id, "title": task.display_title.as_ref().unwrap_or(&task.name), "calendar_id": null,
           "butler_event": true, "start_at": of(at), "end_at": of(end),
           "recurring": task.run_at.is_none(), "enabled": task.enabled && task.paused_at.is_none(), "cron": task.cron});
    let more = [("until_at", of(task.until_at)), ("location", task.location.clone())];
    for (name, text) in more.into_iter().filter(|(_, text)| text.is_some()) {
        shown[name] = json!(text);
    }
    shown
}

fn answer(call: &ToolCall, task: &TaskRow, status: &str) -> Value {
    let mut answer = shown(task, task.next_run_at, call.store.time_zone());
    answer["status"] = json!(status);
    // Not in lists, which would say it again at each of the times.
    if let Some(description) = &task.description {
        answer["description"] = json!(description);
    }
    answer
}

async fn create(call: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    let own = schedules.worker().butler.as_str();
    if let Some(other) = call.text("butler_name").filter(|name| *name != own) {
        let why =
            format!("butler_name: `{own}` makes its own events alone. For one of `{other}`, call {other}'s own tool");
        return Err(wrong(format!("{why} calendar_create_butler_event, or ask that butler. Nothing was made.")));
    }
    let mut fields = call.parse::<Event>()?.fields(&call, None)?;
    fields.calendar_event_id = Some(OWN.to_owned());
    Ok(answer(&call, &make(&call, &schedules, fields).await?, "created"))
}

/// The schedule that a call means, if it is an event.
async fn own(call: &ToolCall) -> Result<TaskRow, ToolError> {
    let id = call.parse::<Event>()?.event_id.unwrap_or_default();
    let mut tasks = sql::listed(call).await?.into_iter();
    tasks.find(|row| row.id == id && row.calendar_event_id.is_some()).ok_or_else(|| unknown(id))
}

async fn update(call: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    let old = own(&call).await?;
    let fields = call.parse::<Event>()?.fields(&call, Some(&old))?;
    Ok(answer(&call, &change(&call, &schedules, fields).await?, "updated"))
}

async fn delete(call: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    let task = own(&call).await?;
    let left = match left(&call, &task)? {
        None => false,
        Some(fields) => match change(&call, &schedules, fields).await {
            Ok(_) => true,
            // It was the last time that there was.
            Err(ToolError::Refused { code: "never_due", .. }) => false,
            Err(e) => return Err(e),
        },
    };
    if !left {
        sql::delete(&call, task.id).await?;
        schedules.wake();
    }
    Ok(json!({"event_id": task.id, "status": "deleted", "series_left": left}))
}

/// The change that takes away as much of an event as a call means. `None`: all of it.
fn left(call: &ToolCall, task: &TaskRow) -> Result<Option<Fields>, ToolError> {
    let Event { scope, instance_start_at, .. } = call.parse()?;
    if scope == Scope::Series {
        return Ok(None);
    }
    let at = instance_start_at.ok_or_else(|| wrong("this and following need instance_start_at, as it was listed."))?;
    let times = task.timing().times(Duration::ZERO).map_err(|e| wrong(e.to_string()))?;
    // Lists name times to the second.
    let named = |time: &Timestamp| time.duration_since(at) < SignedDuration::from_secs(1);
    let time = times.next(at.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(at)).filter(named);
    let Some(time) = time.filter(|time| *time > call.store.clock().now()) else {
        let why = format!("This event does not come at {at}. calendar_list_events shows when it does.");
        return Err(ToolError::refused("not_found", why));
    };
    let taken_out = if scope == Scope::This { TakenOut::This(time) } else { TakenOut::Following(time) };
    Ok(Some(Fields { target: Target::of(task.id), taken_out: Some(taken_out), ..Fields::default() }))
}

/// The butler's own events of a time, for whoever shows its calendar.
pub async fn butler_events(call: &ToolCall, from: Timestamp, to: Timestamp) -> Result<Vec<Value>, ToolError> {
    let mut found = Vec::new();
    for task in sql::listed(call).await? {
        let tenant: &TenantId = &call.context().tenant_id;
        if task.calendar_event_id.is_none() || task.tenant_id != tenant.as_str() {
            continue;
        }
        let Ok(times) = task.timing().times(Duration::ZERO) else { continue };
        let mut after = from.saturating_sub(SignedDuration::from_secs(1)).unwrap_or(from);
        for _ in 0..MOST_TIMES {
            let Some(at) = times.next(after).filter(|at| *at < to) else { break };
            found.push(shown(&task, Some(at), call.store.time_zone()));
            after = at;
        }
    }
    Ok(found)
}
