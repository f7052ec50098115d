//! Accepting: a message is stored, once, and only then is it said to be taken.
//!
//! Messages that come at the same time are written by one statement and one commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::envelope;
use super::lanes::{Item, Lanes};
use super::people::{self, Sender};
use super::sql::messages;
use super::triage::RuleBook;
use super::types::{AcceptError, Accepted, Action, Envelope, IngestionTier, Lane, Tier, Triage, bounded};
use base::{Audience, Clock, Lineage, RequestContext, RequestId, TenantId, TraceContext, Trust, crash, task};
use conversation::ConversationLog;
use store::{Store, StoreError};
use tools::put_blob;

/// Messages in one statement.
const BATCH: usize = 128;
/// Messages whose callers wait for it.
const WAITING: usize = 4096;
/// Statements under way at once: while one is committed the next is gathered.
const WRITERS: usize = 2;
/// How long a message waits for its commit before it is told to come again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Messages without an id of their own are the same if they say the same within this time.
const SAME_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// Ids that connectors send when they have none.
const NO_IDS: [&str; 6] = ["placeholder", "unknown", "none", "null", "-", "0"];

/// A message with all that its row needs but who sent it.
struct Draft {
    tenant: TenantId,
    envelope: Envelope,
    /// How far the sender is believed, where the house's own door knows it.
    trust: Option<Trust>,
    key: Key,
    answer: oneshot::Sender<Result<Accepted, AcceptError>>,
}

struct Key {
    text: String,
    by: &'static str,
    /// Under which the same message may be on record from just before.
    earlier: Option<String>,
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
    most: u64,
}

impl Acceptor {
    /// `open`: how many messages are not done; `most`: how many may be.
    pub fn start(
        store: Store,
        owner: people::OwnerIdentities,
        rules: RuleBook,
        conversation: ConversationLog,
        lanes: Arc<Lanes>,
        open: Arc<AtomicU64>,
        most: u64,
    ) -> Self {
        let (drafts, waiting) = mpsc::channel(WAITING);
        let parts = Arc::new(Parts { store, owner, rules, conversation, lanes, open, most });
        let waiting = Arc::new(tokio::sync::Mutex::new(waiting));
        for _ in 0..WRITERS {
            task::spawn(task::Kind::Actor, "acceptor", write(parts.clone(), waiting.clone()));
        }
        Self { drafts, parts }
    }

    /// Takes a message; it is committed when this returns.
    pub async fn accept(
        &self,
        tenant: &TenantId,
        mut envelope: Envelope,
        trust: Option<Trust>,
    ) -> Result<Accepted, AcceptError> {
        let parts = &self.parts;
        let waiting = parts.open.load(Ordering::Relaxed);
        if waiting >= parts.most {
            return Err(AcceptError::Full { waiting });
        }
        store_attachments(&parts.store, tenant, &mut envelope).await?;
        let key = key(&envelope, parts.store.clock().now());
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

async fn store_attachments(store: &Store, tenant: &TenantId, envelope: &mut Envelope) -> Result<(), AcceptError> {
    for (at, attachment) in envelope.payload.attachments.iter_mut().enumerate() {
        let Some(content) = envelope::content(attachment, at)? else { continue };
        let mut lease = store.tenant(tenant).await.map_err(unavailable)?;
        let stored = put_blob(&mut lease, &content, &attachment.media_type, attachment.filename.as_deref()).await;
        let reference = stored.map_err(StoreError::query("storing an attachment")).map_err(unavailable)?;
        attachment.storage_ref = Some(reference);
        attachment.content_base64 = None;
    }
    Ok(())
}

fn unavailable(e: StoreError) -> AcceptError {
    tracing::warn!(error = %e, "a message was not accepted");
    AcceptError::Unavailable
}

/// Under which key the message is known.
fn key(envelope: &Envelope, now: Timestamp) -> Key {
    let source = &envelope.source;
    let (channel, endpoint) = (&source.channel, &source.endpoint_identity);
    if let Some(key) = envelope.control.idempotency_key.as_deref().filter(|k| !k.trim().is_empty()) {
        return Key { text: bounded(format!("idem:{channel}:{endpoint}:{key}")), by: "idempotency_key", earlier: None };
    }
    let id = envelope.event.external_event_id.as_str();
    if !NO_IDS.contains(&id.to_ascii_lowercase().as_str()) {
        let text = bounded(format!("event:{channel}:{}:{endpoint}:{id}", source.provider));
        return Key { text, by: "event", earlier: None };
    }
    let mut hash = Sha256::new();
    let thread = envelope.event.external_thread_id.as_deref().unwrap_or_default();
    for part in [channel, endpoint, &envelope.sender.identity, thread, &envelope.payload.normalized_text] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    for attachment in &envelope.payload.attachments {
        hash.update(attachment.storage_ref.as_deref().unwrap_or_default());
    }
    let hash: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    let slot = now.as_second().div_euclid(SAME_WITHIN.as_secs());
    let text = |slot: i64| format!("content:{hash}:{slot}");
    Key { text: text(slot), by: "content", earlier: Some(text(slot - 1)) }
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
            if e.is_connection() || own.len() == 1 {
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
}

impl Parts {
    /// Writes these messages and answers all of them; on an error none was answered.
    async fn take(&self, tenant: &TenantId, drafts: Vec<Draft>) -> Result<(), (StoreError, Vec<Draft>)> {
        let mut lease = match self.store.tenant(tenant).await {
            Ok(lease) => lease,
            Err(e) => return Err((e, drafts)),
        };
        let known = {
            let senders =
                drafts.iter().map(|d| (d.envelope.source.channel.as_str(), d.envelope.sender.identity.as_str()));
            people::resolve(&mut lease, tenant, &self.owner, senders).await
        };
        let known = match known {
            Ok(known) => known,
            Err(e) => return Err((e, drafts)),
        };
        let rules = match self.rules.of(&mut lease, tenant).await {
            Ok(rules) => rules,
            Err(e) => return Err((e, drafts)),
        };
        let mut earlier = match on_record(&mut lease, drafts.iter().filter_map(|d| d.key.earlier.as_deref())).await {
            Ok(earlier) => earlier,
            Err(e) => return Err((e, drafts)),
        };
        let clock = self.store.clock();
        earlier.retain(|_, (_, at)| clock.now().duration_since(*at) < SAME_WITHIN);
        let mut rows = Vec::with_capacity(drafts.len());
        let mut same = Vec::new();
        for draft in drafts {
            match draft.key.earlier.as_ref().and_then(|key| earlier.get(key)) {
                Some((id, _)) => same.push((*id, draft)),
                None => {
                    let mut sender = known.of(&draft.envelope);
                    sender.trust = draft.trust.unwrap_or(sender.trust);
                    let triage = triage(&draft.envelope, &rules);
                    rows.push(Row::new(draft, sender, triage, clock));
                }
            }
        }
        crash::point("accept.before");
        let taken = insert(&mut lease, &rows).await;
        let missing: Vec<&str> = match &taken {
            Ok(taken) => {
                rows.iter().filter(|r| !taken.contains_key(&r.id)).map(|r| r.draft.key.text.as_str()).collect()
            }
            Err(_) => Vec::new(),
        };
        let found = match &taken {
            Ok(_) if !missing.is_empty() => on_record(&mut lease, missing.into_iter()).await,
            _ => Ok(HashMap::new()),
        };
        drop(lease);
        let (taken, found) = match (taken, found) {
            (Ok(taken), Ok(found)) => (taken, found),
            (Err(e), _) | (_, Err(e)) => {
                let drafts = rows.into_iter().map(|r| r.draft).chain(same.into_iter().map(|(_, d)| d)).collect();
                return Err((e, drafts));
            }
        };
        crash::point("accept.committed");
        if !taken.is_empty() {
            self.conversation.wake();
        }
        for (id, draft) in same {
            let _ = draft.answer.send(Ok(accepted(id, true, None)));
        }
        self.answer(tenant, rows, &taken, &found);
        Ok(())
    }

    /// Tells whoever waits that these messages are on record, and offers the new ones to the workers.
    fn answer(&self, tenant: &TenantId, rows: Vec<Row>, taken: &HashMap<Uuid, i64>, found: &OnRecord) {
        for row in rows {
            let answer = match (taken.get(&row.id), found.get(&row.draft.key.text)) {
                (Some(seq), _) => {
                    if !row.ends() {
                        self.open.fetch_add(1, Ordering::Relaxed);
                        let (lane, tier, tenant) = (row.lane, row.tier, tenant.clone());
                        self.lanes.offer(Item { request: RequestId(row.id), tenant, lane, tier, seq: *seq });
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
pub(super) fn triage(envelope: &Envelope, rules: &super::triage::Rules) -> Option<Triage> {
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
    fn new(draft: Draft, sender: Sender, triage: Option<Triage>, clock: &Clock) -> Self {
        let (id, received_at) = (RequestId::new(), clock.now());
        let source = &draft.envelope.source;
        let thread = draft.envelope.event.external_thread_id.as_deref();
        let identity = &draft.envelope.sender.identity;
        let lane = Lane::of(&source.channel, &source.endpoint_identity, thread, identity);
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
            lane,
            tier,
            sender,
            context: serde_json::to_value(&context).unwrap_or_default(),
            envelope: rest,
            attachments: serde_json::to_value(&draft.envelope.payload.attachments).unwrap_or_default(),
            received_at,
            triage,
            draft,
        }
    }

    /// Whether it is done with being on record.
    fn ends(&self) -> bool {
        self.triage.as_ref().is_some_and(|t| t.action.ends())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(event: &str, key: Option<&str>) -> Envelope {
        let value = json!({"schema_version": "ingest.v1",
            "source": {"channel": "email", "provider": "imap", "endpoint_identity": "home"},
            "event": {"external_event_id": event, "observed_at": "2026-11-01T08:00:00Z"},
            "sender": {"identity": "a@b"}, "payload": {"normalized_text": "hello"},
            "control": {"idempotency_key": key}});
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_message_is_known_by_its_key_else_its_id_else_its_content() {
        let now: Timestamp = "2026-11-01T08:05:00Z".parse().unwrap();
        let of = |event, given| key(&envelope(event, given), now);
        assert_eq!(of("7", Some("k")).text, "idem:email:home:k");
        assert_eq!(of("7", None).text, "event:email:imap:home:7");
        for none in ["unknown", "None", "placeholder"] {
            let key = of(none, Some(" "));
            assert!(key.by == "content" && key.text.starts_with("content:"), "{}", key.text);
            let later = super::key(&envelope(none, None), now + SAME_WITHIN);
            assert_eq!(later.earlier, Some(key.text), "the slot before");
        }
    }
}
