//! Who may start now, who waits, who is refused: a butler's own permits and bounded queue, and the household's permits.
//!
//! All butlers wait for the same permits, so that who goes next is decided in one place: by urgency first, then the butler that
//! has fewest sessions running, then whoever came first. Whoever waited long enough counts as one step more urgent, so
//! nobody waits for ever.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::types::{INSPECT, Trigger, TriggerError};
use base::Trust;

/// How urgent a session is; the first is the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    /// A schedule of priority 1, such as memory work that ordinary messages must not starve.
    First,
    /// The owner waits for it.
    Owner,
    /// Another butler waits for it.
    Others,
    /// Somebody waits for it whom the owner knows. Like a stranger's it leaves the last free permit to the household's own.
    Known,
    Schedule,
    /// Somebody waits for it whom nobody knows.
    Stranger,
    /// What the household does for itself, such as tidying its memory. It leaves the last free permit to the others.
    Housekeeping,
}

/// Sources that begin with this are housekeeping.
pub const HOUSEKEEPING: &str = "housekeeping:";
/// Sources that begin with this are schedules.
pub const SCHEDULE: &str = "schedule:";

impl Urgency {
    /// Of a trigger, by where it came from and on whose behalf.
    pub fn of(trigger: &Trigger) -> Self {
        match trigger.source.as_str() {
            _ if trigger.options.priority == Some(1) => Urgency::First,
            _ if trigger.options.priority == Some(2) => Urgency::Others,
            s if s.starts_with(HOUSEKEEPING) => Urgency::Housekeeping,
            s if s.starts_with(SCHEDULE) => Urgency::Schedule,
            INSPECT => Urgency::Others,
            _ => match trigger.request.trust {
                Trust::Owner => Urgency::Owner,
                Trust::System => Urgency::Others,
                Trust::Known => Urgency::Known,
                Trust::Stranger => Urgency::Stranger,
            },
        }
    }

    /// Those of a lower number go first.
    fn rank(self) -> u64 {
        match self {
            Urgency::First => 0,
            Urgency::Owner => 1,
            Urgency::Others | Urgency::Known => 2,
            Urgency::Schedule => 3,
            Urgency::Stranger => 4,
            Urgency::Housekeeping => 5,
        }
    }

    /// Whether somebody outside the household asked for it.
    fn is_outside(self) -> bool {
        matches!(self, Urgency::Known | Urgency::Stranger)
    }
}

/// Waiting this long makes one step more urgent.
const PATIENCE: Duration = Duration::from_secs(120);
/// Waiting so many times as long makes one as urgent as can be.
const VERY_LONG: u64 = 5;

/// The household's permits and everybody who waits for one. Cheap to clone.
#[derive(Clone)]
pub struct SessionPermits {
    shared: Arc<Mutex<State>>,
}

struct State {
    permits: usize,
    running: usize,
    butlers: Vec<ButlerQuota>,
    /// In the order of their coming.
    waiting: Vec<Waiting>,
    next: u64,
}

/// One butler's share of the permits.
struct ButlerQuota {
    most: usize,
    running: usize,
    queued: usize,
    /// When a session or a trigger of it went last.
    left: Instant,
}

struct Waiting {
    number: u64,
    quota: usize,
    urgency: Urgency,
    since: Instant,
    go: oneshot::Sender<Slot>,
}

/// The right to run one session, until dropped.
pub struct Slot {
    permits: SessionPermits,
    quota: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.permits.lock();
        state.running -= 1;
        state.butlers[self.quota].running -= 1;
        state.butlers[self.quota].left = Instant::now();
        self.permits.call(state);
    }
}

impl SessionPermits {
    /// Permits for `permits` sessions at a time.
    pub fn new(permits: usize) -> Self {
        let state = State { permits, running: 0, butlers: Vec::new(), waiting: Vec::new(), next: 0 };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Calls everybody who may go now.
    fn call(&self, mut state: MutexGuard<'_, State>) {
        let mut refused = Vec::new();
        let now = Instant::now();
        while let Some(at) = state.first(now) {
            let chosen = state.waiting.remove(at);
            state.butlers[chosen.quota].queued -= 1;
            state.take(chosen.quota);
            let slot = Slot { permits: self.clone(), quota: chosen.quota };
            // Whoever no longer waits gives the slot back; dropped below, because that takes the lock.
            refused.extend(chosen.go.send(slot).err());
        }
        drop(state);
        drop(refused);
    }
}

impl State {
    fn take(&mut self, quota: usize) {
        self.running += 1;
        self.butlers[quota].running += 1;
    }

    fn free(&self, quota: usize, urgency: Urgency) -> bool {
        let quota = &self.butlers[quota];
        let outside = urgency.is_outside();
        let kept = usize::from((outside || urgency == Urgency::Housekeeping) && self.permits > 1);
        // However many from outside run, whatever the owner wants of this butler begins at once.
        let kept_here = usize::from(outside && quota.most > 1);
        self.running + kept < self.permits && quota.running + kept_here < quota.most
    }

    /// Who goes next, as an index into `waiting`.
    fn first(&self, now: Instant) -> Option<usize> {
        let may = self.waiting.iter().enumerate().filter(|(_, w)| self.free(w.quota, w.urgency));
        let rank = |w: &Waiting| {
            let steps = now.saturating_duration_since(w.since).as_secs() / PATIENCE.as_secs();
            // Beside the first ones stands only who has waited very long, and beside the owner nobody from outside else.
            let most = match w.urgency {
                Urgency::First => 0,
                _ if steps >= VERY_LONG => u64::from(w.urgency.is_outside()),
                _ => 1 + u64::from(w.urgency.is_outside()),
            };
            w.urgency.rank().saturating_sub(steps).max(most)
        };
        may.min_by_key(|(_, w)| (rank(w), self.butlers[w.quota].running, w.number)).map(|(at, _)| at)
    }
}

/// One butler's admission. Cheap to clone.
#[derive(Clone)]
pub struct Admission {
    butler: Arc<str>,
    permits: SessionPermits,
    quota: usize,
    max_queued: usize,
    stop: CancellationToken,
}

/// A slot, or a place in the queue.
pub struct Place {
    admission: Admission,
    seat: Seat,
}

enum Seat {
    Ready(Slot),
    Queue(Queued, oneshot::Receiver<Slot>),
}

/// Counts as waiting until dropped or called.
struct Queued {
    permits: SessionPermits,
    number: u64,
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut state = self.permits.lock();
        if let Some(at) = state.waiting.iter().position(|w| w.number == self.number) {
            let gone = state.waiting.remove(at);
            state.butlers[gone.quota].queued -= 1;
            state.butlers[gone.quota].left = Instant::now();
        }
    }
}

impl Admission {
    /// `most` sessions at once, `max_queued` waiting. Nobody is admitted once `stop` fired.
    pub fn new(butler: &str, most: usize, max_queued: usize, permits: SessionPermits, stop: CancellationToken) -> Self {
        let quota = {
            let mut state = permits.lock();
            state.butlers.push(ButlerQuota { most, running: 0, queued: 0, left: Instant::now() });
            state.butlers.len() - 1
        };
        Self { butler: butler.into(), permits, quota, max_queued, stop }
    }

    /// Sessions that hold a slot of this butler.
    pub fn running(&self) -> usize {
        self.permits.lock().butlers[self.quota].running
    }

    /// Triggers that wait.
    pub fn queued(&self) -> usize {
        self.permits.lock().butlers[self.quota].queued
    }

    /// How long this butler has had no session and no trigger that waits, at most since it came up; `None`: it has one.
    pub fn idle_for(&self) -> Option<Duration> {
        let state = self.permits.lock();
        let ButlerQuota { running, queued, left, .. } = &state.butlers[self.quota];
        (running + queued == 0).then(|| left.elapsed())
    }

    /// A place, or a refusal at once. `from_session`: the trigger comes out of a session, which must not wait for a slot
    /// that it, or another that waits like it, may be holding.
    pub fn enter(&self, urgency: Urgency, from_session: bool) -> Result<Place, TriggerError> {
        if self.stop.is_cancelled() {
            return Err(TriggerError::Stopping(self.butler.to_string()));
        }
        let mut state = self.permits.lock();
        // Those of this butler who wait go first: a newcomer takes a free slot only when nobody does.
        let seat = if state.butlers[self.quota].queued == 0 && state.free(self.quota, urgency) {
            state.take(self.quota);
            Seat::Ready(Slot { permits: self.permits.clone(), quota: self.quota })
        } else if from_session {
            return Err(TriggerError::SelfWait { butler: self.butler.to_string() });
        } else {
            let ButlerQuota { running, queued, .. } = state.butlers[self.quota];
            if queued >= self.max_queued {
                return Err(TriggerError::Capacity { butler: self.butler.to_string(), running, queued });
            }
            let (go, called) = oneshot::channel();
            let number = state.next;
            state.next += 1;
            state.butlers[self.quota].queued += 1;
            state.waiting.push(Waiting { number, quota: self.quota, urgency, since: Instant::now(), go });
            let queued = Queued { permits: self.permits.clone(), number };
            // A free slot that a less urgent one had to leave may be for this one.
            self.permits.call(state);
            Seat::Queue(queued, called)
        };
        Ok(Place { admission: self.clone(), seat })
    }
}

impl Place {
    /// Waits for the slot.
    pub async fn wait(self) -> Result<Slot, TriggerError> {
        let (_queued, called) = match self.seat {
            Seat::Ready(slot) => return Ok(slot),
            Seat::Queue(queued, called) => (queued, called),
        };
        let slot = self.admission.stop.run_until_cancelled(called).await.and_then(Result::ok);
        slot.ok_or_else(|| TriggerError::Stopping(self.admission.butler.to_string()))
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
