//! How long to wait before trying again.

use std::time::Duration;

/// Doubling delays with full jitter between half and all of the step, up to a ceiling.
#[derive(Debug, Clone)]
pub struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    /// The first delay is at most `first`, none is longer than `max`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self { next: first, max }
    }

    /// The delay to wait now.
    pub fn next_delay(&mut self) -> Duration {
        let step = self.next.min(self.max);
        self.next = (step * 2).min(self.max);
        let mut byte = [0u8; 1];
        // Without entropy the delay is simply the full step.
        let share = getrandom::fill(&mut byte).map_or(1.0, |()| 0.5 + f64::from(byte[0]) / 510.0);
        step.mul_f64(share)
    }
}
