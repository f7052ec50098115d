//! Traces: what led to what and how long it took, from a trigger over its session to every tool call, for a collector
//! that speaks OpenTelemetry's protocol.
//!
//! The span that work stands under travels in its [`TraceContext`], which the program hands on with the request; there
//! is no current span of a thread or task. Without a collector nothing is gathered. Ending a span never waits: what the
//! collector is too slow for is dropped, counted and logged.

mod export;
mod otlp;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};

use base::redact::household;
use base::{Clock, TraceContext, task, text};
use export::Exporter;

/// Spans that wait for the exporter; further ones are dropped.
const WAITING: usize = 4096;
/// Bytes of a text that a span carries.
const MAX_TEXT: usize = 2048;

/// What a span is to the one that it stands under, as the protocol numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanKind {
    /// Work within the process.
    Internal = 1,
    /// An answer to a request of another process.
    Server = 2,
    /// A request to another process.
    Client = 3,
}

/// A value that describes a span.
#[derive(Clone, PartialEq, Debug)]
pub enum Attribute {
    Text(String),
    Number(i64),
    Yes(bool),
}

macro_rules! attributes {
    ($($from:ty => $kind:ident,)*) => {$(
        impl From<$from> for Attribute {
            fn from(value: $from) -> Self {
                Attribute::$kind(value.into())
            }
        }
    )*};
}

attributes! { &str => Text, String => Text, i64 => Number, bool => Yes, }

/// What the exporter gets of a span that has ended.
#[derive(Debug)]
struct Record {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    name: String,
    kind: SpanKind,
    started: Timestamp,
    took: Duration,
    attributes: Vec<(&'static str, Attribute)>,
    /// Why it failed, if it did.
    failed: Option<String>,
}

enum Message {
    Span(Box<Record>),
    /// All that was sent before is to go out; then this is answered.
    Flush(oneshot::Sender<()>),
}

/// A number that only rises.
type Count = Counter<u64, AtomicU64>;

/// How many spans went where since the start.
#[derive(Clone, Default)]
pub(super) struct Counts {
    pub exported: Count,
    pub dropped: Count,
}

/// Where spans are opened. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tracer {
    on: Option<Arc<On>>,
}

struct On {
    queue: mpsc::Sender<Message>,
    counts: Counts,
}

impl Tracer {
    /// A tracer whose spans go to the collector at `url`, such as `http://127.0.0.1:4318`.
    pub(super) fn start(url: &str, counts: Counts) -> Result<Self, reqwest::Error> {
        let (queue, waiting) = mpsc::channel(WAITING);
        let exporter = Exporter::new(url, counts.clone())?;
        task::spawn(task::Kind::Actor, "span-exporter", exporter.run(waiting));
        Ok(Self { on: Some(Arc::new(On { queue, counts })) })
    }

    /// Whether there is a collector.
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Opens a span under `parent`; it ends when it is dropped. What is caused under it gets its context, with or
    /// without a collector.
    pub fn open(&self, parent: &TraceContext, name: impl Into<String>, kind: SpanKind) -> Span {
        let context = parent.child();
        let on = self.on.clone().filter(|_| parent.is_sampled());
        let open = on.map(|on| {
            let record = Record {
                trace_id: context.trace_id().to_owned(),
                span_id: context.span_id().to_owned(),
                parent_span_id: parent.parent_id().map(str::to_owned),
                name: name.into(),
                kind,
                // A collector puts spans of several machines together, so a clock that a test moved is none of its.
                started: Clock::default().now(),
                took: Duration::ZERO,
                attributes: Vec::new(),
                failed: None,
            };
            Box::new(Open { on, begun: Instant::now(), record })
        });
        Span { context, open }
    }

    /// As [`Tracer::open`] for what happens thousands of times a second: without a collector it costs nothing, and what
    /// is caused under it stands under `parent`.
    pub fn open_wanted(&self, parent: &TraceContext, name: impl FnOnce() -> String, kind: SpanKind) -> Option<Span> {
        let wanted = self.on.is_some() && parent.is_sampled();
        wanted.then(|| self.open(parent, name(), kind))
    }

    /// Sends what waits, for at most `limit`.
    pub async fn flush(&self, limit: Duration) {
        let Some(on) = &self.on else { return };
        let (done, sent) = oneshot::channel();
        let flushed = async {
            // Both fail only where the exporter is gone, and then there is nothing to wait for.
            let _ = on.queue.send(Message::Flush(done)).await;
            let _ = sent.await;
        };
        if tokio::time::timeout(limit, flushed).await.is_err() {
            tracing::warn!("the last spans did not reach the collector of telemetry.otlp");
        }
    }
}

/// Something that takes its time.
#[must_use]
pub struct Span {
    context: TraceContext,
    open: Option<Box<Open>>,
}

struct Open {
    on: Arc<On>,
    begun: Instant,
    record: Record,
}

impl Span {
    /// What stands under this span gets this.
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Whether anything is gathered, so that what is costly to describe can be left out.
    pub fn is_on(&self) -> bool {
        self.open.is_some()
    }

    /// Says that it began earlier, for what is only told of at its end.
    pub fn began(&mut self, ago: Duration) {
        if let Some(open) = &mut self.open {
            open.begun = open.begun.checked_sub(ago).unwrap_or(open.begun);
            open.record.started = open.record.started.checked_sub(ago).unwrap_or(open.record.started);
        }
    }

    /// Describes the span; long texts are cut, and secrets taken out of them.
    pub fn set(&mut self, name: &'static str, value: impl Into<Attribute>) {
        if let Some(open) = &mut self.open {
            let value = match value.into() {
                Attribute::Text(text) => Attribute::Text(shown(text)),
                other => other,
            };
            open.record.attributes.push((name, value));
        }
    }

    /// Says that what it stands for failed, and why.
    pub fn fail(&mut self, why: &str) {
        if let Some(open) = &mut self.open {
            open.record.failed = Some(shown(why.to_owned()));
        }
    }
}

/// Cleaned before it is cut, because half a secret is not found.
fn shown(text: String) -> String {
    text::truncate(&household().clean(text), MAX_TEXT)
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let Open { on, begun, mut record } = *open;
        record.took = begun.elapsed();
        if on.queue.try_send(Message::Span(Box::new(record))).is_err() {
            on.counts.dropped.inc();
        }
    }
}

#[cfg(test)]
mod tests;
