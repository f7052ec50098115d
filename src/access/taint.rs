//! What a session was shown so far: it decides what the session may still do on its own.

use std::sync::atomic::{AtomicBool, Ordering};

use base::{Seen, Trust};

/// One session's exposure. It only grows.
#[derive(Debug, Default)]
pub struct Taint {
    seen: Seen,
    private: AtomicBool,
}

impl Taint {
    /// The exposure of a session that begins under a request of this trust.
    pub fn of(trust: Trust, private: bool) -> Self {
        let taint = Self { seen: Seen::default(), private: AtomicBool::new(private) };
        taint.seen.observe(trust);
        taint
    }

    /// The least trusted text that the session was shown, its request included.
    pub fn trust(&self) -> Trust {
        self.seen.lowest()
    }

    /// Whether it was shown anything private.
    pub fn private(&self) -> bool {
        self.private.load(Ordering::SeqCst)
    }

    /// Text of this trust is shown. Returns whether it is less trusted than all before.
    pub fn observe(&self, trust: Trust) -> bool {
        self.seen.observe(trust)
    }

    /// Private data is shown. Returns whether it is the first.
    pub fn observe_private(&self) -> bool {
        !self.private.swap(true, Ordering::SeqCst)
    }

    /// Whether it may let nothing out by itself any more: a stranger's words stand beside private data.
    pub fn is_risky(&self) -> bool {
        self.trust() == Trust::Stranger && self.private()
    }
}
