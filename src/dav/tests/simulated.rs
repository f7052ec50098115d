//! A server in memory with the habits of real ones: tokens that expire, lists in pages, etags that it keeps to itself,
//! items that it writes in its own way.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard};

use crate::sync::{Changes, Fetched, Found, Next, Page, PushError, Remote, Stored};
use crate::uid;

/// What a server is like.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// It tells changes since a token; else everything is listed.
    pub tokens: bool,
    /// It tells etags after a write.
    pub etags: bool,
    /// It adds a line of its own to what it is given.
    pub rewrites: bool,
    /// Items on a page.
    pub page: usize,
    /// It names an item of a list twice, and gives what it is asked for twice: each so many times.
    pub twice: Option<u64>,
}

pub struct Simulated {
    pub habits: Habits,
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    pub items: BTreeMap<String, (u64, Vec<u8>)>,
    /// Each change: its number is its place, counted from `forgotten`.
    log: Vec<String>,
    forgotten: usize,
    counter: u64,
    /// How often it was asked.
    asked: u64,
    /// What was written by a sync, as it was sent.
    pub puts: Vec<(String, Vec<u8>)>,
    /// Its disk is away: it lists nothing and has nothing, though nothing was deleted.
    pub blank: bool,
    /// Its lists are empty, though it has all items.
    pub unlisted: bool,
    /// It names no etags.
    pub nameless: bool,
}

impl State {
    fn put(&mut self, href: &str, bytes: Vec<u8>) -> u64 {
        self.counter += 1;
        self.items.insert(href.to_owned(), (self.counter, bytes));
        self.log.push(href.to_owned());
        self.counter
    }

    /// Another program writes.
    pub fn write(&mut self, href: &str, bytes: Option<Vec<u8>>) {
        match bytes {
            Some(bytes) => drop(self.put(href, bytes)),
            None => {
                self.items.remove(href);
                self.log.push(href.to_owned());
            }
        }
    }

    /// Whether this answer names things twice.
    fn twice(&mut self, habits: Habits) -> bool {
        self.asked += 1;
        habits.twice.is_some_and(|each| self.asked.is_multiple_of(each))
    }

    /// An etag as a list names it.
    fn named(&self, etag: u64) -> String {
        if self.nameless { String::new() } else { etag.to_string() }
    }

    pub fn expire(&mut self) {
        // One more, for those whose token is the newest.
        self.forgotten += self.log.len() + 1;
        self.log.clear();
    }

    fn now(&self) -> usize {
        self.forgotten + self.log.len()
    }

    /// Whether another program made an item with the same UID.
    pub fn others_with(&self, bytes: &[u8]) -> bool {
        let mut others = self.items.iter().filter(|(href, _)| href.starts_with("/c/other"));
        others.any(|(_, (_, other))| uid(other) == uid(bytes))
    }

    fn has_uid(&self, of: &[u8], but: &str) -> bool {
        uid(of).is_some_and(|own| self.items.iter().any(|(href, (_, b))| href != but && uid(b).as_ref() == Some(&own)))
    }
}

impl Simulated {
    pub fn new(habits: Habits) -> Self {
        Self { habits, state: Mutex::default() }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn written(&self, bytes: &[u8]) -> Vec<u8> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        if !self.habits.rewrites || text.contains("X-SERVER") {
            return bytes.to_vec();
        }
        text.replacen("UID:", "X-SERVER:was\r\n  here\r\nUID:", 1).into_bytes()
    }

    fn stored(&self, href: &str, etag: u64) -> Stored {
        Stored { href: href.to_owned(), etag: self.habits.etags.then(|| etag.to_string()) }
    }

    fn list(&self, from: usize) -> Page {
        let mut state = self.state();
        let all: Vec<_> = state.items.iter().map(|(href, (etag, _))| (href.clone(), state.named(*etag))).collect();
        let all = if state.blank || state.unlisted { Vec::new() } else { all };
        let mut changed: Vec<_> = all.iter().skip(from).take(self.habits.page).cloned().collect();
        let next = from + changed.len();
        if state.twice(self.habits) {
            changed.extend(changed.clone());
        }
        // What changes between two pages is told with the next run: the token is of the first.
        let token = format!("{}", state.now());
        let next = match self.habits.tokens {
            true if next < all.len() => Next::More(format!("list {next} {token}")),
            true => Next::Done(Some(token)),
            false if next < all.len() => Next::More(format!("list {next} 0")),
            false => Next::Done(None),
        };
        Page { whole: true, changed, gone: Vec::new(), next }
    }
}

impl Remote for Simulated {
    type Error = Infallible;

    async fn changes(&self, since: Option<&str>) -> Result<Changes, Infallible> {
        let Some(since) = since else { return Ok(Changes::Page(self.list(0))) };
        if let Some(rest) = since.strip_prefix("list ") {
            let mut numbers = rest.split(' ').map(|n| n.parse::<usize>().unwrap());
            let (from, token) = (numbers.next().unwrap(), numbers.next().unwrap());
            // A list that changed under the reader's feet is no list any more.
            if self.habits.tokens && token != self.state().now() {
                return Ok(Changes::Expired);
            }
            return Ok(Changes::Page(self.list(from)));
        }
        let (mut state, token) = (self.state(), since.parse::<usize>().unwrap());
        let Some(at) = token.checked_sub(state.forgotten) else { return Ok(Changes::Expired) };
        let mut page = Page::default();
        let mut told: Vec<&String> = Vec::new();
        let some = &state.log[at..state.log.len().min(at + self.habits.page)];
        for href in some {
            if told.contains(&href) {
                continue;
            }
            told.push(href);
            match state.items.get(href) {
                Some((etag, _)) => page.changed.push((href.clone(), state.named(*etag))),
                None => page.gone.push(href.clone()),
            }
        }
        let end = token + some.len();
        if state.twice(self.habits) {
            page.changed.extend(page.changed.clone());
            page.gone.extend(page.gone.clone());
        }
        page.next = if end < state.now() { Next::More(end.to_string()) } else { Next::Done(Some(end.to_string())) };
        Ok(Changes::Page(page))
    }

    async fn fetch(&self, hrefs: &[String]) -> Result<Vec<Fetched>, Infallible> {
        let mut state = self.state();
        let twice = if state.twice(self.habits) { hrefs } else { &[] };
        let found = |href: &String| match state.items.get(href).filter(|_| !state.blank) {
            Some((etag, bytes)) => {
                let etag = (!state.nameless).then(|| etag.to_string());
                Found::Here { etag, bytes: bytes.clone() }
            }
            None => Found::Missing,
        };
        Ok(hrefs.iter().chain(twice).map(|href| Fetched { href: href.clone(), what: found(href) }).collect())
    }

    /// By number rather than by name, so that a seed repeats the order of all.
    fn new_href(&self, _: &str) -> Option<String> {
        let mut state = self.state();
        state.counter += 1;
        Some(format!("/c/{}", state.counter))
    }

    async fn create(&self, href: &str, bytes: &[u8]) -> Result<Stored, PushError<Infallible>> {
        let mut state = self.state();
        if state.items.contains_key(href) {
            return Err(PushError::Changed);
        }
        if state.has_uid(bytes, href) {
            return Err(PushError::SameUid);
        }
        state.puts.push((href.to_owned(), bytes.to_vec()));
        let etag = state.put(href, self.written(bytes));
        Ok(self.stored(href, etag))
    }

    async fn update(&self, href: &str, etag: &str, bytes: &[u8]) -> Result<Stored, PushError<Infallible>> {
        let mut state = self.state();
        match state.items.get(href) {
            None => Err(PushError::Missing),
            Some((is, _)) if is.to_string() != etag => Err(PushError::Changed),
            Some(_) => {
                state.puts.push((href.to_owned(), bytes.to_vec()));
                let etag = state.put(href, self.written(bytes));
                Ok(self.stored(href, etag))
            }
        }
    }

    async fn delete(&self, href: &str, etag: &str) -> Result<(), PushError<Infallible>> {
        let mut state = self.state();
        match state.items.get(href) {
            None => Err(PushError::Missing),
            Some((is, _)) if is.to_string() != etag => Err(PushError::Changed),
            Some(_) => {
                state.write(href, None);
                Ok(())
            }
        }
    }
}
