//! Who may start now, who waits, who is refused: a butler's own permits, a bounded queue, and the household's permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::types::TriggerError;

/// The right to run one session, until dropped.
pub struct Slot {
    _own: OwnedSemaphorePermit,
    _global: OwnedSemaphorePermit,
}

/// A place in the queue, or already a slot of the butler's own.
pub struct Place {
    admission: Admission,
    seat: Seat,
}

enum Seat {
    Ready(Slot),
    Own(OwnedSemaphorePermit),
    Queue(Queued),
}

/// Counts as waiting until dropped.
struct Queued(Arc<AtomicUsize>);

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One butler's admission. Cheap to clone.
#[derive(Clone)]
pub struct Admission {
    butler: Arc<str>,
    own: Arc<Semaphore>,
    global: Arc<Semaphore>,
    most: usize,
    queued: Arc<AtomicUsize>,
    max_queued: usize,
    stop: CancellationToken,
}

impl Admission {
    /// `most` sessions at once, `max_queued` waiting; `global` is shared by all butlers. Nobody is admitted once `stop`
    /// fired.
    pub fn new(butler: &str, most: usize, max_queued: usize, global: Arc<Semaphore>, stop: CancellationToken) -> Self {
        Self {
            butler: butler.into(),
            own: Arc::new(Semaphore::new(most)),
            global,
            most,
            queued: Arc::default(),
            max_queued,
            stop,
        }
    }

    /// Sessions that hold a slot of this butler.
    pub fn running(&self) -> usize {
        self.most - self.own.available_permits().min(self.most)
    }

    /// Triggers that wait.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }

    /// A place, or a refusal at once. `from_session`: the trigger comes out of a session, which must not wait for a slot
    /// that it, or another that waits like it, may be holding.
    pub fn enter(&self, from_session: bool) -> Result<Place, TriggerError> {
        if self.stop.is_cancelled() {
            return Err(TriggerError::Stopping(self.butler.to_string()));
        }
        // Those who wait go first: a newcomer takes a free permit only when the queue is empty.
        if self.queued() == 0
            && let Ok(permit) = self.own.clone().try_acquire_owned()
        {
            let seat = match self.global.clone().try_acquire_owned() {
                Ok(global) => Seat::Ready(Slot { _own: permit, _global: global }),
                // The household's permits may all be held by sessions that wait like this one would.
                Err(_) if from_session => return Err(TriggerError::SelfWait { butler: self.butler.to_string() }),
                Err(_) => Seat::Own(permit),
            };
            return Ok(Place { admission: self.clone(), seat });
        }
        if from_session {
            return Err(TriggerError::SelfWait { butler: self.butler.to_string() });
        }
        let full =
            self.queued.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < self.max_queued).then_some(n + 1));
        match full {
            Ok(_) => Ok(Place { admission: self.clone(), seat: Seat::Queue(Queued(self.queued.clone())) }),
            Err(queued) => {
                Err(TriggerError::Capacity { butler: self.butler.to_string(), running: self.running(), queued })
            }
        }
    }
}

impl Place {
    /// Waits for the slot. Whoever came first is served first.
    pub async fn wait(self) -> Result<Slot, TriggerError> {
        let a = self.admission;
        let own = match self.seat {
            Seat::Ready(slot) => return Ok(slot),
            Seat::Own(permit) => permit,
            Seat::Queue(waiting) => {
                let permit = a.acquire(&a.own).await?;
                drop(waiting);
                permit
            }
        };
        let global = a.acquire(&a.global).await?;
        Ok(Slot { _own: own, _global: global })
    }
}

impl Admission {
    async fn acquire(&self, permits: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, TriggerError> {
        let permit = tokio::select! {
            () = self.stop.cancelled() => None,
            permit = permits.clone().acquire_owned() => permit.ok(),
        };
        permit.ok_or_else(|| TriggerError::Stopping(self.butler.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(most: usize, max_queued: usize) -> Admission {
        Admission::new("health", most, max_queued, Arc::new(Semaphore::new(10)), CancellationToken::new())
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_fair() {
        let a = admission(1, 1);
        let first = a.enter(false).unwrap().wait().await.unwrap();
        let second = a.enter(false).unwrap();
        assert_eq!((a.running(), a.queued()), (1, 1));
        assert!(matches!(a.enter(false), Err(TriggerError::Capacity { running: 1, queued: 1, .. })));
        drop(first);
        // The slot is free, but somebody waits already: a newcomer does not overtake.
        assert!(matches!(a.enter(false), Err(TriggerError::Capacity { .. })));
        let slot = second.wait().await.unwrap();
        assert_eq!((a.running(), a.queued()), (1, 0));
        drop(slot);
        assert_eq!(a.running(), 0);
    }

    #[tokio::test]
    async fn a_session_never_waits_for_its_own_slot() {
        let a = admission(1, 5);
        let _slot = a.enter(false).unwrap().wait().await.unwrap();
        assert!(matches!(a.enter(true), Err(TriggerError::SelfWait { .. })));
        assert_eq!(a.queued(), 0);
    }

    #[tokio::test]
    async fn a_session_never_waits_for_the_households_last_permit() {
        let a = Admission::new("health", 5, 5, Arc::new(Semaphore::new(1)), CancellationToken::new());
        let _slot = a.enter(false).unwrap().wait().await.unwrap();
        assert!(matches!(a.enter(true), Err(TriggerError::SelfWait { .. })));
        assert_eq!(a.running(), 1);
    }

    #[tokio::test]
    async fn stopping_ends_the_wait() {
        let stop = CancellationToken::new();
        let a = Admission::new("health", 1, 5, Arc::new(Semaphore::new(1)), stop.clone());
        let _slot = a.enter(false).unwrap().wait().await.unwrap();
        let waiting = a.enter(false).unwrap();
        stop.cancel();
        assert!(matches!(waiting.wait().await, Err(TriggerError::Stopping(_))));
        assert!(matches!(a.enter(false), Err(TriggerError::Stopping(_))));
        assert_eq!(a.queued(), 0);
    }
}
