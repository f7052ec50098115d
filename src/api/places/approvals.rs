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

/// Which rules.
#[derive(Deserialize, JsonSchema)]
struct RulesWanted {
    /// Those that ended as well.
    all: Option<bool>,
}

forwards! {
    one(of: ById) -> ActionPage = approval(of.id);
    approve(of: ById, with: Approval) -> Action = approve_seen(of.id, with.seen);
    refuse(of: ById, with: Refusal) -> Action = approvals_reject(of.id, with.reason);
    proposal(of: ById) -> ProposalPage = proposal_asked(of.id);
}

lists! {
    approve_all(of: ById, with: Approval) -> Action = approve_proposal_seen(of.id, with.seen);
    refuse_all(of: ById, with: Refusal) -> Action = approvals_reject_proposal(of.id, with.reason);
    rules(wanted: RulesWanted) -> Rule = approvals_rules(wanted.all.unwrap_or_default());
}
