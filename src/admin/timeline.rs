//! What is on record of one session, or of all that one id led to, over all butlers.

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::{self, Need};
use super::rpc::{Rpc, Unavailable, not_found, typed};
use super::sessions::{CallRow, SessionRow};
use super::visitor::may;
use access::Grant;
use approvals::{Action, Filter};
use base::{Money, RequestContext};
use butler::Butler;
use outbox::DeliveryView;
use sessions::{EventPage, SessionEvent, TracePart};
use store::StoreError;

/// So many calls that waited for a person, and deliveries, are told of one trace.
const MOST_LEFT: i64 = 200;

/// Records of what happened.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait TimelineApi {
    /// What happened in a session after the event numbered `after` (0: from the beginning), as far as it is on record
    /// by now; at most some hundred events, and whether there are more. Scope `read`.
    #[method(name = "sessions_events", param_kind = map, with_extensions)]
    async fn sessions_events(&self, id: Uuid, after: Option<i32>) -> Result<EventPage, Failure>;

    /// All that is on record of an id, over all butlers: of a session, a request, a trace, or a schedule's last runs.
    /// Scope `read`.
    #[method(name = "timeline", param_kind = map, with_extensions)]
    async fn timeline(&self, id: Uuid) -> Result<Timeline, Failure>;
}

/// What `timeline` answers: everything in the order of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Timeline {
    /// What was asked for.
    pub id: Uuid,
    /// The traces that it belongs to.
    pub traces: Vec<String>,
    pub sessions: Vec<TracedSession>,
    /// What happened in these sessions.
    pub events: Vec<SessionEvent>,
    /// Tool calls outside of sessions.
    pub calls: Vec<CallRow>,
    /// Runs of schedules.
    pub runs: Vec<TracedRun>,
    /// What these sessions asked a person for.
    #[serde(default)]
    pub approvals: Vec<Action>,
    /// What was to leave because of it.
    #[serde(default)]
    pub deliveries: Vec<DeliveryView>,
    /// Of the sessions whose cost is known, in US dollars; `None`: of none.
    pub cost_usd: Option<Money>,
    pub sessions_of_unknown_cost: usize,
    /// There is more on record than is shown here.
    pub cut: bool,
    /// Butlers that can't be asked just now.
    pub unavailable: Vec<Unavailable>,
}

/// A session and what it came from.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TracedSession {
    #[serde(flatten)]
    pub session: SessionRow,
    #[schemars(with = "Option<Map<String, Value>>")]
    pub request: Option<RequestContext>,
    /// The number of sessions between the first request and this one.
    #[serde(default)]
    pub depth: u32,
}

/// A run of a schedule.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TracedRun {
    #[serde(default)]
    pub butler: String,
    pub schedule: String,
    pub fire_at: Timestamp,
    pub state: String,
    pub reason: Option<String>,
    pub session_id: Option<Uuid>,
    pub begun_at: Option<Timestamp>,
    /// What else its row has.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[async_trait]
impl TimelineApiServer for Rpc {
    async fn sessions_events(&self, ext: &Extensions, id: Uuid, after: Option<i32>) -> Result<EventPage, Failure> {
        let grant = may(ext, Need::Look)?;
        let (butlers, mut unavailable) = self.butlers(&grant, None).await?;
        let caller = self.caller(&grant);
        for butler in butlers {
            match butler.spawner().events(&caller.context, id, after.unwrap_or(0)).await {
                Ok(Some(page)) => return Ok(page),
                Ok(None) => {}
                Err(e) => unavailable.push(Unavailable::new(&butler, &e)),
            }
        }
        Err(not_found(&format!("There is no session {id}. See: butlerd sessions list"), &unavailable))
    }

    async fn timeline(&self, ext: &Extensions, id: Uuid) -> Result<Timeline, Failure> {
        let grant = may(ext, Need::Look)?;
        let (butlers, mut unavailable) = self.butlers(&grant, None).await?;
        let caller = self.caller(&grant);
        let mut whole = Timeline { id, ..Timeline::default() };
        let mut asked = Vec::new();
        for butler in butlers {
            match traces_of(&butler, &caller.context, id).await {
                Ok(found) => {
                    whole.traces.extend(found);
                    asked.push(butler);
                }
                Err(e) => unavailable.push(Unavailable::new(&butler, &e)),
            }
        }
        whole.traces.sort();
        whole.traces.dedup();
        for butler in asked {
            match part_of(&butler, &caller.context, id, &whole.traces).await {
                Ok((part, runs)) => whole.add(butler.name().as_str(), part, runs)?,
                Err(e) => unavailable.push(Unavailable::new(&butler, &e)),
            }
        }
        if whole.sessions.is_empty() && whole.calls.is_empty() && whole.runs.is_empty() {
            let message = format!(
                "Nothing is on record of {id}. It may be the id of a session, a request, a trace or a schedule. \
                 See: butlerd sessions list"
            );
            return Err(not_found(&message, &unavailable));
        }
        self.add_what_left(&grant, &mut whole).await?;
        whole.unavailable = unavailable;
        whole.put_in_order();
        Ok(whole)
    }
}

impl Rpc {
    /// What the sessions and requests of a trace asked a person for, and what was to leave because of them.
    async fn add_what_left(&self, grant: &Grant, whole: &mut Timeline) -> Result<(), Failure> {
        let sessions: Vec<Uuid> = whole.sessions.iter().map(|row| row.session.id).collect();
        let mut requests: Vec<Uuid> = whole.sessions.iter().map(|row| row.session.request_id).collect();
        requests.push(whole.id);
        requests.sort_unstable();
        requests.dedup();
        let own = rights::own_or(grant, None)?;
        let filter = Filter { butler: own.clone(), sessions: Some(sessions), ..Filter::default() };
        whole.approvals = self.actions().list(&grant.tenant, &filter, MOST_LEFT).await?;
        whole.deliveries = self.post().of_requests(&grant.tenant, own.as_deref(), &requests, MOST_LEFT).await?;
        let full = |n: usize| i64::try_from(n).is_ok_and(|n| n >= MOST_LEFT);
        whole.cut |= full(whole.approvals.len()) || full(whole.deliveries.len());
        Ok(())
    }
}

/// The traces that an id belongs to at a butler: those of its sessions, or of a schedule's.
async fn traces_of(butler: &Butler, ctx: &RequestContext, id: Uuid) -> Result<Vec<String>, StoreError> {
    let source = butler.schedules().source_of_sessions(&ctx.tenant_id, id).await?;
    butler.spawner().traces_of(ctx, id, source.as_deref()).await
}

/// What a butler has of these traces and of the id itself, and the runs of schedules.
async fn part_of(
    butler: &Butler,
    ctx: &RequestContext,
    id: Uuid,
    traces: &[String],
) -> Result<(TracePart, Vec<Value>), StoreError> {
    let part = butler.spawner().trace_part(ctx, id, traces).await?;
    let runs = butler.schedules().traced(&ctx.tenant_id, id, &part.ids).await?;
    Ok((part, runs))
}

impl Timeline {
    /// Adds what one butler has.
    fn add(&mut self, butler: &str, part: TracePart, runs: Vec<Value>) -> Result<(), Failure> {
        for row in typed::<Vec<TracedSession>>(part.sessions.into())? {
            let depth = row.request.as_ref().map_or(0, |request| request.lineage.depth);
            let session = SessionRow { butler: butler.to_owned(), ..row.session };
            self.sessions.push(TracedSession { session, depth, ..row });
        }
        for row in typed::<Vec<CallRow>>(part.calls.into())? {
            self.calls.push(CallRow { butler: butler.to_owned(), ..row });
        }
        for row in typed::<Vec<TracedRun>>(runs.into())? {
            self.runs.push(TracedRun { butler: butler.to_owned(), ..row });
        }
        self.events.extend(part.events);
        self.cut |= part.cut;
        Ok(())
    }

    fn put_in_order(&mut self) {
        self.sessions.sort_by_key(|row| row.session.queued_at);
        // A stable sort: events of one session keep their order.
        self.events.sort_by_key(|event| event.at);
        self.calls.sort_by_key(|row| row.called_at);
        self.runs.sort_by_key(|row| row.fire_at);
        self.approvals.sort_by_key(|action| action.requested_at);
        let costs: Vec<Option<Money>> = self.sessions.iter().map(|row| row.session.cost_usd).collect();
        self.sessions_of_unknown_cost = costs.iter().filter(|c| c.is_none()).count();
        self.cost_usd = costs.into_iter().flatten().reduce(|sum, cost| sum + cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn what_is_unknown_is_not_added_up() {
        let session = |queued_at: &str, cost: Option<&str>| TracedSession {
            session: SessionRow {
                queued_at: queued_at.parse().unwrap(),
                cost_usd: cost.and_then(Money::parse),
                ..sample::session()
            },
            request: None,
            depth: 0,
        };
        let mut whole = Timeline {
            sessions: vec![
                session("2026-01-01T10:00:00.5Z", Some("0.10")),
                session("2026-01-01T10:00:02Z", None),
                session("2026-01-01T10:00:00Z", Some("0.205")),
            ],
            ..Timeline::default()
        };
        whole.put_in_order();
        assert_eq!((whole.cost_usd, whole.sessions_of_unknown_cost), (Money::parse("0.305"), 1));
        let times: Vec<String> = whole.sessions.iter().map(|s| s.session.queued_at.to_string()).collect();
        assert_eq!(times, ["2026-01-01T10:00:00Z", "2026-01-01T10:00:00.5Z", "2026-01-01T10:00:02Z"]);
        whole.sessions.retain(|s| s.session.cost_usd.is_none());
        whole.put_in_order();
        assert_eq!(whole.cost_usd, None);
    }
}
