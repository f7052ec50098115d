//! A registry that knows what is in it: what was counted no time yet stands in no text of it.

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry, Unit};

/// A metric by its name, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricName {
    /// As queries write it: a counter with `_total`, one of a unit with that. A histogram has `_bucket`, `_sum` and
    /// `_count` behind it.
    pub name: String,
    pub help: String,
}

#[derive(Debug, Default)]
pub(super) struct Listed {
    pub registry: Registry,
    pub names: Vec<MetricName>,
}

impl Listed {
    /// Takes a metric in.
    pub fn add(&mut self, name: &str, help: &str, metric: impl Metric) {
        self.note(name, help, metric.metric_type());
        self.registry.register(name, help, metric);
    }

    /// Takes in one that is in seconds.
    pub fn add_seconds(&mut self, name: &str, help: &str, metric: impl Metric) {
        self.note(&format!("{name}_seconds"), help, metric.metric_type());
        self.registry.register_with_unit(name, help, Unit::Seconds, metric);
    }

    /// Notes a metric that a collector brings.
    pub fn note(&mut self, name: &str, help: &str, kind: MetricType) {
        let end = if matches!(kind, MetricType::Counter) { "_total" } else { "" };
        self.names.push(MetricName { name: format!("{name}{end}"), help: help.to_owned() });
    }
}
