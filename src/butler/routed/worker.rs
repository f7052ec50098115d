//! The worker over a butler's route inbox: claims what is there, lets a session deal with it, and ends it once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::prior::{self, Next, Work};
use approvals::{ApprovalGate, risky};
use base::{ButlerName, RequestId, SessionId, TenantId, Trust, crash, task, text};
use config::ButlerConfig;
use inbox::{Answer, End, Inbox, Lane, LiveKind, Route, RouteKind, Settlement, TRIES, pause};
use sessions::{SessionOptions, SessionResult, SessionState, Spawner, Trigger, TriggerError};
use store::{Claim, ClaimTable, Store, StoreError, lease_seconds, settle};

/// Rows are looked for this often even if nobody says that there are any.
const LOOK: Duration = Duration::from_secs(15);

/// After a look that failed.
const AGAIN: Duration = Duration::from_secs(1);

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

/// The worker of a butler that is up.
pub struct Routed {
    task: JoinHandle<()>,
    stop: CancellationToken,
    /// A butler that dies takes its worker along, or the next one would stand beside it.
    _ends: DropGuard,
}

struct Inner {
    parts: RoutedParts,
    slots: Arc<Semaphore>,
    /// Rows that are being worked on here, whatever their leases say.
    under_way: Mutex<HashSet<Uuid>>,
    working: TaskTracker,
    stop: CancellationToken,
}

/// A row that this claim holds.
struct Claimed {
    id: Uuid,
    claim: Uuid,
    tenant: TenantId,
    attempts: i32,
    trust: Trust,
    route: Route,
}

/// What became of one try.
enum Tried {
    Done {
        session: Option<Uuid>,
        text: Option<String>,
    },
    /// It must not be tried again.
    Dead {
        session: Option<Uuid>,
        why: String,
        done: Vec<String>,
    },
    Failed(String),
    Later(Duration),
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("working on the route inbox")
}

impl Routed {
    /// Takes up what the last run left, then begins to work.
    pub async fn start(parts: RoutedParts) -> Result<Self, StoreError> {
        let stop = CancellationToken::new();
        let inner = Arc::new(Inner {
            slots: Arc::new(Semaphore::new(parts.config.sessions.max_concurrent_sessions as usize)),
            parts,
            under_way: Mutex::default(),
            working: TaskTracker::new(),
            stop: stop.clone(),
        });
        inner.release_own().await?;
        let task = task::spawn(task::Kind::Actor, "route-inbox", inner.run());
        Ok(Self { task, _ends: stop.clone().drop_guard(), stop })
    }

    /// Claims nothing more; what is under way ends with its sessions.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Waits until nothing is under way.
    pub async fn ended(self, within: Duration) {
        if tokio::time::timeout(within, self.task).await.is_err() {
            tracing::warn!("parts of messages were not settled before the stop; the next start takes them up");
        }
    }
}

impl Inner {
    fn butler(&self) -> &ButlerName {
        &self.parts.config.name
    }

    fn schema(&self) -> &str {
        self.parts.store.schema()
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashSet<Uuid>> {
        self.under_way.lock().unwrap_or_else(|e| e.into_inner())
    }

    async fn release_own(&self) -> Result<(), StoreError> {
        let mut lease = self.parts.inbox.db().every_tenant().await?;
        let sql = format!(
            "UPDATE \"{}\".route_inbox SET state = 'accepted', claim_id = NULL, claimed_by = NULL, lease_until = NULL
             WHERE state = 'processing' AND claimed_by = $1",
            self.schema()
        );
        lease.execute(&sql, &[&self.parts.inbox.node()]).await.map_err(failed())?;
        Ok(())
    }

    async fn run(self: Arc<Self>) {
        loop {
            let next = self.take_what_is_there().await;
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = self.parts.wake.notified() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
        self.working.close();
        self.working.wait().await;
    }

    /// Claims rows while there are free slots. Returns when to look again.
    async fn take_what_is_there(self: &Arc<Self>) -> Duration {
        while !self.stop.is_cancelled() {
            let Ok(slot) = self.slots.clone().try_acquire_owned() else { return LOOK };
            match self.claim().await {
                Ok(Some(claimed)) => {
                    self.under_way().insert(claimed.id);
                    let this = self.clone();
                    let work = self.working.track_future(async move {
                        this.deal_with(&claimed).await;
                        this.under_way().remove(&claimed.id);
                        drop(slot);
                        this.parts.wake.notify_one();
                    });
                    task::spawn(task::Kind::Job, "routed", work);
                }
                Ok(None) => return self.next_look().await,
                Err(e) => {
                    tracing::warn!(butler = %self.butler(), error = %e, "the route inbox can't be read");
                    return AGAIN;
                }
            }
        }
        LOOK
    }

    async fn next_look(&self) -> Duration {
        let sql = format!(
            "SELECT extract(epoch FROM min(available_at) - clock_timestamp())::float8 FROM \"{}\".route_inbox
             WHERE state = 'accepted'",
            self.schema()
        );
        let next = async {
            let mut lease = self.parts.inbox.db().every_tenant().await?;
            let rows = lease.query(&sql, &[]).await.map_err(failed())?;
            Ok::<_, StoreError>(rows.first().and_then(|row| row.get::<_, Option<f64>>(0)))
        };
        match next.await {
            Ok(Some(seconds)) => Duration::from_secs_f64(seconds.clamp(0.01, LOOK.as_secs_f64())),
            Ok(None) => LOOK,
            // The database is away: as soon as it is back, what waits goes on.
            Err(_) => AGAIN,
        }
    }

    async fn claim(&self) -> Result<Option<Claimed>, StoreError> {
        let under_way: Vec<Uuid> = self.under_way().iter().copied().collect();
        let claim = Uuid::now_v7();
        let mut lease = self.parts.inbox.db().every_tenant().await?;
        let schema = self.schema();
        let sql = format!(
            "UPDATE \"{schema}\".route_inbox SET state = 'processing', claim_id = $1, claimed_by = $2,
                    attempts = attempts + 1, lease_until = clock_timestamp() + make_interval(secs => $3)
             WHERE id = (SELECT id FROM \"{schema}\".route_inbox
                         WHERE state IN ('accepted', 'processing') AND id <> ALL($4)
                           AND ((state = 'accepted' AND available_at <= clock_timestamp())
                                OR (state = 'processing' AND lease_until < clock_timestamp()))
                         ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED)
             RETURNING id, tenant_id, attempts, trust, route, request_id, kind"
        );
        let params: store::Params<'_> = &[&claim, &self.parts.inbox.node(), &lease_seconds(), &under_way];
        let Some(row) = lease.query_opt(&sql, params).await.map_err(failed())? else { return Ok(None) };
        let id: Uuid = row.get(0);
        let route = serde_json::from_value::<Route>(row.get(4));
        let (Ok(tenant), Ok(route)) = (TenantId::new(row.get(1)), route) else {
            // Of a later version: it must not keep the others waiting.
            drop(lease);
            self.bury_unread(id, claim, &row).await?;
            self.parts.wake.notify_one();
            return Ok(None);
        };
        let trust = Trust::from_name(row.get(3));
        Ok(Some(Claimed { id, claim, tenant, attempts: row.get(2), trust, route }))
    }

    /// Ends a row that this version can't read, and its part of the message with it.
    async fn bury_unread(&self, id: Uuid, claim: Uuid, row: &tokio_postgres::Row) -> Result<(), StoreError> {
        let tenant = TenantId::new(row.get(1)).unwrap_or_else(|_| TenantId::owner());
        tracing::error!(butler = %self.butler(), route = %id, "a part of a message is dead: it can't be read");
        let route: Value = row.get(4);
        let context = serde_json::from_value(route["request_context"].clone()).ok();
        let answer = context.filter(|_| route["interactive"] == json!(true)).map(|context| Answer {
            lane: Lane::of_request(&context),
            text: told_of_failure(UNREAD, &[]),
            trust: Trust::from_name(row.get(3)),
            session: None,
            context: Some(Box::new(context)),
            failure: true,
        });
        let asker = route["subrequest"]["asked_by"].as_str();
        let settlement = Settlement {
            tenant: &tenant,
            butler: self.butler().as_str(),
            schema: self.schema(),
            id,
            claim,
            request: RequestId(row.get(5)),
            kind: serde_json::from_value(json!(row.get::<_, String>(6))).unwrap_or(RouteKind::Message),
            end: End::Dead,
            error: Some(UNREAD),
            answer,
            asked: asker.map(|asker| (asker, UNREAD)),
        };
        self.parts.inbox.settle(settlement).await.map(drop)
    }

    async fn deal_with(&self, claimed: &Claimed) {
        crash::point("routed.claimed");
        let lost = CancellationToken::new();
        let tried = {
            let work = self.attempt(claimed, &lost);
            let table = ClaimTable::of(self.schema(), "route_inbox", "id");
            let renewing = table.hold(self.parts.inbox.db(), Claim { row: claimed.id, id: claimed.claim });
            tokio::pin!(work);
            tokio::select! {
                tried = &mut work => tried,
                // The session is cancelled, and its end awaited: it must not go on unwatched.
                () = renewing => {
                    lost.cancel();
                    work.await
                }
            }
        };
        crash::point("routed.tried");
        settle("a part of a message", claimed.id, || self.conclude(claimed, &tried)).await;
    }

    async fn attempt(&self, claimed: &Claimed, lost: &CancellationToken) -> Tried {
        let store = &self.parts.store;
        match prior::read(store, &claimed.tenant, Work::Route(claimed.id)).await.map(|priors| prior::next(&priors)) {
            Ok(Next::Run) => {}
            Ok(Next::Finished { session, result }) => return Tried::Done { session: Some(session), text: result },
            Ok(Next::Stop { session, why, done }) => return Tried::Dead { session: Some(session), why, done },
            Err(e) => return self.unread(claimed, &e),
        }
        if claimed.attempts > TRIES {
            // Tries that ended without a word count as well: each of them may have been the daemon's own end.
            return Tried::Failed("none of its tries came to an end".to_owned());
        }
        let ended = match self.parts.spawner.begin(self.trigger_of(claimed), None).await {
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
                tracing::debug!(butler = %self.butler(), "{e}");
                Tried::Later(Duration::from_millis(500))
            }
            Some(Err(TriggerError::Store(_) | TriggerError::Stopping(_))) | None => {
                Tried::Later(Duration::from_secs(1))
            }
            Some(Err(e)) => Tried::Dead { session: None, why: e.to_string(), done: Vec::new() },
        }
    }

    /// What earlier tries did is not known just now, so nothing may be begun.
    fn unread(&self, claimed: &Claimed, e: &StoreError) -> Tried {
        tracing::warn!(butler = %self.butler(), route = %claimed.id, error = %e, "earlier tries can't be looked at yet");
        Tried::Later(Duration::from_secs(1))
    }

    async fn of_result(&self, claimed: &Claimed, result: SessionResult) -> Tried {
        if result.state == SessionState::Succeeded {
            return Tried::Done { session: Some(result.session_id.0), text: result.output };
        }
        let priors = match prior::read(&self.parts.store, &claimed.tenant, Work::Route(claimed.id)).await {
            Ok(priors) => priors,
            Err(e) => return self.unread(claimed, &e),
        };
        let why = result.error.clone().unwrap_or_else(|| result.state.as_str().to_owned());
        match prior::next(&priors) {
            Next::Stop { session, why, done } => Tried::Dead { session: Some(session), why, done },
            _ if result.state == SessionState::Interrupted => Tried::Later(Duration::from_millis(200)),
            _ if result.state == SessionState::Failed && prior::may_pass(result.error_class.as_deref()) => {
                Tried::Failed(why)
            }
            _ => Tried::Dead { session: Some(result.session_id.0), why, done: Vec::new() },
        }
    }

    /// The session's request: where it comes from, what was said before, and how its answer reaches somebody.
    fn trigger_of(&self, claimed: &Claimed) -> Trigger {
        let Route { input, kind, interactive, subrequest, .. } = &claimed.route;
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
        let mut request = claimed.route.request_context.clone().with_trust_at_most(claimed.trust);
        for said in &input.conversation_history {
            if let Some(trust) = said["trust"].as_str() {
                request = request.with_trust_at_most(Trust::from_name(trust));
            }
        }
        // An outcome was put together out of what an earlier session had been shown.
        request.private |= *kind == RouteKind::Answer;
        let source = if *kind == RouteKind::Ask { "ask" } else { "route" };
        let options = SessionOptions { route: Some(claimed.id), ..SessionOptions::default() };
        Trigger { context: Some(context), options, ..Trigger::new(prompt, source, Arc::new(request)) }
    }

    async fn began(&self, claimed: &Claimed, session: SessionId) {
        let butler = self.butler().to_string();
        let kind = LiveKind::Session { butler, session: session.0, segment: Some(claimed.id) };
        self.parts.inbox.tell(claimed.route.request_context.request_id, kind);
        let noted = async {
            let mut lease = self.parts.store.tenant(&claimed.tenant).await?;
            let sql = "UPDATE route_inbox SET session_id = $2 WHERE id = $1 AND claim_id = $3";
            lease.execute(sql, &[&claimed.id, &session.0, &claimed.claim]).await.map_err(failed())
        };
        // The session's own row names the route, which is what a start after a kill goes by.
        if let Err(e) = noted.await {
            tracing::debug!(error = %e, "a route's session is not noted in its row");
        }
    }

    async fn conclude(&self, claimed: &Claimed, tried: &Tried) -> Result<(), StoreError> {
        match tried {
            Tried::Done { session, text } => self.settle(claimed, End::Done, None, *session, text.clone(), false).await,
            Tried::Dead { session, why, done } => {
                let told = told_of_failure(why, done);
                self.settle(claimed, End::Dead, Some(why), *session, Some(told), true).await
            }
            Tried::Failed(why) if claimed.attempts >= TRIES => {
                let why = format!("{why} (tried {TRIES} times)");
                let told = told_of_failure(&why, &[]);
                self.settle(claimed, End::Dead, Some(&why), None, Some(told), true).await
            }
            Tried::Failed(why) => self.release(claimed, pause(claimed.attempts), Some(why)).await,
            Tried::Later(after) => self.release(claimed, *after, None).await,
        }
    }

    async fn settle(
        &self,
        claimed: &Claimed,
        end: End,
        error: Option<&str>,
        session: Option<Uuid>,
        text: Option<String>,
        failure: bool,
    ) -> Result<(), StoreError> {
        let Route { request_context, kind, interactive, subrequest, .. } = &claimed.route;
        let mut words = text.filter(|t| !t.trim().is_empty()).unwrap_or_else(|| NOTHING_SAID.to_owned());
        let wanted = *interactive && *kind != RouteKind::Ask;
        if wanted && failure && !self.parts.inbox.is_own(request_context) && self.was_risky(claimed).await? {
            // How it failed is in words that a session's model may have chosen.
            FAILED_FOR_OTHERS.clone_into(&mut words);
        }
        let waits_for_leave = match session {
            Some(session) if wanted && !failure && !self.parts.inbox.is_own(request_context) => {
                let risky = risky(&self.parts.store, &claimed.tenant, session).await?;
                if risky && !self.has_answered(claimed).await? {
                    self.parts.gate.park_reply(session, request_context, &words).await?;
                }
                risky
            }
            _ => false,
        };
        let answer = (wanted && !waits_for_leave).then(|| Answer {
            lane: Lane::of_request(request_context),
            text: words.clone(),
            trust: claimed.trust,
            session,
            context: Some(Box::new(request_context.clone())),
            failure,
        });
        let asker = subrequest.asked_by.as_deref();
        let settlement = Settlement {
            tenant: &claimed.tenant,
            butler: self.butler().as_str(),
            schema: self.schema(),
            id: claimed.id,
            claim: claimed.claim,
            request: RequestId(request_context.request_id.0),
            kind: *kind,
            end,
            error,
            answer,
            asked: asker.filter(|_| *kind == RouteKind::Ask).map(|asker| (asker, words.as_str())),
        };
        if !self.parts.inbox.settle(settlement).await? {
            tracing::warn!(butler = %self.butler(), route = %claimed.id, "somebody else holds this row; nothing was settled");
        }
        Ok(())
    }

    /// Whether one of the row's sessions stood beside a stranger's words and private data both.
    async fn was_risky(&self, claimed: &Claimed) -> Result<bool, StoreError> {
        let mut lease = self.parts.store.tenant(&claimed.tenant).await?;
        let sql =
            "SELECT 1 FROM sessions WHERE route_id = $1 AND trust = 'stranger' AND private_at IS NOT NULL LIMIT 1";
        Ok(!lease.read(sql, &[&claimed.id]).await.map_err(failed())?.is_empty())
    }

    /// Whether the row's sessions have answered by themselves.
    async fn has_answered(&self, claimed: &Claimed) -> Result<bool, StoreError> {
        let mut lease = self.parts.inbox.db().shared(&claimed.tenant).await?;
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM shared.replies WHERE segment_id = $1)
                 OR EXISTS (SELECT 1 FROM shared.pending_actions a JOIN \"{}\".sessions s ON s.id = a.session_id
                            WHERE s.route_id = $1)",
            self.schema()
        );
        Ok(lease.read(&sql, &[&claimed.id]).await.map_err(failed())?.iter().all(|row| row.get(0)))
    }

    async fn release(&self, claimed: &Claimed, after: Duration, why: Option<&str>) -> Result<(), StoreError> {
        let spent = i32::from(why.is_none());
        let mut lease = self.parts.store.tenant(&claimed.tenant).await?;
        let params: store::Params<'_> = &[&claimed.id, &claimed.claim, &after.as_secs_f64(), &spent, &why];
        lease
            .execute(
                "UPDATE route_inbox SET state = 'accepted', claim_id = NULL, claimed_by = NULL, lease_until = NULL,
                        available_at = clock_timestamp() + make_interval(secs => $3), attempts = attempts - $4,
                        last_error = coalesce($5, last_error)
                 WHERE id = $1 AND claim_id = $2 AND state = 'processing'",
                params,
            )
            .await
            .map_err(failed())?;
        Ok(())
    }
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
