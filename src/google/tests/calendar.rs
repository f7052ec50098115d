//! One calendar as the other side of a sync, against the stand-in of Google's.

use std::sync::Arc;

use async_trait::async_trait;
use base::Secret;
use dav::sync::{Changes, Found, Next, Page, PushError, Remote, Stored};
use serde_json::{Value, json};

use super::stand_in::calendar::{ADA, Calendars};
use super::stand_in::{Discovery, Fault, Google};
use crate::calendar::{Collection, calendars};
use crate::{AccessToken, Client, GoogleError, TokenError};

const TOKEN: &str = "token-of-ada";

/// Has a new token once the old one is refused.
struct Tokens(std::sync::Mutex<&'static str>);

#[async_trait]
impl AccessToken for Tokens {
    async fn token(&self) -> Result<Secret<String>, TokenError> {
        Ok(Secret::new((*self.0.lock().unwrap()).to_owned()))
    }
    async fn was_refused(&self, _: &Secret<String>) -> bool {
        *self.0.lock().unwrap() = TOKEN;
        true
    }
}

struct Ground {
    google: Google,
    there: Arc<Calendars>,
    client: Client,
}

impl Ground {
    async fn start(test: &str) -> Option<Self> {
        let discovery = Discovery::open(test, "calendar.v3", &[])?;
        let there = Arc::new(Calendars::default());
        there.add(ADA, "Ada", "owner");
        let google = Google::start(discovery, there.clone(), TOKEN).await;
        let client = Client::new(&google.url(), Arc::new(Tokens(std::sync::Mutex::new("an old one")))).unwrap();
        Some(Self { google, there, client })
    }

    fn calendar(&self) -> Collection {
        Collection::new(&self.client, ADA)
    }
}

fn timed(id: &str, title: &str, day: &str) -> Value {
    json!({"id": id, "summary": title, "start": {"dateTime": format!("{day}T09:00:00+01:00"), "timeZone": "Europe/Berlin"},
           "end": {"dateTime": format!("{day}T10:00:00+01:00"), "timeZone": "Europe/Berlin"}})
}

fn series(id: &str, title: &str) -> Value {
    let mut series = timed(id, title, "2027-03-10");
    series["recurrence"] = json!(["RRULE:FREQ=DAILY;COUNT=9"]);
    series
}

fn text(title: &str, more: &str) -> String {
    format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t//EN\r\nBEGIN:VEVENT\r\nUID:u1\r\nDTSTAMP:20270101T000000Z\r\n\
         DTSTART;TZID=Europe/Berlin:20270310T090000\r\nDTEND;TZID=Europe/Berlin:20270310T100000\r\nSUMMARY:{title}\r\n\
         {more}END:VEVENT\r\nEND:VCALENDAR\r\n"
    )
}

/// A daily series whose third instance is otherwise and whose second is left out.
fn special_series() -> String {
    let rule = "RRULE:FREQ=DAILY;COUNT=9\r\nEXDATE;TZID=Europe/Berlin:20270311T090000\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\n\
                UID:u1\r\nRECURRENCE-ID;TZID=Europe/Berlin:20270312T090000\r\n\
                DTSTART;TZID=Europe/Berlin:20270312T150000\r\nDTEND;TZID=Europe/Berlin:20270312T160000\r\n\
                SUMMARY:Late\r\n";
    text("Daily", rule)
}

async fn page(calendar: &Collection, since: Option<&str>) -> Page {
    match calendar.changes(since).await.unwrap() {
        Changes::Page(page) => page,
        Changes::Expired => panic!("expired"),
    }
}

fn cursor(page: &Page) -> String {
    match &page.next {
        Next::Done(Some(cursor)) | Next::More(cursor) => cursor.clone(),
        Next::Done(None) => panic!("no cursor"),
    }
}

/// An item's version and its text, unfolded.
async fn item(calendar: &Collection, href: &str) -> Option<(String, String)> {
    let fetched = calendar.fetch(&[href.to_owned()]).await.unwrap().pop().unwrap();
    match fetched.what {
        Found::Here { etag, bytes } => Some((etag.unwrap(), String::from_utf8(bytes).unwrap().replace("\r\n ", ""))),
        Found::Missing => None,
        Found::Unreadable(why) => panic!("{why}"),
    }
}

#[tokio::test]
async fn changes_are_told_once_and_by_items() {
    let Some(ground) = Ground::start("google::calendar::changes").await else { return };
    let (there, calendar) = (&ground.there, ground.calendar());
    for n in 0..5 {
        there.put(ADA, timed(&format!("event{n}"), &format!("E{n}"), "2027-03-10"));
    }
    there.put(ADA, series("series1", "Daily"));
    there.pages_of(2);
    let (mut since, mut listed) = (None, Vec::new());
    let token = loop {
        let page = page(&calendar, since.as_deref()).await;
        assert!(page.whole || since.is_some());
        listed.extend(page.changed.iter().map(|(href, _)| href.clone()));
        match &page.next {
            Next::More(more) => since = Some(more.clone()),
            Next::Done(done) => break done.clone().unwrap(),
        }
    };
    listed.sort();
    assert_eq!(listed, ["event0", "event1", "event2", "event3", "event4", "series1"]);
    assert!(page(&calendar, Some(&token)).await.changed.is_empty());
    // An instance is its series; what is deleted is named.
    let (before, _) = item(&calendar, "series1").await.unwrap();
    there.edit(ADA, "series1_20270312T080000Z", json!({"summary": "Late"}));
    there.remove(ADA, "series1_20270313T080000Z");
    there.remove(ADA, "event0");
    there.pages_of(250);
    let changes = page(&calendar, Some(&token)).await;
    assert!(!changes.whole);
    assert_eq!(
        (changes.gone, changes.changed.iter().all(|(href, _)| href == "series1")),
        (vec!["event0".to_owned()], true)
    );
    let (after, text) = item(&calendar, "series1").await.unwrap();
    assert_ne!(before, after);
    assert!(text.contains("SUMMARY:Late") && text.contains("EXDATE;TZID=Europe/Berlin:20270313T090000"), "{text}");
    assert_eq!(item(&calendar, "event0").await, None);
    there.forget_tokens();
    assert_eq!(calendar.changes(Some(&token)).await.unwrap(), Changes::Expired);
    // One instance of somebody else's series.
    let now = cursor(&page(&calendar, None).await);
    let mut alone = timed("theirs_20270312T080000Z", "Theirs", "2027-03-12");
    alone["recurringEventId"] = json!("theirs");
    alone["originalStartTime"] = alone["start"].clone();
    alone["organizer"] = json!({"email": "eve@evil.example"});
    there.put(ADA, alone);
    let changes = page(&calendar, Some(&now)).await;
    assert_eq!(changes.changed[0].0, "theirs_20270312T080000Z");
    let (_, text) = item(&calendar, "theirs_20270312T080000Z").await.unwrap();
    assert!(text.contains("ORGANIZER:mailto:eve@evil.example") && !text.contains("RECURRENCE-ID"), "{text}");
}

#[tokio::test]
async fn what_is_made_twice_is_there_once() {
    let Some(ground) = Ground::start("google::calendar::made").await else { return };
    let (there, calendar) = (&ground.there, ground.calendar());
    let href = calendar.new_href(&uuid::Uuid::new_v4().to_string()).unwrap();
    let tea = text("Tea", "");
    ground.google.fault("calendar.events.insert", Fault::Lost);
    assert!(matches!(calendar.create(&href, tea.as_bytes()).await, Err(PushError::Failed(GoogleError::Later { .. }))));
    assert!(matches!(calendar.create(&href, tea.as_bytes()).await, Err(PushError::Changed)));
    assert_eq!(there.titles(ADA), ["Tea"]);
    let (etag, stored) = item(&calendar, &href).await.unwrap();
    assert!(stored.contains("UID:u1\r\n"), "{stored}");
    // Only under the version that was seen, and only what differs.
    let seen = stored.replace("SUMMARY:Tea", "SUMMARY:Green tea");
    there.edit(ADA, &href, json!({"guestsCanModify": true, "conferenceData": {"conferenceId": "abc"}}));
    assert!(matches!(calendar.update(&href, &etag, seen.as_bytes()).await, Err(PushError::Changed)));
    let (etag, _) = item(&calendar, &href).await.unwrap();
    let Stored { etag, .. } = calendar.update(&href, &etag, seen.as_bytes()).await.unwrap();
    let event = there.event(ADA, &href).unwrap();
    assert_eq!(
        (&event["summary"], &event["guestsCanModify"], &event["conferenceData"]["conferenceId"]),
        (&json!("Green tea"), &json!(true), &json!("abc"))
    );
    assert!(matches!(calendar.delete(&href, "\"0\"").await, Err(PushError::Changed)));
    calendar.delete(&href, &etag.unwrap()).await.unwrap();
    assert!(matches!(calendar.delete(&href, "\"0\"").await, Err(PushError::Missing)));
    assert!(matches!(calendar.create(&href, tea.as_bytes()).await, Err(PushError::Changed)), "its id is used up");
    assert_eq!((item(&calendar, &href).await, there.titles(ADA).len()), (None, 0));
}

#[tokio::test]
async fn a_series_is_whole_however_often_its_writing_breaks_off() {
    let Some(ground) = Ground::start("google::calendar::series").await else { return };
    let (there, calendar) = (&ground.there, ground.calendar());
    let wanted = special_series();
    let start = cursor(&page(&calendar, None).await);
    let href = calendar.new_href(&uuid::Uuid::new_v4().to_string()).unwrap();
    ground.google.fault("calendar.events.patch", Fault::Refused(503, "backendError"));
    assert!(matches!(calendar.create(&href, wanted.as_bytes()).await, Err(PushError::Failed(_))));
    // Half a series is nobody's change.
    assert!(page(&calendar, Some(&start)).await.changed.is_empty());
    ground.google.fault("calendar.events.patch", Fault::Lost);
    assert!(matches!(calendar.create(&href, wanted.as_bytes()).await, Err(PushError::Failed(_))));
    calendar.create(&href, wanted.as_bytes()).await.unwrap();
    assert_eq!(there.titles(ADA), ["Daily", "Late"]);
    assert_eq!(page(&calendar, Some(&start)).await.changed.len(), 2);
    let (etag, stored) = item(&calendar, &href).await.unwrap();
    for line in [
        "EXDATE;TZID=Europe/Berlin:20270311T090000",
        "RECURRENCE-ID;TZID=Europe/Berlin:20270312T090000",
        "DTSTART;TZID=Europe/Berlin:20270312T150000",
        "UID:u1",
    ] {
        assert!(stored.contains(line), "{line}: {stored}");
    }
    // The title of the series, another instance, and one more that is left out; the first is there again.
    let edited = stored.replace("SUMMARY:Daily", "SUMMARY:Each day").replace("SUMMARY:Late", "SUMMARY:Later");
    let edited =
        edited.replace("EXDATE;TZID=Europe/Berlin:20270311T090000", "EXDATE;TZID=Europe/Berlin:20270314T090000");
    calendar.update(&href, &etag, edited.as_bytes()).await.unwrap();
    let (_, stored) = item(&calendar, &href).await.unwrap();
    assert!(stored.contains("20270314T090000") && !stored.contains("20270311T090000"), "{stored}");
    assert!(stored.contains("SUMMARY:Each day"), "{stored}");
    // An instance that another program left out comes back, and one that was otherwise is as the rest.
    there.remove(ADA, &format!("{href}_20270315T080000Z"));
    let (etag, stored) = item(&calendar, &href).await.unwrap();
    assert!(stored.contains("EXDATE;TZID=Europe/Berlin:20270315T090000"), "{stored}");
    let plain = text("Each day", "RRULE:FREQ=DAILY;COUNT=9\r\nEXDATE;TZID=Europe/Berlin:20270314T090000\r\n");
    calendar.update(&href, &etag, plain.as_bytes()).await.unwrap();
    let (_, stored) = item(&calendar, &href).await.unwrap();
    assert!(!stored.contains("20270315T090000\r\nRECURRENCE") && !stored.contains("Later"), "{stored}");
    assert!(!there.events(ADA).iter().any(|event| event["summary"] == "Later"));
    let gone = there.event(ADA, &format!("{href}_20270315T080000Z")).unwrap();
    assert_eq!((&gone["status"], &gone["summary"]), (&json!("confirmed"), &json!("Each day")));
    let rules = text("Once", "");
    let (etag, _) = item(&calendar, &href).await.unwrap();
    calendar.update(&href, &etag, rules.as_bytes()).await.unwrap();
    let (_, stored) = item(&calendar, &href).await.unwrap();
    assert!(!stored.contains("RRULE") && !stored.contains("RECURRENCE-ID"), "{stored}");
}

#[tokio::test]
async fn calendars_are_listed_with_what_may_be_done_there() {
    let Some(ground) = Ground::start("google::calendar::list").await else { return };
    ground.there.add("b@group.calendar.google.com", "Birds", "reader");
    ground.there.add("c@group.calendar.google.com", "Cats", "writer");
    ground.there.pages_of(1);
    let all = calendars(&ground.client).await.unwrap();
    let seen: Vec<(&str, bool, bool)> = all.iter().map(|one| (one.name.as_str(), one.read_only, one.primary)).collect();
    assert_eq!(seen, [("Ada", false, true), ("Birds", true, false), ("Cats", false, false)]);
    // What passes and what does not.
    ground.google.fault("calendar.calendarList.list", Fault::Refused(403, "rateLimitExceeded"));
    assert!(matches!(calendars(&ground.client).await, Err(GoogleError::Later { .. })));
    let birds = Collection::new(&ground.client, "b@group.calendar.google.com");
    let made = birds.create("b0123456789abcdef0", text("Tea", "").as_bytes()).await;
    assert!(matches!(made, Err(PushError::Refused(_))));
    ground.google.accept("another");
    let error = calendars(&ground.client).await.unwrap_err();
    assert!(matches!(error, GoogleError::Unauthorized { .. }) && !error.to_string().contains(TOKEN));
}
