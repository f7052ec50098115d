//! What the process and its children take of the machine, read when somebody asks.

use std::fmt;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::listed::Listed;

const CPU: &str = "butlerd_process_cpu_seconds";
const MEMORY: &str = "butlerd_process_resident_memory_bytes";
const FILES: &str = "butlerd_process_open_fds";
const CHILDREN_CPU: &str = "butlerd_children_cpu_seconds";
const CHILDREN_PEAK: &str = "butlerd_children_peak_memory_bytes";
const HELP: [(&str, &str, MetricType); 5] = [
    (CPU, "Processor time of the daemon", MetricType::Counter),
    (MEMORY, "Memory that the daemon holds", MetricType::Gauge),
    (FILES, "Files and sockets that the daemon has open", MetricType::Gauge),
    (CHILDREN_CPU, "Processor time of children that have ended: sessions' programs and helpers", MetricType::Counter),
    (CHILDREN_PEAK, "The most memory that one of these children held at a time", MetricType::Gauge),
];

/// Reads it anew for each scrape.
#[derive(Debug)]
struct Machine;

pub(super) fn register(all: &mut Listed) {
    for (name, help, kind) in HELP {
        all.note(name, help, kind);
    }
    all.registry.register_collector(Box::new(Machine));
}

impl Collector for Machine {
    /// What can't be read is left out.
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let own = getrusage(UsageWho::RUSAGE_SELF).ok();
        let children = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        // In KiB, as Linux has it.
        let peak = children.as_ref().map(|usage| usage.max_rss().saturating_mul(1024));
        for (name, help, _) in HELP {
            let seconds = match name {
                CPU => own.as_ref().map(cpu),
                CHILDREN_CPU => children.as_ref().map(cpu),
                _ => None,
            };
            if let Some(seconds) = seconds {
                let counter = ConstCounter::new(seconds);
                counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
            }
            let level = match name {
                MEMORY => resident(),
                FILES => open_files(),
                CHILDREN_PEAK => peak,
                _ => None,
            };
            if let Some(level) = level {
                let gauge = ConstGauge::new(level);
                gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
            }
        }
        Ok(())
    }
}

fn cpu(usage: &Usage) -> f64 {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn resident() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn open_files() -> Option<i64> {
    i64::try_from(std::fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}
