//! What waits for a person's word: shown whole, decided on with one press.

use admin::calls::{ApprovalsApiServer, WorkApiServer};
use admin::{ActionPage, NewStandingRule};
use approvals::{Action, RiskTier, Rule, Status};
use maud::{Markup, html};
use uuid::Uuid;

use super::conversations::before;
use crate::parts::{Tone, badge, crumbs, empty, line, note, toned};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/approvals", |visit| Box::pin(list(visit))),
    post("/approvals/*/approve", |visit| Box::pin(approve(visit))),
    post("/approvals/*/reject", |visit| Box::pin(reject(visit))),
    post("/approvals/*/rule", |visit| Box::pin(rule(visit))),
    post("/approvals/rules/*/end", |visit| Box::pin(end_rule(visit))),
];

const SHOWN: u32 = 100;

async fn list(visit: &Visit) -> Answer {
    let all = visit.query.ticked("all");
    let status = (!all).then(|| Status::Pending.as_str().to_owned());
    let from: Option<Uuid> = before(visit)?;
    let actions = visit.calls.approvals_before(&visit.ext, None, status, from, Some(SHOWN)).await?;
    let older = actions.last().filter(|_| actions.len() >= SHOWN as usize).map(|action| action.id);
    let rules = visit.calls.approvals_rules(&visit.ext, false).await?;
    let body = html! {
        p.tabs {
            a href="/approvals" aria-current=[(!all).then_some("true")] { "Waiting" }
            a href="/approvals?all=1" aria-current=[all.then_some("true")] { "All" }
        }
        @if actions.is_empty() {
            (empty(if all { "No call ever waited for you." } else { "Nothing waits for you." }))
        }
        ul.cards { @for action in &actions { li { (brief(visit, action)) (together(&actions, action)) } } }
        @if let Some(older) = older {
            p { a rel="next" href={ "/approvals?" @if all { "all=1&" } "before=" (older) } { "Older" } }
        }
        h2 { "Standing rules" }
        @if rules.is_empty() { (empty("No rule lets anything through without asking.")) }
        ul.cards { @for rule in &rules { li { (rule_card(visit, rule)) } } }
    };
    Ok(View::new("Approvals", body).live_if(from.is_none(), "house").into())
}

/// The way to decide at once on all that one message asks for.
fn together(all: &[Action], action: &Action) -> Markup {
    let waits = |other: &&Action| other.status == Status::Pending && other.proposal == action.proposal;
    let many = all.iter().filter(waits).count();
    html! { @if let Some(proposal) = action.proposal.filter(|_| action.status == Status::Pending && many > 1) {
        div { a href={ "/approvals/proposals/" (proposal) } { "One of " (many) " calls that were asked for together" } }
    } }
}

/// A call on a few lines, with the way to decide.
pub(super) fn brief(visit: &Visit, action: &Action) -> Markup {
    html! {
        a href={ "/approvals/" (action.id) } { strong { (action.butler) } " wants to call " code { (line(&action.tool_name, 60)) } }
        " " (badge(action.status.as_str())) @if action.risk_tier >= RiskTier::High { " " (risk(action)) }
        div.dim {
            @if let Some(to) = &action.recipient { "to " (line(&to.to, 80)) " · " }
            (visit.now.when(action.requested_at))
            @if action.status == Status::Pending { " · until " (visit.now.when(action.expires_at)) }
        }
    }
}

pub(super) fn risk(action: &Action) -> Markup {
    let tone = match action.risk_tier {
        RiskTier::Low => Tone::Quiet,
        RiskTier::Medium => Tone::Warn,
        RiskTier::High | RiskTier::Critical => Tone::Bad,
    };
    toned(tone, &format!("{} risk", action.risk_tier.as_str()))
}

pub(super) async fn one(visit: &Visit) -> Answer {
    let shown = visit.calls.approvals_show(&visit.ext, visit.parsed(0)?, None).await?;
    let tools = visit.calls.tool_list(&visit.ext, shown.action.butler.clone()).await.unwrap_or_default();
    let does = tools.iter().find(|tool| tool.name == shown.action.tool_name).map(|tool| tool.description.as_str());
    let body = html! {
        (crumbs(&[("Approvals", "/approvals")]))
        (whole(visit, &shown, does))
    };
    Ok(View::new(format!("{} wants to call {}", shown.action.butler, line(&shown.action.tool_name, 60)), body).into())
}

/// All that is to be seen of a call before it is decided on: every page, none cut.
/// `does`: the tool's own description, where its butler has it just now.
fn whole(visit: &Visit, shown: &ActionPage, does: Option<&str>) -> Markup {
    let action = &shown.action;
    let waits = action.status == Status::Pending;
    html! {
        p { (badge(action.status.as_str())) " " (risk(action)) " asked " (visit.now.when(action.requested_at))
            @if waits { ", open until " (visit.now.when(action.expires_at)) } }
        p { "It waits because " (action.cause.reason()) "."
            @if let Some(proposal) = action.proposal.filter(|_| waits) {
                " " a href={ "/approvals/proposals/" (proposal) } { "All that was asked for together" }
            } }
        @if let Some(does) = does { p { "What the tool does, as it describes itself: " (line(does, 600)) } }
        (exact(shown))
        p { "Asked for in " a href={ "/sessions/" (action.session_id) } { "this session" } "."
            @for source in &action.sources {
                " Because of a message from " strong { (line(&source.who, 80)) } " (" a href={ "/trace/" (source.request_id) } { "see it" } ")."
            } }
        @if waits && visit.may_act() { (decide(visit, shown)) }
        @else if waits { (note(Tone::Quiet, &html! { "You may look here, but not decide." })) }
        @if let Some(by) = &action.decided_by {
            p { "Decided by " strong { (by) } " " (visit.now.maybe(action.decided_at))
                @if let Some(reason) = &action.decision_reason { ": " (reason) } "." }
        }
        @if let Some(result) = &action.execution_result { h2 { "What came of it" } (crate::parts::json(result)) }
        h2 { "What happened to it" }
        ul.rows { @for event in &shown.events {
            li { (visit.now.when(event.occurred_at)) " " (event.event_type.replace('_', " ")) " by " (event.actor)
                @if let Some(reason) = &event.reason { ": " (reason) } }
        } }
    }
}

/// A call word for word, all pages of it.
pub(super) fn exact(shown: &ActionPage) -> Markup {
    html! { section.exact aria-label={ "The call of " (line(&shown.action.tool_name, 60)) ", word for word" } {
        @for (n, page) in shown.pages.iter().enumerate() {
            @if shown.of > 1 { p.dim { "Page " (n + 1) " of " (shown.of) } }
            pre tabindex="0" { (page) }
        }
    } }
}

fn decide(visit: &Visit, shown: &ActionPage) -> Markup {
    let at = format!("/approvals/{}", shown.action.id);
    let names =
        shown.action.tool_args.as_object().map(|args| args.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    html! {
        section.decide aria-label="Decide" {
            (visit.button(&format!("{at}/approve"), "Approve", "main", &[("seen", &shown.seen)]))
            form method="post" action={ (at) "/reject" } {
                (visit.proof())
                label { "Reason, which the butler is told" input type="text" name="reason" maxlength="500"; }
                button.danger type="submit" { "Refuse" }
            }
            details {
                summary { "Allow calls like this one from now on" }
                form method="post" action={ (at) "/rule" } {
                    (visit.proof())
                    p { "The same tool with the same arguments, in sessions that you alone have influenced." }
                    fieldset { legend { "These may be anything" }
                        @if names.is_empty() { span.dim { "The call has no arguments." } }
                        @for name in &names { label.tick { input type="checkbox" name={ "any." (name) } value="1"; (name) } }
                    }
                    label { "What it is for" input type="text" name="description" maxlength="200"; }
                    label { "How many calls" input type="number" name="max_uses" min="1" max="1000000"; }
                    label { "Days until it ends" input type="number" name="days" min="1" max="3650"; }
                    button type="submit" { "Make the rule" }
                }
            }
        }
    }
}

does! {
    approve(visit, id) = approvals_approve(id, Some(visit.seen()?)) -> format!("/approvals/{id}"), Approved;
    reject(visit, id) = approvals_reject(id, visit.form.get("reason").map(str::to_owned))
        -> format!("/approvals/{id}"), Refused;
    end_rule(visit) = approvals_revoke(visit.parsed(0)?) -> "/approvals".to_owned(), RuleEnded;
}

async fn rule(visit: &Visit) -> Answer {
    let number = |name: &str| -> Result<Option<i32>, PageError> {
        let given = visit.form.get(name).map(str::parse).transpose();
        given.map_err(|_| PageError::invalid(format!("{name} must be a whole number.")))
    };
    let days = number("days")?;
    if days.is_some_and(|days| !(1..=3650).contains(&days)) {
        return Err(PageError::invalid("A rule ends after 1 to 3650 days, or with nothing there when it is ended."));
    }
    let end = |days: i32| visit.now.at.checked_add(jiff::SignedDuration::from_hours(24 * i64::from(days)));
    let expires_at = days.map(end).transpose().map_err(|e| PageError::invalid(e.to_string()))?;
    let rule = NewStandingRule {
        description: visit.form.get("description").map(str::to_owned),
        max_uses: number("max_uses")?,
        expires_at,
        any: visit.form.iter().filter_map(|(name, _)| name.strip_prefix("any.")).map(str::to_owned).collect(),
        also_influenced_by: Vec::new(),
    };
    visit.calls.approvals_rule(&visit.ext, visit.parsed(0)?, rule).await?;
    Ok(Reply::Go { to: "/approvals".to_owned(), did: Did::RuleMade })
}

fn rule_card(visit: &Visit, rule: &Rule) -> Markup {
    html! {
        strong { (rule.butler) } " may call " code { (rule.tool_name) } " without asking"
        div.dim { (line(&rule.description, 200)) }
        pre tabindex="0" { (line(&rule.arg_constraints.to_string(), 500)) }
        (visit.button(&format!("/approvals/rules/{}/end", rule.id), "End the rule", "danger", &[]))
    }
}
