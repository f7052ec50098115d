//! What the daemon tells of itself: the log and the metrics.

mod log;
mod metrics;
mod queue;
mod repeats;
mod trace;
mod writer;

pub use log::{LogError, flush_log, lost_lines, start_log};
pub use metrics::{ButlerMetrics, Metrics};
pub use queue::{QueueMeter, QueueMetrics};
pub use trace::{Span, SpanKind, Tracer};
