//! Accepting: a message is stored, once, and only then is it said to be taken.
//!
//! Messages that come at the same time are written by one statement and one commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::attachments;
use super::dedupe::{Key, key};
use super::lanes::{Item, Lanes, sender_name};
use super::limits::{SenderLimits, Sent, too_fast};
use super::people::{self, KnownSenders, Sender};
use super::sql::limits::{self, Refused};
use super::sql::messages;
use super::triage::{RuleBook, Rules};
use super::types::{AcceptError, Accepted, Action, Envelope, IngestionTier, Lane, Source, Tier, Triage};
use base::text::plain_identity;
use base::{Audience, Clock, Lineage, RequestContext, RequestId, TenantId, TraceContext, Trust, crash, task};
use conversation::ConversationLog;
use store::{Store, StoreError};
use telemetry::WorkMetrics;

/// Messages in one statement.
const BATCH: usize = 128;
/// Messages whose callers wait for it.
const WAITING: usize = 4096;
/// Statements under way at once: while one is committed the next is gathered.
const WRITERS: usize = 2;
/// How long a message waits for its commit before it is told to come again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of the backlog so many parts, of four, are for what strangers send.
const STRANGERS_PARTS: u64 = 3;

/// A message with all that its row needs but who sent it.
struct Draft {
    tenant: TenantId,
    envelope: Envelope,
    /// How far the sender is believed, where the house's own door knows it.
    trust: Option<Trust>,
    key: Key,
    answer: oneshot::Sender<Result<Accepted, AcceptError>>,
}

impl Draft {
    /// Who sent it.
    fn sender(&self, known: &KnownSenders) -> Sender {
        let sender = known.of(&self.envelope);
        Sender { trust: self.trust.unwrap_or(sender.trust), ..sender }
    }

    /// As which request it is on record.
    fn known_as(&self, on_record: &OnRecord, now: Timestamp) -> Option<Uuid> {
        let own = on_record.get(&self.key.text).map(|(id, _)| *id);
        let also = || {
            let also = self.key.also.as_ref()?;
            on_record.get(&also.text).filter(|(_, at)| also.holds(*at, now)).map(|(id, _)| *id)
        };
        own.or_else(also)
    }
}

/// The way in. Cheap to clone.
#[derive(Clone)]
pub(super) struct Acceptor {
    drafts: mpsc::Sender<Draft>,
    parts: Arc<Parts>,
}

struct Parts {
    store: Store,
    owner: people::OwnerIdentities,
    rules: RuleBook,
    conversation: ConversationLog,
    lanes: Arc<Lanes>,
    /// Messages that are not done.
    open: Arc<AtomicU64>,
    metrics: WorkMetrics,
    /// Messages of strangers that are being written.
    strangers: Arc<AtomicU64>,
    bounds: Bounds,
}

/// A stranger's place in the backlog while his message is written: two writers don't give the same one away.
struct Place(Arc<AtomicU64>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How much is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// How many messages may be not done.
    pub backlog: u64,
    /// How many messages one stranger may send.
    pub sender: SenderLimits,
    /// How many messages are taken within a minute from one end of a channel that a module serves.
    pub connector_per_minute: u32,
    /// How many bytes of files may have come within a day for those of strangers still to be kept.
    pub stranger_files: u64,
}

impl Acceptor {
    /// `open`: how many messages are not done.
    #[allow(clippy::too_many_arguments, reason = "the parts of the inbox, each made elsewhere")]
    pub fn start(
        store: Store,
        metrics: WorkMetrics,
        owner: people::OwnerIdentities,
        rules: RuleBook,
        conversation: ConversationLog,
        lanes: Arc<Lanes>,
        open: Arc<AtomicU64>,
        bounds: Bounds,
    ) -> Self {
        let (drafts, waiting) = mpsc::channel(WAITING);
        let parts = Arc::new(Parts {
            store,
            metrics,
            owner,
            rules,
            conversation,
            lanes,
            open,
            strangers: Arc::default(),
            bounds,
        });
        let waiting = Arc::new(tokio::sync::Mutex::new(waiting));
        for _ in 0..WRITERS {
            task::spawn(task::Kind::Actor, "acceptor", write(parts.clone(), waiting.clone()));
        }
        Self { drafts, parts }
    }

    /// Whether an end of a channel that a module serves may hand in one more message now.
    pub async fn may_go_on(&self, tenant: &TenantId, source: &Source) -> Result<(), AcceptError> {
        let Parts { store, bounds, metrics, .. } = &*self.parts;
        let mut lease = store.tenant(tenant).await.map_err(AcceptError::unavailable)?;
        let refusal = too_fast(&mut lease, source, bounds.connector_per_minute, store.clock().now()).await;
        match refusal.map_err(AcceptError::unavailable)? {
            None => Ok(()),
            Some(refusal) => {
                metrics.message_refused(refusal.code());
                Err(refusal)
            }
        }
    }

    /// Takes a message; it is committed when this returns.
    pub async fn accept(
        &self,
        tenant: &TenantId,
        envelope: Envelope,
        trust: Option<Trust>,
    ) -> Result<Accepted, AcceptError> {
        let taken = self.take(tenant, envelope, trust).await;
        if let Err(refusal) = &taken {
            self.parts.metrics.message_refused(refusal.code());
        }
        taken
    }

    async fn take(
        &self,
        tenant: &TenantId,
        mut envelope: Envelope,
        trust: Option<Trust>,
    ) -> Result<Accepted, AcceptError> {
        let parts = &self.parts;
        let waiting = parts.open.load(Ordering::Relaxed);
        if waiting >= parts.bounds.backlog {
            return Err(AcceptError::Full { waiting });
        }
        let (most, of) = (parts.bounds.stranger_files, (tenant, &mut envelope));
        let left_out = attachments::keep(&parts.store, &parts.owner, of, trust, most).await?;
        let key = key(&envelope, parts.store.clock().now());
        if left_out > 0 {
            let note = format!("\n[{left_out} of its files were not kept: see [buffer] stranger_files_per_day]");
            envelope.payload.normalized_text.push_str(&note);
        }
        let (answer, answered) = oneshot::channel();
        let draft = Draft { tenant: tenant.clone(), envelope, trust, key, answer };
        let taken = async {
            self.drafts.send(draft).await.map_err(|_| AcceptError::NotUp)?;
            answered.await.unwrap_or(Err(AcceptError::NotUp))
        };
        // Of a database that says nothing at all. What it takes later is known when it is sent again.
        tokio::time::timeout(PATIENCE, taken).await.unwrap_or(Err(AcceptError::Unavailable))
    }
}

/// Gathers what waits and writes it, until nobody can hand in any more.
async fn write(parts: Arc<Parts>, waiting: Arc<tokio::sync::Mutex<mpsc::Receiver<Draft>>>) {
    loop {
        let mut drafts = Vec::with_capacity(BATCH);
        if waiting.lock().await.recv_many(&mut drafts, BATCH).await == 0 {
            return;
        }
        // By tenant, of which a household has few: a statement speaks for one.
        while let Some(tenant) = drafts.first().map(|d| d.tenant.clone()) {
            let (own, others): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|d| d.tenant == tenant);
            drafts = others;
            let Err((e, own)) = parts.take(&tenant, own).await else { continue };
            if e.fault().is_some() || own.len() == 1 {
                turn_away(&e, own);
                continue;
            }
            // One that the database refuses must not take the others along.
            for draft in own {
                if let Err((e, own)) = parts.take(&tenant, vec![draft]).await {
                    turn_away(&e, own);
                }
            }
        }
    }
}

fn turn_away(e: &StoreError, drafts: Vec<Draft>) {
    tracing::warn!(error = %e, messages = drafts.len(), "messages were not accepted");
    drafts.into_iter().for_each(|draft| drop(draft.answer.send(Err(AcceptError::Unavailable))));
}

/// One row to be.
struct Row {
    id: Uuid,
    draft: Draft,
    lane: Lane,
    tier: Tier,
    sender: Sender,
    context: Value,
    envelope: Value,
    attachments: Value,
    received_at: Timestamp,
    triage: Option<Triage>,
    /// Given back when it counts among those that are not done, or was not written.
    _place: Option<Place>,
}

/// What is on record that decides about some messages.
struct Ground {
    known: KnownSenders,
    rules: Arc<Rules>,
    on_record: OnRecord,
    sent: Sent,
}

/// What becomes of some messages.
#[derive(Default)]
struct Sorted {
    new: Vec<Row>,
    /// On record already, as these requests.
    same: Vec<(Uuid, Draft)>,
    refused: Vec<(AcceptError, Draft)>,
}

impl Sorted {
    fn drafts(self) -> Vec<Draft> {
        let new = self.new.into_iter().map(|row| row.draft);
        let same = self.same.into_iter().map(|(_, draft)| draft);
        new.chain(same).chain(self.refused.into_iter().map(|(_, draft)| draft)).collect()
    }
}

impl Parts {
    /// Writes these messages and answers all of them; on an error none was answered.
    async fn take(&self, tenant: &TenantId, drafts: Vec<Draft>) -> Result<(), (StoreError, Vec<Draft>)> {
        let mut lease = match self.store.tenant(tenant).await {
            Ok(lease) => lease,
            Err(e) => return Err((e, drafts)),
        };
        let ground = match self.ground(&mut lease, tenant, &drafts).await {
            Ok(ground) => ground,
            Err(e) => return Err((e, drafts)),
        };
        let sorted = self.sort(ground, drafts);
        crash::point("accept.before");
        let written = self.write(&mut lease, &sorted).await;
        drop(lease);
        let (taken, found) = match written {
            Ok(written) => written,
            Err(e) => return Err((e, sorted.drafts())),
        };
        crash::point("accept.committed");
        if !taken.is_empty() {
            self.conversation.wake();
        }
        for (id, draft) in sorted.same {
            let _ = draft.answer.send(Ok(accepted(id, true, None)));
        }
        for (refusal, draft) in sorted.refused {
            let _ = draft.answer.send(Err(refusal));
        }
        self.answer(tenant, sorted.new, &taken, &found);
        Ok(())
    }

    /// Reads what decides about these messages.
    async fn ground(
        &self,
        lease: &mut store::Lease,
        tenant: &TenantId,
        drafts: &[Draft],
    ) -> Result<Ground, StoreError> {
        let senders = drafts.iter().map(|d| (d.envelope.source.channel.as_str(), d.envelope.sender.identity.as_str()));
        let known = people::resolve(lease, tenant, &self.owner, senders).await?;
        let rules = self.rules.of(lease, tenant).await?;
        let is_limited = |draft: &&Draft| {
            draft.sender(&known).trust == Trust::Stranger
                && !triage(&draft.envelope, &rules).is_some_and(|triage| triage.action.ends())
        };
        let strangers: Vec<&Draft> = drafts.iter().filter(is_limited).collect();
        let senders =
            strangers.iter().map(|d| (d.envelope.source.channel.as_str(), d.envelope.sender.identity.as_str()));
        let sent = Sent::read(lease, self.bounds.sender, self.store.clock().now(), senders).await?;
        // What a stranger has handed in already is known again, however much he may still send.
        let keys = drafts.iter().filter_map(|draft| Some(draft.key.also.as_ref()?.text.as_str()));
        let on_record = on_record(lease, keys.chain(strangers.iter().map(|draft| draft.key.text.as_str()))).await?;
        Ok(Ground { known, rules, on_record, sent })
    }

    /// A place for one more message of a stranger.
    fn place(&self) -> Result<Place, AcceptError> {
        let share = (self.bounds.backlog / 4 * STRANGERS_PARTS).max(1);
        let one_more = |written: u64| (self.open.load(Ordering::SeqCst) + written < share).then_some(written + 1);
        match self.strangers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more) {
            Ok(_) => Ok(Place(self.strangers.clone())),
            Err(_) => Err(AcceptError::ShareFull { waiting: self.open.load(Ordering::SeqCst) }),
        }
    }

    /// Which of these messages are new, which are known, and which are too many.
    fn sort(&self, mut ground: Ground, drafts: Vec<Draft>) -> Sorted {
        let clock = self.store.clock();
        let mut sorted = Sorted::default();
        for draft in drafts {
            if let Some(id) = draft.known_as(&ground.on_record, clock.now()) {
                sorted.same.push((id, draft));
                continue;
            }
            let sender = draft.sender(&ground.known);
            let triage = triage(&draft.envelope, &ground.rules);
            let ends = triage.as_ref().is_some_and(|triage| triage.action.ends());
            let mut place = None;
            if sender.trust == Trust::Stranger && !ends {
                let (channel, identity) = (&draft.envelope.source.channel, &draft.envelope.sender.identity);
                let given = self.place().and_then(|place| ground.sent.one_more(channel, identity).map(|()| place));
                match given {
                    Ok(given) => place = Some(given),
                    Err(refusal) => {
                        sorted.refused.push((refusal, draft));
                        continue;
                    }
                }
            }
            sorted.new.push(Row::new(draft, sender, triage, place, clock));
        }
        sorted
    }

    /// Writes what is new, and who was refused for having sent too much. Returns the numbers of the new ones, and those
    /// that were there all the same.
    async fn write(
        &self,
        lease: &mut store::Lease,
        sorted: &Sorted,
    ) -> Result<(HashMap<Uuid, i64>, OnRecord), StoreError> {
        let taken = insert(lease, &sorted.new).await?;
        let missing = sorted.new.iter().filter(|row| !taken.contains_key(&row.id));
        let found = on_record(lease, missing.map(|row| row.draft.key.text.as_str())).await?;
        let refused: Vec<_> = sorted.refused.iter().filter_map(|(why, draft)| too_many(why, draft)).collect();
        if !refused.is_empty() {
            tracing::warn!(
                messages = refused.len(),
                "strangers send more than [buffer] allows; their messages are refused"
            );
            limits::refused(lease, &refused, self.store.clock().now()).await?;
        }
        Ok((taken, found))
    }

    /// Tells whoever waits that these messages are on record, and offers the new ones to the workers.
    fn answer(&self, tenant: &TenantId, rows: Vec<Row>, taken: &HashMap<Uuid, i64>, found: &OnRecord) {
        for row in rows {
            let answer = match (taken.get(&row.id), found.get(&row.draft.key.text)) {
                (Some(seq), _) => {
                    self.metrics.message_accepted(row.sender.trust.as_str());
                    if row.ends() {
                        self.metrics.message_ended("filtered");
                    }
                    if !row.ends() {
                        self.open.fetch_add(1, Ordering::SeqCst);
                        self.lanes.offer(row.item(tenant, *seq));
                    }
                    Ok(accepted(row.id, false, row.triage.as_ref()))
                }
                (None, Some((id, _))) => Ok(accepted(*id, true, None)),
                // It was there, and is gone again: somebody takes rows away by hand.
                (None, None) => Err(AcceptError::Unavailable),
            };
            let _ = row.draft.answer.send(answer);
        }
    }
}

fn accepted(request_id: Uuid, duplicate: bool, triage: Option<&Triage>) -> Accepted {
    Accepted {
        request_id,
        status: "accepted".to_owned(),
        duplicate,
        triage_decision: triage.map(|t| t.action.decision().to_owned()),
        triage_target: triage.and_then(|t| t.butler.clone()),
    }
}

/// What is decided before any model is asked.
pub(super) fn triage(envelope: &Envelope, rules: &Rules) -> Option<Triage> {
    let by = |action, by: &str| Triage { action, butler: None, by: by.to_owned(), rule_id: None };
    if envelope.control.ingestion_tier == IngestionTier::Metadata {
        return Some(by(Action::MetadataOnly, "envelope"));
    }
    if let Some(butler) = &envelope.control.pinned_target {
        return Some(Triage { butler: Some(butler.clone()), ..by(Action::RouteTo, "pinned") });
    }
    rules.decide(envelope)
}

impl Row {
    fn new(draft: Draft, sender: Sender, triage: Option<Triage>, place: Option<Place>, clock: &Clock) -> Self {
        let (id, received_at) = (RequestId::new(), clock.now());
        let source = &draft.envelope.source;
        let thread = draft.envelope.event.external_thread_id.as_deref();
        let identity = &draft.envelope.sender.identity;
        let low = triage.as_ref().is_some_and(|t| t.action == Action::LowPriority);
        let tier = if low { Tier::Default } else { draft.envelope.control.policy_tier };
        let given = draft.envelope.control.trace_context.as_ref();
        let trace = given.and_then(|t| t.get("traceparent")?.as_str()).and_then(TraceContext::parse);
        let mut context = RequestContext {
            request_id: id,
            tenant_id: draft.tenant.clone(),
            received_at,
            source_channel: source.channel.clone(),
            source_endpoint_identity: source.endpoint_identity.clone(),
            source_sender_identity: identity.clone(),
            source_thread_identity: thread.map(str::to_owned),
            group: draft.envelope.sender.is_group(),
            // The house's own door knows who came through it.
            unauthenticated: draft.trust.is_none() && !draft.envelope.sender.is_authenticated(),
            trust: sender.trust,
            audience: Audience::Household,
            lineage: Lineage { root_request_id: id, parent_session_id: None, depth: 0 },
            trace_context: trace.unwrap_or_else(TraceContext::new_root),
        };
        // What somebody outside says, he may be told again, and the group that heard it. What the owner says to the
        // household alone is the household's own.
        if sender.trust < Trust::System || context.group {
            context.audience = Audience::people([context.heard_by()]);
        }
        let rest = json!({"raw": draft.envelope.payload.raw, "sender": draft.envelope.sender,
                          "control": draft.envelope.control});
        Self {
            id: id.0,
            lane: Lane::of_request(&context),
            tier,
            sender,
            context: serde_json::to_value(&context).unwrap_or_default(),
            envelope: rest,
            attachments: serde_json::to_value(&draft.envelope.payload.attachments).unwrap_or_default(),
            received_at,
            triage,
            _place: place,
            draft,
        }
    }

    /// As the workers know it.
    fn item(&self, tenant: &TenantId, seq: i64) -> Item {
        let Envelope { source, sender, .. } = &self.draft.envelope;
        let (request, trust, tier) = (RequestId(self.id), self.sender.trust, self.tier);
        let sender = sender_name(&source.channel, &sender.identity);
        Item { request, tenant: tenant.clone(), lane: self.lane.clone(), tier, trust, sender, seq }
    }

    /// Whether it is done with being on record.
    fn ends(&self) -> bool {
        self.triage.as_ref().is_some_and(|t| t.action.ends())
    }
}

/// Of a message that was one too many: its channel, its sender, and the limit.
fn too_many(why: &AcceptError, draft: &Draft) -> Option<Refused> {
    let AcceptError::TooMany { setting: by_limit, .. } = why else { return None };
    let Envelope { source, sender, .. } = &draft.envelope;
    Some(Refused { channel: source.channel.clone(), sender: plain_identity(&sender.identity), by_limit })
}

/// Messages that are there already, by their key: which, and when they came.
type OnRecord = HashMap<String, (Uuid, Timestamp)>;

/// The request of each of these keys that is on record, and when it came.
async fn on_record(lease: &mut store::Lease, keys: impl Iterator<Item = &str>) -> Result<OnRecord, StoreError> {
    let keys: Vec<&str> = keys.collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = messages::on_record(lease, &keys).await?;
    Ok(rows.into_iter().map(|row| (row.dedupe_key, (row.request_id, row.received_at))).collect())
}

/// Writes the rows; the number of each that is new.
async fn insert(lease: &mut store::Lease, rows: &[Row]) -> Result<HashMap<Uuid, i64>, StoreError> {
    if rows.is_empty() {
        return Ok(HashMap::new());
    }
    fn column<'a, T>(rows: &'a [Row], of: impl Fn(&'a Row) -> T) -> Vec<T> {
        rows.iter().map(of).collect()
    }
    let of = |f: fn(&Envelope) -> &str| column(rows, |r| f(&r.draft.envelope));
    let (channels, providers) = (of(|e| &e.source.channel), of(|e| &e.source.provider));
    let (endpoints, senders) = (of(|e| &e.source.endpoint_identity), of(|e| &e.sender.identity));
    let (events, bodies) = (of(|e| &e.event.external_event_id), of(|e| &e.payload.normalized_text));
    let ids = column(rows, |r| r.id);
    let keys = column(rows, |r| r.draft.key.text.as_str());
    let bys = column(rows, |r| r.draft.key.by);
    let ends = column(rows, Row::ends);
    let tiers = column(rows, |r| r.tier.number());
    let lanes = column(rows, |r| r.lane.0.as_str());
    let threads = column(rows, |r| r.draft.envelope.event.external_thread_id.as_deref());
    let contacts = column(rows, |r| r.sender.contact);
    let entities = column(rows, |r| r.sender.entity);
    let trusts = column(rows, |r| r.sender.trust.as_str());
    let observed = column(rows, |r| r.draft.envelope.event.observed_at);
    let received = column(rows, |r| r.received_at);
    let attachments = column(rows, |r| &r.attachments);
    let envelopes = column(rows, |r| &r.envelope);
    let contexts = column(rows, |r| &r.context);
    let triages = column(rows, |r| r.triage.as_ref().and_then(|t| serde_json::to_value(t).ok()));
    let params: [&(dyn ToSql + Sync); 22] = [
        &ids,
        &keys,
        &bys,
        &ends,
        &tiers,
        &lanes,
        &channels,
        &providers,
        &endpoints,
        &senders,
        &threads,
        &events,
        &contacts,
        &entities,
        &trusts,
        &observed,
        &received,
        &bodies,
        &attachments,
        &envelopes,
        &contexts,
        &triages,
    ];
    messages::insert(lease, &params).await
}
