//! What the daemon tells of itself: the log and the metrics.

mod log;
mod metrics;
mod queue;
mod trace;

pub use log::{LogError, lost_lines, start_log};
pub use metrics::{ButlerMetrics, Metrics};
pub use queue::{QueueMeter, QueueMetrics};
pub use trace::{Span, SpanKind, Tracer};
