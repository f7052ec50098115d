//! One request for an endpoint: who asks, and where its lists go on.

use std::str::FromStr;

use admin::{Failure, Rpc, Unavailable};
use jsonrpsee::Extensions;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cursor;

use super::input::Paging;
use super::list::Page;

/// As many rows as a page has, if nobody says.
const USUAL: u32 = 50;

/// What an endpoint works with.
pub(crate) struct Visit {
    pub calls: Rpc,
    /// What calls know their caller by.
    pub ext: Extensions,
    /// The list that is asked for, with all that it is filtered by.
    pub list: String,
    /// The parameters, as JSON.
    pub params: Value,
    /// The body, as JSON.
    pub body: Value,
}

/// Where a page begins and how many rows it has.
pub(crate) struct Start<T> {
    /// The last row of the page before, as the list names it; `None`: the list begins.
    pub at: Option<T>,
    pub limit: u32,
}

impl<T> Start<T> {
    /// One more than is shown, to know whether there is another page.
    pub fn one_more(&self) -> Option<u32> {
        Some(self.limit + 1)
    }

    /// Cuts what was found to a page; whether there is more of it.
    fn goes_on<R>(&self, found: &mut Vec<R>) -> bool {
        let most = self.limit as usize;
        let more = found.len() > most;
        found.truncate(most);
        more
    }
}

impl Visit {
    /// Asks a tool that only reads.
    pub async fn look<T: DeserializeOwned>(&self, butler: &str, tool: &str, args: Value) -> Result<T, Failure> {
        admin::look(&self.calls, &self.ext, butler, tool, args).await
    }

    /// Where the page begins that is asked for.
    pub fn start<T: FromStr>(&self, paging: &Paging) -> Result<Start<T>, Failure> {
        let invalid = || Failure::new("invalid_cursor", "That is not a cursor of this list. Begin without one.");
        let place =
            paging.cursor.as_deref().map(|given| cursor::open(&self.list, given).ok_or_else(invalid)).transpose()?;
        let at = place.map(|place| place.parse::<T>().map_err(|_| invalid())).transpose()?;
        Ok(Start { at, limit: paging.limit.unwrap_or(USUAL) })
    }

    /// A page of what was found by [`Start::one_more`]; `place` is where the next begins behind its last row.
    pub fn page<T, S, P: ToString>(&self, start: &Start<S>, mut found: Vec<T>, place: impl Fn(&T) -> P) -> Page<T> {
        let next = start.goes_on(&mut found).then(|| found.last().map(place)).flatten();
        self.part(found, next, Vec::new())
    }

    /// The same of rows that may lack their place: then the list can't go on, which must not look like its end.
    pub fn page_or<T, S, P: ToString>(
        &self,
        start: &Start<S>,
        (mut found, more): (Vec<T>, bool),
        place: impl Fn(&T) -> Option<P>,
    ) -> Result<Page<T>, Failure> {
        let lost = || Failure::internal("Finding where the list goes on", &"its last row has no place");
        let more = start.goes_on(&mut found) || more;
        let next = more.then(|| found.last().and_then(place).ok_or_else(lost)).transpose()?;
        Ok(self.part(found, next, Vec::new()))
    }

    /// A page of a list that says itself where it goes on.
    pub fn part<T, P: ToString>(&self, data: Vec<T>, next: Option<P>, unavailable: Vec<Unavailable>) -> Page<T> {
        let next = next.map(|place| cursor::seal(&self.list, &place.to_string()));
        Page { data, next, truncated: false, unavailable }
    }

    /// A list that is answered whole.
    pub fn whole<T>(&self, data: Vec<T>) -> Page<T> {
        self.part(data, None::<String>, Vec::new())
    }

    /// A list of which its source gives so many at most.
    pub fn most<T>(&self, data: Vec<T>, most: usize) -> Page<T> {
        let truncated = data.len() >= most;
        self.whole(data).cut(truncated)
    }
}
