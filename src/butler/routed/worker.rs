//! The worker over a butler's route inbox: claims what is there, lets a session deal with it, and ends it once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::prior::{self, Next, Work};
use approvals::{ApprovalGate, risky};
use base::{RequestContext, RequestId, SessionId, TenantId, Trust, text};
use config::ButlerConfig;
use inbox::{Answer, End, Inbox, Lane, LiveKind, RETRY, Route, RouteKind, Settlement};
use sessions::{SessionOptions, SessionResult, SessionState, Spawner, Trigger, TriggerError};
use store::{
    Also, Claim, Claimed, Database, Handler, Queue, QueueOptions, QueueTable, RunningQueue, Store, StoreError, Verdict,
};

/// Rows are looked for this often even if nobody says that there are any.
const LOOK: Duration = Duration::from_secs(15);

/// What the worker works with.
pub struct RoutedParts {
    pub config: Arc<ButlerConfig>,
    pub store: Store,
    pub spawner: Spawner,
    pub inbox: Inbox,
    pub wake: Arc<Notify>,
    /// Where words wait that a session may not send by itself.
    pub gate: ApprovalGate,
}

struct Worker {
    parts: RoutedParts,
    table: QueueTable,
}

store::row! {
    /// A row of the inbox.
    struct Accepted {
        id: Uuid,
        tenant_id: String,
        attempts: i32,
        trust: String,
        route: Value,
        request_id: Uuid,
        kind: String,
    }
}

/// What the row asks for.
struct Part {
    tenant: TenantId,
    trust: Trust,
    request: RequestId,
    kind: RouteKind,
    /// `Err`: of a later version; it must not keep the others waiting.
    route: Result<Route, Value>,
}

/// The row's end.
struct Ended {
    end: End,
    error: Option<String>,
    session: Option<Uuid>,
    /// What the person is told.
    text: Option<String>,
}

impl Ended {
    fn done(session: Uuid, text: Option<String>) -> Self {
        Self { end: End::Done, error: None, session: Some(session), text }
    }

    /// It must not be tried again. `done`: what its sessions did that may have changed something.
    fn dead(session: Option<Uuid>, why: String, done: &[String]) -> Self {
        Self { end: End::Dead, session, text: Some(told_of_failure(&why, done)), error: Some(why) }
    }
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("working on the route inbox")
}

/// Another try, unless there were enough.
fn retry(why: String) -> Verdict<Ended> {
    let dead = Ended::dead(None, format!("{why} (tried {} times)", RETRY.tries), &[]);
    Verdict::Retry { why, dead }
}

fn later(millis: u64) -> Verdict<Ended> {
    Verdict::Later { after: Duration::from_millis(millis), counts: false }
}

/// Takes up what the last run left, then begins to work.
pub async fn start(parts: RoutedParts) -> Result<RunningQueue, StoreError> {
    let options = QueueOptions {
        butler: parts.config.name.to_string(),
        wake: parts.wake.clone(),
        slots: parts.config.sessions.max_concurrent_sessions as usize,
        claimers: 1,
        longest: LOOK,
    };
    let table = format!("\"{}\".route_inbox", parts.store.schema());
    let table = QueueTable::accepted(table, "id", "n.seq", RETRY);
    Queue::new(Worker { parts, table }, options).start().await
}

#[async_trait]
impl Handler for Worker {
    const NAME: &'static str = "routed";
    type Row = Part;
    type End = Ended;

    fn table(&self) -> &QueueTable {
        &self.table
    }

    fn db(&self) -> &Arc<Database> {
        self.parts.inbox.db()
    }

    fn node(&self) -> &str {
        self.parts.inbox.node()
    }

    async fn claim(&self, in_hand: &[Uuid]) -> Result<Option<Claimed<Part>>, StoreError> {
        let (id, mut lease) = (Uuid::now_v7(), self.db().every_tenant().await?);
        let columns = "q.id, q.tenant_id, q.attempts, q.trust, q.route, q.request_id, q.kind";
        let also = Also::default();
        let rows =
            self.table.claim(&mut lease, (id, self.node()), (1, in_hand), also, columns).await.map_err(failed())?;
        let Some(row) = rows.first().map(Accepted::from) else { return Ok(None) };
        let tenant = TenantId::new(&row.tenant_id);
        let part = Part {
            route: serde_json::from_value(row.route.clone()).ok().filter(|_| tenant.is_ok()).ok_or(row.route),
            tenant: tenant.unwrap_or_else(|_| TenantId::owner()),
            trust: Trust::from_name(&row.trust),
            request: RequestId(row.request_id),
            kind: serde_json::from_value(json!(row.kind)).unwrap_or(RouteKind::Message),
        };
        Ok(Some(Claimed { claim: Claim { row: row.id, id }, attempts: row.attempts, row: part }))
    }

    async fn run(&self, claimed: &Claimed<Part>, lost: &CancellationToken) -> Verdict<Ended> {
        let (id, part) = (claimed.claim.row, &claimed.row);
        let Ok(route) = &part.route else {
            tracing::error!(butler = %self.parts.config.name, route = %id, "a part of a message is dead: it can't be read");
            return Verdict::Settle(Ended::dead(None, UNREAD.to_owned(), &[]));
        };
        let store = &self.parts.store;
        match prior::read(store, &part.tenant, Work::Route(id)).await.map(|priors| prior::next(&priors)) {
            Ok(Next::Run) => {}
            Ok(Next::Finished { session, result }) => return Verdict::Settle(Ended::done(session, result)),
            Ok(Next::Stop { session, why, done }) => return Verdict::Settle(Ended::dead(Some(session), why, &done)),
            Err(e) => return self.unread(claimed, &e),
        }
        if claimed.attempts > RETRY.tries {
            // Tries that ended without a word count as well: each of them may have been the daemon's own end.
            return retry("none of its tries came to an end".to_owned());
        }
        let ended = match self.parts.spawner.begin(trigger_of(claimed, route), None).await {
            Ok((session, ended)) => {
                self.began(claimed, session).await;
                tokio::pin!(ended);
                tokio::select! {
                    ended = &mut ended => ended.ok(),
                    () = lost.cancelled() => {
                        self.parts.spawner.cancel(session);
                        ended.await.ok()
                    }
                }
            }
            Err(e) => Some(Err(e)),
        };
        match ended {
            Some(Ok(result)) => self.of_result(claimed, result).await,
            Some(Err(e @ (TriggerError::Capacity { .. } | TriggerError::SelfWait { .. }))) => {
                tracing::debug!(butler = %self.parts.config.name, "{e}");
                later(500)
            }
            Some(Err(TriggerError::Store(_) | TriggerError::Stopping(_))) | None => later(1000),
            Some(Err(e)) => Verdict::Settle(Ended::dead(None, e.to_string(), &[])),
        }
    }

    async fn settle(&self, claimed: &Claimed<Part>, ended: &Ended) -> Result<bool, StoreError> {
        let part = &claimed.row;
        let mut words = ended.text.clone().filter(|t| !t.trim().is_empty()).unwrap_or_else(|| NOTHING_SAID.to_owned());
        let answer = self.answer(claimed, ended, &mut words).await?;
        let asker = match &part.route {
            Ok(route) => route.subrequest.asked_by.as_deref(),
            Err(raw) => raw["subrequest"]["asked_by"].as_str(),
        };
        let settlement = Settlement {
            tenant: &part.tenant,
            butler: self.parts.config.name.as_str(),
            schema: self.parts.store.schema(),
            table: &self.table,
            claim: claimed.claim,
            request: part.request,
            kind: part.kind,
            end: ended.end,
            error: ended.error.as_deref(),
            answer,
            asked: asker.map(|asker| (asker, words.as_str())),
        };
        self.parts.inbox.settle(settlement).await
    }
}

impl Worker {
    /// What the person is told by the house, if nobody else tells them. `words` become what may be told.
    async fn answer(
        &self,
        claimed: &Claimed<Part>,
        ended: &Ended,
        words: &mut String,
    ) -> Result<Option<Answer>, StoreError> {
        let part = &claimed.row;
        let trust = part.trust.min(self.shown(part, ended.session).await?);
        let of = |context: RequestContext, text: String| Answer {
            lane: Lane::of_request(&context),
            text,
            trust,
            session: ended.session,
            context: Some(Box::new(context)),
            failure: ended.end == End::Dead,
        };
        let route = match &part.route {
            Ok(route) => route,
            Err(raw) => {
                let context = serde_json::from_value::<RequestContext>(raw["request_context"].clone()).ok();
                return Ok(context
                    .filter(|_| raw["interactive"] == json!(true))
                    .map(|context| of(context, words.clone())));
            }
        };
        if !route.interactive || part.kind == RouteKind::Ask {
            return Ok(None);
        }
        let context = &route.request_context;
        let others = !self.parts.inbox.is_own(context);
        if others && ended.end == End::Dead && self.was_risky(claimed).await? {
            // How it failed is in words that a session's model may have chosen.
            FAILED_FOR_OTHERS.clone_into(words);
        }
        if let Some(session) = ended.session.filter(|_| others && ended.end == End::Done)
            && risky(&self.parts.store, &part.tenant, session).await?
        {
            if !self.has_answered(claimed).await? {
                self.parts.gate.park_reply(session, context, words).await?;
            }
            return Ok(None);
        }
        Ok(Some(of(context.clone(), words.clone())))
    }

    /// The least trusted text that the session was shown whose words these are.
    async fn shown(&self, part: &Part, session: Option<Uuid>) -> Result<Trust, StoreError> {
        let Some(session) = session else { return Ok(Trust::Owner) };
        let mut lease = self.parts.store.tenant(&part.tenant).await?;
        sessions::sql::trust_of(&mut lease, self.parts.store.schema(), &part.tenant, session).await
    }

    /// What earlier tries did is not known just now, so nothing may be begun.
    fn unread(&self, claimed: &Claimed<Part>, e: &StoreError) -> Verdict<Ended> {
        let butler = &self.parts.config.name;
        tracing::warn!(%butler, route = %claimed.claim.row, error = %e, "earlier tries can't be read yet");
        later(1000)
    }

    async fn of_result(&self, claimed: &Claimed<Part>, result: SessionResult) -> Verdict<Ended> {
        if result.state == SessionState::Succeeded {
            return Verdict::Settle(Ended::done(result.session_id.0, result.output));
        }
        let priors = match prior::read(&self.parts.store, &claimed.row.tenant, Work::Route(claimed.claim.row)).await {
            Ok(priors) => priors,
            Err(e) => return self.unread(claimed, &e),
        };
        let why = result.error.clone().unwrap_or_else(|| result.state.as_str().to_owned());
        match prior::next(&priors) {
            Next::Stop { session, why, done } => Verdict::Settle(Ended::dead(Some(session), why, &done)),
            _ if result.state == SessionState::Interrupted => later(200),
            _ if result.state == SessionState::Failed && prior::may_pass(result.error_class.as_deref()) => retry(why),
            _ => Verdict::Settle(Ended::dead(Some(result.session_id.0), why, &[])),
        }
    }

    async fn began(&self, claimed: &Claimed<Part>, session: SessionId) {
        let butler = self.parts.config.name.to_string();
        let kind = LiveKind::Session { butler, session: session.0, segment: Some(claimed.claim.row) };
        self.parts.inbox.tell(claimed.row.request, kind);
        let noted = async {
            let mut lease = self.parts.store.tenant(&claimed.row.tenant).await?;
            let sql = "UPDATE route_inbox SET session_id = $2 WHERE id = $1 AND claim_id = $3";
            lease.execute(sql, &[&claimed.claim.row, &session.0, &claimed.claim.id]).await.map_err(failed())
        };
        // The session's own row names the route, which is what a start after a kill goes by.
        if let Err(e) = noted.await {
            tracing::debug!(error = %e, "the session of a routed message could not be recorded in its row");
        }
    }

    /// Whether one of the row's sessions stood beside a stranger's words and private data both.
    async fn was_risky(&self, claimed: &Claimed<Part>) -> Result<bool, StoreError> {
        let (store, tenant) = (&self.parts.store, &claimed.row.tenant);
        for prior in prior::read(store, tenant, Work::Route(claimed.claim.row)).await? {
            if risky(store, tenant, prior.session).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the row's sessions have answered by themselves, or want to.
    async fn has_answered(&self, claimed: &Claimed<Part>) -> Result<bool, StoreError> {
        let (id, tenant) = (claimed.claim.row, &claimed.row.tenant);
        if self.parts.inbox.has_replied(tenant, id).await? {
            return Ok(true);
        }
        let priors = prior::read(&self.parts.store, tenant, Work::Route(id)).await?;
        let sessions: Vec<Uuid> = priors.iter().map(|prior| prior.session).collect();
        self.parts.gate.actions().any_of(tenant, &sessions).await
    }
}

/// The session's request: where it comes from, what was said before, and how its answer reaches somebody.
fn trigger_of(claimed: &Claimed<Part>, route: &Route) -> Trigger {
    let Route { input, kind, interactive, subrequest, .. } = route;
    let mut context = json!({"conversation_before": input.conversation_history, "interactive": interactive});
    let mut add = |name: &str, value: Value| {
        if let Some(context) = context.as_object_mut().filter(|_| !value.is_null()) {
            context.insert(name.to_owned(), value);
        }
    };
    add("context", input.context.clone().unwrap_or_default());
    if !input.attachments.is_empty() {
        add("attachments", json!(input.attachments));
    }
    let prompt = match kind {
        RouteKind::Ask => {
            let asker = subrequest.asked_by.as_deref().unwrap_or("another butler");
            add("how_to_answer", json!("Your last message is the answer that the other butler gets."));
            format!("The butler {asker} asks you:\n\n{}", input.prompt)
        }
        RouteKind::Message | RouteKind::Answer => {
            if *interactive {
                add("how_to_answer", json!(HOW_TO_ANSWER));
            }
            input.prompt.clone()
        }
    };
    let mut request = route.request_context.clone().with_trust_at_most(claimed.row.trust);
    for said in &input.conversation_history {
        if let Some(trust) = said["trust"].as_str() {
            request = request.with_trust_at_most(Trust::from_name(trust));
        }
    }
    // An outcome was put together out of what an earlier session had been shown.
    request.private |= *kind == RouteKind::Answer;
    let source = if *kind == RouteKind::Ask { "ask" } else { "route" };
    let options = SessionOptions { route: Some(claimed.claim.row), ..SessionOptions::default() };
    Trigger { context: Some(context), options, ..Trigger::new(prompt, source, Arc::new(request)) }
}

/// How an interactive session is told to answer. The styles stand in the shared AGENTS.md.
const HOW_TO_ANSWER: &str = "A person waits for your answer. Answer with `notify`: intent `reply` with a message, \
intent `react` with an emoji, or both. If you end without it, your last message is sent for you.";
/// Why a row that is in no form that is known here comes to nothing.
const UNREAD: &str = "this version of butlerd can't read it";
/// What somebody who is not the owner is told of a failure, where its cause may be told to the owner only.
const FAILED_FOR_OTHERS: &str = "I could not deal with your message. The owner of this household is told why.";
/// What is sent of a session that ended well and said nothing.
const NOTHING_SAID: &str = "I came to an end and had nothing to say.";

/// What the person is told of work that failed.
fn told_of_failure(why: &str, done: &[String]) -> String {
    let why = text::truncate(why, 500);
    let why = why.trim_end_matches('.');
    if done.is_empty() {
        return format!("I could not do this: {why}. No step was taken that changes anything.");
    }
    let mut tools: Vec<&str> = done.iter().map(String::as_str).collect();
    tools.dedup();
    format!(
        "I was interrupted: {why}. These steps had been taken and were not repeated: {}. Please look whether something is \
         missing, and ask again for that part.",
        tools.join(", ")
    )
}
