//! What a token allows, and what that makes its holder.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use strum::{EnumString, IntoStaticStr, VariantArray};
use tokio::sync::watch;
use uuid::Uuid;

use super::calls::{CallGuard, CallRefused};
use super::ends::ChannelEnds;
use super::taint::Taint;
use base::{ButlerName, Clock, RequestContext, SessionId, TenantId, TraceContext, Trust};

/// What an operator's token is for.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, IntoStaticStr, EnumString, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum GrantScope {
    /// Call a butler's tools.
    Tools,
    /// Look at what is there.
    Read,
    /// Hand in messages.
    Ingest,
    /// Everything.
    Admin,
}

base::named!(GrantScope, from_name);

impl GrantScope {
    pub const ALL: &'static [Self] = Self::VARIANTS;
}

/// Whether a session's child was told its butler's tools. All clones know the same.
#[derive(Clone, Debug, Default)]
pub struct ToolsSeen(Arc<AtomicBool>);

impl ToolsSeen {
    /// From now on it was.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn get(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// How much of a tool its client is told. The checks of a call know all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Two sentences of its description, and its arguments with theirs.
    #[serde(alias = "brief")]
    Whole,
    /// One sentence, and its arguments by name and type.
    Terse,
}

/// How much of which tools, by their names, in the order in which their client is told of them. `None`: all of all.
pub type Chosen = Option<Vec<(String, Detail)>>;

/// Which of the tools that it may call a session's child is told of: all, as long as none were chosen. All clones know
/// the same.
#[derive(Clone, Debug, Default)]
pub struct ToolsShown(Arc<watch::Sender<Chosen>>);

impl ToolsShown {
    /// From now on it is told of these alone.
    pub fn only(&self, chosen: impl IntoIterator<Item = (String, Detail)>) {
        self.0.send_replace(Some(chosen.into_iter().collect()));
    }

    /// It is told all of these as well, after the others: what a vendor has kept of the list holds.
    pub fn add(&self, names: impl IntoIterator<Item = String>) {
        self.0.send_if_modified(|chosen| {
            let Some(chosen) = chosen else { return false };
            let mut any = false;
            for name in names {
                let told = chosen.iter_mut().find(|(told, _)| *told == name);
                any |= told.as_ref().is_none_or(|(_, detail)| *detail != Detail::Whole);
                match told {
                    Some((_, detail)) => *detail = Detail::Whole,
                    None => chosen.push((name, Detail::Whole)),
                }
            }
            any
        });
    }

    /// How much it is told of this one; `None`: nothing.
    pub fn detail(&self, name: &str) -> Option<Detail> {
        let found = |chosen: &Vec<(String, Detail)>| chosen.iter().find(|(told, _)| told == name).map(|told| told.1);
        self.0.borrow().as_ref().map_or(Some(Detail::Whole), found)
    }

    /// Those that were chosen; `None`: all.
    pub fn chosen(&self) -> Chosen {
        self.0.borrow().clone()
    }

    /// Tells of what changes from now on.
    pub fn follow(&self) -> watch::Receiver<Chosen> {
        self.0.subscribe()
    }
}

/// Who holds a token.
#[derive(Clone, Debug)]
pub enum Holder {
    /// The child of one session.
    Session {
        session: SessionId,
        /// The context of what triggered the session.
        context: Arc<RequestContext>,
        /// Counts its tool calls.
        calls: Arc<CallGuard>,
        /// Set as the butler's server tells its tools under this token.
        tools_seen: ToolsSeen,
        tools_shown: ToolsShown,
        /// What the session was shown so far.
        taint: Arc<Taint>,
    },
    /// A call of a session that a person, or a rule of theirs, has let through. No token stands for it.
    Approved { action: Uuid, session: Option<SessionId>, label: String },
    /// A person or a program of theirs.
    Operator { id: Uuid, label: String },
    /// The daemon, for one part of the house that calls another's tools. No token stands for it.
    Daemon,
}

/// What a token allows.
#[derive(Clone, Debug)]
pub struct Grant {
    pub holder: Holder,
    pub tenant: TenantId,
    /// Only this butler; `None` is any.
    pub butler: Option<ButlerName>,
    /// Only these tools; `None` is all of the butler's.
    pub tools: Option<Arc<BTreeSet<String>>>,
    pub scopes: BTreeSet<GrantScope>,
    /// Of a connector: the ends of channels that it speaks for.
    pub ends: ChannelEnds,
    pub expires_at: Option<Timestamp>,
}

impl Grant {
    /// All that a person of this household may do, whose token is known by `label`.
    pub fn owner(label: &str) -> Self {
        Self {
            holder: Holder::Operator { id: Uuid::nil(), label: label.to_owned() },
            tenant: TenantId::owner(),
            butler: None,
            tools: None,
            scopes: [GrantScope::Admin].into(),
            ends: ChannelEnds::default(),
            expires_at: None,
        }
    }

    /// Whether its holder may hand in messages that came through this end of a channel.
    pub fn hands_in(&self, channel: &str, endpoint: &str) -> bool {
        self.ends.channels.is_empty() || self.speaks_for(channel, endpoint)
    }

    /// Whether its holder is believed on who writes there.
    pub fn speaks_for(&self, channel: &str, endpoint: &str) -> bool {
        self.has(GrantScope::Admin) && self.butler.is_none() || self.ends.name(channel, endpoint)
    }

    /// Whether the token is for this.
    pub fn has(&self, scope: GrantScope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&GrantScope::Admin)
    }

    /// Whether the token opens this butler's tools.
    pub fn opens(&self, butler: &ButlerName) -> bool {
        self.has(GrantScope::Tools) && self.butler.as_ref().is_none_or(|b| b == butler)
    }

    /// Its holder is about to be told the butler's tools.
    pub fn sees_tools(&self) {
        if let Holder::Session { tools_seen, .. } = &self.holder {
            tools_seen.set();
        }
    }

    /// What its holder is told of.
    pub fn shown(&self) -> ToolsShown {
        match &self.holder {
            Holder::Session { tools_shown, .. } => tools_shown.clone(),
            _ => ToolsShown::default(),
        }
    }

    /// Whether the token's list has this tool.
    pub fn allows(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|list| list.contains(tool))
    }
}

/// A request's identity once its token was accepted.
#[derive(Clone, Debug)]
pub struct Caller {
    pub grant: Arc<Grant>,
    pub context: Arc<RequestContext>,
}

impl Caller {
    /// The identity behind a request that came over `channel` with this grant.
    ///
    /// A session's calls run under the context of its trigger; an operator's request is a root of its own.
    pub fn of(grant: Arc<Grant>, clock: &Clock, channel: &str) -> Self {
        let context = match &grant.holder {
            Holder::Session { context, taint, .. } => {
                // What the session does now carries on what it has read since it began.
                let label = taint.label();
                if context.label().join(&label) == context.label() {
                    context.clone()
                } else {
                    Arc::new((**context).clone().joined(&label))
                }
            }
            Holder::Operator { label, .. } => {
                Arc::new(RequestContext::root(clock, grant.tenant.clone(), channel, "local", label, Trust::Owner))
            }
            Holder::Daemon | Holder::Approved { .. } => {
                Arc::new(RequestContext::root(clock, grant.tenant.clone(), channel, "local", "butlerd", Trust::System))
            }
        };
        Self { grant, context }
    }

    /// The same caller, calling from the span that a `traceparent` names, whoever sent it. A session stays in its own
    /// trace; an operator may bring theirs. What is malformed counts for nothing.
    #[must_use]
    pub fn from_span(mut self, traceparent: Option<&str>) -> Self {
        let Some(given) = traceparent else { return self };
        let own = &self.context.trace_context;
        let trace = if self.session().is_some() { own.within(given) } else { TraceContext::parse(given) };
        if let Some(trace) = trace {
            self.context = Arc::new(self.context.under(&trace));
        }
        self
    }

    /// The session whose child this is, or whose call was let through.
    pub fn session(&self) -> Option<SessionId> {
        match &self.grant.holder {
            Holder::Session { session, .. } => Some(*session),
            Holder::Approved { session, .. } => *session,
            Holder::Operator { .. } | Holder::Daemon => None,
        }
    }

    /// The daemon itself, at work on behalf of this request.
    pub fn daemon(context: Arc<RequestContext>) -> Self {
        let grant = Grant {
            holder: Holder::Daemon,
            tenant: context.tenant_id.clone(),
            butler: None,
            tools: None,
            scopes: [GrantScope::Tools].into(),
            ends: ChannelEnds::default(),
            expires_at: None,
        };
        Self { grant: Arc::new(grant), context }
    }

    /// What the session was shown so far; `None`: it is no session that calls.
    pub fn taint(&self) -> Option<&Arc<Taint>> {
        match &self.grant.holder {
            Holder::Session { taint, .. } => Some(taint),
            _ => None,
        }
    }

    /// A call that was let through: it runs as the session that wished it, under the context that it had.
    pub fn approved(action: Uuid, session: Option<SessionId>, context: Arc<RequestContext>) -> Self {
        let label = approval_label(action);
        let holder = Holder::Approved { action, session, label };
        let Self { grant, context } = Self::daemon(context);
        Self { grant: Arc::new(Grant { holder, ..(*grant).clone() }), context }
    }

    /// The approval under which this is called.
    pub fn approval(&self) -> Option<Uuid> {
        match &self.grant.holder {
            Holder::Approved { action, .. } => Some(*action),
            _ => None,
        }
    }

    /// Whether this is the daemon itself, which no token can claim.
    pub fn is_daemon(&self) -> bool {
        matches!(self.grant.holder, Holder::Daemon)
    }

    /// Counts a tool call. `Err`: the caller's session made too many, and this one must not be made.
    pub fn admit_call(&self, tool: &str, arguments: &Map<String, Value>) -> Result<(), CallRefused> {
        match &self.grant.holder {
            Holder::Session { calls, .. } => calls.admit(tool, arguments),
            Holder::Operator { .. } | Holder::Daemon | Holder::Approved { .. } => Ok(()),
        }
    }

    /// How audit rows name the caller.
    pub fn label(&self) -> &str {
        match &self.grant.holder {
            Holder::Session { .. } => "session",
            Holder::Operator { label, .. } | Holder::Approved { label, .. } => label,
            Holder::Daemon => "butlerd",
        }
    }
}

/// How the call that an approval let through is named in its audit row, by which it is found again.
pub fn approval_label(action: Uuid) -> String {
    format!("approval {action}")
}
