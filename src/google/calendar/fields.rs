//! What the household has of an event, as Google's fields; and what of them differs from what Google has.

use calendar::text::{Component, Line, Node};
use calendar::{COLORS, Event, Object, Status, When, Zone, plain_address};
use serde_json::{Map, Value, json};

use super::parts;
use super::times;
use super::unfit::Unfit;

/// One event, or one instance of a series, in those fields of Google's that the household knows.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    /// Fields that are written as a whole.
    plain: Map<String, Value>,
    attendees: Vec<Value>,
    /// Minutes before the start.
    alarms: Vec<i64>,
    /// How it repeats, without what is left out.
    pub rules: Vec<String>,
    pub start: When,
    pub end: When,
    /// Instances that don't take place.
    pub except: Vec<When>,
    sequence: i64,
    pub uid: String,
    /// Which instance of the series it is.
    pub instance: Option<When>,
}

/// An item of the household: the event or series, and its special instances.
pub(super) struct Item {
    pub main: Fields,
    pub instances: Vec<Fields>,
}

impl Item {
    /// Else a sentence why Google can't have it.
    pub fn read(bytes: &[u8]) -> Result<Self, Unfit> {
        let object = Object::read(bytes)?;
        let root = calendar::text::read(bytes)?;
        let master = object.master().ok_or("it is only some instances of a series; put them in as events")?;
        let mut main = None;
        let mut instances = Vec::new();
        for (n, (event, component)) in object.events.iter().zip(root.components("VEVENT")).enumerate() {
            if n == master {
                main = Some(Fields::read(event, component)?);
            } else if event.recurrence_id.is_some() {
                instances.push(Fields::read(event, component)?);
            }
        }
        Ok(Self { main: main.ok_or("it has no event")?, instances })
    }
}

impl Fields {
    pub fn read(event: &Event, component: &Component) -> Result<Self, Unfit> {
        if event.status == Status::Cancelled {
            return Err("Google deletes an event that is cancelled; delete it, or let it take place".into());
        }
        if event.this_and_future {
            return Err("Google has no change for one instance and all later ones; split the series".into());
        }
        let mut plain = Map::new();
        for (name, text) in
            [("summary", &event.title), ("description", &event.description), ("location", &event.location)]
        {
            if !text.is_empty() {
                plain.insert(name.to_owned(), json!(text));
            }
        }
        if let Some(at) = event.color.as_ref().and_then(|color| COLORS.iter().position(|one| one == color)) {
            plain.insert("colorId".to_owned(), json!((at + 1).to_string()));
        }
        plain.insert("start".to_owned(), times::written(&event.start)?);
        plain.insert("end".to_owned(), times::written(&event.end)?);
        let status = if event.status == Status::Tentative { "tentative" } else { "confirmed" };
        plain.insert("status".to_owned(), json!(status));
        let free = if event.busy { "opaque" } else { "transparent" };
        plain.insert("transparency".to_owned(), json!(free));
        let class = component.line("CLASS").map(|_| event.visibility.as_str());
        let class = class.filter(|class| matches!(*class, "public" | "private" | "confidential"));
        plain.insert("visibility".to_owned(), json!(class.unwrap_or("default")));
        let rules = ["RRULE", "EXRULE", "RDATE"].into_iter().flat_map(|name| component.lines(name)).map(text);
        Ok(Self {
            plain,
            attendees: event.attendees.iter().map(attendee).collect(),
            alarms: alarms(component),
            rules: rules.collect(),
            start: event.start.clone(),
            end: event.end.clone(),
            except: component.lines("EXDATE").flat_map(excepted).collect(),
            sequence: event.sequence,
            uid: event.uid.clone(),
            instance: event.recurrence_id.clone(),
        })
    }

    /// Of a component by itself, such as Google's own.
    pub fn alone(component: &Component) -> Result<Self, Unfit> {
        let mut root = Component::new("VCALENDAR");
        root.nodes.push(Node::Component(component.clone()));
        let mut bytes = Vec::new();
        root.write(&mut bytes);
        let object = Object::read(&bytes)?;
        Self::read(object.main(), component)
    }

    /// Every field, for an instance that says nothing any more.
    pub fn all(&self) -> Map<String, Value> {
        let mut all: Map<String, Value> =
            self.plain.iter().map(|(name, value)| (name.clone(), whole(name, Some(value)))).collect();
        for name in ["summary", "description", "location", "colorId"] {
            all.entry(name).or_insert(Value::Null);
        }
        all.insert("attendees".to_owned(), json!(self.attendees));
        all
    }

    /// The body of a new event with this id.
    pub fn body(&self, id: &str, unfinished: bool) -> Value {
        let mut body = self.plain.clone();
        body.insert("id".to_owned(), json!(id));
        let recurrence = self.recurrence(&self.except);
        if !recurrence.is_empty() {
            body.insert("recurrence".to_owned(), json!(recurrence));
        }
        if !self.attendees.is_empty() {
            body.insert("attendees".to_owned(), json!(self.attendees));
        }
        if !self.alarms.is_empty() {
            body.insert("reminders".to_owned(), reminders(&self.alarms, &Value::Null));
        }
        let mut own = Map::new();
        own.insert(parts::UID.to_owned(), json!(self.uid));
        own.insert(parts::SEQUENCE.to_owned(), json!(self.sequence.to_string()));
        if unfinished {
            own.insert(parts::UNFINISHED.to_owned(), json!("1"));
        }
        body.insert("extendedProperties".to_owned(), json!({ "private": own }));
        Value::Object(body)
    }

    /// The lines by which it repeats, without these instances.
    fn recurrence(&self, except: &[When]) -> Vec<String> {
        let except = except.iter().map(|when| text(&when.line("EXDATE")));
        if self.rules.is_empty() { Vec::new() } else { self.rules.iter().cloned().chain(except).collect() }
    }

    /// What makes Google's `there`, which says `had`, say this. `kept`: of the instances that `there` itself leaves out,
    /// those that stay so. Empty: nothing differs.
    pub fn patch(&self, had: &Self, there: &Value, kept: Option<&[When]>) -> Map<String, Value> {
        let mut patch = Map::new();
        for name in self.plain.keys().chain(had.plain.keys()) {
            let (wanted, known) = (self.plain.get(name), had.plain.get(name));
            if wanted != known {
                patch.insert(name.clone(), whole(name, wanted));
            }
        }
        if self.attendees != had.attendees {
            let known = self.attendees.iter().map(|one| merged(one, &there["attendees"]));
            // Who has no address is nobody whom the household knows, and stays.
            let others = there["attendees"].as_array().into_iter().flatten().filter(|one| !has_address(one));
            let all: Vec<Value> = known.chain(others.map(writable)).collect();
            patch.insert("attendees".to_owned(), json!(all));
        }
        if self.alarms != had.alarms {
            patch.insert("reminders".to_owned(), reminders(&self.alarms, &there["reminders"]["overrides"]));
        }
        if let Some(kept) = kept {
            let lines = self.recurrence(kept);
            let lines = if lines.is_empty() { Value::Null } else { json!(lines) };
            patch.insert("recurrence".to_owned(), lines);
        }
        if self.sequence != had.sequence {
            let own = json!({"private": {parts::SEQUENCE: self.sequence.to_string()}});
            patch.insert("extendedProperties".to_owned(), own);
        }
        patch
    }

    /// This series' own fields for one of its instances.
    pub fn at(&self, instance: &When) -> Result<Self, Unfit> {
        let length = self.end.local().duration_since(self.start.local());
        let end = instance.plus(length)?;
        let mut plain = self.plain.clone();
        plain.insert("start".to_owned(), times::written(instance)?);
        plain.insert("end".to_owned(), times::written(&end)?);
        Ok(Self { plain, rules: Vec::new(), except: Vec::new(), instance: Some(instance.clone()), ..self.clone() })
    }
}

/// A field of a patch: what is not said of a time any more is cleared.
fn whole(name: &str, wanted: Option<&Value>) -> Value {
    let Some(wanted) = wanted else { return Value::Null };
    if !matches!(name, "start" | "end") {
        return wanted.clone();
    }
    let mut time = json!({"date": null, "dateTime": null, "timeZone": null});
    for (key, value) in wanted.as_object().into_iter().flatten() {
        time[key] = value.clone();
    }
    time
}

fn text(line: &Line) -> String {
    format!("{}{}:{}", line.name, line.params, line.value)
}

/// The instances that a line leaves out.
pub(super) fn excepted(line: &Line) -> Vec<When> {
    let zone = line.param("TZID").and_then(|id| Zone::named(&id).ok());
    let read = line.value.split(',').filter_map(|value| When::read("EXDATE", value.trim(), zone.as_ref()).ok());
    if line.name == "EXDATE" { read.collect() } else { Vec::new() }
}

fn attendee(one: &calendar::Attendee) -> Value {
    let answer = match one.answer.as_deref() {
        Some("accepted") => "accepted",
        Some("declined") => "declined",
        Some("tentative") => "tentative",
        _ => "needsAction",
    };
    let mut out = json!({"email": plain_address(&one.email), "responseStatus": answer});
    if let Some(name) = one.name.as_deref().filter(|name| !name.is_empty()) {
        out["displayName"] = json!(name);
    }
    if one.optional {
        out["optional"] = json!(true);
    }
    out
}

/// Somebody who is asked to come, with whatever else Google knows of him.
fn merged(wanted: &Value, there: &Value) -> Value {
    let is_it = |one: &&Value| {
        let (a, b) = (one["email"].as_str().unwrap_or_default(), wanted["email"].as_str().unwrap_or_default());
        a.eq_ignore_ascii_case(b)
    };
    let known = there.as_array().into_iter().flatten().find(is_it);
    let mut out = known.map_or_else(|| json!({}), writable);
    // What the household says by leaving it out.
    for name in ["displayName", "optional"] {
        out.as_object_mut().map(|out| out.remove(name));
    }
    for (name, value) in wanted.as_object().into_iter().flatten() {
        out[name] = value.clone();
    }
    out
}

fn has_address(one: &Value) -> bool {
    one["email"].as_str().is_some_and(|email| email.contains('@'))
}

/// Without what Google says and nobody may write.
fn writable(one: &Value) -> Value {
    let mut out = one.clone();
    for name in ["self", "organizer", "asyncOperation"] {
        out.as_object_mut().map(|out| out.remove(name));
    }
    out
}

/// The reminders that are shown, and those of other kinds that are there.
fn reminders(minutes: &[i64], there: &Value) -> Value {
    let others = there.as_array().into_iter().flatten().filter(|one| one["method"] != "popup").cloned();
    let shown = minutes.iter().map(|minutes| json!({"method": "popup", "minutes": minutes}));
    json!({"useDefault": false, "overrides": others.chain(shown).collect::<Vec<_>>()})
}

/// Alarms that show something so many minutes before the start: Google knows no others.
fn alarms(component: &Component) -> Vec<i64> {
    let minutes = |alarm: &Component| {
        let trigger = alarm.line("TRIGGER")?.value.trim().strip_prefix("-PT")?.strip_suffix('M')?.parse().ok()?;
        let shown = alarm.line("ACTION").is_some_and(|action| action.value.eq_ignore_ascii_case("DISPLAY"));
        shown.then_some(trigger)
    };
    let mut all: Vec<i64> = component.components("VALARM").filter_map(minutes).collect();
    all.sort_unstable();
    all.dedup();
    all
}
