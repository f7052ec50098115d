//! What changed in the household, counted since the daemon began: how a page knows whether it has missed anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base::task;
use sessions::EventKind;
use supervisor::Supervisor;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Counts what happens, for all pages of a port.
#[derive(Clone)]
pub(super) struct Changes {
    /// Of this run of the daemon: what another run counted says nothing.
    run: Uuid,
    last: Arc<Mutex<Last>>,
    heard: watch::Receiver<u64>,
}

/// The numbers of the last changes.
#[derive(Default)]
struct Last {
    all: u64,
    /// Of messages and deliveries, of which nobody says whose they are.
    house: u64,
    butlers: HashMap<String, u64>,
    /// The last time when nobody knew what happened: at any butler, also at one that was never named here.
    floor: u64,
}

/// What a page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// One butler's sessions; none: all of them.
    pub butler: Option<String>,
    /// And messages and deliveries.
    pub house: bool,
}

impl Last {
    /// Something happened at a butler, or to a message or a delivery.
    fn count(&mut self, butler: Option<&str>) -> u64 {
        self.all += 1;
        match butler {
            None => self.house = self.all,
            Some(name) => match self.butlers.get_mut(name) {
                Some(last) => *last = self.all,
                None => drop(self.butlers.insert(name.to_owned(), self.all)),
            },
        }
        self.all
    }

    /// Nobody knows what happened: everything may have changed.
    fn count_all(&mut self) -> u64 {
        self.all += 1;
        self.floor = self.all;
        self.all
    }

    fn of(&self, scope: &Scope) -> u64 {
        let butlers = match &scope.butler {
            Some(name) => self.butlers.get(name).copied().unwrap_or_default(),
            None => self.butlers.values().copied().max().unwrap_or_default(),
        };
        let known = if scope.house { butlers.max(self.house) } else { butlers };
        known.max(self.floor)
    }
}

impl Changes {
    /// Begins to count, until the port closes.
    pub fn begin(supervisor: &Supervisor, closing: CancellationToken) -> Self {
        let services = supervisor.services();
        let (mut sessions, mut inbox, mut outbox) =
            (services.events.subscribe(), services.inbox.live(), services.outbox.live());
        let (tell, heard) = watch::channel(0);
        let changes = Self { run: Uuid::now_v7(), last: Arc::default(), heard };
        let last = changes.last.clone();
        task::spawn(task::Kind::Actor, "page-changes", async move {
            loop {
                let count = |butler: Option<&str>| last.lock().unwrap_or_else(PoisonError::into_inner).count(butler);
                let missed = || last.lock().unwrap_or_else(PoisonError::into_inner).count_all();
                let now = tokio::select! {
                    () = closing.cancelled() => return,
                    event = sessions.recv() => match event {
                        // Only a stream of the session's own page shows it.
                        Ok(event) if matches!(event.kind, EventKind::TextDelta { .. }) => continue,
                        Ok(event) => count(Some(&event.butler)),
                        Err(RecvError::Lagged(_)) => missed(),
                        Err(RecvError::Closed) => return,
                    },
                    told = inbox.recv() => if matches!(told, Err(RecvError::Closed)) { return } else { count(None) },
                    told = outbox.recv() => if matches!(told, Err(RecvError::Closed)) { return } else { count(None) },
                };
                tell.send_replace(now);
            }
        });
        changes
    }

    /// All that has happened until now, as a stream takes it to begin from there.
    pub fn now(&self) -> String {
        self.name(self.last.lock().unwrap_or_else(PoisonError::into_inner).all)
    }

    fn name(&self, n: u64) -> String {
        format!("{}-{n}", self.run.simple())
    }

    /// Whether what a page shows has changed since then. What is of another run, or of none, has.
    pub fn since(&self, scope: &Scope, then: &str) -> bool {
        let known = then.strip_prefix(&self.run.simple().to_string()).and_then(|rest| rest.strip_prefix('-'));
        let Some(then) = known.and_then(|n| n.parse::<u64>().ok()) else { return true };
        self.last.lock().unwrap_or_else(PoisonError::into_inner).of(scope) > then
    }

    /// Waits until anything happens. False: nothing ever will.
    pub async fn next(&mut self) -> bool {
        self.heard.changed().await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_missed_what_concerns_it_alone() {
        let (_tell, heard) = watch::channel(0);
        let changes = Changes { run: Uuid::nil(), last: Arc::default(), heard };
        let scope = |butler: Option<&str>, house| Scope { butler: butler.map(str::to_owned), house };
        let (all, ann, bob, own) =
            (scope(None, true), scope(Some("ann"), true), scope(Some("bob"), true), scope(Some("bob"), false));
        let count = |butler| changes.last.lock().unwrap().count(butler);
        let begin = changes.now();
        for page in [&all, &ann, &bob] {
            assert!(!changes.since(page, &begin) && changes.since(page, "") && changes.since(page, "x-1"), "{page:?}");
        }
        count(Some("ann"));
        assert!(changes.since(&all, &begin) && changes.since(&ann, &begin) && !changes.since(&bob, &begin));
        let later = changes.now();
        assert!(!changes.since(&all, &later));
        count(None);
        assert!(changes.since(&bob, &later) && !changes.since(&own, &later));
        count(Some("bob"));
        let last = changes.now();
        changes.last.lock().unwrap().count_all();
        // Who was first heard of in what was missed is in no list.
        let (new, new_own) = (scope(Some("cleo"), true), scope(Some("cleo"), false));
        assert!([&all, &ann, &bob, &own, &new, &new_own].iter().all(|page| changes.since(page, &last)));
        let told = changes.now();
        assert!([&all, &ann, &bob, &own, &new, &new_own].iter().all(|page| !changes.since(page, &told)));
    }
}
