//! `butlerd approvals`

use std::io::IsTerminal;

use clap::{Args, Subcommand};
use uuid::Uuid;

use super::approvals_shown::{Shown, approve, proposal, reject, show, shown, together, tone};
use super::approvals_walk::walk;
use super::common::Id;
use super::keys::Keys;
use super::lines;
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::text::one_line;
use super::{Caller, Outcome};
use admin::api::ApprovalsApiClient;
use admin::{IdKind, NewStandingRule};
use approvals::{Action, Rule};
use base::text::visible::visible_line;

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
            let keys = Keys::open();
            let keys =
                keys.map_err(|e| Problem::new(FAILED, "terminal", format!("The terminal can't be read: {e}."), ""))?;
            return walk(&caller, None, keys).await.map(|()| 0);
        }
        return caller.list(calls.approvals_list(None, Some("pending".to_owned()), None).await, list);
    };
    match what {
        Approvals::List { status, all, butler, limit } => {
            let status = status.or_else(|| (!all).then(|| "pending".to_owned()));
            caller.list(calls.approvals_list(butler, status, Some(limit)).await, list)
        }
        Approvals::Show { id, page } => match shown(&caller, caller.id(IdKind::Approval, &id).await?, page).await? {
            Shown::Action(one) => caller.out.answer(&*one, show),
            Shown::Proposal(all) => caller.out.answer(&all, proposal),
        },
        Approvals::Approve { id, seen } => {
            let id = caller.id(IdKind::Approval, &id).await?;
            let seen = match seen {
                None if terminal => match confirmed(&caller, id).await? {
                    None => return Ok(FAILED),
                    seen => seen,
                },
                seen => seen,
            };
            approve(&caller, id, seen).await
        }
        Approvals::Reject { id, reason } => reject(&caller, caller.id(IdKind::Approval, &id).await?, reason).await,
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

/// Shows all that would happen and asks. The hash of what was seen; `None`: the person said no.
async fn confirmed(caller: &Caller, id: Uuid) -> Result<Option<String>, Problem> {
    let out = &caller.out;
    let seen = shown(caller, id, None).await?.print(out);
    out.ask("Approve it? [y/N] ");
    let yes = lines::typed().recv().await.and_then(Result::ok).is_some_and(|(_, line)| lines::is_yes(&line));
    if !yes {
        out.line("Nothing was decided.");
    }
    Ok(yes.then_some(seen))
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
