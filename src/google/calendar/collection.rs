//! One calendar as the other side of a sync.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use calendar::When;
use dav::sync::{Changes, Fetched, Found, Next, Page, PushError, Remote, Stored};
use jiff::tz::TimeZone;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::fields::{Fields, Item, excepted};
use super::parts::{self, Parts, Written, is_cancelled, own, repeats};
use super::unfit::Unfit;
use super::{text, times};
use crate::client::Query;
use crate::{Client, GoogleError};

/// Events on a page of a list.
const PAGE: &str = "250";
/// A series with more pages of special instances than this is none.
const MOST_PAGES: usize = 100;
/// Whom Google mails what is written.
type Whom = (&'static str, &'static str);
const NOBODY_TOLD: Whom = ("sendUpdates", "none");
const ALL_TOLD: Whom = ("sendUpdates", "all");
const OTHERS_TOLD: Whom = ("sendUpdates", "externalOnly");
/// How a cursor begins that is a sync token, and one that goes on with a list.
const TOKEN: &str = "token:";
const MORE: &str = "page:";

/// Knows whom Google is to tell of what the household changed.
#[async_trait]
pub trait Recipients: Send + Sync {
    /// Of the item at this href as it is sent just now: `all` who come, `externalOnly` those without Google's calendar, else
    /// nobody.
    async fn whom(&self, href: &str) -> Result<Option<String>, GoogleError>;
}

/// One calendar. Its hrefs are the ids of events and series.
pub struct Collection {
    client: Client,
    id: String,
    /// `None`: nobody is told of anything.
    telling: Option<Arc<dyn Recipients>>,
    /// What the newest page of changes held, so that an event is not asked for again that has just come.
    listed: Mutex<BTreeMap<String, Value>>,
}

impl Collection {
    /// The calendar of this id.
    pub fn new(client: &Client, id: &str) -> Self {
        Self { client: client.clone(), id: id.to_owned(), telling: None, listed: Mutex::default() }
    }

    /// Tells those of changes whom this says.
    #[must_use]
    pub fn telling(self, recipients: Arc<dyn Recipients>) -> Self {
        Self { telling: Some(recipients), ..self }
    }

    async fn told(&self, href: &str) -> Result<Whom, Why> {
        let Some(telling) = &self.telling else { return Ok(NOBODY_TOLD) };
        let whom = telling.whom(href).await?;
        Ok(match whom.as_deref() {
            Some("all") => ALL_TOLD,
            Some("externalOnly") => OTHERS_TOLD,
            _ => NOBODY_TOLD,
        })
    }

    async fn call(
        &self,
        method: Method,
        rest: &[&str],
        query: Query<'_>,
        body: Option<&Value>,
        if_match: Option<&str>,
    ) -> Result<Value, GoogleError> {
        let path: Vec<&str> =
            ["calendar", "v3", "calendars", &self.id, "events"].into_iter().chain(rest.iter().copied()).collect();
        self.client.call(method, &path, query, body, if_match).await
    }

    fn keep(&self, event: &Value) {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.insert(id_of(event).to_owned(), event.clone());
    }

    /// What was just listed, once.
    fn kept(&self, id: &str) -> Option<Value> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// An event as it is there; `None`: it is not, or was deleted.
    async fn event(&self, id: &str) -> Result<Option<Value>, GoogleError> {
        match self.call(Method::GET, &[id], &[], None, None).await {
            Ok(event) if is_cancelled(&event) => Ok(None),
            Ok(event) => Ok(Some(event)),
            Err(GoogleError::Missing { .. } | GoogleError::Gone { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// All of an item. `None`: it is not there.
    async fn parts(&self, href: &str, known: Option<Value>) -> Result<Option<Parts>, GoogleError> {
        let main = match known {
            Some(main) => Some(main),
            None => self.event(href).await?,
        };
        let Some(main) = main else { return Ok(None) };
        let mut instances = Vec::new();
        if let Some(uid) = main["iCalUID"].as_str().filter(|_| repeats(&main)) {
            let query = [("iCalUID", uid), ("maxResults", PAGE), ("showDeleted", "true")];
            let all = self.all(&[], &query).await?;
            instances.extend(all.into_iter().filter(|one| one["recurringEventId"] == main["id"]));
        }
        Ok(Some(Parts::new(main, instances)))
    }

    /// All pages of a list.
    async fn all(&self, rest: &[&str], query: Query<'_>) -> Result<Vec<Value>, GoogleError> {
        let (mut all, mut next) = (Vec::new(), String::new());
        for _ in 0..MOST_PAGES {
            let mut query = query.to_vec();
            if !next.is_empty() {
                query.push(("pageToken", &next));
            }
            let mut page = self.call(Method::GET, rest, &query, None, None).await?;
            if let Value::Array(items) = page["items"].take() {
                all.extend(items);
            }
            match page["nextPageToken"].as_str() {
                Some(token) => next = token.to_owned(),
                None => return Ok(all),
            }
        }
        Err(self.client.protocol("its events", "one of its lists has no end"))
    }

    /// What a page of changes says, by items.
    async fn page(&self, events: &[Value]) -> Result<Page, GoogleError> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut page = Page::default();
        let mut series: BTreeMap<&str, bool> = BTreeMap::new();
        for event in events.iter().filter(|event| event["recurringEventId"].is_null()) {
            let id = id_of(event);
            if id.is_empty() || own(event, parts::UNFINISHED).is_some() {
                // The household is still at it, and goes on when it sends.
                continue;
            }
            series.insert(id, true);
            if is_cancelled(event) {
                page.gone.push(id.to_owned());
                continue;
            }
            self.keep(event);
            page.changed.push((id.to_owned(), listed_etag(event)));
        }
        for event in events {
            let (id, Some(of)) = (id_of(event), event["recurringEventId"].as_str()) else { continue };
            if id.is_empty() {
                continue;
            }
            let there = match series.get(of) {
                Some(there) => *there,
                None => {
                    // Somebody invited to this one instance only has no series.
                    let there = self.series(of).await?;
                    series.insert(of, there);
                    there
                }
            };
            if there {
                if !page.gone.iter().any(|gone| gone == of) {
                    page.changed.push((of.to_owned(), String::new()));
                }
            } else if is_cancelled(event) {
                page.gone.push(id.to_owned());
            } else {
                self.keep(event);
                page.changed.push((id.to_owned(), listed_etag(event)));
            }
        }
        page.changed.retain(|(id, _)| !page.gone.contains(id));
        Ok(page)
    }

    /// Whether there is this series, deleted or not.
    async fn series(&self, id: &str) -> Result<bool, GoogleError> {
        match self.call(Method::GET, &[id], &[], None, None).await {
            Ok(event) => {
                let unfinished = own(&event, parts::UNFINISHED).is_some();
                if !is_cancelled(&event) && !unfinished {
                    self.keep(&event);
                }
                Ok(true)
            }
            Err(GoogleError::Missing { .. }) => Ok(false),
            Err(GoogleError::Gone { .. }) => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Writes what is to be different; the event as it is then.
    async fn patch(&self, event: &Value, patch: Map<String, Value>, told: Whom) -> Result<Value, GoogleError> {
        // Whoever invites is told of an answer: it is for them.
        let told = if answers(event, &patch) { ALL_TOLD } else { told };
        let body = Value::Object(patch);
        self.call(Method::PATCH, &[id_of(event)], &[told], Some(&body), event["etag"].as_str()).await
    }

    /// The instance of a series that begins then, as it is, whatever became of it.
    async fn instance(&self, series: &str, at: &When) -> Result<Option<Value>, GoogleError> {
        let start = at.shown(&TimeZone::UTC);
        let query = [("originalStart", start.as_str()), ("showDeleted", "true"), ("maxResults", "10")];
        let found = self.all(&[series, "instances"], &query).await?;
        let is_it = |one: &Value| times::read(&one["originalStartTime"]).is_some_and(|start| times::same(&start, at));
        Ok(found.into_iter().find(is_it))
    }

    /// An instance as it was seen with its series, or as it is.
    async fn find(&self, series: &str, parts: &Parts, at: &When) -> Result<Option<Value>, GoogleError> {
        match parts.instance(at) {
            Some(known) => Ok(Some(known.clone())),
            None => self.instance(series, at).await,
        }
    }

    /// Makes an item say what is wanted. Each of its events is written under the version that was seen. The version of the
    /// item then, if it is certain that it has nobody else's changes.
    async fn bring(&self, parts: Parts, wanted: &Item, told: Whom) -> Result<Option<String>, Why> {
        let had = fields(&parts.main)?;
        let own_except: Vec<When> = text::recurrence(&parts.main).iter().flat_map(excepted).collect();
        let stays = |when: &&When| wanted.main.except.iter().any(|one| times::same(one, when));
        let kept: Vec<When> = own_except.iter().filter(stays).cloned().collect();
        let other_rules = had.rules != wanted.main.rules;
        let recurrence = (other_rules || kept.len() != own_except.len()).then_some(kept.as_slice());
        let patch = wanted.main.patch(&had, &parts.main, recurrence);
        let moved = recurrence.is_some() || patch.contains_key("start");
        let mut main = parts.main.clone();
        if !patch.is_empty() {
            main = self.patch(&parts.main, patch, told).await?;
        }
        if !repeats(&parts.main) && !repeats(&main) {
            return Ok(main["etag"].as_str().map(ToOwned::to_owned));
        }
        // A series that moved has other instances than it had.
        let id = id_of(&parts.main).to_owned();
        let parts = match moved {
            true => self.parts(&id, None).await?.ok_or(Why::Push(PushError::Changed))?,
            false => parts,
        };
        let mut written = self.instances(&id, &parts, wanted, told).await?;
        if own(&main, parts::UNFINISHED).is_some() {
            let mut done = Map::new();
            done.insert("extendedProperties".to_owned(), json!({"private": {parts::UNFINISHED: null}}));
            main = self.patch(&main, done, NOBODY_TOLD).await?;
        }
        written.note(&main);
        Ok(self.parts(&id, None).await?.filter(|now| written.is_all_between(&parts, now)).map(|now| now.etag()))
    }

    /// Makes the instances of a series what they are to be.
    async fn instances(&self, id: &str, parts: &Parts, wanted: &Item, told: Whom) -> Result<Written, Why> {
        let mut written = Written::default();
        for one in &wanted.instances {
            let Some(at) = &one.instance else { continue };
            let there = self.find(id, parts, at).await?;
            let there = there.ok_or_else(|| Why::refused(format!("its series has nothing at {at} to change")))?;
            self.bring_instance(&there, one, told, &mut written).await?;
        }
        let left_out: Vec<When> = text::recurrence(&parts.main).iter().flat_map(excepted).collect();
        let special =
            |at: &When| wanted.instances.iter().any(|one| one.instance.as_ref().is_some_and(|i| times::same(i, at)));
        for at in &wanted.main.except {
            if left_out.iter().any(|one| times::same(one, at)) || special(at) {
                continue;
            }
            if let Some(there) = self.find(id, parts, at).await?.filter(|one| !is_cancelled(one)) {
                let gone = self.call(Method::DELETE, &[id_of(&there)], &[told], None, there["etag"].as_str()).await;
                if !matches!(gone, Err(GoogleError::Missing { .. } | GoogleError::Gone { .. })) {
                    gone?;
                }
                written.cancelled(id_of(&there));
            }
        }
        // What was special and is so no longer is what the series says of it.
        for there in &parts.instances {
            let Some(at) = times::read(&there["originalStartTime"]) else { continue };
            if special(&at) || wanted.main.except.iter().any(|one| times::same(one, &at)) {
                continue;
            }
            let at = times::like(&wanted.main.start, &at);
            self.bring_instance(there, &wanted.main.at(&at)?, told, &mut written).await?;
        }
        Ok(written)
    }

    async fn bring_instance(&self, there: &Value, to: &Fields, told: Whom, written: &mut Written) -> Result<(), Why> {
        let mut patch = match is_cancelled(there) {
            // It says no more than that it is not.
            true => to.all(),
            false => to.patch(&fields(there)?, there, None),
        };
        if is_cancelled(there) {
            patch.insert("status".to_owned(), json!("confirmed"));
        }
        if !patch.is_empty() {
            written.note(&self.patch(there, patch, told).await?);
        }
        Ok(())
    }
}

/// Why a write came to nothing, before the sync is told.
enum Why {
    Google(GoogleError),
    Push(PushError<GoogleError>),
}

impl Why {
    fn refused(why: String) -> Self {
        Self::Push(PushError::Refused(why))
    }
}

impl From<Unfit> for Why {
    fn from(why: Unfit) -> Self {
        Self::refused(why.to_string())
    }
}

impl From<GoogleError> for Why {
    fn from(e: GoogleError) -> Self {
        Self::Google(e)
    }
}

impl From<Why> for PushError<GoogleError> {
    fn from(why: Why) -> Self {
        match why {
            Why::Push(e) => e,
            Why::Google(GoogleError::Changed { .. } | GoogleError::Exists { .. }) => Self::Changed,
            Why::Google(GoogleError::Missing { .. } | GoogleError::Gone { .. }) => Self::Missing,
            Why::Google(
                e @ (GoogleError::Forbidden { .. } | GoogleError::Refused { .. } | GoogleError::TooLarge { .. }),
            ) => Self::Refused(e.to_string()),
            Why::Google(e) => Self::Failed(e),
        }
    }
}

fn id_of(event: &Value) -> &str {
    event["id"].as_str().unwrap_or_default()
}

/// Whether a patch is no more than the account's own answer to somebody else's invitation.
fn answers(event: &Value, patch: &Map<String, Value>) -> bool {
    let (Some(there), Some(wanted)) = (event["attendees"].as_array(), patch.get("attendees").and_then(Value::as_array))
    else {
        return false;
    };
    let same = |one: &Value, other: &Value| {
        let own = one["self"] == true && one["email"] == other["email"];
        own || ["email", "responseStatus"].iter().all(|key| one[*key] == other[*key])
    };
    patch.len() == 1
        && event["organizer"]["self"] != true
        && there.len() == wanted.len()
        && there.iter().zip(wanted).all(|(one, other)| same(one, other))
}

/// Empty for a series: its own version says nothing of its instances'.
fn listed_etag(event: &Value) -> String {
    if repeats(event) { String::new() } else { event["etag"].as_str().unwrap_or_default().to_owned() }
}

/// What Google has of one event, in the household's fields.
fn fields(event: &Value) -> Result<Fields, Why> {
    let unread = |why: &str| Why::refused(format!("what Google has of it can't be read: {why}"));
    let start = times::read(&event["start"]).ok_or_else(|| unread("it has no start"))?;
    let component = text::event(event, "it", &start, None).map_err(|why| unread(&why.to_string()))?;
    Fields::alone(&component).map_err(|why| unread(&why.to_string()))
}

impl Remote for Collection {
    type Error = GoogleError;

    async fn changes(&self, since: Option<&str>) -> Result<Changes, GoogleError> {
        let (page, token) = match since.and_then(|since| since.strip_prefix(MORE)) {
            Some(more) => more.split_once('\n').unwrap_or((more, "")),
            None => ("", since.and_then(|since| since.strip_prefix(TOKEN)).unwrap_or_default()),
        };
        let mut query = vec![("maxResults", PAGE), ("showDeleted", "true")];
        query.extend((!token.is_empty()).then_some(("syncToken", token)));
        query.extend((!page.is_empty()).then_some(("pageToken", page)));
        let answer = match self.call(Method::GET, &[], &query, None, None).await {
            Ok(answer) => answer,
            Err(GoogleError::Gone { .. } | GoogleError::Refused { status: 400, .. }) if !token.is_empty() => {
                return Ok(Changes::Expired);
            }
            Err(e) => return Err(e),
        };
        let events = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut changes = self.page(events).await?;
        changes.whole = token.is_empty();
        changes.next = match (answer["nextPageToken"].as_str(), answer["nextSyncToken"].as_str()) {
            (Some(next), _) => Next::More(format!("{MORE}{next}\n{token}")),
            (None, next) => Next::Done(next.map(|next| format!("{TOKEN}{next}"))),
        };
        Ok(Changes::Page(changes))
    }

    async fn fetch(&self, hrefs: &[String]) -> Result<Vec<Fetched>, GoogleError> {
        let mut all = Vec::new();
        for href in hrefs {
            let what = match self.parts(href, self.kept(href)).await {
                Ok(None) => Found::Missing,
                Ok(Some(parts)) => match text::written(&parts) {
                    Ok(bytes) => Found::Here { etag: Some(parts.etag()), bytes },
                    Err(why) => Found::Unreadable(why.to_string()),
                },
                Err(
                    e @ (GoogleError::Forbidden { .. } | GoogleError::Refused { .. } | GoogleError::TooLarge { .. }),
                ) => Found::Unreadable(e.to_string()),
                Err(e) => return Err(e),
            };
            all.push(Fetched { href: href.clone(), what });
        }
        Ok(all)
    }

    /// An id that Google takes, so that what is sent twice is there once.
    fn new_href(&self, name: &str) -> Option<String> {
        // Digits and the letters to `v`; those of a UUID are among them.
        let id: String = name.chars().filter(|c| matches!(c, '0'..='9' | 'a'..='v')).collect();
        Some(if id.len() >= 16 && id.len() <= 1000 {
            format!("b{id}")
        } else {
            format!("b{}", uuid::Uuid::new_v4().simple())
        })
    }

    async fn create(&self, href: &str, bytes: &[u8]) -> Result<Stored, PushError<GoogleError>> {
        let wanted = Item::read(bytes).map_err(Why::from)?;
        let unfinished = !wanted.instances.is_empty();
        let (body, told) = (wanted.main.body(href, unfinished), self.told(href).await?);
        let made = match self.call(Method::POST, &[], &[told], Some(&body), None).await {
            Ok(made) => made,
            Err(GoogleError::Exists { .. }) => {
                // An answer was lost. What is whole is read as any other; what is half done is done.
                let there = self.event(href).await.map_err(Why::from)?;
                there.filter(|there| own(there, parts::UNFINISHED).is_some()).ok_or(PushError::Changed)?
            }
            Err(e) => return Err(Why::from(e).into()),
        };
        let etag = match unfinished {
            true => {
                let parts = self.parts(href, Some(made)).await.map_err(Why::from)?.ok_or(PushError::Changed)?;
                self.bring(parts, &wanted, told).await?
            }
            false => Some(Parts::new(made, Vec::new()).etag()).filter(|etag| !etag.is_empty()),
        };
        Ok(Stored { href: href.to_owned(), etag })
    }

    async fn update(&self, href: &str, etag: &str, bytes: &[u8]) -> Result<Stored, PushError<GoogleError>> {
        let wanted = Item::read(bytes).map_err(Why::from)?;
        let parts = self.parts(href, None).await.map_err(Why::from)?.ok_or(PushError::Missing)?;
        if parts.etag() != etag {
            return Err(PushError::Changed);
        }
        let etag = self.bring(parts, &wanted, self.told(href).await?).await?;
        Ok(Stored { href: href.to_owned(), etag })
    }

    async fn delete(&self, href: &str, etag: &str) -> Result<(), PushError<GoogleError>> {
        let parts = self.parts(href, None).await.map_err(Why::from)?.ok_or(PushError::Missing)?;
        if parts.etag() != etag {
            return Err(PushError::Changed);
        }
        let told = self.told(href).await?;
        let gone = self.call(Method::DELETE, &[href], &[told], None, parts.main["etag"].as_str()).await;
        gone.map(|_| ()).map_err(|e| Why::from(e).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_somebody_elses_invitation_is_told() {
        let event = |organizer: bool| {
            json!({"organizer": {"email": "eve@example.net", "self": organizer}, "attendees": [
                {"email": "bob@example.org", "responseStatus": "accepted"},
                {"email": "ada@example.org", "self": true, "responseStatus": "needsAction"}]})
        };
        let patch = |more: Value| {
            let mut patch = Map::new();
            patch.insert("attendees".to_owned(), more);
            patch
        };
        let bob = json!({"email": "bob@example.org", "responseStatus": "accepted"});
        let ada = json!({"email": "ada@example.org", "responseStatus": "declined"});
        assert!(answers(&event(false), &patch(json!([bob, ada]))));
        assert!(!answers(&event(true), &patch(json!([bob, ada]))));
        let other = json!({"email": "bob@example.org", "responseStatus": "declined"});
        let more = json!({"email": "eva@example.org", "responseStatus": "needsAction"});
        for others in [json!([other, ada]), json!([bob, ada, more]), json!([ada, bob]), json!([ada])] {
            assert!(!answers(&event(false), &patch(others.clone())), "{others}");
        }
        let mut both = patch(json!([bob, ada]));
        both.insert("summary".to_owned(), json!("x"));
        assert!(!answers(&event(false), &both));
    }
}
