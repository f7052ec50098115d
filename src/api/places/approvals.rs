//! Approvals.

use admin::calls::ApprovalsApiServer;
use admin::{ActionPage, Failure, ProposalPage};
use approvals::{Action, Rule, Status};
use schemars::JsonSchema;
use serde::Deserialize;

use super::messages::word;
use super::sessions::ById;
use crate::endpoint::{Endpoint, get, post};
use crate::input::Paging;
use crate::list::Page;
use crate::visit::Visit;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/approvals", "listApprovals", "Calls that wait, or waited, for a person, the newest first", list),
        get("/approvals/{id}", "getApproval", "One call with all that is to be seen before it is decided on", one),
        post("/approvals/{id}/approve", "approve", "Let a call through, once", approve),
        post("/approvals/{id}/refuse", "refuse", "Turn a call down", refuse),
        get("/proposals/{id}", "getProposal", "What a message asks for and what still waits of it", proposal),
        post("/proposals/{id}/approve", "approveProposal", "Approve all that a proposal waits for", approve_all),
        post("/proposals/{id}/refuse", "refuseProposal", "Refuse all that a proposal waits for", refuse_all),
        get("/standing-rules", "listStandingRules", "Which calls are allowed from now on", rules),
    ]
}

/// Which calls.
#[derive(Deserialize, JsonSchema)]
struct Wanted {
    /// Of this butler alone.
    butler: Option<String>,
    /// Of this status alone.
    status: Option<Status>,
    #[serde(flatten)]
    paging: Paging,
}

async fn list(visit: &Visit, wanted: Wanted) -> Result<Page<Action>, Failure> {
    let start = visit.start::<uuid::Uuid>(&wanted.paging)?;
    let (status, most) = (word(wanted.status), start.one_more());
    let found = visit.calls.approvals_before(&visit.ext, wanted.butler, status, start.at, most).await?;
    Ok(visit.page(&start, found, |action| action.id))
}

async fn one(visit: &Visit, of: ById) -> Result<ActionPage, Failure> {
    visit.calls.approval(&visit.ext, of.id).await
}

/// What the person saw.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Approval {
    /// `seen` of the answer that showed all of it. If anything is different now, nothing is let through.
    #[schemars(length(min = 1, max = 100))]
    seen: String,
}

/// Why not.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Refusal {
    /// For the butler that asked.
    #[schemars(length(max = 500))]
    reason: Option<String>,
}

async fn approve(visit: &Visit, of: ById, with: Approval) -> Result<Action, Failure> {
    visit.calls.approve_seen(&visit.ext, of.id, with.seen).await
}

async fn refuse(visit: &Visit, of: ById, with: Refusal) -> Result<Action, Failure> {
    visit.calls.approvals_reject(&visit.ext, of.id, with.reason).await
}

async fn proposal(visit: &Visit, of: ById) -> Result<ProposalPage, Failure> {
    visit.calls.proposal_asked(&visit.ext, of.id).await
}

async fn approve_all(visit: &Visit, of: ById, with: Approval) -> Result<Page<Action>, Failure> {
    Ok(visit.whole(visit.calls.approve_proposal_seen(&visit.ext, of.id, with.seen).await?))
}

async fn refuse_all(visit: &Visit, of: ById, with: Refusal) -> Result<Page<Action>, Failure> {
    Ok(visit.whole(visit.calls.approvals_reject_proposal(&visit.ext, of.id, with.reason).await?))
}

/// Which rules.
#[derive(Deserialize, JsonSchema)]
struct RulesWanted {
    /// Those that ended as well.
    all: Option<bool>,
}

async fn rules(visit: &Visit, wanted: RulesWanted) -> Result<Page<Rule>, Failure> {
    Ok(visit.whole(visit.calls.approvals_rules(&visit.ext, wanted.all.unwrap_or_default()).await?))
}
