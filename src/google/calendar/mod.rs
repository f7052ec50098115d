//! Google Calendar: an account's calendars, and one calendar as a collection that a sync follows.
//!
//! An event, and a series with all that is special about single instances, are one item: its href is the id of the event, or
//! of the series. Google has each special instance as an event of its own, so an item's version is made of all of theirs.
//! What is written is what differs, field by field: whatever else Google has of an event (calls, attachments) stays.
//!
//! Nobody is sent an invitation or a notice of a change from here, unless the household says so of a change ([`Recipients`]).

mod collection;
mod fields;
#[cfg(test)]
pub(crate) mod forms;
mod parts;
mod text;
mod times;
mod unfit;

use reqwest::Method;
use serde_json::Value;

use crate::{Client, GoogleError};
pub use collection::{Collection, Recipients};

/// Where calendars are.
pub const ORIGIN: &str = "https://www.googleapis.com";
/// Entries of the list of calendars on a page.
const PAGE: &str = "250";
/// More pages than this are no list.
const MOST_PAGES: usize = 100;

/// A calendar of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CalendarInfo {
    pub id: String,
    /// As its owner called it, or the account's owner for themselves.
    pub name: String,
    pub read_only: bool,
    /// Whether it is the account's own, whose id is the account's address.
    pub primary: bool,
}

/// The calendars on an account's list.
///
/// # Errors
///
/// The kinds of [`GoogleError`].
pub async fn calendars(client: &Client) -> Result<Vec<CalendarInfo>, GoogleError> {
    let path = ["calendar", "v3", "users", "me", "calendarList"];
    let (mut found, mut page) = (Vec::new(), String::new());
    for _ in 0..MOST_PAGES {
        let mut query = vec![("maxResults", PAGE)];
        if !page.is_empty() {
            query.push(("pageToken", page.as_str()));
        }
        let answer = client.call(Method::GET, &path, &query, None, None).await?;
        found.extend(answer["items"].as_array().into_iter().flatten().filter_map(info));
        match answer["nextPageToken"].as_str() {
            Some(next) => page = next.to_owned(),
            None => return Ok(found),
        }
    }
    Err(client.protocol("/calendar/v3/users/me/calendarList", "its list has no end"))
}

fn info(entry: &Value) -> Option<CalendarInfo> {
    let id = entry["id"].as_str().filter(|id| !id.is_empty())?.to_owned();
    let name = entry["summaryOverride"].as_str().or_else(|| entry["summary"].as_str()).unwrap_or(&id).to_owned();
    let writable = matches!(entry["accessRole"].as_str(), Some("writer" | "owner" | "writerWithoutPrivateAccess"));
    Some(CalendarInfo { id, name, read_only: !writable, primary: entry["primary"] == true })
}
