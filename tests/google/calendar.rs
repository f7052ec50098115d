//! A stand-in of Google Calendar: versions, sync tokens, pages, and instances of series that become events of their own.

use std::collections::BTreeMap;
use std::sync::Mutex;

use calendar::{Object, When, Window, Zone};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::{Answer, Call, Service, refused};

/// Whose account it is.
pub const ADA: &str = "ada@example.org";
/// The zone of all calendars: offsets of times are its, whatever zone an event has.
const HOME: &str = "Europe/Berlin";

#[derive(Default)]
struct State {
    calendars: BTreeMap<String, Book>,
    /// Counts all changes.
    version: u64,
    /// Sync tokens before this are not known any more.
    oldest: u64,
    page: usize,
    /// Whether people may be told of what the household writes.
    tells: bool,
}

struct Book {
    name: String,
    role: String,
    /// With the version of their last change.
    events: BTreeMap<String, (u64, Value)>,
}

/// All of it. Other programs of Ada's, and other people, write by its methods.
pub struct Calendars(Mutex<State>);

impl Default for Calendars {
    fn default() -> Self {
        Self(Mutex::new(State { page: 250, ..State::default() }))
    }
}

impl Calendars {
    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.0.lock().expect("the calendars"))
    }

    /// A calendar that Ada has as an `owner`, `writer` or `reader`.
    pub fn add(&self, id: &str, name: &str, role: &str) {
        let book = Book { name: name.to_owned(), role: role.to_owned(), events: BTreeMap::new() };
        self.state(|state| state.calendars.insert(id.to_owned(), book));
    }

    /// Lists have so many entries on a page.
    pub fn pages_of(&self, entries: usize) {
        self.state(|state| state.page = entries);
    }

    /// From now on the household may have people told of what it writes.
    pub fn may_tell(&self) {
        self.state(|state| state.tells = true);
    }

    /// No sync token of before is known any more.
    pub fn forget_tokens(&self) {
        self.state(|state| {
            state.version += 1;
            state.oldest = state.version;
        });
    }

    /// Another program puts an event there, with whatever it has.
    pub fn put(&self, calendar: &str, event: Value) {
        self.state(|state| {
            let id = event["id"].as_str().expect("an id").to_owned();
            let full = completed(event);
            state.store(calendar, &id, full);
        });
    }

    /// Another program changes fields of an event, or of an instance of a series.
    pub fn edit(&self, calendar: &str, id: &str, fields: Value) {
        self.state(|state| {
            let mut event = state.find(calendar, id).unwrap_or_else(|| panic!("no event {id}"));
            merge(&mut event, &fields);
            state.store(calendar, id, event);
        });
    }

    /// Another program deletes an event, or an instance of a series.
    pub fn remove(&self, calendar: &str, id: &str) {
        self.state(|state| state.cancel(calendar, id));
    }

    /// An event as it is there.
    pub fn event(&self, calendar: &str, id: &str) -> Option<Value> {
        self.state(|state| state.find(calendar, id))
    }

    /// All events that are not cancelled.
    pub fn events(&self, calendar: &str) -> Vec<Value> {
        self.state(|state| {
            let all = state.calendars[calendar].events.values().map(|(_, event)| event);
            all.filter(|event| event["status"] != "cancelled").cloned().collect()
        })
    }

    /// The id of the one event of this title that is a series or stands for itself.
    pub fn id_of(&self, calendar: &str, title: &str) -> String {
        let all = self.events(calendar);
        let mut found = all.iter().filter(|e| e["summary"] == title && e["recurringEventId"].is_null());
        let id = found.next().unwrap_or_else(|| panic!("no {title} in {all:#?}"))["id"].as_str().expect("an id");
        assert!(found.next().is_none(), "{title} is there twice");
        id.to_owned()
    }

    /// Titles of all events, in order.
    pub fn titles(&self, calendar: &str) -> Vec<String> {
        let all = self.events(calendar);
        let mut titles: Vec<String> =
            all.iter().map(|event| event["summary"].as_str().unwrap_or_default().to_owned()).collect();
        titles.sort();
        titles
    }
}

/// With what the server adds.
fn completed(mut event: Value) -> Value {
    let id = event["id"].as_str().unwrap_or_default().to_owned();
    let me = json!({"email": ADA, "self": true});
    let added = [
        ("kind", json!("calendar#event")),
        ("status", json!("confirmed")),
        ("htmlLink", json!("https://www.google.com/calendar/event")),
        ("created", json!("2027-01-01T00:00:00.000Z")),
        ("creator", me.clone()),
        ("organizer", me),
        ("iCalUID", json!(format!("{id}@google.com"))),
        ("sequence", json!(0)),
        ("reminders", json!({"useDefault": true})),
        ("eventType", json!("default")),
    ];
    for (name, value) in added {
        if event[name].is_null() {
            event[name] = value;
        }
    }
    event
}

/// As JSON's merge patch does it.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let Value::Object(target) = into else { return };
    for (name, value) in fields {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// A time of an event as the server writes it: with the offset of the calendar.
fn shown(time: &mut Value, repeats: bool) -> Result<(), &'static str> {
    match (time["date"].is_string(), time["dateTime"].as_str().map(ToOwned::to_owned)) {
        (true, None) => Ok(()),
        (false, Some(text)) => {
            let zone = time["timeZone"].as_str().map(|zone| TimeZone::get(zone).map_err(|_| "invalid")).transpose()?;
            if zone.is_none() && repeats {
                return Err("timeZoneRequired");
            }
            let local =
                || text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(zone.clone()?).ok().map(|z| z.timestamp());
            let at = text.parse::<Timestamp>().ok().or_else(local).ok_or("timeZoneRequired")?;
            let home = at.to_zoned(TimeZone::get(HOME).expect("a zone"));
            time["dateTime"] = json!(home.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string());
            Ok(())
        }
        _ => Err("invalid"),
    }
}

fn checked(event: &mut Value) -> Result<(), &'static str> {
    let repeats = event["recurrence"].as_array().is_some_and(|lines| !lines.is_empty());
    for line in event["recurrence"].as_array().into_iter().flatten() {
        let known = ["RRULE", "EXRULE", "RDATE", "EXDATE"];
        if !line.as_str().is_some_and(|line| known.iter().any(|name| line.starts_with(name))) {
            return Err("invalid");
        }
    }
    for name in ["start", "end"] {
        shown(&mut event[name], repeats)?;
    }
    if event["start"]["date"].is_string() != event["end"]["date"].is_string() {
        return Err("invalid");
    }
    let at = |time: &Value| time["date"].as_str().or(time["dateTime"].as_str()).map(ToOwned::to_owned);
    if event["start"]["date"].is_string() && at(&event["end"]) <= at(&event["start"]) {
        return Err("timeRangeEmpty");
    }
    Ok(())
}

fn when(time: &Value) -> When {
    if let Some(day) = time["date"].as_str() {
        return When::Date(day.parse().expect("a day"));
    }
    let at: Timestamp = time["dateTime"].as_str().and_then(|at| at.parse().ok()).expect("a time");
    let zone = Zone::named(time["timeZone"].as_str().unwrap_or("UTC")).expect("a zone");
    When::Zoned(at.to_zoned(zone.tz.clone()).datetime(), zone)
}

/// What stands behind the id of a series in those of its instances.
fn mark(start: &Value) -> String {
    match start["date"].as_str() {
        Some(day) => day.replace('-', ""),
        None => {
            let at: Timestamp = start["dateTime"].as_str().and_then(|at| at.parse().ok()).expect("a time");
            at.strftime("%Y%m%dT%H%M%SZ").to_string()
        }
    }
}

impl State {
    fn store(&mut self, calendar: &str, id: &str, mut event: Value) {
        self.version += 1;
        event["etag"] = json!(format!("\"{}\"", self.version * 1000));
        event["updated"] = json!("2027-01-02T00:00:00.000Z");
        let book = self.calendars.get_mut(calendar).unwrap_or_else(|| panic!("no calendar {calendar}"));
        book.events.insert(id.to_owned(), (self.version, event));
    }

    /// An event, or an instance of a series, whether or not it is one of its own yet.
    fn find(&self, calendar: &str, id: &str) -> Option<Value> {
        let events = &self.calendars.get(calendar)?.events;
        if let Some((_, event)) = events.get(id) {
            return Some(event.clone());
        }
        let (series, mark) = id.rsplit_once('_')?;
        let (_, series) = events.get(series).filter(|(_, event)| event["status"] != "cancelled")?;
        self.instance_of(series, mark)
    }

    /// An instance of a series as its rules have it.
    fn instance_of(&self, series: &Value, wanted: &str) -> Option<Value> {
        series["recurrence"].as_array().filter(|lines| !lines.is_empty())?;
        let (start, end) = (when(&series["start"]), when(&series["end"]));
        let line = |name: &str, when: &When| {
            let line = when.line(name);
            format!("{}{}:{}", line.name, line.params, line.value)
        };
        let mut text = format!(
            "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:x\r\n{}\r\n{}\r\n",
            line("DTSTART", &start),
            line("DTEND", &end)
        );
        for rule in series["recurrence"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            text.push_str(&format!("{rule}\r\n"));
        }
        text.push_str("END:VEVENT\r\nEND:VCALENDAR\r\n");
        let object = Object::read(text.as_bytes()).expect("a series");
        let day: jiff::civil::Date = format!("{}-{}-{}", &wanted[..4], &wanted[4..6], &wanted[6..8]).parse().ok()?;
        let midnight = day.to_zoned(TimeZone::UTC).ok()?.timestamp();
        let days = jiff::SignedDuration::from_hours(48);
        let window = Window { from: midnight - days, to: midnight + days };
        let home = TimeZone::get(HOME).expect("a zone");
        for instance in object.instances(window, &home).ok()? {
            let time = |when: &When| {
                let mut time = match when {
                    When::Date(day) => json!({"date": day.to_string()}),
                    _ => json!({"dateTime": when.shown(&home), "timeZone": series["start"]["timeZone"]}),
                };
                shown(&mut time, false).expect("a time");
                time
            };
            let start = time(&instance.start);
            if mark(&start) != wanted {
                continue;
            }
            let mut event = series.clone();
            let own = event.as_object_mut().expect("an object");
            own.remove("recurrence");
            own.insert("id".to_owned(), json!(format!("{}_{wanted}", series["id"].as_str()?)));
            own.insert("recurringEventId".to_owned(), series["id"].clone());
            own.insert("originalStartTime".to_owned(), start.clone());
            own.insert("start".to_owned(), start);
            own.insert("end".to_owned(), time(&instance.end));
            return Some(event);
        }
        None
    }

    fn cancel(&mut self, calendar: &str, id: &str) {
        let mut event = self.find(calendar, id).unwrap_or_else(|| panic!("no event {id}"));
        event["status"] = json!("cancelled");
        self.store(calendar, id, event);
        self.end_instances(calendar, id);
    }

    /// What was special about instances of a series that is not any more what it was.
    fn end_instances(&mut self, calendar: &str, series: &str) {
        let events = &self.calendars[calendar].events;
        let of = events.iter().filter(|(_, (_, event))| event["recurringEventId"] == series);
        let ids: Vec<String> = of.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.calendars.get_mut(calendar).expect("the calendar").events.remove(&id);
        }
    }

    fn calendar_list(&self, call: &Call) -> Answer {
        let all: Vec<Value> = self
            .calendars
            .iter()
            .map(|(id, book)| {
                json!({"kind": "calendar#calendarListEntry", "id": id, "summary": book.name, "accessRole": book.role,
                       "timeZone": HOME, "primary": id == ADA})
            })
            .collect();
        let from: usize = call.parameter("pageToken").map_or(0, |token| token.parse().expect("a page"));
        let mut answer =
            json!({"kind": "calendar#calendarList", "items": all[from..].iter().take(self.page).collect::<Vec<_>>()});
        match from + self.page < all.len() {
            true => answer["nextPageToken"] = json!((from + self.page).to_string()),
            false => answer["nextSyncToken"] = json!("list"),
        }
        (200, answer)
    }

    fn list(&self, calendar: &str, call: &Call) -> Answer {
        let since = match call.parameter("syncToken") {
            None => None,
            Some(token) => match token.strip_prefix("sync-").and_then(|token| token.parse::<u64>().ok()) {
                None => return refused(400, "invalid"),
                Some(version) if version < self.oldest => return refused(410, "fullSyncRequired"),
                Some(version) => Some(version),
            },
        };
        let never_with = ["iCalUID", "orderBy", "q", "timeMin", "timeMax", "updatedMin", "privateExtendedProperty"];
        if since.is_some() && never_with.iter().any(|name| call.parameter(name).is_some()) {
            return refused(400, "invalidParameter");
        }
        let deleted = since.is_some() || call.parameter("showDeleted") == Some("true");
        let book = &self.calendars[calendar];
        let uid = call.parameter("iCalUID");
        let mut found: Vec<(u64, Value)> = Vec::new();
        for (version, event) in book.events.values() {
            let cancelled = event["status"] == "cancelled";
            let instance = event["recurringEventId"].is_string();
            if since.is_some_and(|since| *version <= since)
                || cancelled && !deleted && !instance
                || uid.is_some_and(|uid| event["iCalUID"] != uid)
            {
                continue;
            }
            // Of what is cancelled no more is promised than this.
            let named = ["kind", "id", "etag", "status", "recurringEventId", "originalStartTime"];
            let brief: Map<String, Value> =
                named.iter().filter_map(|name| Some(((*name).to_owned(), event.get(*name)?.clone()))).collect();
            found.push((*version, if cancelled { Value::Object(brief) } else { event.clone() }));
        }
        found.sort_by_key(|(version, _)| *version);
        // Where a list goes on, and which state of the calendar its token stands for.
        let paged = call.parameter("pageToken").map(|token| token.split_once('-').expect("a page"));
        let (from, state) = match paged {
            Some((from, state)) => (from.parse().expect("a place"), state.parse().expect("a state")),
            None => (0usize, self.version),
        };
        let asked = call.parameter("maxResults").map_or(250, |most| most.parse().expect("a number"));
        let size = self.page.min(asked);
        let items: Vec<&Value> = found.iter().map(|(_, event)| event).skip(from).take(size).collect();
        let mut answer = json!({"kind": "calendar#events", "items": items, "accessRole": book.role, "timeZone": HOME});
        if from + size < found.len() {
            answer["nextPageToken"] = json!(format!("{}-{state}", from + size));
        } else {
            answer["nextSyncToken"] = json!(format!("sync-{state}"));
        }
        (200, answer)
    }

    fn insert(&mut self, calendar: &str, call: &Call) -> Answer {
        let mut event = call.body.clone();
        let id = match event["id"].as_str() {
            None => format!("made{}", self.version),
            Some(id) => {
                let good = |c: char| matches!(c, '0'..='9' | 'a'..='v');
                if !(5..=1024).contains(&id.len()) || !id.chars().all(good) || event["iCalUID"].is_string() {
                    return refused(400, "invalid");
                }
                id.to_owned()
            }
        };
        if self.calendars[calendar].events.contains_key(&id) {
            // Also one that was deleted.
            return refused(409, "duplicate");
        }
        event["id"] = json!(id);
        if let Err(why) = checked(&mut event) {
            return refused(400, why);
        }
        self.store(calendar, &id, completed(event));
        (200, self.calendars[calendar].events[&id].1.clone())
    }

    fn patch(&mut self, calendar: &str, id: &str, call: &Call) -> Answer {
        let Some(before) = self.find(calendar, id) else { return refused(404, "notFound") };
        if call.headers.get("if-match").is_some_and(|etag| before["etag"] != **etag) {
            return refused(412, "conditionNotMet");
        }
        let only = call.body.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        if before["organizer"]["self"] != true
            && only.clone().any(|name| !matches!(name, "attendees" | "reminders" | "extendedProperties"))
        {
            return refused(403, "forbiddenForNonOrganizer");
        }
        let mut event = before.clone();
        merge(&mut event, &call.body);
        if let Err(why) = checked(&mut event) {
            return refused(400, why);
        }
        let moved = event["start"] != before["start"] || event["recurrence"] != before["recurrence"];
        if moved {
            event["sequence"] = json!(before["sequence"].as_i64().unwrap_or(0) + 1);
        }
        self.store(calendar, id, event);
        if moved && before["recurringEventId"].is_null() {
            self.end_instances(calendar, id);
        }
        (200, self.calendars[calendar].events[id].1.clone())
    }

    fn delete(&mut self, calendar: &str, id: &str, call: &Call) -> Answer {
        match self.find(calendar, id) {
            None => refused(404, "notFound"),
            Some(event) if event["status"] == "cancelled" => refused(410, "deleted"),
            Some(event) if call.headers.get("if-match").is_some_and(|etag| event["etag"] != **etag) => {
                refused(412, "conditionNotMet")
            }
            Some(_) => {
                self.cancel(calendar, id);
                (204, Value::Null)
            }
        }
    }

    fn instances(&self, calendar: &str, id: &str, call: &Call) -> Answer {
        let Some(original) = call.parameter("originalStart") else { return refused(400, "notBuiltHere") };
        let start = match original.len() {
            10 => json!({"date": original}),
            _ => json!({"dateTime": original}),
        };
        let found = self.find(calendar, &format!("{id}_{}", mark(&start)));
        let hidden = call.parameter("showDeleted") != Some("true");
        let items: Vec<Value> = found.into_iter().filter(|one| !(hidden && one["status"] == "cancelled")).collect();
        (200, json!({"kind": "calendar#events", "items": items}))
    }
}

impl Service for Calendars {
    fn answer(&self, call: &Call) -> Answer {
        self.state(|state| {
            if call.id == "calendar.calendarList.list" {
                return state.calendar_list(call);
            }
            let calendar = call.parameter("calendarId").unwrap_or_default().to_owned();
            let Some(role) = state.calendars.get(&calendar).map(|book| book.role.clone()) else {
                return refused(404, "notFound");
            };
            let id = call.parameter("eventId").unwrap_or_default().to_owned();
            let writes = !call.id.ends_with("list") && !call.id.ends_with("get") && !call.id.ends_with("instances");
            // An answer is for whoever invites, and nobody else is told of anything.
            let invited = state.find(&calendar, &id).is_some_and(|event| event["organizer"]["self"] != true);
            match call.parameter("sendUpdates") {
                Some("all") if call.id == "calendar.events.patch" && invited => {}
                Some("all" | "externalOnly") if state.tells => {}
                told => assert!(!writes || told == Some("none"), "people are told: {call:?}"),
            }
            if writes && !matches!(role.as_str(), "owner" | "writer") {
                return refused(403, "requiredAccessLevel");
            }
            match call.id.as_str() {
                "calendar.events.list" => state.list(&calendar, call),
                "calendar.events.get" => {
                    state.find(&calendar, &id).map_or_else(|| refused(404, "notFound"), |e| (200, e))
                }
                "calendar.events.insert" => state.insert(&calendar, call),
                "calendar.events.patch" => state.patch(&calendar, &id, call),
                "calendar.events.delete" => state.delete(&calendar, &id, call),
                "calendar.events.instances" => state.instances(&calendar, &id, call),
                other => panic!("{other} is not built here"),
            }
        })
    }
}
