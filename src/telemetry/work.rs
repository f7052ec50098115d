//! What goes through the household: messages, deliveries, runs of schedules, calls that wait, connections.

use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::listed::Listed;

/// Labels of a metric, by name.
pub(super) type Labels<const N: usize> = [(&'static str, String); N];
pub(super) type Count<const N: usize> = Family<Labels<N>, Counter<u64, AtomicU64>>;
pub(super) type Level<const N: usize> = Family<Labels<N>, Gauge<i64, AtomicI64>>;

/// The metrics of the work on one database. Clones count together.
#[derive(Clone, Default, Debug)]
pub struct WorkMetrics {
    accepted: Count<1>,
    refused: Count<1>,
    messages: Count<1>,
    deliveries: Count<2>,
    runs: Count<2>,
    late: Count<1>,
    approvals: Level<0>,
    pools: Level<2>,
    pool_limits: Level<1>,
}

impl WorkMetrics {
    pub(super) fn register(&self, all: &mut Listed) {
        all.add("butlerd_messages_accepted", "Messages that were accepted, by who sent them", self.accepted.clone());
        all.add("butlerd_messages_refused", "Messages that were not accepted, by reason", self.refused.clone());
        all.add("butlerd_messages_ended", "Messages that came to their end", self.messages.clone());
        all.add("butlerd_deliveries_ended", "Deliveries that came to their end", self.deliveries.clone());
        all.add("butlerd_schedule_runs", "Runs of schedules that came to their end", self.runs.clone());
        all.add("butlerd_schedule_runs_late", "Runs that began more than a minute after their time", self.late.clone());
        all.add("butlerd_approvals_waiting", "Calls that wait for a person, at the last look", self.approvals.clone());
        all.add("butlerd_pool_connections", "Connections of a pool, at the last look", self.pools.clone());
        all.add("butlerd_pool_limit", "How many connections a pool may have", self.pool_limits.clone());
    }

    /// Counts a message that is on record now. `sender`: `owner`, `system`, `known` or `stranger`.
    pub fn message_accepted(&self, sender: &str) {
        self.accepted.get_or_create(&[("sender", sender.to_owned())]).inc();
    }

    /// Counts a message that was not taken, by the refusal's code.
    pub fn message_refused(&self, reason: &str) {
        self.refused.get_or_create(&[("reason", reason.to_owned())]).inc();
    }

    /// Counts a message at its end: `done`, `dead`, or `filtered` by a rule.
    pub fn message_ended(&self, outcome: &str) {
        self.messages.get_or_create(&[("outcome", outcome.to_owned())]).inc();
    }

    /// Counts a delivery at its end: `sent`, `failed`, `dead` or `unknown`.
    pub fn delivery_ended(&self, channel: &str, outcome: &str) {
        self.deliveries.get_or_create(&[("channel", channel.to_owned()), ("outcome", outcome.to_owned())]).inc();
    }

    /// Counts a run of a schedule at its end: `done` or `failed`.
    pub fn run_ended(&self, butler: &str, outcome: &str) {
        self.runs.get_or_create(&[("butler", butler.to_owned()), ("outcome", outcome.to_owned())]).inc();
    }

    /// Counts a run of a schedule that begins late.
    pub fn run_late(&self, butler: &str) {
        self.late.get_or_create(&[("butler", butler.to_owned())]).inc();
    }

    /// Notes how many calls wait for a person; `None`: nobody can tell just now.
    pub fn approvals(&self, waiting: Option<i64>) {
        match waiting {
            Some(waiting) => drop(self.approvals.get_or_create(&[]).set(waiting)),
            None => self.approvals.clear(),
        }
    }

    /// Notes how a pool of connections is used. `pool`: a butler's name, or `owner`.
    pub fn pool(&self, pool: &str, used: PoolUse) {
        let labels = |state: &str| [("pool", pool.to_owned()), ("state", state.to_owned())];
        for (state, n) in [("in_use", used.in_use), ("idle", used.idle), ("awaited", used.awaited)] {
            self.pools.get_or_create(&labels(state)).set(i64::try_from(n).unwrap_or(i64::MAX));
        }
        let limit = i64::try_from(used.limit).unwrap_or(i64::MAX);
        self.pool_limits.get_or_create(&[("pool", pool.to_owned())]).set(limit);
    }
}

/// How a pool of connections is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolUse {
    pub in_use: usize,
    pub idle: usize,
    /// How many callers wait for one.
    pub awaited: usize,
    /// How many there may be.
    pub limit: usize,
}
