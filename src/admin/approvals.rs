//! Approvals for people: looking, deciding, and the rules that decide for them.

use std::sync::Arc;

use async_trait::async_trait;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::{self, Need};
use super::rpc::{Rpc, limited, to_its_end};
use super::visitor::may;
use access::Grant;
use approvals::{
    Action, Actions, Constraint, Constraints, DecideError, Draft, Event, Filter, Rule, Ruling, Status, Subject, people,
};
use base::text::capital;

const MOST: u32 = 200;
const USUAL: u32 = 50;
const MOST_REASON: usize = 2000;

/// Actions that wait for a person, and standing rules.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait ApprovalsApi {
    /// The newest actions that wait, or waited, for a person: at most `limit` (1 to 200, else 50), of one butler and
    /// one status, if they are named. Scope `read`.
    #[method(name = "approvals_list", param_kind = map, with_extensions)]
    async fn approvals_list(
        &self,
        butler: Option<String>,
        status: Option<String>,
        limit: Option<u32>,
    ) -> Result<Vec<Action>, Failure>;

    /// The same, those that were asked for before the action `before`, if it is named. Scope `read`.
    #[method(name = "approvals_before", param_kind = map, with_extensions)]
    async fn approvals_before(
        &self,
        butler: Option<String>,
        status: Option<String>,
        before: Option<Uuid>,
        limit: Option<u32>,
    ) -> Result<Vec<Action>, Failure>;

    /// One action with what happened to it, and all that is to be seen before it is decided on: every page, or one
    /// (from 1). Notes that the caller was shown them. Scope `read`.
    #[method(name = "approvals_show", param_kind = map, with_extensions)]
    async fn approvals_show(&self, id: Uuid, page: Option<u32>) -> Result<ActionPage, Failure>;

    /// What a message asks for and what still waits of it, each as `approvals_show` has it; `id` is the proposal's.
    /// Notes that the caller was shown all of it. Scope `read`.
    #[method(name = "approvals_proposal", param_kind = map, with_extensions)]
    async fn approvals_proposal(&self, id: Uuid) -> Result<ProposalPage, Failure>;

    /// Lets all through that a proposal still waits for; `seen` is the hash of what the person saw. Scope `admin`.
    #[method(name = "approvals_approve_proposal", param_kind = map, with_extensions)]
    async fn approvals_approve_proposal(&self, id: Uuid, seen: Option<String>) -> Result<Vec<Action>, Failure>;

    /// Turns all down that a proposal still waits for. Scope `admin`.
    #[method(name = "approvals_reject_proposal", param_kind = map, with_extensions)]
    async fn approvals_reject_proposal(&self, id: Uuid, reason: Option<String>) -> Result<Vec<Action>, Failure>;

    /// Lets an action through; `seen` is the hash of what the person saw. One of several pages is let through only for
    /// a caller who was shown each. Scope `admin`.
    #[method(name = "approvals_approve", param_kind = map, with_extensions)]
    async fn approvals_approve(&self, id: Uuid, seen: Option<String>) -> Result<Action, Failure>;

    /// Turns an action down. Scope `admin`.
    #[method(name = "approvals_reject", param_kind = map, with_extensions)]
    async fn approvals_reject(&self, id: Uuid, reason: Option<String>) -> Result<Action, Failure>;

    /// The standing rules; with `all`, those that ended as well. Scope `read`.
    #[method(name = "approvals_rules", param_kind = map, with_extensions)]
    async fn approvals_rules(&self, all: bool) -> Result<Vec<Rule>, Failure>;

    /// Allows calls like this one from now on. Scope `admin`.
    #[method(name = "approvals_rule", param_kind = map, with_extensions)]
    async fn approvals_rule(&self, id: Uuid, rule: NewStandingRule) -> Result<Rule, Failure>;

    /// Ends a standing rule. Scope `admin`.
    #[method(name = "approvals_revoke", param_kind = map, with_extensions)]
    async fn approvals_revoke(&self, id: Uuid) -> Result<Rule, Failure>;
}

/// An action with what happened to it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ActionPage {
    pub action: Action,
    /// All that is to be seen before it is decided on, or the page that was asked for.
    pub pages: Vec<String>,
    /// Which page it is, if one was asked for, and how many there are.
    pub page: Option<u32>,
    pub of: usize,
    /// The hash of all pages, as `seen` takes it.
    pub seen: String,
    pub events: Vec<Event>,
}

/// What a message asks for.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProposalPage {
    pub id: Uuid,
    /// What still waits of it.
    pub actions: Vec<ActionPage>,
    /// The hash of all of it, as `seen` takes it.
    pub seen: String,
}

/// What a rule is to be that is made from an action.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NewStandingRule {
    pub description: Option<String>,
    pub max_uses: Option<i32>,
    pub expires_at: Option<jiff::Timestamp>,
    /// Arguments that may be anything.
    #[serde(default)]
    pub any: Vec<String>,
    /// Who besides the owner may have influenced the sessions that it is for: `channel:identity` of people who are
    /// known.
    #[serde(default)]
    pub also_influenced_by: Vec<String>,
}

impl From<DecideError> for Failure {
    fn from(e: DecideError) -> Self {
        match e {
            DecideError::Store(e) => e.into(),
            e @ DecideError::Unseen { .. } => Self::new(e.code(), capital(&e.to_string())),
            e => Self::new(e.code(), format!("{}. See: butlerd approvals list", capital(&e.to_string()))),
        }
    }
}

impl Rpc {
    pub(super) fn actions(&self) -> Actions {
        let services = self.supervisor.services();
        Actions::new(&services.db, &services.clock)
    }

    /// An action of a butler that the grant reaches.
    pub(super) async fn action(&self, grant: &Grant, id: Uuid) -> Result<Action, Failure> {
        let found = self.actions().get(&grant.tenant, id).await?;
        Ok(found.filter(|a| rights::reaches(grant, &a.butler)).ok_or(DecideError::Unknown(id))?)
    }

    /// The action as it is shown, which is noted.
    async fn page(&self, grant: &Arc<Grant>, action: Action, page: Option<u32>) -> Result<ActionPage, Failure> {
        let (actions, all) = (self.actions(), action.pages());
        let of = all.len();
        let wanted = |n: &i32| page.is_none_or(|page| i64::from(page) == i64::from(*n));
        let numbers: Vec<i32> = (1..).take(of).filter(wanted).collect();
        if numbers.is_empty() {
            return Err(Failure::invalid(format!("There is no such page; it has {of}, from 1.")));
        }
        actions.note_shown(&grant.tenant, &action, &self.actor(grant), &numbers).await?;
        let pages = all.into_iter().zip(1..).filter(|(_, n)| wanted(n)).map(|(page, _)| page).collect();
        let events = actions.events(&grant.tenant, action.id).await?;
        Ok(ActionPage { seen: action.shown_sha256(), action, pages, page, of, events })
    }

    /// What a proposal still waits for, if the grant reaches all of it.
    pub(super) async fn proposal(&self, grant: &Grant, id: Uuid) -> Result<(Vec<Action>, String), Failure> {
        let (calls, seen) = self.actions().proposal(&grant.tenant, id).await?;
        match calls.iter().all(|call| rights::reaches(grant, &call.butler)) {
            true => Ok((calls, seen)),
            false => Err(DecideError::Unknown(id).into()),
        }
    }

    pub(super) fn actor(&self, grant: &Arc<Grant>) -> String {
        self.caller(grant).label().to_owned()
    }

    /// Decides on what the grant reaches. The butlers of it look at it at once, if they are up.
    pub(super) async fn decide(
        &self,
        ext: &Extensions,
        subject: Subject,
        ruling: Ruling,
    ) -> Result<Vec<Action>, Failure> {
        let grant = may(ext, Need::Manage)?;
        match subject {
            Subject::Action(id) => drop(self.action(&grant, id).await?),
            Subject::Proposal(id) => drop(self.proposal(&grant, id).await?),
        }
        if matches!(&ruling, Ruling::Reject(Some(reason)) if reason.len() > MOST_REASON) {
            return Err(Failure::invalid(format!("A reason has at most {MOST_REASON} bytes.")));
        }
        let (actions, actor, tenant) = (self.actions(), self.actor(&grant), grant.tenant.clone());
        let decide = async move { actions.decide(&tenant, subject, &actor, &ruling).await };
        let decided = to_its_end("approval", "The decision", decide).await?;
        for butler in decided.iter().filter_map(|action| self.supervisor.butler(&action.butler).ok()) {
            butler.gate().wake();
        }
        Ok(decided)
    }

    pub(super) async fn decide_on(&self, ext: &Extensions, id: Uuid, ruling: Ruling) -> Result<Action, Failure> {
        Ok(self.decide(ext, Subject::Action(id), ruling).await?.pop().ok_or(DecideError::Unknown(id))?)
    }
}

#[async_trait]
impl ApprovalsApiServer for Rpc {
    async fn approvals_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        status: Option<String>,
        limit: Option<u32>,
    ) -> Result<Vec<Action>, Failure> {
        self.approvals_before(ext, butler, status, None, limit).await
    }

    async fn approvals_before(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        status: Option<String>,
        before: Option<Uuid>,
        limit: Option<u32>,
    ) -> Result<Vec<Action>, Failure> {
        let grant = may(ext, Need::Look)?;
        let butler = rights::own_or(&grant, butler)?;
        let limit = limited(limit, USUAL, MOST)?;
        let known = |name: String| {
            let names: Vec<&str> = Status::ALL.iter().map(|s| s.as_str()).collect();
            let unknown = || Failure::invalid(format!("There is no status `{name}`; there are: {}.", names.join(", ")));
            Status::from_name(&name).ok_or_else(unknown)
        };
        let status = status.map(known).transpose()?;
        let filter = Filter { butler, status, before, ..Filter::default() };
        Ok(self.actions().list(&grant.tenant, &filter, i64::from(limit)).await?)
    }

    async fn approvals_show(&self, ext: &Extensions, id: Uuid, page: Option<u32>) -> Result<ActionPage, Failure> {
        let grant = may(ext, Need::Look)?;
        let action = self.action(&grant, id).await?;
        self.page(&grant, action, page).await
    }

    async fn approvals_proposal(&self, ext: &Extensions, id: Uuid) -> Result<ProposalPage, Failure> {
        let grant = may(ext, Need::Look)?;
        let (calls, seen) = self.proposal(&grant, id).await?;
        let mut actions = Vec::with_capacity(calls.len());
        for call in calls {
            actions.push(self.page(&grant, call, None).await?);
        }
        Ok(ProposalPage { id, actions, seen })
    }

    async fn approvals_approve_proposal(
        &self,
        ext: &Extensions,
        id: Uuid,
        seen: Option<String>,
    ) -> Result<Vec<Action>, Failure> {
        self.decide(ext, Subject::Proposal(id), Ruling::Approve(seen)).await
    }

    async fn approvals_reject_proposal(
        &self,
        ext: &Extensions,
        id: Uuid,
        reason: Option<String>,
    ) -> Result<Vec<Action>, Failure> {
        self.decide(ext, Subject::Proposal(id), Ruling::Reject(reason)).await
    }

    async fn approvals_approve(&self, ext: &Extensions, id: Uuid, seen: Option<String>) -> Result<Action, Failure> {
        self.decide_on(ext, id, Ruling::Approve(seen)).await
    }

    async fn approvals_reject(&self, ext: &Extensions, id: Uuid, reason: Option<String>) -> Result<Action, Failure> {
        self.decide_on(ext, id, Ruling::Reject(reason)).await
    }

    async fn approvals_rules(&self, ext: &Extensions, all: bool) -> Result<Vec<Rule>, Failure> {
        let grant = may(ext, Need::Look)?;
        let butler = grant.butler.as_ref().map(ToString::to_string);
        Ok(self.actions().rules(&grant.tenant, butler.as_deref(), None, !all).await?)
    }

    async fn approvals_rule(&self, ext: &Extensions, id: Uuid, rule: NewStandingRule) -> Result<Rule, Failure> {
        let grant = may(ext, Need::Manage)?;
        let action = self.action(&grant, id).await?;
        let named = action.tool_args.as_object();
        if let Some(name) = rule.any.iter().find(|name| named.is_none_or(|args| !args.contains_key(*name))) {
            let message = format!("The call has no argument `{name}`. See: butlerd approvals show {id}");
            return Err(Failure::invalid(message));
        }
        let butler = self.butler(&grant, &action.butler).await?;
        let overrides = Constraints(rule.any.into_iter().map(|name| (name, Constraint::Any)).collect());
        let gate = butler.gate();
        let draft = gate.draft_like(&grant.tenant, id, overrides, rule.description.as_deref()).await?;
        let also_influenced_by = people(&rule.also_influenced_by).map_err(DecideError::from)?;
        let draft = Draft { expires_at: rule.expires_at, max_uses: rule.max_uses, also_influenced_by, ..draft };
        Ok(gate.allow(&grant.tenant, &draft, &self.actor(&grant)).await?)
    }

    async fn approvals_revoke(&self, ext: &Extensions, id: Uuid) -> Result<Rule, Failure> {
        let grant = may(ext, Need::Manage)?;
        let actions = self.actions();
        let found = actions.rule(&grant.tenant, id).await?.filter(|r| rights::reaches(&grant, &r.butler));
        let rule = found
            .ok_or_else(|| Failure::new("not_found", format!("There is no rule {id}. See: butlerd approvals rules")))?;
        if !actions.revoke_rule(&grant.tenant, id, &self.actor(&grant)).await? {
            return Err(Failure::new("already_decided", "The rule has ended already."));
        }
        Ok(Rule { active: false, ..rule })
    }
}
