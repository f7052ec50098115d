//! The worker over a butler's route inbox: claims what is there, lets a session deal with it, and ends it once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::prior::{self, Next, Prior};
use crate::sql::{WaitingRoute, note_session, waiting_routes};
use approvals::ApprovalGate;
use base::{Audience, Label, RequestContext, RequestId, SessionId, TenantId, Trust, text};
use config::ButlerConfig;
use inbox::{Answer, Candidate, End, Inbox, Lane, LiveKind, OwnersHand, RETRY, Route, RouteKind, Settlement, Turns};
use sessions::sql::Work;
use sessions::{Remedy, SessionOptions, SessionResult, SessionState, Spawner, Trigger, TriggerError, wait_for};
use store::{
    Also, AsRows, Claim, Claimed, Database, Handler, Lease, Left, Queue, QueueOptions, QueueTable, RunningQueue, Store,
    StoreError, Verdict,
};

/// Rows are looked for this often even if nobody says that there are any.
const LOOK: Duration = Duration::from_secs(15);
/// Of so many rows that wait it is found out whose turn it is; the household's own come before others.
const LOOKED_AT: i64 = 2000;

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
    turns: Mutex<Turns>,
    /// What others than the owner asked for leaves one pair of hands to the owner.
    hands: OwnersHand,
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
    let hands = OwnersHand::new(parts.config.sessions.max_concurrent_sessions as usize);
    let options = QueueOptions {
        butler: parts.config.name.to_string(),
        wake: parts.wake.clone(),
        slots: hands.slots(),
        claimers: 1,
        longest: LOOK,
    };
    let table = format!("\"{}\".route_inbox", parts.store.schema());
    let table = QueueTable::accepted(table, "id", "n.seq", RETRY);
    Queue::new(Worker { parts, table, turns: Mutex::default(), hands }, options).start().await
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
        let mut waiting = self.waiting(&mut lease, in_hand).await?;
        let row = loop {
            let Some(next) = self.next(&mut waiting) else { return Ok(None) };
            match self.claim_row(&mut lease, id, next).await {
                Ok(Some(row)) => break row,
                // Another one took it in between.
                Ok(None) => self.hands.leave(next),
                Err(e) => {
                    self.hands.leave(next);
                    return Err(e);
                }
            }
        };
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
        let earlier = async {
            if claimed.attempts > 1 {
                self.parts.spawner.take_over(id).await?;
            }
            prior::read(store, &part.tenant, Work::Route(id)).await
        };
        let done = match earlier.await.map(|priors| prior::next(&priors)) {
            Ok(Next::Run) => None,
            Ok(Next::Finished { session, result }) => return Verdict::Settle(Ended::done(session, result)),
            Ok(Next::Stop { done, closing: Some(label), .. }) => Some((done, label)),
            Ok(Next::Stop { session, why, done, .. }) => {
                return Verdict::Settle(Ended::dead(Some(session), why, &done));
            }
            Err(e) => return self.unread(claimed, &e),
        };
        if claimed.attempts > RETRY.tries {
            // Tries that ended without a word count as well: each of them may have been the daemon's own end.
            return retry("none of its tries came to an end".to_owned());
        }
        let ended = match self.parts.spawner.begin(trigger_of(claimed, route, done.as_ref()), None).await {
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
            Some(Err(e @ TriggerError::Unavailable(_))) => {
                Verdict::Wait { after: Duration::from_secs(1), why: e.to_string() }
            }
            // What the household may spend is nobody's business outside.
            Some(Err(TriggerError::Budget(why))) if part.trust == Trust::Stranger => {
                Verdict::Settle(Ended { text: Some(SPENT_FOR_OTHERS.to_owned()), ..Ended::dead(None, why, &[]) })
            }
            Some(Err(e)) => Verdict::Settle(Ended::dead(None, e.to_string(), &[])),
        }
    }

    fn left(&self, claimed: &Claimed<Part>, _how: Left) {
        self.hands.leave(claimed.claim.row);
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
    /// What may be claimed, and whose it is.
    async fn waiting(&self, lease: &mut Lease, in_hand: &[Uuid]) -> Result<Vec<(Uuid, Candidate)>, StoreError> {
        let rows = waiting_routes(lease, &self.table.table, in_hand, LOOKED_AT).await?;
        let roots: Vec<Uuid> = rows.iter().filter_map(|row| row.root).collect();
        let sent_by = match roots.is_empty() {
            true => HashMap::new(),
            false => self.parts.inbox.sent_by(lease, &roots).await?,
        };
        let candidate = |row: WaitingRoute| {
            let (sender, tier) = row.root.and_then(|root| sent_by.get(&root).cloned()).unwrap_or_default();
            (row.id, Candidate { trust: Trust::from_name(&row.trust), tier, sender, seq: row.seq })
        };
        Ok(rows.into_iter().map(candidate).collect())
    }

    /// Takes the one out of those that wait whose turn it is.
    fn next(&self, waiting: &mut Vec<(Uuid, Candidate)>) -> Option<Uuid> {
        let choose = |own: bool| {
            let (ids, candidates): (Vec<Uuid>, Vec<Candidate>) = waiting.iter().cloned().unzip();
            let at = self.turns.lock().unwrap_or_else(PoisonError::into_inner).next(&candidates, own)?;
            Some((ids[at], candidates[at].trust))
        };
        let (next, _) = self.hands.take(choose, |taken| *taken)?;
        waiting.retain(|(id, _)| *id != next);
        Some(next)
    }

    async fn claim_row(&self, lease: &mut Lease, claim: Uuid, row: Uuid) -> Result<Option<Accepted>, StoreError> {
        let columns = "q.id, q.tenant_id, q.attempts, q.trust, q.route, q.request_id, q.kind";
        let also = Also { sql: "AND n.id = $6", params: &[&row] };
        self.table.claim(lease, (claim, self.node()), (1, &[]), also, columns).await.first_typed().map_err(failed())
    }

    /// What the person is told by the house, if nobody else tells them. `words` become what may be told.
    async fn answer(
        &self,
        claimed: &Claimed<Part>,
        ended: &Ended,
        words: &mut String,
    ) -> Result<Option<Answer>, StoreError> {
        let part = &claimed.row;
        let of = |context: RequestContext, text: String, trust: Trust| Answer {
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
                    .map(|context| of(context, words.clone(), part.trust)));
            }
        };
        if !route.interactive || part.kind == RouteKind::Ask {
            return Ok(None);
        }
        let context = &route.request_context;
        let label = self.shown(claimed, route, ended).await?;
        if !self.parts.inbox.is_own(context) && !self.parts.gate.may_answer(&label, context) {
            let Some(session) = ended.session.filter(|_| ended.end == End::Done) else {
                // How it failed is in words that a session's model may have chosen.
                FAILED_FOR_OTHERS.clone_into(words);
                return Ok(Some(of(context.clone(), words.clone(), part.trust)));
            };
            if !self.has_answered(claimed).await? {
                self.parts.gate.hold_reply(session, context, &label, words).await?;
            }
            return Ok(None);
        }
        Ok(Some(of(context.clone(), words.clone(), label.trust)))
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
        let (session, done) = match prior::next(&priors) {
            Next::Stop { session, why, done, closing: None } => {
                return Verdict::Settle(Ended::dead(Some(session), why, &done));
            }
            Next::Stop { session, done, .. } => (Some(session), done),
            _ => (None, Vec::new()),
        };
        if result.state == SessionState::Interrupted {
            return later(200);
        }
        let remedy = match result.state {
            SessionState::Failed => Remedy::of(result.error_class.as_deref()),
            _ => Remedy::GiveUp,
        };
        let patience = self.patience(claimed, result.error_class.as_deref());
        let after = match (remedy, patience) {
            (Remedy::Wait, Some(after)) => Some(after),
            (Remedy::Wait | Remedy::Retry, _) => {
                (claimed.attempts < RETRY.tries).then(|| (RETRY.pause)(claimed.attempts))
            }
            (Remedy::GiveUp, _) => None,
        };
        if let Some(after) = after {
            let kind = LiveKind::Waiting { butler: Some(self.parts.config.name.to_string()), why: why.clone(), after };
            self.parts.inbox.tell(claimed.row.request, kind);
        }
        match (remedy, patience) {
            (Remedy::Wait, Some(after)) => Verdict::Wait { after, why },
            (Remedy::Wait | Remedy::Retry, _) => match retry(why) {
                Verdict::Retry { why, dead } => {
                    Verdict::Retry { dead: session.map_or(dead, |s| Ended::dead(Some(s), why.clone(), &done)), why }
                }
                other => other,
            },
            (Remedy::GiveUp, _) => Verdict::Settle(Ended::dead(Some(result.session_id.0), why, &done)),
        }
    }

    /// How long the row waits now for what is not its own fault.
    fn patience(&self, claimed: &Claimed<Part>, class: Option<&str>) -> Option<Duration> {
        let route = claimed.row.route.as_ref().ok()?;
        wait_for(class, route.interactive, route.request_context.received_at, self.parts.inbox.clock().now())
    }

    async fn began(&self, claimed: &Claimed<Part>, session: SessionId) {
        let butler = self.parts.config.name.to_string();
        let kind = LiveKind::Session { butler, session: session.0, segment: Some(claimed.claim.row) };
        self.parts.inbox.tell(claimed.row.request, kind);
        let noted = async {
            let mut lease = self.parts.store.tenant(&claimed.row.tenant).await?;
            note_session(&mut lease, &claimed.claim, session.0).await
        };
        // The session's own row names the route, which is what a start after a kill goes by.
        if let Err(e) = noted.await {
            tracing::debug!(error = %e, "the session of a routed message could not be recorded in its row");
        }
    }

    /// The label of what is told: of the request, and of all that the session was shown whose words they are. The
    /// house's words about a failure may tell of each of the row's sessions.
    async fn shown(&self, claimed: &Claimed<Part>, route: &Route, ended: &Ended) -> Result<Label, StoreError> {
        let priors = prior::read(&self.parts.store, &claimed.row.tenant, Work::Route(claimed.claim.row)).await?;
        let request = route.request_context.clone().with_trust_at_most(claimed.row.trust).label();
        let speaks = |prior: &&Prior| ended.end == End::Dead || ended.session == Some(prior.session);
        Ok(priors.iter().filter(speaks).fold(request, |label, prior| label.join(&prior.label)))
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

/// The session's request: where it comes from, what was said before, and how its answer reaches somebody. `cut_off`:
/// what an earlier session did before that, and what it was shown; this one can change nothing, and tells that.
fn trigger_of(claimed: &Claimed<Part>, route: &Route, cut_off: Option<&(Vec<String>, Label)>) -> Trigger {
    let Route { input, kind, interactive, subrequest, .. } = route;
    let mut context = json!({"conversation_before": input.conversation_history, "interactive": interactive});
    let mut add = |name: &str, value: Value| {
        if let Some(context) = context.as_object_mut().filter(|_| !value.is_null()) {
            context.insert(name.to_owned(), value);
        }
    };
    add("context", input.context.clone().unwrap_or_default());
    add("sender", input.sender.clone().unwrap_or_default());
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
            } else if *kind == RouteKind::Message && route.request_context.source_channel == PROGRAMS {
                add("how_to_answer", json!(HOW_TO_TELL));
            }
            input.prompt.clone()
        }
    };
    let mut request = route.request_context.clone().with_trust_at_most(claimed.row.trust);
    if *kind == RouteKind::Answer {
        // An outcome was put together out of what an earlier session had been shown.
        request.audience = Audience::Household;
    }
    let source = if *kind == RouteKind::Ask { "ask" } else { "route" };
    if let Some((done, label)) = cut_off {
        context["cut_off"] = json!({"done": done});
        context["how_to_answer"] = json!(HOW_TO_CLOSE);
        request = request.joined(label);
    }
    let reads_only = cut_off.is_some();
    let named = input.attachments.iter().filter_map(|a| a["storage_ref"].as_str());
    let attachments = named.map(str::to_owned).collect();
    let options =
        SessionOptions { route: Some(claimed.claim.row), reads_only, attachments, ..SessionOptions::default() };
    Trigger { context: Some(context), options, ..Trigger::new(prompt, source, Arc::new(request)) }
}

/// The channel that programs hand messages in by.
const PROGRAMS: &str = "webhook";

/// How a session is told that an answer would reach nobody.
const HOW_TO_TELL: &str = "A program sent this, and waits for no answer. Tell the owner what they should know with \
`notify`, intent `send`.";

/// How an interactive session is told to answer. The styles stand in the shared AGENTS.md.
const HOW_TO_ANSWER: &str = "A person waits for your answer. Answer with `notify`: intent `reply` with a message, \
intent `react` with an emoji, or both. If you end without it, your last message is sent for you.";
/// How a session is told to tell the end of what was cut off.
const HOW_TO_CLOSE: &str = "An earlier session dealt with this and was cut off. The tools that it had called to change \
something are in `cut_off`; what they did stands and is not done again. You can look, and change nothing. Your last message is \
the answer: say what was done, and what is still open.";
/// Why a row that is in no form that is known here comes to nothing.
const UNREAD: &str = "this version of butlerd can't read it";
/// What somebody who is not the owner is told of a failure, where its cause may be told to the owner only.
const FAILED_FOR_OTHERS: &str = "I could not deal with your message. The owner of this household is told why.";
/// What a stranger is told whose message comes when strangers have used up what they may.
const SPENT_FOR_OTHERS: &str = "I can't deal with your message today. It is kept, and the owner of this household can take \
                                it up again.";
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
