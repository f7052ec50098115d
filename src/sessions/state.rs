//! What one butler's spawner has and knows, for all that a session goes through.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admission::{Admission, SessionPermits};
use super::attempts::{Candidate, Candidates};
use super::budget::Budgets;
use super::conductor::Conductor;
use super::gateway::Gateway;
use super::log::{Ending, SessionLog};
use super::memory::Memory;
use super::model::{ModelAccess, NoModel, is_local, resolve};
use super::shown::ShownBefore;
use super::transcript::Transcript;
use super::types::{EventKind, MAX_PROMPT, SessionEvent, SessionOptions, SessionResult, Trigger, TriggerError};
use super::workspace::Workspaces;
use access::TokenBook;
use access::credentials::Credentials;
use base::{Audience, Backoff, Clock, MAX_LINEAGE_DEPTH, RequestContext, SessionId, crash, text};
use config::{ButlerConfig, SpawnerConfig};
use process::ProcessSupervisor;
use store::{Database, Store, StoreError};
use telemetry::{ButlerMetrics, Span, SpanKind};
use tools::{Auditor, Offered, notes_told};

/// All that a spawner works with.
pub struct SpawnerParts {
    pub config: Arc<ButlerConfig>,
    pub settings: SpawnerConfig,
    pub roster_dir: PathBuf,
    pub workspaces: Workspaces,
    pub db: Arc<Database>,
    pub store: Store,
    /// The daemon's name among those on its database: the same after a restart, another one elsewhere.
    pub node: String,
    pub auditor: Auditor,
    pub credentials: Credentials,
    pub book: TokenBook,
    pub clock: Clock,
    pub processes: ProcessSupervisor,
    /// The household's permits.
    pub permits: SessionPermits,
    pub events: broadcast::Sender<SessionEvent>,
    pub metrics: ButlerMetrics,
    pub budgets: Budgets,
    /// The butler's tools, once they are all there.
    pub tools: Offered,
    /// The port of the butler's MCP server.
    pub port: u16,
    /// Where children reach their models; `None` puts the keys in their environment.
    pub gateway: Option<Gateway>,
}

pub(super) struct Inner {
    pub parts: SpawnerParts,
    pub candidates: Candidates,
    pub log: SessionLog,
    pub transcript: Transcript,
    pub admission: Admission,
    /// Sessions that wait or run, and how to cancel each.
    pub live: Mutex<HashMap<SessionId, CancellationToken>>,
    /// No new work.
    pub closing: CancellationToken,
    /// What still runs ends now.
    pub killing: CancellationToken,
    pub tasks: TaskTracker,
    /// Which tools conversations were shown.
    pub shown: ShownBefore,
    /// Who remembers for the butler, if somebody does. Weak, because it asks the butler's tools, and they hold the spawner:
    /// each would keep the other, and the memory's index, for ever.
    pub memory: OnceLock<Weak<dyn Memory>>,
    /// Who works on the butler's sessions in the place of its model, if somebody does. Weak, because it starts sessions by
    /// this spawner.
    pub conductor: OnceLock<Weak<dyn Conductor>>,
}

/// One session of a trigger: in which runtime, and with what.
pub(super) struct Attempt {
    pub id: SessionId,
    /// Index of the runtime among the candidates.
    pub at: usize,
    pub access: ModelAccess,
}

impl Inner {
    /// A span for a part of what stands under `request`; it ends when it is dropped.
    pub(super) fn phase(&self, request: &RequestContext, name: &'static str) -> Span {
        self.parts.metrics.tracer().open(&request.trace_context, name, SpanKind::Internal)
    }

    pub(super) fn live(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, CancellationToken>> {
        self.live.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What the butler noted for a session such as this.
    pub(super) async fn notes(&self, trigger: &Trigger) -> Vec<String> {
        if trigger.request.audience != Audience::Household || trigger.options.system_prompt.is_some() {
            // Notes are the household's own, and what this session says may reach others.
            return Vec::new();
        }
        let read = async { notes_told(&mut self.parts.store.tenant(&trigger.request.tenant_id).await?).await };
        read.await.unwrap_or_else(|e| {
            tracing::warn!(butler = %self.parts.config.name, error = %e, "a session starts without the butler's notes");
            Vec::new()
        })
    }

    pub(super) fn candidate(&self, attempt: &Attempt) -> &Candidate {
        self.candidates.at(attempt.at)
    }

    /// Who remembers what comes of this trigger, if somebody does.
    pub(super) fn memory(&self, trigger: &Trigger) -> Option<Arc<dyn Memory>> {
        self.memory.get().filter(|_| !trigger.options.apart_from_memory)?.upgrade()
    }

    /// Who works on what comes of this trigger, if a module does. What is told all that it is told, or has tools of its
    /// own, is a model's to do.
    pub(super) fn conductor(&self, trigger: &Trigger) -> Option<Arc<dyn Conductor>> {
        let options = &trigger.options;
        let models = options.by_a_model || options.system_prompt.is_some() || options.tools.is_some();
        self.conductor.get().filter(|_| !models)?.upgrade()
    }

    /// Puts what happens in a session on record, and tells whoever watches.
    pub(super) fn tell(&self, session: SessionId, kind: EventKind) {
        self.transcript.tell(session, kind);
    }

    /// The runtimes for this trigger's sessions, in their order.
    pub(super) fn runtimes(&self, trigger: &Trigger) -> Range<usize> {
        self.candidates.wanted(trigger.options.runtime)
    }

    /// The first of the runtimes that has its key and its model for a session with these options; else why the first one
    /// has not.
    pub(super) async fn first_ready(
        &self,
        runtimes: Range<usize>,
        options: &SessionOptions,
    ) -> Result<(usize, ModelAccess), NoModel> {
        let parts = &self.parts;
        let mut why = None;
        for at in runtimes {
            let kind = self.candidates.at(at).kind;
            match resolve(&parts.config, kind, &parts.settings, &parts.credentials, options).await {
                Ok(access) => return Ok((at, access)),
                Err(e @ NoModel::Credentials(_)) => return Err(e),
                Err(e) => why = why.or(Some(e)),
            }
        }
        Err(why.unwrap_or_else(|| NoModel::Missing(format!("{} has no runtime in this build", parts.config.name))))
    }

    /// Writes the row of an attempt, and makes it one that can be watched and cancelled.
    pub(super) async fn open(
        &self,
        attempt: &Attempt,
        trigger: &Trigger,
        retry_of: Option<SessionId>,
    ) -> Result<(), StoreError> {
        let (runtime, model) = (self.candidates.at(attempt.at).kind.into_str(), attempt.access.model.as_deref());
        let remember = self.memory(trigger).is_some_and(|memory| memory.remembers());
        self.log.open(attempt.id, trigger, runtime, model, retry_of, remember).await?;
        crash::point("session.opened");
        let prompt = text::truncate(&trigger.prompt, 4096);
        self.transcript.open(attempt.id, trigger.request.tenant_id.clone());
        self.tell(attempt.id, EventKind::Queued { source: trigger.source.clone(), prompt });
        self.live().insert(attempt.id, CancellationToken::new());
        Ok(())
    }

    /// Whether the attempt's model server is on the owner's own network.
    pub(super) fn is_local(&self, attempt: &Attempt, options: &SessionOptions) -> bool {
        is_local(&self.parts.config, self.candidate(attempt).kind, &self.parts.settings, options)
    }

    /// Puts on record an attempt that must not begin.
    pub(super) async fn refuse(&self, attempt: Attempt, trigger: &Trigger, end: Ending) -> Result<(), TriggerError> {
        self.open(&attempt, trigger, None).await?;
        if let (Some(class), Some(message)) = (end.error_class.clone(), end.error.clone()) {
            self.tell(attempt.id, EventKind::Stopped { class, message });
        }
        let closed = self.close(attempt.id, trigger, end).await;
        self.live().remove(&attempt.id);
        closed.map(drop)
    }

    /// Closes the row, however long the database is away, and tells the end.
    pub(super) async fn close(
        &self,
        id: SessionId,
        trigger: &Trigger,
        end: Ending,
    ) -> Result<SessionResult, TriggerError> {
        let _settling = self.phase(&trigger.request, "settle");
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        let mut tries = 0;
        let end = end.redacted();
        let closed = loop {
            tries += 1;
            // What happened is written before the end is.
            self.transcript.flush().await;
            match self.log.close(&trigger.request, id, &end).await {
                Ok(closed) => break closed,
                Err(e) if (e.fault().is_some() || tries < 10) && !self.killing.is_cancelled() => {
                    tracing::warn!(session = %id, error = %e, "the session's row can't be closed yet");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                // The next start closes it as interrupted.
                Err(e) => {
                    self.transcript.forget(id);
                    return Err(e.into());
                }
            }
        };
        let all_tokens = end.all_tokens();
        let usd = end.cost_usd.as_ref().and_then(|usd| usd.to_string().parse().ok());
        let (duration_ms, tool_calls) = closed.map_or((0, 0), |c| (c.duration_ms, c.tool_calls));
        let result = SessionResult {
            session_id: id,
            state: end.state,
            output: end.result,
            error_class: end.error_class,
            error: end.error,
            duration_ms,
            input_tokens: end.input_tokens,
            output_tokens: end.output_tokens,
            all_tokens,
            cost_usd: end.cost_usd.map(|d| d.normalize().to_string()),
            tool_calls,
        };
        self.parts.metrics.session(result.state.as_str(), duration_ms);
        self.parts.metrics.used(result.input_tokens, result.output_tokens, usd);
        tracing::info!(
            butler = %self.parts.config.name, session = %id, state = result.state.as_str(), ms = duration_ms,
            tool_calls, "session over"
        );
        self.transcript.close(id, EventKind::Ended(result.clone()));
        if let Some(memory) = self.memory(trigger) {
            memory.ended();
        }
        Ok(result)
    }
}

/// Whether the trigger is valid by itself, whatever else there is.
pub(super) fn check_trigger(trigger: &Trigger) -> Result<(), TriggerError> {
    let depth = trigger.request.lineage.depth;
    if depth > MAX_LINEAGE_DEPTH {
        return Err(TriggerError::TooDeep(depth));
    }
    match trigger.prompt.len() {
        n if n > MAX_PROMPT => Err(TriggerError::PromptSize(n)),
        _ if trigger.prompt.trim().is_empty() => Err(TriggerError::PromptEmpty),
        _ => Ok(()),
    }
}
