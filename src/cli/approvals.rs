//! `butlerd approvals`

use clap::Subcommand;

use super::common::Id;
use super::out::{Out, Tone};
use super::text::{block, one_line};
use super::{Caller, Outcome};
use admin::api::ApprovalsApiClient;
use admin::{ActionPage, NewStandingRule};
use approvals::{Action, Cause, Rule, Status};

/// `approvals`
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
    /// Show what exactly would happen, and what has happened so far
    Show { id: Id },
    /// Let a call through: it is made once, with exactly these arguments
    Approve {
        id: Id,
        /// Only if its arguments are still those that you saw (the hash that `show` prints)
        #[arg(long, value_name = "SHA256")]
        seen: Option<String>,
    },
    /// Turn a call down
    Reject {
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
    /// Allow calls like this one from now on: of the same tool, with the same arguments
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
    },
    /// End a standing rule
    Revoke { rule: Id },
}

pub async fn run(caller: Caller, what: Approvals) -> Outcome {
    let calls = caller.quick()?;
    match what {
        Approvals::List { status, all, butler, limit } => {
            let status = status.or_else(|| (!all).then(|| "pending".to_owned()));
            caller.show(calls.approvals_list(butler, status, Some(limit)).await, |out, actions| list(out, actions))
        }
        Approvals::Show { id: Id(id) } => caller.show(calls.approvals_show(id).await, show),
        Approvals::Approve { id: Id(id), seen } => caller.show(calls.approvals_approve(id, seen).await, decided),
        Approvals::Reject { id: Id(id), reason } => caller.show(calls.approvals_reject(id, reason).await, decided),
        Approvals::Rules { all } => caller.show(calls.approvals_rules(all).await, |out, found| rules(out, found)),
        Approvals::Rule { id: Id(id), description, max_uses, until, any } => {
            let rule = NewStandingRule { description, max_uses, expires_at: until, any };
            caller.show(calls.approvals_rule(id, rule).await, |out, rule| {
                out.line(&format!(
                    "{} may call {} with {} without asking. To end that: butlerd approvals revoke {}",
                    rule.butler,
                    rule.tool_name,
                    one_line(&rule.arg_constraints.to_string(), 500),
                    rule.id
                ));
            })
        }
        Approvals::Revoke { rule: Id(rule) } => caller.show(calls.approvals_revoke(rule).await, |out, rule| {
            out.line(&format!("Rule {} has ended.", rule.id));
        }),
    }
}

fn rules(out: &Out, rules: &[Rule]) {
    let tone = |rule: &Rule| if rule.active { Tone::Plain } else { Tone::Faint };
    let used = |rule: &Rule| rule.max_uses.map_or_else(String::new, |most| format!("/{most}"));
    out.table(rules)
        .column("RULE", |r| (tone(r), r.id))
        .column("BUTLER", |r| (tone(r), &r.butler))
        .column("TOOL", |r| (tone(r), &r.tool_name))
        .column("ARGUMENTS", |r| (tone(r), one_line(&r.arg_constraints.to_string(), 60)))
        .column("USED", |r| (tone(r), format!("{}{}", r.use_count, used(r))))
        .column("UNTIL", |r| (tone(r), r.expires_at.map(|at| out.moment(at))))
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

fn list(out: &Out, actions: &[Action]) {
    out.table(actions)
        .column("ACTION", |a| a.id)
        .column("ASKED", |a| out.moment(a.requested_at))
        .column("UNTIL", |a| out.moment(a.expires_at))
        .column("STATUS", |a| (tone(a.status), a.status.as_str()))
        .column("RISK", |a| a.risk_tier.as_str())
        .column("WHAT", |a| one_line(&a.agent_summary, 100))
        .print("Nothing waits for your decision");
}

fn show(out: &Out, page: &ActionPage) {
    let action = &page.action;
    let cause = match action.cause {
        Cause::Gated => "the butler's settings gate this tool",
        Cause::Taint => "others influenced its session, and this would reach people who may not learn all it was shown",
        Cause::Influenced => "others influenced its session, and this would change something",
    };
    out.fields()
        .field("action", action.id)
        .field("what", format!("{} calls {}", action.butler, action.tool_name))
        .field("status", (tone(action.status), action.status.as_str()))
        .field("until", format!("{}, risk {}", out.moment(action.expires_at), action.risk_tier.as_str()))
        .field("session", action.session_id)
        .field("waits as", cause)
        .field("it says", &action.why)
        .field("hash", &action.args_sha256)
        .print();
    out.line("");
    out.line(&block(&serde_json::to_string_pretty(&action.tool_args).unwrap_or_default()));
    if let Some(result) = &action.execution_result {
        out.line("");
        out.line(&block(&result.to_string()));
    }
    out.line("");
    for event in &page.events {
        let reason = event.reason.as_deref().map(|r| format!(": {}", one_line(r, 200))).unwrap_or_default();
        out.line(&format!("{} {} by {}{reason}", out.moment(event.occurred_at), event.event_type, event.actor));
    }
}

fn decided(out: &Out, action: &Action) {
    out.line(&match action.status {
        Status::Approved => format!("{} is let through; {} makes the call now.", action.id, action.butler),
        _ => format!("{} is turned down; {} is told.", action.id, action.butler),
    });
}
