//! Who asked, on whose behalf, through what: made once at the edge and handed on by the program.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::label::{Audience, Label, Principal, Trust};
use super::{Clock, RequestId, SessionId, TenantId, TraceContext};

/// How many sessions may cause one another before a trigger is refused.
pub const MAX_LINEAGE_DEPTH: u32 = 8;

/// Where a request stands in the chain of sessions that led to it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lineage {
    /// The request at the very beginning.
    pub root_request_id: RequestId,
    /// The session that caused this request, if one did.
    pub parent_session_id: Option<SessionId>,
    /// Number of sessions between the root and this request.
    pub depth: u32,
}

/// The identity that travels with all work. Never built from a tool's arguments.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestContext {
    pub request_id: RequestId,
    pub tenant_id: TenantId,
    pub received_at: Timestamp,
    /// `telegram`, `email`, `cli`, `mcp`, `schedule`, …
    pub source_channel: String,
    pub source_endpoint_identity: String,
    pub source_sender_identity: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_thread_identity: Option<String>,
    /// Whether its thread is a group's, whose members all hear what is answered there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub group: bool,
    /// Whether its sender only claims to be who he says: neither the channel nor the house has proven it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unauthenticated: bool,
    pub trust: Trust,
    /// Who may learn what it says. Nobody said: the household alone.
    #[serde(default)]
    pub audience: Audience,
    pub lineage: Lineage,
    pub trace_context: TraceContext,
}

impl RequestContext {
    /// A request that enters at the edge now, as the root of its own lineage and trace.
    pub fn root(clock: &Clock, tenant: TenantId, channel: &str, endpoint: &str, sender: &str, trust: Trust) -> Self {
        let request_id = RequestId::new();
        Self {
            request_id,
            tenant_id: tenant,
            received_at: clock.now(),
            source_channel: channel.to_owned(),
            source_endpoint_identity: endpoint.to_owned(),
            source_sender_identity: sender.to_owned(),
            source_thread_identity: None,
            group: false,
            unauthenticated: false,
            trust,
            audience: Audience::Household,
            lineage: Lineage { root_request_id: request_id, parent_session_id: None, depth: 0 },
            trace_context: TraceContext::new_root(),
        }
    }

    /// The context of what `session`, working under `self`, causes.
    pub fn caused_by(&self, session: SessionId, clock: &Clock) -> Self {
        Self {
            request_id: RequestId::new(),
            received_at: clock.now(),
            lineage: Lineage {
                root_request_id: self.lineage.root_request_id,
                parent_session_id: Some(session),
                depth: self.lineage.depth + 1,
            },
            ..self.clone()
        }
    }

    /// The same context for what stands under another span of its trace.
    pub fn under(&self, trace: &TraceContext) -> Self {
        Self { trace_context: trace.clone(), ..self.clone() }
    }

    /// The same context with at most this trust.
    pub fn with_trust_at_most(mut self, trust: Trust) -> Self {
        self.trust = self.trust.min(trust);
        self
    }

    /// Who hears what is answered to it: the group whose thread it is, else the person who asked.
    pub fn heard_by(&self) -> Principal {
        match &self.source_thread_identity {
            Some(thread) if self.group => {
                Principal::group(&self.source_channel, &self.source_endpoint_identity, thread)
            }
            _ if self.unauthenticated => Principal::claimed(&self.source_channel, &self.source_sender_identity),
            _ => Principal::person(&self.source_channel, &self.source_sender_identity),
        }
    }

    /// How far what it says is believed, and who may learn it.
    pub fn label(&self) -> Label {
        Label { trust: self.trust, audience: self.audience.clone() }
    }

    /// The context of what is made out of it and of something with this label.
    #[must_use]
    pub fn joined(self, label: &Label) -> Self {
        let Label { trust, audience } = self.label().join(label);
        Self { trust, audience, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_only_falls_and_depth_only_rises() {
        let clock = Clock::default();
        let root = RequestContext::root(&clock, TenantId::owner(), "cli", "local", "owner", Trust::Known);
        let child = root.caused_by(SessionId::new(), &clock).with_trust_at_most(Trust::Owner);
        assert_eq!(child.trust, Trust::Known);
        assert_eq!(child.lineage.depth, 1);
        assert_eq!(child.lineage.root_request_id, root.request_id);
        assert_eq!(child.with_trust_at_most(Trust::Stranger).trust, Trust::Stranger);
    }
}
