//! What the daemon tells of itself: the log and the metrics.

mod listed;
mod log;
mod machine;
mod metrics;
mod queue;
mod repeats;
mod trace;
mod work;
mod writer;

pub use listed::MetricName;
pub use log::{LogError, flush_log, lost_lines, start_log};
pub use metrics::{ButlerMetrics, Metrics};
pub use queue::{QueueMeter, QueueMetrics};
pub use trace::{Span, SpanKind, Tracer};
pub use work::{PoolUse, WorkMetrics};
