//! What queues count: rows claimed and how they left, and how long the first of those that are due waits.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;

use super::listed::Listed;
use super::work::{Count, Labels, Level, WorkMetrics};

/// The metrics of all queues on one database. Clones count together.
#[derive(Clone, Default, Debug)]
pub struct QueueMetrics {
    rows: Count<3>,
    oldest: Level<2>,
    channelless: Level<1>,
    waiting: Level<2>,
    work: WorkMetrics,
}

impl QueueMetrics {
    pub(super) fn register(&self, all: &mut Listed) {
        all.add("butlerd_queue_rows", "Rows of queues: claimed, and how they left", self.rows.clone());
        let help = "How long the first row that is due waits, at the last look";
        all.add_seconds("butlerd_queue_oldest", help, self.oldest.clone());
        all.add(
            "butlerd_queue_waiting",
            "Rows that are due and in nobody's hands, at the last look",
            self.waiting.clone(),
        );
        let help = "Deliveries that wait for a channel that the household does not have";
        all.add("butlerd_deliveries_waiting", help, self.channelless.clone());
        self.work.register(all);
    }

    /// How many deliveries wait for a channel that is not there.
    pub fn waiting_for(&self, channel: &str, deliveries: u64) {
        let label = [("channel", channel.to_owned())];
        self.channelless.get_or_create(&label).set(i64::try_from(deliveries).unwrap_or(i64::MAX));
    }

    /// What goes through the queues.
    pub fn work(&self) -> &WorkMetrics {
        &self.work
    }

    /// Those of one butler's queue.
    pub fn of(&self, butler: &str, queue: &str) -> QueueMeter {
        let labels = [("butler", butler.to_owned()), ("queue", queue.to_owned())];
        QueueMeter {
            oldest: self.oldest.get_or_create_owned(&labels),
            waiting: self.waiting.clone(),
            rows: self.rows.clone(),
            labels,
        }
    }
}

/// The metrics of one queue.
#[derive(Clone, Debug)]
pub struct QueueMeter {
    labels: Labels<2>,
    rows: Count<3>,
    oldest: Gauge<i64, AtomicI64>,
    waiting: Level<2>,
}

impl QueueMeter {
    /// Counts a row by what became of it: `claimed`, then `settled`, `dead`, `retried`, `put_back`, `gone`, `lost` or
    /// `unwritten`.
    pub fn count(&self, outcome: &str) {
        self.count_all(outcome, 1);
    }

    /// As [`QueueMeter::count`], so many at once.
    pub fn count_all(&self, outcome: &str, n: u64) {
        let [butler, queue] = self.labels.clone();
        self.rows.get_or_create(&[butler, queue, ("outcome", outcome.to_owned())]).inc_by(n);
    }

    /// How long the first of the rows that are due waits, and how many these are, where that is known.
    pub fn outlook(&self, oldest: Duration, waiting: Option<u64>) {
        self.oldest.set(i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX));
        if let Some(waiting) = waiting {
            self.waiting.get_or_create(&self.labels).set(i64::try_from(waiting).unwrap_or(i64::MAX));
        }
    }
}
