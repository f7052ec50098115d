//! What one message asks for, in several calls: seen whole, and decided on at once.

use admin::calls::ApprovalsApiServer;
use admin::{ActionPage, ProposalPage};
use http::StatusCode;
use maud::{Markup, html};
use uuid::Uuid;

use super::approvals::{exact, risk};
use crate::parts::{Tone, crumbs, line, note};
use crate::reply::{Answer, Did, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/approvals/*", |visit| Box::pin(either(visit))),
    get("/approvals/proposals/*", |visit| Box::pin(one(visit))),
    post("/approvals/proposals/*/approve", |visit| Box::pin(approve(visit))),
    post("/approvals/proposals/*/reject", |visit| Box::pin(reject(visit))),
];

/// A call, or a proposal of several: whoever looks for an id does not know which it names.
async fn either(visit: &Visit) -> Answer {
    match super::approvals::one(visit).await {
        Err(why) if why.status == StatusCode::NOT_FOUND => one(visit).await,
        answer => answer,
    }
}

async fn one(visit: &Visit) -> Answer {
    let shown = visit.calls.approvals_proposal(&visit.ext, visit.parsed(0)?).await?;
    let body = html! {
        (crumbs(&[("Approvals", "/approvals")]))
        p { "One message asks for all of this. Decide on it as a whole, or open one of the calls to decide on that alone." }
        @for (n, call) in shown.actions.iter().enumerate() { (card(visit, n, call)) }
        @if visit.may_act() { (decide(visit, &shown)) }
        @else { (note(Tone::Quiet, &html! { "You may look here, but not decide." })) }
    };
    Ok(View::new(format!("{} calls that were asked for together", shown.actions.len()), body).into())
}

/// One call of it, none of it cut.
fn card(visit: &Visit, n: usize, shown: &ActionPage) -> Markup {
    let action = &shown.action;
    let name = format!("call-{n}");
    html! { section.card aria-labelledby=(name) {
        h2 id=(name) { a href={ "/approvals/" (action.id) } { (n + 1) ". " (action.butler) " wants to call " (line(&action.tool_name, 60)) } }
        p { (risk(action)) " asked " (visit.now.when(action.requested_at)) ", open until " (visit.now.when(action.expires_at)) ". "
            "It waits because " (action.cause.reason()) "."
            @for source in &action.sources {
                " Because of a message from " strong { (line(&source.who, 80)) } " (" a href={ "/trace/" (source.request_id) } { "see it" } ")."
            } }
        (exact(shown))
    } }
}

fn decide(visit: &Visit, shown: &ProposalPage) -> Markup {
    let at = format!("/approvals/proposals/{}", shown.id);
    html! { section.decide aria-label="Decide on all of it" {
        (visit.button(&format!("{at}/approve"), "Approve all", "main", &[("seen", &shown.seen)]))
        form method="post" action={ (at) "/reject" } {
            (visit.proof())
            label { "Reason, which the butler is told" input type="text" name="reason" maxlength="500"; }
            button.danger type="submit" { "Refuse all" }
        }
    } }
}

does! {
    approve(visit, id) = approvals_approve_proposal(id, Some(visit.seen()?))
        -> "/approvals?all=1".to_owned(), AllApproved;
    reject(visit, id) = approvals_reject_proposal(id, visit.form.get("reason").map(str::to_owned))
        -> "/approvals?all=1".to_owned(), AllRefused;
}
