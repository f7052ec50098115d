//! One try at a message: whose it is, what its parts are, and handing each to its butler.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::handle::Inbox;
use super::queue::{Message, Tried, message_inbox, pause};
use super::types::{
    Action, Control, LiveKind, ROUTE_EXECUTE, ROUTE_SCHEMA, Route, RouteInput, RouteKind, RouteTarget, Subrequest, Tier,
};
use access::Caller;
use base::{RequestContext, TenantId, crash};
use store::StoreError;

/// How long a thread's next message goes to the butler of the last one without a model being asked: letters only,
/// because in a chat the next sentence may be about anything.
const AFFINITY: SignedDuration = SignedDuration::from_hours(14 * 24);
/// How long the answer to what a butler wrote first goes back to that butler.
const REPLY: SignedDuration = SignedDuration::from_hours(72);

/// A part whose butler is being started anew is handed over this much later.
const UNTIL_BACK: Duration = Duration::from_millis(300);

/// Whether somebody waits for the answer.
pub(super) fn interactive(claimed: &Message) -> bool {
    somebody_waits(&claimed.context.source_channel, &claimed.envelope)
}

/// As [`interactive`], of a message's channel and envelope alone.
pub(super) fn somebody_waits(channel: &str, envelope: &Value) -> bool {
    let control = envelope.get("control").cloned().unwrap_or_default();
    let tier = serde_json::from_value::<Control>(control).map(|c| c.policy_tier).unwrap_or_default();
    channel == "chat" || tier == Tier::Interactive
}

/// One part of a message, chosen for one butler.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub butler: String,
    pub prompt: String,
    pub context: Option<Value>,
    pub chosen_by: &'static str,
}

/// A part on record.
struct Segment {
    id: Uuid,
    butler: String,
    prompt: String,
    context: Option<Value>,
}

/// Why a part could not be handed over.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    #[error("{0} is not up")]
    Unavailable(String),
    #[error("{butler} understands versions {min} to {max} of the routing contract, and this is version {ours}")]
    Contract { butler: String, min: i32, max: i32, ours: i32 },
    #[error("{butler}: {why}")]
    Refused { butler: String, why: String },
}

/// One try.
pub(super) struct Pass<'a> {
    pub inbox: &'a Inbox,
    pub claimed: &'a Message,
    /// The claim does not hold any more.
    pub lost: &'a CancellationToken,
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("recording the parts of a message")
}

impl Pass<'_> {
    pub async fn run(&self) -> Tried {
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
            if self.inbox.reaches(butler, triage.by == "pinned") {
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

    /// The butler that this conversation is with.
    async fn affinity(&self) -> Result<Option<(String, &'static str)>, StoreError> {
        let Some(up) = self.inbox.up() else { return Ok(None) };
        let mut lease = up.store.tenant(self.tenant()).await?;
        let sql = "SELECT butler, source FROM thread_affinity WHERE lane = $1 AND expires_at > shared.clock()";
        let row = lease.query_opt(sql, &[&self.claimed.item.lane.0]).await;
        let row = row.map_err(StoreError::query("looking for the butler of a thread"))?;
        let found = row.map(|row| (row.get::<_, String>(0), row.get::<_, String>(1)));
        Ok(found.filter(|(butler, _)| self.inbox.reaches(butler, false)).map(|(butler, source)| {
            let by = if source == "notification" { "reply" } else { "affinity" };
            (butler, by)
        }))
    }

    /// Puts the parts on record. `false`: the claim does not hold any more.
    async fn record(&self, parts: Vec<Part>) -> Result<bool, StoreError> {
        let Some(up) = self.inbox.up() else { return Ok(false) };
        let request = self.claimed.item.request.0;
        let mut lease = up.store.tenant(self.tenant()).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let held = tx
            .execute(
                "UPDATE message_inbox SET classified_at = shared.clock()
                 WHERE request_id = $1 AND claim_id = $2 AND state = 'processing'",
                &[&request, &self.claimed.claim],
            )
            .await
            .map_err(failed())?;
        if held == 0 {
            tx.rollback().await.map_err(failed())?;
            return Ok(false);
        }
        let sql = "DELETE FROM route_segments WHERE request_id = $1 AND state = 'draft'";
        tx.execute(sql, &[&request]).await.map_err(failed())?;
        for (n, part) in (1i32..).zip(&parts) {
            tx.execute(
                "INSERT INTO route_segments (id, request_id, n, butler, prompt, context, chosen_by, state)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, 'open')",
                &[&Uuid::now_v7(), &request, &n, &part.butler, &part.prompt, &part.context, &part.chosen_by],
            )
            .await
            .map_err(failed())?;
        }
        if let [part] = parts.as_slice()
            && self.claimed.context.source_channel == "email"
            && self.claimed.context.source_thread_identity.is_some()
        {
            let until = self.inbox.clock().now() + AFFINITY;
            tx.execute(REMEMBER, &[&self.claimed.item.lane.0, &part.butler, &"thread", &until])
                .await
                .map_err(failed())?;
        }
        crash::point("classify.before");
        tx.commit().await.map_err(failed())?;
        Ok(true)
    }

    /// Hands every part that is still here to its butler; then the claim is let go.
    async fn hand_on(&self) -> Result<Tried, StoreError> {
        let Some(up) = self.inbox.up() else { return Ok(Tried::Later(Duration::from_secs(1))) };
        let segments = {
            let mut lease = up.store.tenant(self.tenant()).await?;
            let sql = "SELECT id, butler, prompt, context FROM route_segments
                       WHERE request_id = $1 AND state = 'open' ORDER BY n";
            let rows = lease.read(sql, &[&self.claimed.item.request.0]).await.map_err(failed())?;
            let segment = |r: &tokio_postgres::Row| Segment {
                id: r.get(0),
                butler: r.get(1),
                prompt: r.get(2),
                context: r.get(3),
            };
            rows.iter().map(segment).collect::<Vec<_>>()
        };
        let (lane, channel) = (&self.claimed.item.lane, &self.claimed.context.source_channel);
        let history = self.inbox.history(self.tenant(), lane, channel, self.claimed.item.request).await?;
        let (mut first_failure, mut waits) = (None, false);
        for segment in segments {
            if self.lost.is_cancelled() {
                return Ok(Tried::Lost);
            }
            if self.inbox.is_expected(&segment.butler) {
                waits = true;
                continue;
            }
            let route = self.route(&segment, history.clone());
            self.hand_attachments(&route).await?;
            crash::point("route.before");
            match self.inbox.route(route).await {
                Ok(()) => {
                    crash::point("route.accepted");
                    let mut lease = up.store.tenant(self.tenant()).await?;
                    let sql = "UPDATE route_segments SET state = 'accepted' WHERE id = $1 AND state = 'open'";
                    lease.execute(sql, &[&segment.id]).await.map_err(failed())?;
                    crash::point("route.noted");
                    self.inbox.tell(
                        self.claimed.item.request,
                        LiveKind::Routed { butler: segment.butler, segment: segment.id },
                    );
                }
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
        // Its end may have come meanwhile; then there is no claim left to let go.
        let sql = message_inbox(self.inbox.schema()).settling("");
        lease.execute(&sql, &[&self.claimed.item.request.0, &self.claimed.claim]).await.map_err(failed())?;
        crash::point("route.released");
        Ok(Tried::HandedOn)
    }

    /// Gives the butler its own copy of what came with the message, believed as far as its sender.
    async fn hand_attachments(&self, route: &Route) -> Result<(), StoreError> {
        let named = route.input.attachments.iter().filter_map(|a| a["storage_ref"].as_str()?.rsplit(':').next());
        let named: Vec<&str> = named.collect();
        let Some(target) = self.inbox.target(&route.target.butler).filter(|_| !named.is_empty()) else { return Ok(()) };
        let mut lease = self.inbox.db().shared(self.tenant()).await?;
        let sql = format!(
            "INSERT INTO \"{}\".blobs (tenant_id, sha256, media_type, filename, content, trust)
             SELECT tenant_id, sha256, media_type, filename, content, $3 FROM \"{}\".blobs
             WHERE tenant_id = $1 AND sha256 = ANY($2)
             ON CONFLICT (tenant_id, sha256) DO UPDATE SET trust = excluded.trust, filename = excluded.filename
             WHERE excluded.trust = 'owner' AND blobs.trust <> 'owner'",
            target.schema,
            self.inbox.schema()
        );
        let trust = route.request_context.trust.as_str();
        lease.execute(&sql, &[&self.tenant().as_str(), &named, &trust]).await.map_err(failed())?;
        Ok(())
    }

    fn route(&self, segment: &Segment, history: Vec<Value>) -> Route {
        let attachments = self.claimed.attachments.as_array().cloned().unwrap_or_default();
        Route {
            schema_version: ROUTE_SCHEMA.to_owned(),
            request_context: (*self.claimed.context).clone(),
            input: RouteInput {
                prompt: segment.prompt.clone(),
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

/// Remembers which butler a conversation is with.
const REMEMBER: &str = "INSERT INTO thread_affinity (lane, butler, source, expires_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id, lane) DO UPDATE SET butler = $2, source = $3, expires_at = $4";

/// The database is away, which is no fault of the message.
fn away(e: &StoreError) -> Tried {
    if e.is_connection() { Tried::Later(Duration::from_secs(1)) } else { Tried::Failed(e.to_string()) }
}

/// As [`pause`], for what was only turned away because there is much to do.
pub(super) fn busy() -> Tried {
    Tried::Later(pause(1))
}

impl Inbox {
    /// Hands a route to its butler; it is committed there when this returns. The same route again changes nothing.
    pub async fn route(&self, route: Route) -> Result<(), RouteError> {
        let butler = route.target.butler.clone();
        let target = self.target(&butler).ok_or_else(|| RouteError::Unavailable(butler.clone()))?;
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
            Some(reply) => Err(refused(reply.json["error"].to_string())),
            None => Err(refused("it has no route.execute".to_owned())),
        }
    }

    /// A butler wrote to this conversation first: the answer goes back to it.
    pub async fn expect_reply(&self, tenant: &TenantId, lane: &super::Lane, butler: &str) -> Result<(), StoreError> {
        let Some(up) = self.up() else { return Ok(()) };
        let until = self.clock().now() + REPLY;
        let mut lease = up.store.tenant(tenant).await?;
        lease.execute(REMEMBER, &[&lane.0, &butler, &"notification", &until]).await.map_err(failed())?;
        Ok(())
    }
}
