//! A kill before or behind any step of a sync, and answers that are lost.

use std::sync::Mutex;

use uuid::Uuid;

use super::random::Random;
use crate::sync::{Changes, Fetched, Item, LocalStore, PushError, Remote, Stored, Which, Write};

/// Counts the steps of a run until its kill. What is killed never goes on: whoever drives the run drops it.
pub struct Fuse<'a> {
    left: Mutex<Option<usize>>,
    pub blown: tokio::sync::Notify,
    /// In percent, of requests.
    lost: usize,
    random: Mutex<Random>,
    /// The server falls over each item with this word.
    stumbles: Option<&'static str>,
    /// What others do at each step.
    meanwhile: Option<&'a (dyn Fn() + Sync)>,
}

/// What becomes of a request.
enum Way {
    Arrives,
    /// It is gone before it comes to the server.
    Lost,
    /// The server does it, and nobody hears of that.
    Unanswered,
}

impl<'a> Fuse<'a> {
    pub fn new(kill_after: Option<usize>, lost: usize, seed: u64) -> Self {
        let (left, random) = (Mutex::new(kill_after), Mutex::new(Random::new(seed)));
        Self { left, blown: tokio::sync::Notify::new(), lost, random, stumbles: None, meanwhile: None }
    }

    pub fn with(mut self, meanwhile: &'a (dyn Fn() + Sync)) -> Self {
        self.meanwhile = Some(meanwhile);
        self
    }

    pub fn stumbling(mut self, over: &'static str) -> Self {
        self.stumbles = Some(over);
        self
    }

    /// One instant at which the process may die.
    async fn step(&self) {
        if let Some(meanwhile) = self.meanwhile {
            meanwhile();
        }
        let dies = {
            let mut left = self.left.lock().unwrap();
            match &mut *left {
                Some(0) => true,
                Some(left) => {
                    *left -= 1;
                    false
                }
                None => false,
            }
        };
        if dies {
            self.blown.notify_one();
            std::future::pending::<()>().await;
        }
    }

    fn stumbles(&self, bytes: &[u8]) -> bool {
        self.stumbles.is_some_and(|word| String::from_utf8_lossy(bytes).contains(word))
    }

    fn way(&self) -> Way {
        let mut random = self.random.lock().unwrap();
        match (random.percent(self.lost), random.percent(50)) {
            (false, _) => Way::Arrives,
            (true, false) => Way::Lost,
            (true, true) => Way::Unanswered,
        }
    }
}

/// Runs a sync until its end or its kill; `None` if it was killed.
pub async fn until_killed<T>(run: impl Future<Output = T>, fuse: &Fuse<'_>) -> Option<T> {
    tokio::select! {
        biased;
        () = fuse.blown.notified() => None,
        done = run => Some(done),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Fault<E> {
    #[error("no connection")]
    Lost,
    #[error("{0}")]
    Real(#[source] E),
}

pub struct FaultyRemote<'a, R> {
    pub inner: &'a R,
    pub fuse: &'a Fuse<'a>,
}

impl<R: Remote> FaultyRemote<'_, R> {
    async fn write<T>(
        &self,
        bytes: &[u8],
        request: impl Future<Output = Result<T, PushError<R::Error>>>,
    ) -> Result<T, PushError<Fault<R::Error>>> {
        self.fuse.step().await;
        let way = self.fuse.way();
        if matches!(way, Way::Lost) || self.fuse.stumbles(bytes) {
            return Err(PushError::Failed(Fault::Lost));
        }
        let done = request.await;
        self.fuse.step().await;
        if matches!(way, Way::Unanswered) {
            return Err(PushError::Failed(Fault::Lost));
        }
        done.map_err(|e| match e {
            PushError::Changed => PushError::Changed,
            PushError::Missing => PushError::Missing,
            PushError::SameUid => PushError::SameUid,
            PushError::Refused(why) => PushError::Refused(why),
            PushError::Failed(e) => PushError::Failed(Fault::Real(e)),
        })
    }

    async fn read<T>(&self, request: impl Future<Output = Result<T, R::Error>>) -> Result<T, Fault<R::Error>> {
        self.fuse.step().await;
        if !matches!(self.fuse.way(), Way::Arrives) {
            return Err(Fault::Lost);
        }
        let done = request.await;
        self.fuse.step().await;
        done.map_err(Fault::Real)
    }
}

impl<R: Remote> Remote for FaultyRemote<'_, R> {
    type Error = Fault<R::Error>;

    async fn changes(&self, since: Option<&str>) -> Result<Changes, Self::Error> {
        self.read(self.inner.changes(since)).await
    }

    async fn fetch(&self, hrefs: &[String]) -> Result<Vec<Fetched>, Self::Error> {
        self.read(self.inner.fetch(hrefs)).await
    }

    fn new_href(&self, name: &str) -> Option<String> {
        self.inner.new_href(name)
    }

    async fn create(&self, href: &str, bytes: &[u8]) -> Result<Stored, PushError<Self::Error>> {
        self.write(bytes, self.inner.create(href, bytes)).await
    }

    async fn update(&self, href: &str, etag: &str, bytes: &[u8]) -> Result<Stored, PushError<Self::Error>> {
        self.write(bytes, self.inner.update(href, etag, bytes)).await
    }

    async fn delete(&self, href: &str, etag: &str) -> Result<(), PushError<Self::Error>> {
        self.write(b"", self.inner.delete(href, etag)).await
    }
}

/// A store whose process may die before and behind each commit.
pub struct FaultyStore<'a, S> {
    pub inner: &'a S,
    pub fuse: &'a Fuse<'a>,
}

impl<S: LocalStore> LocalStore for FaultyStore<'_, S> {
    type Error = S::Error;

    async fn cursor(&self) -> Result<Option<String>, S::Error> {
        self.inner.cursor().await
    }

    async fn set_cursor(&self, cursor: Option<&str>) -> Result<(), S::Error> {
        self.fuse.step().await;
        let done = self.inner.set_cursor(cursor).await;
        self.fuse.step().await;
        done
    }

    async fn items(&self, which: Which<'_>) -> Result<Vec<Item>, S::Error> {
        self.inner.items(which).await
    }

    async fn linked(&self) -> Result<Vec<(Uuid, String)>, S::Error> {
        self.inner.linked().await
    }

    async fn pending(&self) -> Result<Vec<Uuid>, S::Error> {
        self.inner.pending().await
    }

    async fn write(&self, writes: Vec<Write>) -> Result<Vec<Uuid>, S::Error> {
        self.fuse.step().await;
        let done = self.inner.write(writes).await;
        self.fuse.step().await;
        done
    }
}
