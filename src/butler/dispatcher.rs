//! How schedules run: prompts as sessions, jobs without a model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::handle::Core;
use super::routed::prior::{self, Next};
use super::tidy::{Of, tidy};
use access::Caller;
use base::{Audience, RequestContext, SessionId, TenantId, Trust, task};
use modules::{AskModel, AskModelError, JobCall, JobFailure, NamedJob};
use outbox::OwnerNote;
use schedule::{Begun, Dispatch, Earlier, Ended, Firing, How, Reply, is_built_in};
use sessions::sql::Work;
use sessions::{Remedy, SCHEDULE, SessionOptions, SessionResult, SessionState, Trigger, TriggerError, wait_for};
use store::{Store, StoreError};
use tools::sql::{JobError, Notify, SqlJob, Then};

/// After a butler that had no place.
const BUSY: Duration = Duration::from_millis(500);
/// After a database that was away.
const AWAY: Duration = Duration::from_secs(1);

const PANICKED: &str = "butlerd itself failed while it ran this job; the daemon's log says where";

/// A butler's jobs in SQL, or why there are none.
pub(super) type Jobs = Result<BTreeMap<String, SqlJob>, String>;

/// Runs what schedules ask for.
pub(super) struct Dispatcher {
    pub core: Arc<Core>,
    pub store: Store,
    pub jobs: Jobs,
    pub module_jobs: Vec<NamedJob>,
}

/// Clones share the dispatcher.
#[derive(Clone)]
pub(super) struct Runs(pub Arc<Dispatcher>);

#[async_trait]
impl Dispatch for Runs {
    fn idle_for(&self) -> Option<Duration> {
        self.0.core.spawner.idle_for()
    }

    async fn begin(&self, firing: Firing) -> Begun {
        if let Some(prompt) = firing.prompt.clone() {
            let prompt = with_reply(prompt, firing.reply.as_ref());
            return self.session(&firing, prompt, None).await;
        }
        let this = self.clone();
        Begun { session: None, end: Box::pin(async move { this.job(firing).await }) }
    }

    async fn earlier(&self, tenant: &TenantId, run: Uuid) -> Result<Earlier, StoreError> {
        self.0.core.spawner.take_over(run).await?;
        self.done_before(tenant, run).await
    }

    fn cancel(&self, session: SessionId) {
        self.0.core.spawner.cancel(session);
    }
}

impl Runs {
    async fn done_before(&self, tenant: &TenantId, run: Uuid) -> Result<Earlier, StoreError> {
        let priors = prior::read(&self.0.store, tenant, Work::Run(run)).await?;
        Ok(match prior::next(&priors) {
            Next::Run => Earlier::Nothing,
            Next::Finished { session, .. } => Earlier::Finished(session),
            Next::Stop { session, why, mut done, .. } => {
                done.dedup();
                let why = why.trim_end_matches('.');
                let why = format!("{why}; it had called {}, and is not begun again", done.join(", "));
                Earlier::Broken { session, why }
            }
        })
    }

    /// The request of a run. Out of a session it is that session's doing: same lineage, one deeper, and never trusted
    /// more; else it is the house's own, at most as trusted as whoever made the schedule.
    fn request(&self, firing: &Firing) -> RequestContext {
        let clock = &self.0.core.services.clock;
        let own = firing.caller.as_ref().and_then(|caller| Some((caller, caller.session()?)));
        let request = match own {
            Some((caller, session)) => caller.context.caused_by(session, clock),
            None => {
                let butler = self.0.core.config.name.as_str();
                RequestContext::root(clock, firing.tenant.clone(), "schedule", butler, &firing.name, Trust::System)
            }
        };
        // What it is told to do stands in a row, and whoever wrote that may have put private data into it.
        RequestContext { audience: Audience::Household, ..request }.with_trust_at_most(firing.trust)
    }

    async fn session(&self, firing: &Firing, prompt: String, rows: Option<Value>) -> Begun {
        let own = firing.caller.as_ref().and_then(Caller::session);
        let request = Arc::new(self.request(firing));
        let options =
            SessionOptions { run: Some(firing.run), priority: Some(firing.priority), ..SessionOptions::default() };
        let source = format!("{SCHEDULE}{}", firing.name);
        let trigger = Trigger { context: rows, options, ..Trigger::new(prompt, source, request) };
        match self.0.core.spawner.begin(trigger, own).await {
            Ok((session, end)) => {
                let (this, tenant, run) = (self.clone(), firing.tenant.clone(), firing.run);
                let fire_at = firing.fire_at;
                let end = Box::pin(async move { this.of_session(&tenant, (run, fire_at), session, end).await });
                Begun { session: Some(session), end }
            }
            Err(TriggerError::Capacity { .. } | TriggerError::Stopping(_)) if own.is_none() => {
                Begun::ended(How::Later(BUSY))
            }
            Err(TriggerError::Store(e)) if e.fault().is_some() => Begun::ended(How::Later(AWAY)),
            Err(e @ TriggerError::Unavailable(_)) if own.is_none() => {
                Begun::ended(How::Wait { after: AWAY, why: e.to_string() })
            }
            Err(e) => Begun::ended(How::Failed(e.to_string())),
        }
    }

    async fn of_session(
        &self,
        tenant: &TenantId,
        (run, fire_at): (Uuid, Timestamp),
        session: SessionId,
        end: oneshot::Receiver<Result<SessionResult, TriggerError>>,
    ) -> Ended {
        let result = match end.await {
            Ok(Ok(result)) => result,
            // Its row says how it ended; the next try goes by that.
            Ok(Err(_)) | Err(_) => return Ended { session: Some(session), how: How::Later(AWAY) },
        };
        let why = result.error.clone().unwrap_or_else(|| result.state.as_str().replace('_', " "));
        let how = match result.state {
            SessionState::Succeeded => How::Done(None),
            // The daemon stops. What was done says whether the next start may begin it again.
            SessionState::Interrupted => match self.done_before(tenant, run).await {
                Ok(Earlier::Broken { why, .. }) => How::Failed(why),
                _ => How::Later(BUSY),
            },
            SessionState::Failed if Remedy::of(result.error_class.as_deref()) == Remedy::Wait => {
                let class = result.error_class.as_deref();
                let patience = wait_for(class, false, fire_at, self.0.core.services.clock.now());
                match (self.done_before(tenant, run).await, patience) {
                    (Ok(Earlier::Nothing), Some(after)) => How::Wait { after, why },
                    (Ok(Earlier::Broken { why, .. }), _) => How::Failed(why),
                    (Err(_), Some(_)) => How::Later(AWAY),
                    _ => How::Failed(why),
                }
            }
            _ => How::Failed(why),
        };
        // A session that another took the place of is not the last one.
        Ended { session: Some(result.session_id), how }
    }

    async fn job(&self, firing: Firing) -> Ended {
        let name = firing.job_name.clone().unwrap_or_default();
        let job = match &self.0.jobs {
            Ok(jobs) if jobs.contains_key(&name) => &jobs[&name],
            _ if is_built_in(&name) => return self.tidy(&firing).await,
            _ if self.of_module(&name).is_some() => return self.module_job(&name, &firing).await,
            Err(why) => return Ended::without_session(How::Failed(format!("its butler's jobs can't be used: {why}"))),
            Ok(_) => {
                let why = format!(
                    "there is no job `{name}`: neither a built-in one nor {}",
                    self.0.core.config.dir.join("jobs").join(format!("{name}.sql")).display()
                );
                return Ended::without_session(How::Failed(why));
            }
        };
        let (rows, seen) = match job.rows(&self.0.store, &firing.tenant, firing.job_args.as_ref()).await {
            Ok(found) => found,
            Err(JobError::Store(e)) if e.fault().is_some() => return Ended::without_session(How::Later(AWAY)),
            Err(e) => return Ended::without_session(How::Failed(e.to_string())),
        };
        if rows.is_empty() {
            return Ended::without_session(How::Done(Some("nothing was found".to_owned())));
        }
        // Rows are believed no more than the house itself, than whoever made the schedule, and than whoever wrote them.
        let firing = Firing { trust: firing.trust.min(Trust::System).min(seen.trust), ..firing };
        match job.then() {
            Then::Notify(notify) => Ended::without_session(self.notify(&firing, notify, &rows).await),
            Then::Prompt(prompt) => {
                let context = json!({"job": name, "rows": rows});
                self.session(&firing, prompt.clone(), Some(context)).await.end.await
            }
        }
    }

    async fn notify(&self, firing: &Firing, notify: &Notify, rows: &[Map<String, Value>]) -> How {
        let request = self.request(firing);
        let messages = notify.messages(rows);
        let keys: Vec<String> = (0..messages.len()).map(|n| format!("run:{}:{n}", firing.run)).collect();
        let note = |(key, text)| OwnerNote {
            tenant: &request.tenant_id,
            origin: self.0.core.config.name.as_str(),
            key,
            subject: None,
            text,
            priority: notify.priority,
            trust: request.trust,
            notice: false,
            channel: None,
            asks: &[],
        };
        let notes: Vec<OwnerNote<'_>> =
            keys.iter().map(String::as_str).zip(messages.iter().map(String::as_str)).map(note).collect();
        let said = format!("{} found, {} sent", counted(rows.len(), "row"), counted(notes.len(), "message"));
        match self.0.core.services.outbox.tell_owner_all(&request.tenant_id, &notes).await {
            Ok(()) => How::Done(Some(said)),
            Err(e) if e.fault().is_some() => How::Later(AWAY),
            Err(e) => How::Failed(e.to_string()),
        }
    }

    async fn tidy(&self, firing: &Firing) -> Ended {
        let core = self.0.core.clone();
        if firing.job_args.as_ref().is_some_and(|args| args.as_object().is_none_or(|args| !args.is_empty())) {
            let why = "job_args: `tidy` takes none; [retention] in butlerd.toml says how long rows are kept";
            return Ended::without_session(How::Failed(why.to_owned()));
        }
        let (schema, tenant) = (self.0.store.schema().to_owned(), firing.tenant.clone());
        // A task of its own, so that a panic is this run's failure and nobody else's.
        let work = task::spawn(task::Kind::Job, "built-in-job", async move {
            let (services, butler) = (&core.services, core.config.name.as_str());
            tidy(&services.db, Of { butler, schema: &schema, tenant: &tenant }, &services.config, services.clock.now())
                .await
        });
        Ended::without_session(match work.await {
            Ok(Ok(done)) => How::Done(Some(done)),
            Ok(Err(e)) if e.fault().is_some() => How::Later(AWAY),
            Ok(Err(e)) => How::Failed(e.to_string()),
            Err(_) => How::Failed(PANICKED.to_owned()),
        })
    }
}

impl Runs {
    fn of_module(&self, name: &str) -> Option<&NamedJob> {
        self.0.module_jobs.iter().find(|job| job.names.contains(&name))
    }

    async fn module_job(&self, name: &str, firing: &Firing) -> Ended {
        let Some(job) = self.of_module(name).map(|named| named.job.clone()) else {
            return Ended::without_session(How::Failed(format!("there is no job `{name}`")));
        };
        let (this, firing) = (self.clone(), firing.clone());
        // A task of its own, so that a panic is this run's failure and nobody else's.
        let work = task::spawn(task::Kind::Job, "module-job", async move {
            let services = &this.0.core.services;
            let model = SessionModel { runs: &this, own: firing.caller.as_ref().and_then(Caller::session) };
            let call = JobCall {
                db: &services.db,
                tenant: &firing.tenant,
                args: firing.job_args.as_ref(),
                model: &model,
                node: services.inbox.node(),
                schedule: &firing.name,
                priority: firing.priority,
            };
            job.run(call).await
        });
        Ended::without_session(match work.await {
            Ok(Ok(done)) => How::Done(Some(done)),
            Ok(Err(JobFailure::Store(e))) if e.fault().is_some() => How::Later(AWAY),
            Ok(Err(e)) => How::Failed(e.to_string()),
            Err(_) => How::Failed(PANICKED.to_owned()),
        })
    }
}

/// Asks models for a job.
struct SessionModel<'a> {
    runs: &'a Runs,
    /// The session that had the job run: nobody waits for a slot that this one may hold.
    own: Option<SessionId>,
}

#[async_trait]
impl AskModel for SessionModel<'_> {
    async fn ready(&self) -> Result<(), AskModelError> {
        let state = self.runs.0.core.spawner.model_state().await;
        if state.ready {
            Ok(())
        } else {
            Err(AskModelError::NotNow(state.reason.unwrap_or_else(|| "it has no model".to_owned())))
        }
    }

    async fn ask(&self, trigger: Trigger) -> Result<SessionResult, AskModelError> {
        let result = self.runs.0.core.spawner.trigger_from(trigger, self.own).await.map_err(|e| match e {
            TriggerError::Store(e) => AskModelError::Store(e),
            TriggerError::TooDeep(_) | TriggerError::PromptSize(_) | TriggerError::PromptEmpty => {
                AskModelError::Failed(e.to_string())
            }
            other => AskModelError::NotNow(other.to_string()),
        })?;
        if result.state == SessionState::Succeeded {
            return Ok(result);
        }
        let why = result.error.clone().unwrap_or_else(|| result.state.as_str().replace('_', " "));
        Err(match (result.state, result.error_class.as_deref()) {
            (SessionState::Interrupted | SessionState::Cancelled, _) | (_, Some("budget")) => {
                AskModelError::NotNow(why)
            }
            (_, Some("crashed" | "killed")) => AskModelError::Failed(why),
            (_, Some("auth" | "program_missing")) => AskModelError::Unreachable(why),
            (_, class) if Remedy::of(class) != Remedy::GiveUp => AskModelError::Unreachable(why),
            _ => AskModelError::Failed(why),
        })
    }
}

/// What the session of a prompt is told, with where the outcome goes.
fn with_reply(prompt: String, reply: Option<&Reply>) -> String {
    let Some(Reply { channel, to }) = reply else { return prompt };
    let to = to.as_deref().map(|to| format!(", recipient {}", json!(to))).unwrap_or_default();
    format!(
        "{prompt}\n\nWhen you are done, send the outcome by `notify`: intent \"send\", channel {}{to}.",
        json!(channel)
    )
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
