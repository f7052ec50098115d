//! One try at a message: whose it is, what its parts are, and handing each to its butler.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::attempt::{Part, Pass, Tried, interactive, sender_shown};
use super::handle::Inbox;
use super::people::HOUSE_CHANNELS;
use super::sql::segments::{self, NewPart, OpenPart, failed};
use super::sql::{affinity, messages};
use super::types::{
    Action, LiveKind, ROUTE_EXECUTE, ROUTE_SCHEMA, Route, RouteInput, RouteKind, RouteTarget, Subrequest,
};
use access::Caller;
use base::{RequestContext, TenantId, Trust, crash};
use store::StoreError;
use tools::sql::blobs;

/// How long a thread's next message goes to the butler of the last one without a model being asked: letters only,
/// because in a chat the next sentence may be about anything.
const AFFINITY: SignedDuration = SignedDuration::from_hours(14 * 24);
/// How long the answer to what a butler wrote first goes back to that butler.
const REPLY: SignedDuration = SignedDuration::from_hours(72);

/// What a butler answers that has no database just now.
const AWAY: [&str; 2] = ["unavailable", "outcome_unknown"];

/// A part whose butler is being started anew is handed over this much later.
const UNTIL_BACK: Duration = Duration::from_millis(300);

/// Why a part could not be handed over.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    #[error("{0} is not up")]
    Unavailable(String),
    #[error("{butler} understands versions {min} to {max} of the routing contract, and this is version {ours}")]
    Contract { butler: String, min: i32, max: i32, ours: i32 },
    /// The database or the machine fails just now.
    #[error("{butler} can't store it just now: {why}")]
    Away { butler: String, why: String },
    #[error("{butler}: {why}")]
    Refused { butler: String, why: String },
}

impl Pass<'_> {
    pub async fn run(&self) -> Tried {
        if let (true, Some(thread)) = (crash::TEST_POINTS, &self.claimed.context.source_thread_identity) {
            crash::panic_point(&format!("message.{thread}"));
        }
        if !self.claimed.classified {
            match self.parts().await {
                Ok(Ok(_)) if self.lost.is_cancelled() => return Tried::Lost,
                Ok(Ok(parts)) => match self.record(parts).await {
                    Ok(true) => crash::point("classify.committed"),
                    Ok(false) => return Tried::Lost,
                    Err(e) => return away(&e),
                },
                Ok(Err(tried)) => return tried,
                Err(e) => return away(&e),
            }
        }
        match self.hand_on().await {
            Ok(tried) => tried,
            Err(e) => away(&e),
        }
    }

    fn tenant(&self) -> &TenantId {
        &self.claimed.item.tenant
    }

    fn whole(&self, butler: &str, chosen_by: &'static str) -> Vec<Part> {
        vec![Part { butler: butler.to_owned(), prompt: self.claimed.body.clone(), context: None, chosen_by }]
    }

    /// Whose the message is.
    async fn parts(&self) -> Result<Result<Vec<Part>, Tried>, StoreError> {
        if let Some(triage) = &self.claimed.triage
            && let (Action::RouteTo, Some(butler)) = (triage.action, &triage.butler)
        {
            if self.inbox.butlers().reaches(butler, triage.by == "pinned") {
                let by = if triage.by == "pinned" { "pinned" } else { "rule" };
                return Ok(Ok(self.whole(butler, by)));
            }
            if triage.by == "pinned" {
                return Ok(Err(Tried::Failed(format!("{butler} is not up"))));
            }
            tracing::warn!(request = %self.claimed.item.request, butler, "a rule names a butler that is not up");
        }
        if let Some((butler, by)) = self.affinity().await? {
            return Ok(Ok(self.whole(&butler, by)));
        }
        super::classify::parts(self).await
    }

    /// Whether a stranger speaks in a group. He may neither go where the group's conversation went nor take it
    /// elsewhere: its lane is not his alone.
    fn is_outsider(&self) -> bool {
        self.claimed.context.group && self.claimed.context.trust == Trust::Stranger
    }

    /// The butler that this conversation is with.
    async fn affinity(&self) -> Result<Option<(String, &'static str)>, StoreError> {
        if self.is_outsider() {
            return Ok(None);
        }
        let Some(up) = self.inbox.up() else { return Ok(None) };
        let mut lease = up.store.tenant(self.tenant()).await?;
        let found = affinity::of(&mut lease, &self.claimed.item.lane.0).await?;
        Ok(found.filter(|with| self.inbox.butlers().reaches(&with.butler, false)).map(|with| {
            let by = if with.source == "notification" { "reply" } else { "affinity" };
            (with.butler, by)
        }))
    }

    /// Puts the parts on record. `false`: the claim does not hold any more.
    async fn record(&self, parts: Vec<Part>) -> Result<bool, StoreError> {
        let Some(up) = self.inbox.up() else { return Ok(false) };
        let (request, schema) = (self.claimed.item.request.0, self.inbox.schema());
        let mut lease = up.store.tenant(self.tenant()).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        if !messages::classified(&mut tx, request, self.claimed.claim).await? {
            tx.rollback().await.map_err(failed())?;
            return Ok(false);
        }
        segments::forget(&mut tx, schema, request, "draft").await?;
        for (n, part) in (1i32..).zip(&parts) {
            let Part { butler, prompt, context, chosen_by } = part;
            let new = NewPart { id: Uuid::now_v7(), n, butler, prompt, context: context.as_ref(), chosen_by };
            segments::add(&mut tx, schema, self.tenant(), request, new).await?;
        }
        if let [part] = parts.as_slice()
            && self.claimed.context.source_channel == "email"
            && self.claimed.context.source_thread_identity.is_some()
            && !self.is_outsider()
        {
            let until = self.inbox.clock().now() + AFFINITY;
            affinity::thread(&mut tx, &self.claimed.item.lane.0, &part.butler, until).await?;
        }
        crash::point("classify.before");
        tx.commit().await.map_err(failed())?;
        Ok(true)
    }

    /// Hands every part that is still here to its butler; then the claim is let go.
    async fn hand_on(&self) -> Result<Tried, StoreError> {
        let Some(up) = self.inbox.up() else { return Ok(Tried::Later(Duration::from_secs(1))) };
        let request = self.claimed.item.request;
        let parts = {
            let mut lease = up.store.tenant(self.tenant()).await?;
            segments::open(&mut lease, request.0).await?
        };
        let history = self.inbox.history(&self.claimed.item.lane, &self.claimed.context).await?;
        let (mut first_failure, mut waits) = (None, false);
        for part in parts {
            if self.lost.is_cancelled() {
                return Ok(Tried::Lost);
            }
            if self.inbox.butlers().is_expected(&part.butler) {
                waits = true;
                continue;
            }
            let route = self.route(&part, history.clone());
            self.hand_attachments(&route).await?;
            crash::point("route.before");
            match self.inbox.route(route).await {
                Ok(()) => {
                    crash::point("route.accepted");
                    let mut lease = up.store.tenant(self.tenant()).await?;
                    segments::accepted(&mut lease, part.id).await?;
                    crash::point("route.noted");
                    self.inbox.tell(request, LiveKind::Routed { butler: part.butler, segment: part.id });
                }
                Err(RouteError::Away { .. }) => waits = true,
                Err(e) => first_failure = first_failure.or(Some(e.to_string())),
            }
        }
        if let Some(why) = first_failure {
            return Ok(Tried::Failed(why));
        }
        if waits {
            return Ok(Tried::Later(UNTIL_BACK));
        }
        crash::point("route.before_release");
        let mut lease = up.store.tenant(self.tenant()).await?;
        messages::handed_on(&mut lease, self.inbox.schema(), request.0, self.claimed.claim).await?;
        crash::point("route.released");
        Ok(Tried::HandedOn)
    }

    /// Gives the butler its own copy of what came with the message, believed no more than its sender; and what the sender
    /// only passes on no more than a stranger.
    async fn hand_attachments(&self, route: &Route) -> Result<(), StoreError> {
        let files = route.input.attachments.iter().filter_map(|file| {
            let hash = file["storage_ref"].as_str()?.rsplit(':').next()?;
            Some((hash, file["by_others"] == true))
        });
        let (theirs, own): (Vec<_>, Vec<_>) = files.partition(|(_, by_others)| *by_others);
        let target = self.inbox.butlers().target(&route.target.butler);
        let Some(target) = target.filter(|_| !theirs.is_empty() || !own.is_empty()) else { return Ok(()) };
        let mut lease = self.inbox.db().shared(self.tenant()).await?;
        let way = (self.inbox.schema(), target.schema.as_str());
        let all = self.inbox.butlers().schemas();
        // First those of others: a content that is among both is believed as theirs.
        for (files, trust) in [(theirs, Trust::Stranger), (own, route.request_context.trust)] {
            let hashes: Vec<&str> = files.into_iter().map(|(hash, _)| hash).collect();
            if !hashes.is_empty() {
                blobs::hand_over(&mut lease, way, &all, self.tenant(), &hashes, trust).await?;
            }
        }
        Ok(())
    }

    fn route(&self, segment: &OpenPart, history: Vec<Value>) -> Route {
        let attachments = self.claimed.attachments.as_array().cloned().unwrap_or_default();
        let context = &*self.claimed.context;
        Route {
            schema_version: ROUTE_SCHEMA.to_owned(),
            request_context: context.clone(),
            input: RouteInput {
                prompt: segment.prompt.clone(),
                sender: (!HOUSE_CHANNELS.contains(&context.source_channel.as_str()))
                    .then(|| sender_shown(self.claimed)),
                context: segment.context.clone(),
                conversation_history: history,
                attachments,
            },
            subrequest: Subrequest { segment_id: segment.id, asked_by: None },
            target: RouteTarget { butler: segment.butler.clone(), tool: ROUTE_EXECUTE.to_owned() },
            kind: RouteKind::Message,
            interactive: interactive(self.claimed),
        }
    }
}

/// The database is away, which is no fault of the message.
fn away(e: &StoreError) -> Tried {
    if e.fault().is_some() { Tried::Later(Duration::from_secs(1)) } else { Tried::Failed(e.to_string()) }
}

impl Inbox {
    /// Hands a route to its butler; it is committed there when this returns. The same route again changes nothing.
    pub async fn route(&self, route: Route) -> Result<(), RouteError> {
        let butler = route.target.butler.clone();
        let target = self.butlers().target(&butler).ok_or_else(|| RouteError::Unavailable(butler.clone()))?;
        if let Some(registration) = &target.registration {
            let (min, max, ours) =
                (registration.route_contract_min, registration.route_contract_max, super::ROUTE_CONTRACT);
            if !(min..=max).contains(&ours) {
                return Err(RouteError::Contract { butler, min, max, ours });
            }
        }
        let context: Arc<RequestContext> = Arc::new(route.request_context.clone());
        let refused = |why: String| RouteError::Refused { butler: butler.clone(), why };
        let Ok(Value::Object(args)) = serde_json::to_value(&route) else { return Err(refused("no envelope".into())) };
        let args: Map<String, Value> = args;
        let caller = Caller::daemon(context);
        let reply = target.tools.call(ROUTE_EXECUTE, args, caller, CancellationToken::new()).await;
        match reply {
            Some(reply) if reply.json["status"] == json!("accepted") => Ok(()),
            // What was stored all the same is known when it is handed over again.
            Some(reply) if AWAY.iter().any(|code| reply.json["code"] == json!(code)) => {
                Err(RouteError::Away { butler, why: reply.json["error"].to_string() })
            }
            Some(reply) => Err(refused(reply.json["error"].to_string())),
            None => Err(refused("it has no route.execute".to_owned())),
        }
    }

    /// A butler wrote to this conversation first: the answer goes back to it.
    pub async fn expect_reply(&self, tenant: &TenantId, lane: &super::Lane, butler: &str) -> Result<(), StoreError> {
        let Some(up) = self.up() else { return Ok(()) };
        let until = self.clock().now() + REPLY;
        affinity::notification(&mut up.store.tenant(tenant).await?, &lane.0, butler, until).await
    }
}
