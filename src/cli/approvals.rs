//! `butlerd approvals`

use std::io::IsTerminal;

use clap::{Args, Subcommand};
use jsonrpsee_http_client::HttpClient;
use uuid::Uuid;

use super::approvals_walk::{self, decided};
use super::common::Id;
use super::lines;
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::text::{block, one_line};
use super::{Caller, Outcome};
use admin::api::ApprovalsApiClient;
use admin::{ActionPage, IdKind, NewStandingRule, ProposalPage};
use approvals::{Action, Rule, Status};
use base::text::visible::visible_line;

/// As the daemon names that there is nothing of an id.
const UNKNOWN: &str = "not_found";

/// `approvals`; at a terminal and without more, one call after the other is shown, and a key decides on it.
#[derive(Debug, Args)]
pub struct ApprovalsArgs {
    #[command(subcommand)]
    pub what: Option<Approvals>,
}

/// What is done with them.
#[derive(Debug, Subcommand)]
pub enum Approvals {
    /// List what waits for your decision
    List {
        /// Only actions of this status [default: pending]
        #[arg(long, value_name = "STATUS",
              value_parser = ["pending", "approved", "rejected", "expired", "executed", "abandoned"])]
        status: Option<String>,
        /// Actions of every status
        #[arg(long, conflicts_with = "status")]
        all: bool,
        /// Only this butler's
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
    },
    /// Show what exactly would happen, whole, and what has happened so far
    Show {
        /// The action, or a proposal: all that one message asks for
        id: Id,
        /// Only this part of what would happen, from 1
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        page: Option<u32>,
    },
    /// Let a call through: it is made once, with exactly these arguments. At a terminal you are shown it first
    Approve {
        /// The action, or a proposal: all that one message asks for
        id: Id,
        /// Only if it is still what you saw (the hash that `show` prints)
        #[arg(long, value_name = "SHA256")]
        seen: Option<String>,
    },
    /// Turn a call down
    Reject {
        /// The action, or a proposal: all that one message asks for
        id: Id,
        /// What its butler is told
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List the standing rules
    Rules {
        /// Also those that have ended
        #[arg(long)]
        all: bool,
    },
    /// Allow calls like this one from now on: of the same tool, with the same arguments, in sessions that you alone (or
    /// your household's schedules) have influenced
    Rule {
        /// The action that the rule is made from
        id: Id,
        /// What the rule is for
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// For how many calls it counts
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        max_uses: Option<i32>,
        /// Until when it counts, such as 2027-01-31T18:00+01:00
        #[arg(long, value_name = "TIME")]
        until: Option<jiff::Timestamp>,
        /// An argument that may be anything
        #[arg(long, value_name = "ARGUMENT")]
        any: Vec<String>,
        /// Also for sessions that this person has influenced, whom your contacts know, such as email:bob@example.org.
        /// Nobody else may have influenced them, and no stranger can be named
        #[arg(long, value_name = "CHANNEL:IDENTITY")]
        also_influenced_by: Vec<String>,
    },
    /// End a standing rule
    Revoke { rule: Id },
}

pub async fn run(caller: Caller, ApprovalsArgs { what }: ApprovalsArgs) -> Outcome {
    let calls = caller.quick()?;
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !caller.out.json;
    let Some(what) = what else {
        if terminal {
            return approvals_walk::walk(&caller).await;
        }
        return caller.list(calls.approvals_list(None, Some("pending".to_owned()), None).await, list);
    };
    match what {
        Approvals::List { status, all, butler, limit } => {
            let status = status.or_else(|| (!all).then(|| "pending".to_owned()));
            caller.list(calls.approvals_list(butler, status, Some(limit)).await, list)
        }
        Approvals::Show { id, page } => {
            match shown(&caller, &calls, caller.id(IdKind::Approval, &id).await?, page).await? {
                Shown::Action(one) => caller.out.answer(&*one, show),
                Shown::Proposal(all) => caller.out.answer(&all, proposal),
            }
        }
        Approvals::Approve { id, seen } => {
            let id = caller.id(IdKind::Approval, &id).await?;
            let seen = match seen {
                None if terminal => match confirmed(&caller, &calls, id).await? {
                    None => return Ok(FAILED),
                    seen => seen,
                },
                seen => seen,
            };
            approve(&caller, &calls, id, seen).await
        }
        Approvals::Reject { id, reason } => {
            let id = caller.id(IdKind::Approval, &id).await?;
            reject(&caller, &calls, id, reason).await
        }
        Approvals::Rules { all } => caller.list(calls.approvals_rules(all).await, rules),
        Approvals::Rule { id, description, max_uses, until, any, also_influenced_by } => {
            let id = caller.id(IdKind::Approval, &id).await?;
            let rule = NewStandingRule { description, max_uses, expires_at: until, any, also_influenced_by };
            caller.show(calls.approvals_rule(id, rule).await, |out, rule| {
                out.line(&format!(
                    "{} may call {} with {} without asking, in sessions that {} influenced. To end that: butlerd \
                     approvals revoke {}",
                    rule.butler,
                    rule.tool_name,
                    one_line(&rule.arg_constraints.to_string(), 500),
                    influence(rule),
                    rule.id
                ));
            })
        }
        Approvals::Revoke { rule } => {
            let rule = caller.id(IdKind::StandingRule, &rule).await?;
            caller.show(calls.approvals_revoke(rule).await, |out, rule| {
                out.line(&format!("Rule {} has ended.", rule.id));
            })
        }
    }
}

/// Whose sessions a rule is for.
fn influence(rule: &Rule) -> String {
    match rule.also_influenced_by.is_empty() {
        true => "you alone".to_owned(),
        false => format!("you, or {},", one_line(&rule.also_influenced_by.join(", "), 500)),
    }
}

/// What is there under an id.
enum Shown {
    Action(Box<ActionPage>),
    Proposal(ProposalPage),
}

impl Shown {
    /// Prints all of it and returns the hash of what was seen.
    fn print(self, out: &Out) -> String {
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

async fn shown(caller: &Caller, calls: &HttpClient, id: Uuid, page: Option<u32>) -> Result<Shown, Problem> {
    match caller.got(calls.approvals_show(id, page).await) {
        Err(problem) if problem.code == UNKNOWN && page.is_none() => match calls.approvals_proposal(id).await {
            Ok(all) => Ok(Shown::Proposal(all)),
            Err(_) => Err(problem),
        },
        one => Ok(Shown::Action(Box::new(one?))),
    }
}

/// Shows all that would happen and asks. The hash of what was seen; `None`: the person said no.
async fn confirmed(caller: &Caller, calls: &HttpClient, id: Uuid) -> Result<Option<String>, Problem> {
    let out = &caller.out;
    let seen = shown(caller, calls, id, None).await?.print(out);
    out.ask("Approve it? [y/N] ");
    let answer = lines::typed().recv().await.and_then(Result::ok).map(|(_, line)| line.trim().to_lowercase());
    let yes = answer.is_some_and(|answer| ["y", "yes"].contains(&answer.as_str()));
    if !yes {
        out.line("Nothing was decided.");
    }
    Ok(yes.then_some(seen))
}

/// Shows what waits whole, one after the other, and lets the person decide on each; only this one, where an id is given.
pub async fn in_turn(
    caller: &Caller,
    id: Option<&Id>,
    mut ask: impl AsyncFnMut(&str) -> Option<String>,
) -> Result<(), Problem> {
    let (calls, out) = (caller.quick()?, &caller.out);
    let waiting = match id {
        Some(id) => vec![caller.id(IdKind::Approval, id).await?],
        None => {
            let pending = Some("pending".to_owned());
            let actions = caller.got(calls.approvals_list(None, pending, Some(200)).await)?;
            let mut ids: Vec<Uuid> = together(&actions).iter().map(|a| a.proposal.unwrap_or(a.id)).collect();
            ids.dedup();
            ids
        }
    };
    if waiting.is_empty() {
        out.line("Nothing waits for your decision.");
    }
    for (n, id) in waiting.iter().enumerate() {
        let seen = shown(caller, &calls, *id, None).await?.print(out);
        let which = if waiting.len() > 1 { format!(" ({} of {})", n + 1, waiting.len()) } else { String::new() };
        let Some(answer) = ask(&format!("Approve it{which}? [y: yes, n: turn it down, Enter: later]")).await else {
            out.line("Nothing more was decided.");
            return Ok(());
        };
        match answer.as_str() {
            "y" | "yes" => approve(caller, &calls, *id, Some(seen)).await.map(drop)?,
            "n" | "no" => reject(caller, &calls, *id, None).await.map(drop)?,
            _ => out.line("It waits."),
        }
    }
    Ok(())
}

async fn approve(caller: &Caller, calls: &HttpClient, id: Uuid, seen: Option<String>) -> Outcome {
    match caller.got(calls.approvals_approve(id, seen.clone()).await) {
        Err(problem) if problem.code == UNKNOWN => {
            caller.show(calls.approvals_approve_proposal(id, seen).await, |out, all| all_decided(out, all))
        }
        one => caller.out.answer(&one?, decided),
    }
}

async fn reject(caller: &Caller, calls: &HttpClient, id: Uuid, reason: Option<String>) -> Outcome {
    match caller.got(calls.approvals_reject(id, reason.clone()).await) {
        Err(problem) if problem.code == UNKNOWN => {
            caller.show(calls.approvals_reject_proposal(id, reason).await, |out, all| all_decided(out, all))
        }
        one => caller.out.answer(&one?, decided),
    }
}

fn rules(out: &Out, rules: &[Rule]) {
    let tone = |rule: &Rule| if rule.active { Tone::Plain } else { Tone::Faint };
    let used = |rule: &Rule| rule.max_uses.map_or_else(String::new, |most| format!("/{most}"));
    out.table(rules)
        .ids("RULE", |r| r.id)
        .column("BUTLER", |r| (tone(r), &r.butler))
        .column("TOOL", |r| (tone(r), &r.tool_name))
        .column("ARGUMENTS", |r| (tone(r), one_line(&r.arg_constraints.to_string(), 60)))
        .column("USED", |r| (tone(r), format!("{}{}", r.use_count, used(r))))
        .column("UNTIL", |r| (tone(r), r.expires_at.map(|at| out.moment(at))))
        .column("INFLUENCED BY", |r| (tone(r), one_line(&influence(r), 60)))
        .column("WHAT FOR", |r| (tone(r), one_line(&r.description, 60)))
        .print("No standing rules");
}

fn tone(status: Status) -> Tone {
    match status {
        Status::Executed => Tone::Good,
        Status::Rejected | Status::Abandoned => Tone::Bad,
        Status::Expired => Tone::Faint,
        Status::Pending | Status::Approved => Tone::Warn,
    }
}

/// Those of one proposal below each other, where the newest of them stands.
fn together(actions: &[Action]) -> Vec<&Action> {
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

fn list(out: &Out, actions: &[Action]) {
    let (actions, proposals) = (together(actions), actions.iter().any(|a| a.proposal.is_some()));
    let table = out
        .table(&actions)
        .ids("ACTION", |a| a.id)
        .column("ASKED", |a| out.moment(a.requested_at))
        .column("UNTIL", |a| out.moment(a.expires_at))
        .column("STATUS", |a| (tone(a.status), a.status.as_str()))
        .column("RISK", |a| a.risk_tier.as_str());
    let table = if proposals { table.ids("PROPOSAL", |a| a.proposal) } else { table };
    table.column("WHAT", |a| one_line(&visible_line(&a.agent_summary), 100)).print("Nothing waits for your decision");
}

fn show(out: &Out, page: &ActionPage) {
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

fn proposal(out: &Out, all: &ProposalPage) {
    out.fields().field("proposal", all.id).field("asks for", all.actions.len()).field("hash", &all.seen).print();
    for (n, page) in all.actions.iter().enumerate() {
        out.heading(&format!("({}) {}", n + 1, one_line(&page.action.brief(80), 200)));
        show(out, page);
    }
}

fn all_decided(out: &Out, actions: &[Action]) {
    actions.iter().for_each(|action| decided(out, action));
}
