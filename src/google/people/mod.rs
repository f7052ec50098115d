//! The contacts of an account as the other side of a sync.
//!
//! A contact's href is its name at Google (`people/c1`), its etag that of what its owner wrote (its source `CONTACT`): a new
//! picture of the person themselves is no change of the contact. What other people's profiles say, and whom the owner only
//! once wrote to ("other contacts"), is not read and never written.
//!
//! # A creation whose answer is lost
//!
//! Google alone gives names, and makes two persons of two equal requests. So a new person carries the UID of its card
//! ([`card::UID_KEY`] in its client data, which nobody but this program sees), and before the first creation of a run all
//! contacts are listed, whole and not by a sync token, because Google says that these lag behind. Who is there with the UID
//! is the one that was made, and is not made again. Who is there and was pulled before has the card's UID for the same reason.

mod card;
mod person;

use std::collections::BTreeMap;

use dav::sync::{Changes, Fetched, Found, Next, Page, PushError, Remote, Stored};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::client::Client;
use crate::error::GoogleError;
use reqwest::Method;

/// Where contacts are.
pub const ORIGIN: &str = "https://people.googleapis.com";
/// What is read of each. An etag is of just these, so all requests name the same.
const FIELDS: &str = "names,nicknames,emailAddresses,phoneNumbers,imClients,organizations,birthdays,biographies,urls,photos,\
                      clientData,metadata";
/// What the owner wrote, and nothing from profiles.
const SOURCE: &str = "READ_SOURCE_TYPE_CONTACT";
/// As many as a page may have.
const PAGE: &str = "1000";
/// As many as may be asked for at once.
const BATCH: usize = 200;
/// Pages of one list; a server that has more goes in circles.
const MOST_PAGES: usize = 1_000;

/// An account's contacts.
pub struct Contacts {
    client: Client,
    /// Who was made by the house, by UID, with name and etag: listed before the first creation.
    made: Mutex<Option<BTreeMap<String, Stored>>>,
}

/// Where a list goes on. It is the sync's cursor.
struct Cursor {
    page: Option<String>,
    /// The list's own, which each of its pages must name.
    sync: Option<String>,
}

impl Cursor {
    fn read(text: Option<&str>) -> Self {
        let json: Value = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let of = |key: &str| json[key].as_str().map(str::to_owned);
        Self { page: of("page"), sync: of("sync") }
    }

    fn written(&self) -> String {
        json!({"page": self.page, "sync": self.sync}).to_string()
    }
}

/// The etag of what the owner wrote; `None` if there is nothing of the kind: such a person is nobody's contact.
fn etag(person: &Value) -> Option<String> {
    let sources = person["metadata"]["sources"].as_array().into_iter().flatten();
    let own = sources.into_iter().find(|source| source["type"] == "CONTACT")?;
    own["etag"].as_str().or(person["etag"].as_str()).map(str::to_owned)
}

fn name(person: &Value) -> Option<&str> {
    person["resourceName"].as_str().filter(|name| id(name).is_some())
}

/// The last part of `people/c1`.
fn id(name: &str) -> Option<&str> {
    let id = name.strip_prefix("people/")?;
    let right =
        !id.is_empty() && id.len() <= 200 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    right.then_some(id)
}

/// What a failed write means.
fn of_write(e: GoogleError) -> PushError<GoogleError> {
    match e {
        GoogleError::Changed { .. } => PushError::Changed,
        GoogleError::Missing { .. } | GoogleError::Gone { .. } => PushError::Missing,
        e @ (GoogleError::Refused { .. } | GoogleError::Exists { .. }) => PushError::Refused(e.to_string()),
        e => PushError::Failed(e),
    }
}

impl Contacts {
    pub fn new(client: Client) -> Self {
        Self { client, made: Mutex::default() }
    }

    /// Whether the account lets its contacts be read.
    ///
    /// # Errors
    ///
    /// Why not.
    pub async fn attempt(&self) -> Result<(), GoogleError> {
        let query = [("personFields", "metadata"), ("pageSize", "1"), ("sources", SOURCE)];
        self.client.call(Method::GET, &["v1", "people", "me", "connections"], &query, None, None).await.map(drop)
    }

    /// A page of all contacts, or of those that changed since a sync token.
    async fn page(&self, cursor: &Cursor, fields: &str, syncs: bool) -> Result<Value, GoogleError> {
        let mut query = vec![("personFields", fields), ("pageSize", PAGE), ("sources", SOURCE)];
        if syncs {
            query.push(("requestSyncToken", "true"));
        }
        query.extend(cursor.sync.as_deref().map(|token| ("syncToken", token)));
        query.extend(cursor.page.as_deref().map(|token| ("pageToken", token)));
        self.client.call(Method::GET, &["v1", "people", "me", "connections"], &query, None, None).await
    }

    /// One contact as it is now; `None` if it is not there.
    async fn person(&self, href: &str) -> Result<Option<Value>, GoogleError> {
        let Some(id) = id(href) else { return Ok(None) };
        let query = [("personFields", FIELDS), ("sources", SOURCE)];
        match self.client.call(Method::GET, &["v1", "people", id], &query, None, None).await {
            Ok(person) => Ok(Some(person).filter(|person| etag(person).is_some())),
            Err(GoogleError::Missing { .. } | GoogleError::Gone { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// One contact, if it still is as it was seen.
    async fn unchanged(&self, href: &str, seen: &str) -> Result<Value, PushError<GoogleError>> {
        let person = self.person(href).await.map_err(PushError::Failed)?.ok_or(PushError::Missing)?;
        if etag(&person).as_deref() == Some(seen) { Ok(person) } else { Err(PushError::Changed) }
    }

    /// Everybody whom the house made, by UID.
    async fn all_made(&self) -> Result<BTreeMap<String, Stored>, GoogleError> {
        let (mut made, mut cursor) = (BTreeMap::new(), Cursor::read(None));
        for _ in 0..MOST_PAGES {
            let listed = self.page(&cursor, "clientData,metadata", false).await?;
            for person in listed["connections"].as_array().into_iter().flatten() {
                let (Some(uid), Some(name), Some(etag)) = (card::own_uid(person), name(person), etag(person)) else {
                    continue;
                };
                made.insert(uid, Stored { href: name.to_owned(), etag: Some(etag) });
            }
            cursor.page = listed["nextPageToken"].as_str().map(str::to_owned);
            if cursor.page.is_none() {
                return Ok(made);
            }
        }
        Err(self.client.protocol("/v1/people/me/connections", "its list of contacts has no end"))
    }

    fn stored(&self, person: &Value) -> Result<Stored, PushError<GoogleError>> {
        let name = name(person).map(str::to_owned);
        let what = "it does not say what it made of the contact";
        let href = name.ok_or_else(|| PushError::Failed(self.client.protocol("/v1/people", what)))?;
        Ok(Stored { href, etag: etag(person) })
    }
}

impl Remote for Contacts {
    type Error = GoogleError;

    async fn changes(&self, since: Option<&str>) -> Result<Changes, GoogleError> {
        let mut cursor = Cursor::read(since);
        let listed = match self.page(&cursor, FIELDS, true).await {
            Ok(listed) => listed,
            // It is older than seven days, or of another time.
            Err(GoogleError::Gone { .. }) if since.is_some() => return Ok(Changes::Expired),
            Err(e) => return Err(e),
        };
        let mut page = Page { whole: cursor.sync.is_none(), ..Page::default() };
        for person in listed["connections"].as_array().into_iter().flatten() {
            let Some(name) = name(person) else { continue };
            // Somebody may get another name when they change.
            let former = person["metadata"]["previousResourceNames"].as_array().into_iter().flatten();
            page.gone.extend(former.filter_map(Value::as_str).filter(|old| *old != name).map(str::to_owned));
            match etag(person) {
                Some(etag) if person["metadata"]["deleted"] != true => page.changed.push((name.to_owned(), etag)),
                _ => page.gone.push(name.to_owned()),
            }
        }
        page.next = match (listed["nextPageToken"].as_str(), listed["nextSyncToken"].as_str()) {
            (Some(next), _) => {
                cursor.page = Some(next.to_owned());
                Next::More(cursor.written())
            }
            (None, Some(token)) => Next::Done(Some(Cursor { page: None, sync: Some(token.to_owned()) }.written())),
            (None, None) => Next::Done(None),
        };
        Ok(Changes::Page(page))
    }

    async fn fetch(&self, hrefs: &[String]) -> Result<Vec<Fetched>, GoogleError> {
        let missing = |href: &String| (href.clone(), Found::Missing);
        let mut found: BTreeMap<String, Found> = hrefs.iter().map(missing).collect();
        let known: Vec<&String> = hrefs.iter().filter(|href| id(href).is_some()).collect();
        for names in known.chunks(BATCH) {
            let mut query = vec![("personFields", FIELDS), ("sources", SOURCE)];
            query.extend(names.iter().map(|name| ("resourceNames", name.as_str())));
            let answer = self.client.call(Method::GET, &["v1", "people:batchGet"], &query, None, None).await?;
            for one in answer["responses"].as_array().into_iter().flatten() {
                let asked = one["requestedResourceName"].as_str().or(one["person"]["resourceName"].as_str());
                let Some(entry) = asked.and_then(|asked| found.get_mut(asked)) else { continue };
                let code = one["status"]["code"].as_u64().unwrap_or(0);
                *entry = match (etag(&one["person"]), code) {
                    (Some(etag), 0) => Found::Here { etag: Some(etag), bytes: card::card(&one["person"]) },
                    // NOT_FOUND; or somebody who is no contact any more.
                    (None, 0) | (_, 5) => Found::Missing,
                    _ => Found::Unreadable("Google does not show this contact; look at it there".to_owned()),
                };
            }
        }
        Ok(found.into_iter().map(|(href, what)| Fetched { href, what }).collect())
    }

    fn new_href(&self, _: &str) -> Option<String> {
        None
    }

    async fn create(&self, _: &str, bytes: &[u8]) -> Result<Stored, PushError<GoogleError>> {
        let uid = dav::uid(bytes).ok_or_else(|| PushError::Refused("the card has no UID".to_owned()))?;
        // Held to the end: contacts are made one after the other, as Google wants it.
        let mut made = self.made.lock().await;
        let known = match made.take() {
            Some(known) => known,
            None => self.all_made().await.map_err(PushError::Failed)?,
        };
        if let Some(there) = known.get(&uid) {
            let there = there.clone();
            *made = Some(known);
            return Ok(there);
        }
        let query = [("personFields", FIELDS), ("sources", SOURCE)];
        let body = person::new_person(bytes);
        let asked = self.client.call(Method::POST, &["v1", "people:createContact"], &query, Some(&body), None).await;
        // After a failure nobody knows who is there: they are listed again.
        let stored = self.stored(&asked.map_err(of_write)?)?;
        *made = Some(known);
        if let Some(known) = made.as_mut() {
            known.insert(uid, stored.clone());
        }
        Ok(stored)
    }

    /// Only fields that differ are written, under the etag that was seen. What a contact has beside them stays.
    async fn update(&self, href: &str, seen: &str, bytes: &[u8]) -> Result<Stored, PushError<GoogleError>> {
        let now = self.unchanged(href, seen).await?;
        let Some((body, fields)) = person::changed_person(&now, bytes) else {
            return self.stored(&now);
        };
        let query = [("updatePersonFields", fields.as_str()), ("personFields", FIELDS), ("sources", SOURCE)];
        let method = format!("{}:updateContact", id(href).unwrap_or_default());
        let path = ["v1", "people", method.as_str()];
        let changed = self.client.call(Method::PATCH, &path, &query, Some(&body), None).await.map_err(of_write)?;
        self.stored(&changed)
    }

    /// Google deletes without a condition, so it is looked at just before.
    async fn delete(&self, href: &str, seen: &str) -> Result<(), PushError<GoogleError>> {
        self.unchanged(href, seen).await?;
        let method = format!("{}:deleteContact", id(href).unwrap_or_default());
        let path = ["v1", "people", method.as_str()];
        self.client.call(Method::DELETE, &path, &[], None, None).await.map(drop).map_err(of_write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_and_what_is_none_begins_anew() {
        let cursor = Cursor { page: Some("p/=".to_owned()), sync: Some("s\"".to_owned()) };
        let back = Cursor::read(Some(&cursor.written()));
        assert_eq!((back.page.as_deref(), back.sync.as_deref()), (Some("p/="), Some("s\"")));
        for none in [None, Some(""), Some("token"), Some("{}")] {
            let cursor = Cursor::read(none);
            assert!(cursor.page.is_none() && cursor.sync.is_none(), "{none:?}");
        }
    }

    #[test]
    fn only_contacts_have_an_etag_and_only_names_lead_to_them() {
        let of = |kind: &str| json!({"etag": "%1", "metadata": {"sources": [{"type": kind, "etag": "#1"}]}});
        assert_eq!((etag(&of("CONTACT")), etag(&of("PROFILE"))), (Some("#1".to_owned()), None));
        assert_eq!(id("people/c12"), Some("c12"));
        for other in ["people/", "people/../x", "contactGroups/1", "people/c1:deleteContact", "people/a b"] {
            assert_eq!(id(other), None, "{other}");
        }
    }
}
