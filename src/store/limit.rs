//! How many connections several pools have together, whatever each of them may have.
//!
//! A connection is in use under a permit, and permits are given in the order in which they were asked for. There are no
//! more connections than permits: where one more is opened, one that lies idle in another pool is closed for it. So a
//! caller waits for work that is under way, and never for a connection that nobody uses. A permit is waited for only as
//! a connection is made, and not for ever: who holds one connection and needs a second can fail, and can't hang.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use base::task::lock;

/// Closes a connection of a pool that nobody uses, and says whether there was one; `None`: the pool is gone.
type CloseIdle = Box<dyn Fn() -> Option<bool> + Send>;

/// The connections of several pools.
pub struct ConnectionLimit {
    most: usize,
    permits: Arc<Semaphore>,
    open: AtomicUsize,
    pools: Mutex<VecDeque<CloseIdle>>,
}

/// A connection that is counted, until this is dropped.
pub struct OpenConnection(Arc<ConnectionLimit>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionLimit {
    pub fn new(most: usize) -> Arc<Self> {
        let (permits, open) = (Arc::new(Semaphore::new(most)), AtomicUsize::default());
        Arc::new(Self { most, permits, open, pools: Mutex::default() })
    }

    /// How many connections there may be.
    pub fn most(&self) -> usize {
        self.most
    }

    /// A pool is one of those that it holds for.
    pub fn join(&self, close_idle: impl Fn() -> Option<bool> + Send + 'static) {
        lock(&self.pools).push_back(Box::new(close_idle));
    }

    /// A permit that nobody waits for.
    pub fn permit_now(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Waits for a permit.
    pub async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().acquire_owned().await.ok()
    }

    /// Counts a connection that is about to be opened by who has a permit, and closes idle ones if that makes too many.
    pub fn open(self: &Arc<Self>) -> OpenConnection {
        let opened = OpenConnection(self.clone());
        self.open.fetch_add(1, Ordering::Relaxed);
        while self.open.load(Ordering::Relaxed) > self.most && self.close_idle() {}
        opened
    }

    /// Closes one idle connection of the next pool that has one. Returns whether there was any.
    fn close_idle(&self) -> bool {
        let mut pools = lock(&self.pools);
        for _ in 0..pools.len() {
            let Some(close) = pools.pop_front() else { break };
            let closed = close();
            if closed.is_some() {
                pools.push_back(close);
            }
            if closed == Some(true) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool with so many idle connections.
    fn pool(limit: &Arc<ConnectionLimit>, idle: usize) -> Arc<Mutex<Vec<OpenConnection>>> {
        let pool = Arc::new(Mutex::new((0..idle).map(|_| limit.open()).collect::<Vec<_>>()));
        let weak = Arc::downgrade(&pool);
        limit.join(move || {
            let pool = weak.upgrade()?;
            let closed = lock(&pool).pop();
            Some(closed.is_some())
        });
        pool
    }

    #[test]
    fn what_lies_idle_makes_room_pool_after_pool() {
        let limit = ConnectionLimit::new(4);
        let (first, second) = (pool(&limit, 2), pool(&limit, 2));
        let of = |pool: &Mutex<Vec<OpenConnection>>| lock(pool).len();
        let used = limit.open();
        assert_eq!((of(&first), of(&second)), (1, 2));
        let more = limit.open();
        assert_eq!((of(&first), of(&second)), (1, 1));
        assert_eq!(limit.open.load(Ordering::Relaxed), 4);
        drop((used, more));
        let again = [limit.open(), limit.open()];
        assert_eq!((of(&first), of(&second)), (1, 1), "there is room by itself");
        drop(again);
    }

    #[test]
    fn a_pool_that_is_gone_is_forgotten() {
        let limit = ConnectionLimit::new(1);
        drop(pool(&limit, 1));
        let used = [limit.open(), limit.open()];
        assert_eq!(lock(&limit.pools).len(), 0);
        assert_eq!(limit.open.load(Ordering::Relaxed), 2, "what is in use is never closed");
        drop(used);
    }
}
