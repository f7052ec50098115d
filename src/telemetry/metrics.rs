//! Every metric that butlerd has, by name.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::listed::{Listed, MetricName};
use super::machine;
use super::queue::QueueMetrics;
use super::trace::{Counts, Tracer};
use super::work::{Count, Labels, Level};
use super::writer::LOST;

/// The process's metrics, and where its spans go.
pub struct Metrics {
    tracer: Tracer,
    spans: Counts,
    all: Mutex<Listed>,
    tool_calls: Count<2>,
    sessions: Count<2>,
    running: Level<1>,
    session_seconds: Family<Labels<1>, Histogram>,
    refused: Count<2>,
    stopped: Count<2>,
    model_calls_refused: Count<1>,
    recalled: Count<2>,
    remembered: Count<2>,
    memory_calls: Count<3>,
    tokens: Count<2>,
    cost: Family<Labels<1>, Counter<f64, AtomicU64>>,
    unknown_cost: Count<1>,
    /// 1 for an up butler, else 0.
    up: Level<1>,
    restarts: Count<1>,
    database_up: Gauge<i64, AtomicI64>,
    connections: Gauge<i64, AtomicI64>,
}

fn session_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.25, 2.0, 13))
}

impl Default for Metrics {
    fn default() -> Self {
        let m = Self {
            tracer: Tracer::default(),
            spans: Counts::default(),
            all: Mutex::default(),
            tool_calls: Family::default(),
            sessions: Family::default(),
            running: Family::default(),
            model_calls_refused: Family::default(),
            recalled: Family::default(),
            remembered: Family::default(),
            memory_calls: Family::default(),
            tokens: Family::default(),
            cost: Family::default(),
            unknown_cost: Family::default(),
            session_seconds: Family::new_with_constructor(session_histogram),
            refused: Family::default(),
            stopped: Family::default(),
            up: Family::default(),
            restarts: Family::default(),
            database_up: Gauge::default(),
            connections: Gauge::default(),
        };
        m.register(&mut m.all.lock().unwrap_or_else(|e| e.into_inner()));
        m
    }
}

impl Metrics {
    fn register(&self, all: &mut Listed) {
        all.add("butlerd_tool_calls", "Tool calls by outcome", self.tool_calls.clone());
        all.add("butlerd_sessions", "Sessions by how they ended", self.sessions.clone());
        all.add("butlerd_sessions_running", "Sessions with a running child", self.running.clone());
        let help = "Time from a session's trigger to its end";
        all.add_seconds("butlerd_session_duration", help, self.session_seconds.clone());
        all.add("butlerd_tokens", "Tokens that sessions used, as far as that is known", self.tokens.clone());
        all.add("butlerd_cost_usd", "What sessions cost, as far as that is known", self.cost.clone());
        all.add("butlerd_sessions_of_unknown_cost", "Sessions whose cost is not known", self.unknown_cost.clone());
        let help = "Model calls that asked for what no session may ask";
        all.add("butlerd_model_calls_refused", help, self.model_calls_refused.clone());
        all.add("butlerd_memory_recalls", "What memory told sessions as they began", self.recalled.clone());
        all.add("butlerd_memory_episodes", "Ends of sessions that were to be remembered", self.remembered.clone());
        all.add("butlerd_memory_calls", "Calls of memory's tools by outcome", self.memory_calls.clone());
        all.add("butlerd_triggers_refused", "Triggers that led to no session, by reason", self.refused.clone());
        let help = "Sessions refused or ended for what they used, by limit";
        all.add("butlerd_sessions_stopped", help, self.stopped.clone());
        all.add("butlerd_butler_up", "Whether a butler is up", self.up.clone());
        all.add("butlerd_butler_restarts", "Restarts of a butler since the daemon started", self.restarts.clone());
        all.add("butlerd_spans_exported", "Spans that a collector took", self.spans.exported.clone());
        all.add("butlerd_spans_dropped", "Spans that no collector took", self.spans.dropped.clone());
        all.add("butlerd_log_lines_lost", "Lines of the log that could not be written", LOST.clone());
        all.add("butlerd_database_up", "Whether the database answers", self.database_up.clone());
        all.add("butlerd_database_connections", "Connections to the database", self.connections.clone());
        machine::register(all);
    }

    /// Every metric, also those that were counted no time yet.
    pub fn names(&self) -> Vec<MetricName> {
        self.all.lock().unwrap_or_else(|e| e.into_inner()).names.clone()
    }

    /// Metrics whose spans go to the OpenTelemetry collector at this address.
    pub fn tracing_to(url: &str) -> Result<Self, reqwest::Error> {
        let mut metrics = Self::default();
        metrics.tracer = Tracer::start(url, metrics.spans.clone())?;
        Ok(metrics)
    }

    /// Where spans are opened.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Spans that no collector took, since the start.
    pub fn dropped_spans(&self) -> u64 {
        self.spans.dropped.get()
    }

    /// Tells of the queues on this database as well.
    pub fn tell_of(&self, queues: &QueueMetrics) {
        queues.register(&mut self.all.lock().unwrap_or_else(|e| e.into_inner()));
    }

    /// Notes how the database is.
    pub fn database(&self, up: bool, connections: usize) {
        self.database_up.set(i64::from(up));
        self.connections.set(i64::try_from(connections).unwrap_or(i64::MAX));
    }

    /// Notes whether a butler is up.
    pub fn butler_up(&self, butler: &str, up: bool) {
        self.up.get_or_create(&[("butler", butler.to_owned())]).set(i64::from(up));
    }

    /// Notes a butler's restart.
    pub fn butler_restarted(&self, butler: &str) {
        self.restarts.get_or_create(&[("butler", butler.to_owned())]).inc();
    }

    /// The metrics of one butler, looked up once.
    pub fn of(self: &std::sync::Arc<Self>, butler: &str) -> ButlerMetrics {
        let outcome =
            |o: &str| self.tool_calls.get_or_create_owned(&[("butler", butler.to_owned()), ("outcome", o.to_owned())]);
        ButlerMetrics {
            butler: butler.to_owned(),
            ok: outcome("ok"),
            refused: outcome("refused"),
            error: outcome("error"),
            cancelled: outcome("cancelled"),
            all: self.clone(),
        }
    }

    /// The Prometheus text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        // Writing into a string can't fail.
        let _ = encode(&mut text, &all.registry);
        text
    }
}

/// One butler's metrics.
#[derive(Clone)]
pub struct ButlerMetrics {
    butler: String,
    ok: Counter<u64, AtomicU64>,
    refused: Counter<u64, AtomicU64>,
    error: Counter<u64, AtomicU64>,
    cancelled: Counter<u64, AtomicU64>,
    all: std::sync::Arc<Metrics>,
}

impl ButlerMetrics {
    fn label(&self) -> Labels<1> {
        [("butler", self.butler.clone())]
    }

    fn with(&self, name: &'static str, value: &str) -> Labels<2> {
        [("butler", self.butler.clone()), (name, value.to_owned())]
    }

    /// Where the butler's spans are opened.
    pub fn tracer(&self) -> &Tracer {
        self.all.tracer()
    }

    /// Counts a tool call by its outcome's name.
    pub fn tool_call(&self, tool: &str, outcome: &str) {
        if tool.starts_with("memory_") {
            let [butler, outcome] = self.with("outcome", outcome);
            self.all.memory_calls.get_or_create(&[butler, ("tool", tool.to_owned()), outcome]).inc();
        }
        match outcome {
            "ok" => &self.ok,
            "refused" => &self.refused,
            "cancelled" => &self.cancelled,
            _ => &self.error,
        }
        .inc();
    }

    /// A session's child starts (+1) or is gone (-1).
    pub fn running(&self, change: i64) {
        self.all.running.get_or_create(&self.label()).inc_by(change);
    }

    /// Counts a session by how it ended.
    pub fn session(&self, state: &str, duration_ms: i64) {
        self.all.sessions.get_or_create(&self.with("outcome", state)).inc();
        let seconds = duration_ms as f64 / 1000.0;
        self.all.session_seconds.get_or_create(&self.label()).observe(seconds);
    }

    /// Counts what a session used; `None`: that is not known.
    pub fn used(&self, input: Option<i64>, output: Option<i64>, usd: Option<f64>) {
        for (kind, tokens) in [("input", input), ("output", output)] {
            if let Some(tokens) = tokens.and_then(|n| u64::try_from(n).ok()) {
                self.all.tokens.get_or_create(&self.with("kind", kind)).inc_by(tokens);
            }
        }
        match usd.filter(|usd| *usd >= 0.0) {
            Some(usd) => drop(self.all.cost.get_or_create(&self.label()).inc_by(usd)),
            None => drop(self.all.unknown_cost.get_or_create(&self.label()).inc()),
        }
    }

    /// Counts a session that was refused or ended for what it used: `budget`, `turns` or `runaway`.
    pub fn session_stopped(&self, limit: &str) {
        self.all.stopped.get_or_create(&self.with("outcome", limit)).inc();
    }

    /// Counts a model call that asked for more than a session may ask, and was not passed on.
    pub fn model_call_refused(&self) {
        self.all.model_calls_refused.get_or_create(&self.label()).inc();
    }

    /// Counts a session that asked its memory: `told`, `nothing`, `late`, `failed` or `off`.
    pub fn recalled(&self, state: &str) {
        self.all.recalled.get_or_create(&self.with("outcome", state)).inc();
    }

    /// Counts an end of a session that was to be remembered: `stored` or `failed`.
    pub fn remembered(&self, state: &str) {
        self.all.remembered.get_or_create(&self.with("outcome", state)).inc();
    }

    /// Counts a trigger that led to no session.
    pub fn trigger_refused(&self, reason: &str) {
        self.all.refused.get_or_create(&self.with("outcome", reason)).inc();
    }
}
