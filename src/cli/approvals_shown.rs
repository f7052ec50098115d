//! What waits for a decision: shown whole, and decided on.

use uuid::Uuid;

use super::out::{Out, Tone};
use super::problem::Problem;
use super::text::{block, one_line};
use super::{Caller, Outcome};
use admin::api::ApprovalsApiClient;
use admin::{ActionPage, ProposalPage};
use approvals::{Action, Status};
use base::text::visible::visible_line;

/// As the daemon names that there is nothing of an id.
const UNKNOWN: &str = "not_found";

/// What is there under an id.
pub enum Shown {
    Action(Box<ActionPage>),
    Proposal(ProposalPage),
}

impl Shown {
    /// Prints all of it and returns the hash of what was seen.
    pub fn print(self, out: &Out) -> String {
        match self {
            Shown::Action(one) => {
                show(out, &one);
                one.seen
            }
            Shown::Proposal(all) => {
                proposal(out, &all);
                all.seen
            }
        }
    }
}

pub async fn shown(caller: &Caller, id: Uuid, page: Option<u32>) -> Result<Shown, Problem> {
    let calls = caller.quick()?;
    match caller.got(calls.approvals_show(id, page).await) {
        Err(problem) if problem.code == UNKNOWN && page.is_none() => match calls.approvals_proposal(id).await {
            Ok(all) => Ok(Shown::Proposal(all)),
            Err(_) => Err(problem),
        },
        one => Ok(Shown::Action(Box::new(one?))),
    }
}

pub async fn approve(caller: &Caller, id: Uuid, seen: Option<String>) -> Outcome {
    let calls = caller.quick()?;
    match caller.got(calls.approvals_approve(id, seen.clone()).await) {
        Err(problem) if problem.code == UNKNOWN => caller
            .show(calls.approvals_approve_proposal(id, seen).await, |out, all| {
                all.iter().for_each(|action| decided(out, action))
            }),
        one => caller.out.answer(&one?, decided),
    }
}

pub async fn reject(caller: &Caller, id: Uuid, reason: Option<String>) -> Outcome {
    let calls = caller.quick()?;
    match caller.got(calls.approvals_reject(id, reason.clone()).await) {
        Err(problem) if problem.code == UNKNOWN => caller
            .show(calls.approvals_reject_proposal(id, reason).await, |out, all| {
                all.iter().for_each(|action| decided(out, action))
            }),
        one => caller.out.answer(&one?, decided),
    }
}

pub fn tone(status: Status) -> Tone {
    match status {
        Status::Executed => Tone::Good,
        Status::Rejected | Status::Abandoned => Tone::Bad,
        Status::Expired => Tone::Faint,
        Status::Pending | Status::Approved => Tone::Warn,
    }
}

/// Those of one proposal below each other, where the newest of them stands.
pub fn together(actions: &[Action]) -> Vec<&Action> {
    let mut left: Vec<&Action> = actions.iter().collect();
    let mut found = Vec::with_capacity(left.len());
    while let Some(first) = left.first().copied() {
        let same = |a: &&Action| a.id == first.id || a.proposal.is_some() && a.proposal == first.proposal;
        let (group, rest): (Vec<&Action>, Vec<&Action>) = left.into_iter().partition(same);
        found.extend(group);
        left = rest;
    }
    found
}

pub fn show(out: &Out, page: &ActionPage) {
    let action = &page.action;
    out.fields()
        .field("action", action.id)
        .field("proposal", action.proposal)
        .field("status", (tone(action.status), action.status.as_str()))
        .field("until", format!("{}, risk {}", out.moment(action.expires_at), action.risk_tier.as_str()))
        .field("waits as", action.cause.reason())
        .field("hash", &page.seen)
        .print();
    for (n, text) in page.pages.iter().enumerate() {
        let number = page.page.map_or(n + 1, |page| page as usize);
        out.line(&if page.of > 1 { format!("\nPart {number} of {}:", page.of) } else { String::new() });
        out.line(&block(text));
    }
    if let Some(result) = &action.execution_result {
        out.line("");
        out.line(&block(&visible_line(&result.to_string())));
    }
    out.line("");
    for event in &page.events {
        let reason =
            event.reason.as_deref().map(|r| format!(": {}", one_line(&visible_line(r), 200))).unwrap_or_default();
        out.line(&format!("{} {} by {}{reason}", out.moment(event.occurred_at), event.event_type, event.actor));
    }
}

pub fn proposal(out: &Out, all: &ProposalPage) {
    out.fields().field("proposal", all.id).field("asks for", all.actions.len()).field("hash", &all.seen).print();
    for (n, page) in all.actions.iter().enumerate() {
        out.heading(&format!("({}) {}", n + 1, one_line(&page.action.brief(80), 200)));
        show(out, page);
    }
}

/// Tells what a decision makes happen.
fn decided(out: &Out, action: &Action) {
    out.line(&match action.status {
        Status::Approved => format!("{} is let through; {} makes the call now.", action.id, action.butler),
        _ => format!("{} is turned down; {} is told.", action.id, action.butler),
    });
}
