//! `butlerd calendar`

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::out::Tone;
use super::problem::{FAILED, Problem};
use super::text::one_line;
use super::{Caller, Outcome};
use admin::api::HouseApiClient;

/// `calendar`
#[derive(Debug, Args)]
pub struct CalendarArgs {
    #[command(subcommand)]
    what: What,
    /// The butler whose calendars are meant; by default all that have any are listed and synced, and the first is asked
    #[arg(long, global = true, value_name = "NAME")]
    butler: Option<String>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List what is when: of the next 30 days, or of these
    List {
        /// From when, as 2026-11-24 or 2026-11-24T09:00
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Until when
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
        /// Only this calendar's
        #[arg(long, value_name = "NAME")]
        calendar: Option<String>,
    },
    /// Put an event into a calendar
    Add {
        title: String,
        /// A day (2026-11-24) or a time (2026-11-24T09:00)
        #[arg(value_name = "TIME")]
        start: String,
        /// The first moment after it; by default an hour later, or the next day
        #[arg(long, value_name = "TIME")]
        end: Option<String>,
        /// By default the butler's first
        #[arg(long, value_name = "NAME")]
        calendar: Option<String>,
        /// Where it is
        #[arg(long, value_name = "PLACE")]
        location: Option<String>,
        /// Make it although it overlaps another
        #[arg(long)]
        overlap: bool,
    },
    /// Make calendars and their servers equal now
    Sync {
        /// Only this calendar
        #[arg(long, value_name = "NAME")]
        calendar: Option<String>,
        /// Compare all events, not what changed since the last sync
        #[arg(long)]
        full: bool,
        /// Most events were deleted at the server on purpose
        #[arg(long)]
        accept_deletions: bool,
    },
    /// Show events that both sides had changed and nobody looked at, or take another version of one
    Conflicts {
        conflict: Option<Uuid>,
        /// The version that is wanted; `seen` leaves the event as it is
        #[arg(long, value_name = "VERSION", value_parser = ["base", "ours", "theirs", "seen"], requires = "conflict")]
        take: Option<String>,
    },
    /// List times that are free in all calendars
    Free {
        /// How long it is to be
        minutes: u32,
        /// From when; now by default
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Until when; 30 days later by default
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
    },
}

/// An event, as the tool `calendar_list_events` shows it: of a calendar, or the butler's own.
#[derive(Deserialize, Serialize)]
struct Event {
    start_at: String,
    end_at: Option<String>,
    title: String,
    event_id: Uuid,
    /// Of a butler's own event it is null.
    #[serde(default, deserialize_with = "or_empty")]
    calendar_id: String,
    #[serde(default)]
    location: String,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl Event {
    /// For the order: days by their midnight here, and what can't be read at the end.
    fn begin(&self) -> (bool, Option<Timestamp>) {
        let day = || self.start_at.parse::<Date>().ok()?.to_zoned(TimeZone::system()).ok();
        let at = self.start_at.parse().ok().or_else(|| day().map(|day| day.timestamp()));
        (at.is_none(), at)
    }

    fn key(&self) -> (Uuid, String) {
        (self.event_id, self.start_at.clone())
    }
}

fn or_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// How a calendar follows its provider, as the tool `calendar_sync_status` shows it.
#[derive(Deserialize, Serialize)]
struct Followed {
    calendar_id: String,
    provider: String,
    state: String,
    /// `None`: nobody knows.
    changes_waiting: Option<i64>,
    conflicts: Option<i64>,
    #[serde(default)]
    unreadable: Option<i64>,
    error: Option<String>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Deserialize, Serialize)]
struct Slot {
    start_at: String,
    end_at: String,
}

/// What butlers answered, and sentences on those that didn't.
type Answers = (Vec<(String, Value)>, Vec<String>);

/// The list under this name in a tool's answer.
fn inner<T: serde::de::DeserializeOwned>(answer: &mut Value, name: &str) -> Result<Vec<T>, Problem> {
    serde_json::from_value(answer[name].take()).map_err(|e| Problem::foreign(&e))
}

/// What an answer can't know, in sentences.
fn gaps(answer: &Value) -> Vec<String> {
    let text = |value: &Value| one_line(value.as_str().unwrap_or_default(), 300);
    let behind = answer["not_current"].as_array().into_iter().flatten().map(|one| {
        let since = match &one["synced_at"] {
            Value::Null => "was never synced".to_owned(),
            at => format!("was last synced at {}", text(at)),
        };
        let why = if one["error"].is_null() { String::new() } else { format!(": {}", text(&one["error"])) };
        format!("The calendar {} {since}{why}", text(&one["calendar_id"]))
    });
    let unknown = answer["unreadable"].as_array().into_iter().flatten().map(|one| {
        let why = text(&one["why"]);
        format!("An event of {} is left out, because nobody can say when it is: {why}", text(&one["calendar_id"]))
    });
    behind.chain(unknown).collect()
}

/// The answers of all these butlers, and what can't be known of the others. Who does not see the calendar that is meant is
/// left out, if another does.
async fn each(caller: &Caller, butlers: &[String], tool: &str, asked: &Value) -> Result<Answers, Problem> {
    let (mut answers, mut failed, mut gaps) = (Vec::new(), None, Vec::new());
    for butler in butlers {
        match caller.tool(butler, tool, asked.clone()).await {
            Ok(answer) => answers.push((butler.clone(), answer)),
            Err(e) => {
                if e.code != "not_found" {
                    gaps.push(format!("The calendars of {butler} are not known now: {}", one_line(&e.message, 300)));
                }
                failed = Some(e);
            }
        }
    }
    failed.filter(|_| answers.is_empty()).map_or(Ok((answers, gaps)), Err)
}

/// Whose calendars are meant where no butler is named: those with this calendar, or an account's that may be written, or the
/// household's own.
async fn first<'b>(caller: &Caller, butlers: &'b [String], named: Option<&str>) -> Result<&'b str, Problem> {
    let is_meant = |one: &Value| match named {
        Some(name) => one["calendar_id"] == name,
        None => one["primary"] == true && one["provider"] != "local" && one["read_only"] != true,
    };
    let mut failed = None;
    for butler in butlers.iter().take_while(|_| butlers.len() > 1) {
        match caller.tool::<Value>(butler, "calendar_list_calendars", json!({})).await {
            Ok(answer) if answer["calendars"].as_array().into_iter().flatten().any(is_meant) => return Ok(butler),
            Ok(_) => {}
            // It may be the one that is meant.
            Err(e) => failed = Some(e),
        }
    }
    failed.map_or(Ok(&butlers[0]), Err)
}

/// The conflicts of all these butlers, or the choice of a version, which the first takes that sees the conflict.
async fn conflicts(caller: &Caller, butlers: &[String], asked: &Value) -> Outcome {
    if asked["conflict_id"].is_null() {
        let (answers, gaps) = each(caller, butlers, "calendar_conflicts", asked).await?;
        let (mut all, mut known) = (Vec::new(), BTreeSet::new());
        for (_, mut answer) in answers {
            all.extend(inner::<Value>(&mut answer, "conflicts")?);
        }
        // Butlers that share a calendar share its conflicts.
        all.retain(|one| known.insert(one["conflict_id"].to_string()));
        return show_conflicts(caller, json!({"conflicts": all, "not_known": gaps}));
    }
    let mut failed = None;
    for butler in butlers {
        match caller.tool::<Value>(butler, "calendar_conflicts", asked.clone()).await {
            Ok(taken) => return show_conflicts(caller, taken),
            Err(e) if e.code == "not_found" => failed = Some(e),
            Err(e) => return Err(e),
        }
    }
    failed.map_or(Ok(0), Err)
}

pub async fn run(caller: Caller, args: CalendarArgs) -> Outcome {
    let butlers = match args.butler {
        Some(name) => vec![name],
        None => with_calendars(&caller).await?,
    };
    match args.what {
        What::List { from, to, calendar } => {
            let asked = json!({"start_at": from, "end_at": to, "calendar_id": calendar, "limit": 500});
            list(&caller, &butlers, &asked).await
        }
        What::Add { title, start, end, calendar, location, overlap } => {
            let asked = json!({"title": title, "start_at": start, "end_at": end, "calendar_id": calendar, "location": location,
                               "conflict_policy": overlap.then_some("allow_overlap")});
            let butler = first(&caller, &butlers, asked["calendar_id"].as_str()).await?;
            let made: Value = caller.tool(butler, "calendar_create_event", asked).await?;
            let taken = made["status"] == "conflict";
            caller.out.answer(&made, |out, made| {
                let text = |value: &Value| one_line(value.as_str().unwrap_or_default(), 200);
                if !taken {
                    return out.line(&format!("Added: {}, {}", text(&made["title"]), text(&made["start_at"])));
                }
                out.line("Nothing was added, because the time is taken:");
                for other in made["conflicts"].as_array().into_iter().flatten() {
                    out.line(&format!("  {}, {}", text(&other["title"]), text(&other["start_at"])));
                }
                for free in made["suggestions"].as_array().into_iter().flatten() {
                    out.line(&format!("  free: {}", text(&free["start_at"])));
                }
                out.line("Choose another time, or add it with --overlap.");
            })?;
            Ok(if taken { FAILED } else { 0 })
        }
        What::Sync { calendar, full, accept_deletions } => {
            let told = |flag: bool| flag.then_some(true);
            let asked =
                json!({"calendar_id": calendar, "full": told(full), "accept_deletions": told(accept_deletions)});
            sync(&caller, &butlers, &asked).await
        }
        What::Conflicts { conflict, take } => {
            let asked = json!({"conflict_id": conflict, "take": take});
            conflicts(&caller, &butlers, &asked).await
        }
        What::Free { minutes, from, to } => {
            let asked = json!({"duration_minutes": minutes, "search_start": from, "search_end": to});
            let butler = first(&caller, &butlers, None).await?;
            let mut answer: Value = caller.tool(butler, "calendar_find_free_slots", asked).await?;
            let gaps = gaps(&answer);
            let slots: Vec<Slot> = inner(&mut answer, "slots")?;
            caller.out.list(&slots, &[], |out, slots| {
                out.table(slots).column("FROM", |s| &s.start_at).column("TO", |s| &s.end_at).print("No free times");
                gaps.iter().for_each(|gap| out.toned(Tone::Warn, gap));
            })
        }
    }
}

/// What is in the calendars of these butlers, theirs included.
async fn list(caller: &Caller, butlers: &[String], asked: &Value) -> Outcome {
    let (answers, failed) = each(caller, butlers, "calendar_list_events", asked).await?;
    let (mut events, mut gaps, mut more) = (Vec::new(), BTreeSet::from_iter(failed), false);
    for (butler, mut answer) in answers {
        gaps.extend(self::gaps(&answer));
        more |= answer["more"] == true;
        let own: Vec<Event> = inner(&mut answer, "butler_events")?;
        events.extend(own.into_iter().map(|event| Event { calendar_id: format!("({butler})"), ..event }));
        let others: Vec<Event> = inner(&mut answer, "events")?;
        // Several butlers may see one calendar.
        let seen: BTreeSet<(Uuid, String)> = events.iter().map(Event::key).collect();
        events.extend(others.into_iter().filter(|event| !seen.contains(&event.key())));
    }
    events.sort_by_cached_key(Event::begin);
    caller.out.list(&events, &[], |out, events| {
        out.table(events)
            .column("FROM", |e| &e.start_at)
            .column("TO", |e| e.end_at.as_deref().unwrap_or_default())
            .column("CALENDAR", |e| &e.calendar_id)
            .column("TITLE", |e| one_line(&e.title, 80))
            .column("WHERE", |e| one_line(&e.location, 40))
            .print("No events");
        gaps.iter().for_each(|gap| out.toned(Tone::Warn, gap));
        if more {
            out.toned(Tone::Warn, "There are more events than are shown. Name a shorter time with --from and --to.");
        }
    })
}

/// Makes calendars and their servers equal.
async fn sync(caller: &Caller, butlers: &[String], asked: &Value) -> Outcome {
    let mut all: Vec<Followed> = Vec::new();
    let (answers, gaps) = each(caller, butlers, "calendar_force_sync", asked).await?;
    for (_, mut answer) in answers {
        let more: Vec<Followed> = inner(&mut answer, "calendars")?;
        all.extend(
            more.into_iter()
                .filter(|one| !all.iter().any(|known| known.calendar_id == one.calendar_id))
                .collect::<Vec<_>>(),
        );
    }
    let failed = !gaps.is_empty() || all.iter().any(|one| one.error.is_some());
    caller.out.list(&all, &[], |out, all| {
        out.table(all)
            .column("CALENDAR", |c| &c.calendar_id)
            .column("PROVIDER", |c| &c.provider)
            .column("STATE", |c| &c.state)
            .column("WAITING", |c| number(c.changes_waiting))
            .column("CONFLICTS", |c| number(c.conflicts))
            .column("UNREADABLE", |c| number(c.unreadable))
            .column("ERROR", |c| one_line(c.error.as_deref().unwrap_or_default(), 300))
            .print("No calendars");
        gaps.iter().for_each(|gap| out.toned(Tone::Warn, gap));
    })?;
    Ok(if failed { FAILED } else { 0 })
}

fn number(of: Option<i64>) -> String {
    of.map_or_else(|| "unknown".to_owned(), |number| number.to_string())
}

/// Conflicts as a tool of calendars or address books shows them, each with its versions, or what was chosen.
pub(super) fn show_conflicts(caller: &Caller, answer: Value) -> Outcome {
    let one = |value: &Value| match value {
        Value::Null => "(not there)".to_owned(),
        Value::String(text) => one_line(text, 200),
        other => one_line(&other.to_string(), 200),
    };
    caller.out.answer(&answer, |out, answer| {
        let Some(all) = answer["conflicts"].as_array() else {
            return out.line(&format!("Taken: {}", one(&answer["taken"])));
        };
        for gap in answer["not_known"].as_array().into_iter().flatten() {
            out.toned(Tone::Warn, &one(gap));
        }
        if all.is_empty() {
            return out.line("No conflicts");
        }
        for conflict in all {
            let (id, kind, at) = (&conflict["conflict_id"], &conflict["kind"], &conflict["found_at"]);
            out.line(&format!("{}  {}  {}", one(id), one(kind), one(at)));
            for side in ["base", "ours", "theirs"] {
                match &conflict[side] {
                    Value::Array(lines) => lines.iter().for_each(|line| out.line(&format!("  {side}: {}", one(line)))),
                    Value::Object(parts) => {
                        let differs = |name: &str, value: &Value| {
                            ["base", "ours", "theirs"].iter().any(|other| conflict[other][name] != *value)
                        };
                        let parts = parts.iter().filter(|(name, value)| *name == "title" || differs(name, value));
                        let parts: Vec<String> = parts.map(|(name, value)| format!("{name} {}", one(value))).collect();
                        out.line(&format!("  {side}: {}", parts.join(", ")));
                    }
                    other => out.line(&format!("  {side}: {}", one(other))),
                }
            }
        }
        out.aside("Take another version with: --take base, ours, theirs; seen leaves it as it is");
    })
}

/// The butlers that have calendars: one at least.
async fn with_calendars(caller: &Caller) -> Result<Vec<String>, Problem> {
    let house = caller.got(caller.quick()?.status().await)?;
    let found = house.butlers.into_iter().filter(|butler| butler.modules.contains_key("calendar"));
    let found: Vec<String> = found.map(|butler| butler.name).collect();
    if found.is_empty() {
        let do_next = "Add [modules.calendar] to a butler's butler.toml";
        return Err(Problem::new(FAILED, "not_found", "No butler has calendars.".to_owned(), do_next));
    }
    Ok(found)
}
