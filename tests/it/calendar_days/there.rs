//! Another program of Ada's, which edits her calendar at the server.

use calendar::text::{Component, Line, Node};
use calendar::{Object, When, Window};
use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use reqwest::{Client, Method, StatusCode};

use super::record::{edited, set};
use crate::support::hostile_mail::Chance;
use crate::support::radicale::{CALENDAR, PASSWORD};

const ZONE: &str = "BEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\nBEGIN:STANDARD\r\nDTSTART:19701025T030000\r\n\
    TZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100\r\nRRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\r\nEND:STANDARD\r\nBEGIN:DAYLIGHT\r\n\
    DTSTART:19700329T020000\r\nTZOFFSETFROM:+0100\r\nTZOFFSETTO:+0200\r\nRRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\r\n\
    END:DAYLIGHT\r\nEND:VTIMEZONE\r\n";
pub const RULES: [&str; 4] = ["FREQ=WEEKLY", "FREQ=DAILY;COUNT=6", "FREQ=WEEKLY;COUNT=5;INTERVAL=2", "FREQ=MONTHLY"];

/// What the server has at an address.
#[derive(Clone)]
pub struct There {
    pub href: String,
    pub etag: String,
    pub bytes: Vec<u8>,
}

pub struct Server {
    url: String,
    http: Client,
}

impl Server {
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), http: crate::support::http() }
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        condition: Option<(&str, &str)>,
        body: Vec<u8>,
    ) -> (StatusCode, String, Vec<u8>) {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = self.http.request(method, format!("{}{path}", self.url)).basic_auth("ada", Some(PASSWORD));
        if let Some((name, value)) = condition {
            request = request.header(name, value);
        }
        let answer = request.header("depth", "1").body(body).send().await.expect("an answer");
        let etag = answer.headers().get("etag").and_then(|etag| etag.to_str().ok()).unwrap_or_default().to_owned();
        (answer.status(), etag, answer.bytes().await.expect("a body").to_vec())
    }

    /// Where its items are.
    pub async fn hrefs(&self) -> Vec<String> {
        let (_, _, listed) = self.ask("PROPFIND", CALENDAR, None, Vec::new()).await;
        let listed = String::from_utf8(listed).expect("a list");
        let hrefs = listed.split("href>").filter(|part| part.ends_with("</") && part.contains(".ics"));
        let mut hrefs: Vec<String> = hrefs.map(|part| part.trim_end_matches("</").to_owned()).collect();
        hrefs.sort();
        hrefs.dedup();
        hrefs
    }

    pub async fn get(&self, href: &str) -> Option<There> {
        let (status, etag, bytes) = self.ask("GET", href, None, Vec::new()).await;
        status.is_success().then(|| There { href: href.to_owned(), etag, bytes })
    }

    pub async fn all(&self) -> Vec<There> {
        let mut all = Vec::new();
        for href in self.hrefs().await {
            all.extend(self.get(&href).await);
        }
        all
    }

    /// Writes a new item. `false`: the server takes no other of this UID.
    pub async fn create(&self, name: &str, bytes: Vec<u8>) -> bool {
        let path = format!("{CALENDAR}{name}.ics");
        self.ask("PUT", &path, Some(("if-none-match", "*")), bytes).await.0.is_success()
    }

    /// Writes what was read. `false`: somebody else did so meanwhile.
    pub async fn put(&self, of: &There, bytes: Vec<u8>) -> bool {
        self.ask("PUT", &of.href, Some(("if-match", &of.etag)), bytes).await.0.is_success()
    }

    pub async fn delete(&self, of: &There) -> bool {
        self.ask("DELETE", &of.href, Some(("if-match", &of.etag)), Vec::new()).await.0.is_success()
    }
}

/// A time by chance within the next weeks.
pub fn time(chance: &mut Chance, today: DateTime) -> DateTime {
    let number = |n: usize| i64::try_from(n).expect("a number");
    let hours = 24 * number(chance.below(40)) - 24 * 8 + 6 + number(chance.below(14));
    let midnight = today.date().to_datetime(jiff::civil::Time::midnight());
    midnight.saturating_add(SignedDuration::from_mins(hours * 60 + number(chance.below(60))))
}

/// A new event, sometimes of a whole day, sometimes a series.
pub fn new(chance: &mut Chance, uid: &str, word: &str, today: DateTime) -> Vec<u8> {
    let at = time(chance, today);
    let (start, end) = (at, at.saturating_add(SignedDuration::from_mins(45)));
    let written = |at: DateTime| at.strftime("%Y%m%dT%H%M%S").to_string();
    let (zone, times) = match chance.below(4) {
        0 => {
            let (day, next) = (When::Date(start.date()), When::Date(start.date().tomorrow().expect("a day")));
            ("", format!("DTSTART;VALUE=DATE:{}\r\nDTEND;VALUE=DATE:{}\r\n", day.value(), next.value()))
        }
        1 => ("", format!("DTSTART:{}Z\r\nDTEND:{}Z\r\n", written(start), written(end))),
        _ => {
            let of = |name: &str, at| format!("{name};TZID=Europe/Berlin:{}\r\n", written(at));
            (ZONE, format!("{}{}", of("DTSTART", start), of("DTEND", end)))
        }
    };
    let rule = match chance.below(3) {
        0 => format!("RRULE:{}\r\n", chance.one_of(&RULES)),
        _ => String::new(),
    };
    format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t//EN\r\n{zone}BEGIN:VEVENT\r\nUID:{uid}\r\nDTSTAMP:20270101T000000Z\r\n\
         {times}{rule}SUMMARY:{word}\r\nLOCATION:at {word}\r\nDESCRIPTION:of {word}\r\nX-KEPT;X-A=\"b:c\":as it is\r\n\
         END:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    .into_bytes()
}

/// What the other program makes of an event: another text, another time, one time of a series, one less of it.
pub fn changed(chance: &mut Chance, bytes: &[u8], word: &str, (today, home): (DateTime, &TimeZone)) -> Vec<u8> {
    let object = Object::read(bytes).expect("an event");
    if object.repeats() && chance.below(3) > 0 {
        let from = object.main().start.instant(home).expect("a time");
        let window = Window::new(from, from.saturating_add(SignedDuration::from_hours(24 * 60)).expect("a time"));
        let all = object.instances(window.expect("a window"), home).expect("its times");
        let regular: Vec<_> = all.iter().filter(|one| object.events[one.event].recurrence_id.is_none()).collect();
        if regular.len() > 1 {
            let one = regular[chance.below(regular.len())];
            return match chance.below(2) {
                0 => edited(bytes, |root| excepted(root, &one.id)),
                _ => edited(bytes, |root| exception(root, (&one.id, &one.start, &one.end), word)),
            };
        }
    }
    let alone = object.events.len() == 1 && !object.repeats();
    edited(bytes, |root| {
        let event = main(root);
        match chance.below(if alone { 5 } else { 3 }) {
            0 => set(event, Line::new("SUMMARY", word)),
            1 => set(event, Line::new("LOCATION", word)),
            2 => set(event, Line::new("DESCRIPTION", word)),
            _ => {
                let start = object.main().start.at(time(chance, today));
                let length = SignedDuration::from_mins(if start.is_date() { 2 * 24 * 60 } else { 50 });
                set(event, start.line("DTSTART"));
                set(event, start.plus(length).expect("a time").line("DTEND"));
            }
        }
    })
}

/// The event that stands for the series.
fn main(root: &mut Component) -> &mut Component {
    let events = root.nodes.iter_mut().filter_map(|node| match node {
        Node::Component(event) if event.name == "VEVENT" => Some(event),
        _ => None,
    });
    let mut all: Vec<&mut Component> = events.collect();
    let at = all.iter().position(|event| event.line("RECURRENCE-ID").is_none()).unwrap_or(0);
    all.swap_remove(at)
}

fn excepted(root: &mut Component, id: &When) {
    let event = main(root);
    let place = event.nodes.iter().position(|node| matches!(node, Node::Component(_))).unwrap_or(event.nodes.len());
    event.nodes.insert(place, Node::Line(id.line("EXDATE")));
}

fn exception(root: &mut Component, (id, start, end): (&When, &When, &When), word: &str) {
    let mut one = main(root).clone();
    one.set("RRULE", Vec::new());
    one.set("EXDATE", Vec::new());
    for line in [id.line("RECURRENCE-ID"), start.line("DTSTART"), end.line("DTEND"), Line::new("SUMMARY", word)] {
        set(&mut one, line);
    }
    root.nodes.push(Node::Component(one));
}
