//! `butlerd approvals`

use clap::Subcommand;
use uuid::Uuid;

use super::out::{Out, Table, Tone, block, one_line};
use super::{Caller, Outcome};
use admin::{ActionPage, ApiClient, RuleRequest};
use approvals::{Action, Cause, Status};

/// `approvals`
#[derive(Debug, Subcommand)]
pub enum Approvals {
    /// What waits for you, and what was decided
    List {
        /// Only those of this status [default: pending]
        #[arg(long, value_name = "STATUS",
              value_parser = ["pending", "approved", "rejected", "expired", "executed", "abandoned"])]
        status: Option<String>,
        /// Whatever became of them
        #[arg(long, conflicts_with = "status")]
        all: bool,
        /// Only this butler's
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
    },
    /// What exactly would happen, and what happened so far
    Show { id: Uuid },
    /// Let a call through: it is made once, with exactly these arguments
    Approve {
        id: Uuid,
        /// Only if its arguments are still those that you saw (the hash that `show` prints)
        #[arg(long, value_name = "SHA256")]
        seen: Option<String>,
    },
    /// Turn a call down
    Reject {
        id: Uuid,
        /// What its butler is told
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// The standing rules
    Rules {
        /// Those that ended as well
        #[arg(long)]
        all: bool,
    },
    /// Allow calls like this one from now on: of the same tool, with the same arguments
    Rule {
        /// The action that the rule is made from
        id: Uuid,
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
    Revoke { rule: Uuid },
}

pub async fn run(caller: Caller, what: Approvals) -> Outcome {
    let out = caller.out;
    let calls = caller.client.quick()?;
    match what {
        Approvals::List { status, all, butler, limit } => {
            let status = status.or_else(|| (!all).then(|| "pending".to_owned()));
            let actions = calls.approvals_list(butler, status, Some(limit)).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&actions),
                false => list(&caller, &actions),
            }
        }
        Approvals::Show { id } => {
            let page = calls.approvals_show(id).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&page),
                false => show(&caller, &page),
            }
        }
        Approvals::Approve { id, seen } => {
            let action = calls.approvals_approve(id, seen).await.map_err(caller.failed())?;
            decided(out, &action);
        }
        Approvals::Reject { id, reason } => {
            let action = calls.approvals_reject(id, reason).await.map_err(caller.failed())?;
            decided(out, &action);
        }
        Approvals::Rules { all } => {
            let rules = calls.approvals_rules(all).await.map_err(caller.failed())?;
            if out.json {
                out.value(&rules);
                return Ok(0);
            }
            if rules.is_empty() {
                out.line("There is no standing rule.");
                return Ok(0);
            }
            let mut table = Table::new(&["RULE", "BUTLER", "TOOL", "ARGUMENTS", "USED", "UNTIL", "WHAT FOR"]);
            for rule in &rules {
                let used =
                    rule.max_uses.map_or_else(|| rule.use_count.to_string(), |m| format!("{}/{m}", rule.use_count));
                let until = rule.expires_at.map_or_else(|| "-".to_owned(), |at| caller.moment(at));
                let tone = if rule.active { Tone::Plain } else { Tone::Faint };
                table.row(vec![
                    (tone, rule.id.to_string()),
                    (tone, rule.butler.clone()),
                    (tone, rule.tool_name.clone()),
                    (tone, one_line(&rule.arg_constraints.to_string(), 60)),
                    (tone, used),
                    (tone, until),
                    (tone, one_line(&rule.description, 60)),
                ]);
            }
            out.table(&table);
        }
        Approvals::Rule { id, description, max_uses, until, any } => {
            let request = RuleRequest { description, max_uses, expires_at: until, any };
            let rule = calls.approvals_rule(id, request).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&rule),
                false => out.line(&format!(
                    "{} may call {} with {} without asking. To end that: butlerd approvals revoke {}",
                    rule.butler,
                    rule.tool_name,
                    one_line(&rule.arg_constraints.to_string(), 500),
                    rule.id
                )),
            }
        }
        Approvals::Revoke { rule } => {
            let rule = calls.approvals_revoke(rule).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&rule),
                false => out.line(&format!("The rule {} counts no more.", rule.id)),
            }
        }
    }
    Ok(0)
}

fn tone(status: Status) -> Tone {
    match status {
        Status::Executed => Tone::Good,
        Status::Rejected | Status::Abandoned => Tone::Bad,
        Status::Expired => Tone::Faint,
        Status::Pending | Status::Approved => Tone::Warn,
    }
}

fn list(caller: &Caller, actions: &[Action]) {
    let out = caller.out;
    if actions.is_empty() {
        return out.line("Nothing waits for you.");
    }
    let mut table = Table::new(&["ACTION", "ASKED", "UNTIL", "STATUS", "RISK", "WHAT"]);
    for action in actions {
        table.row(vec![
            (Tone::Plain, action.id.to_string()),
            (Tone::Plain, caller.moment(action.requested_at)),
            (Tone::Plain, caller.moment(action.expires_at)),
            (tone(action.status), action.status.as_str().to_owned()),
            (Tone::Plain, action.risk_tier.as_str().to_owned()),
            (Tone::Plain, one_line(&action.agent_summary, 100)),
        ]);
    }
    out.table(&table);
}

fn show(caller: &Caller, page: &ActionPage) {
    let (out, action) = (caller.out, &page.action);
    let head = |name: &str| out.paint(Tone::Faint, &format!("{name:<10}"));
    out.line(&format!("{}{}", head("action"), action.id));
    out.line(&format!("{}{} calls {}", head("what"), action.butler, action.tool_name));
    out.line(&format!("{}{}", head("status"), out.paint(tone(action.status), action.status.as_str())));
    out.line(&format!("{}{}, risk {}", head("until"), caller.moment(action.expires_at), action.risk_tier.as_str()));
    out.line(&format!("{}{}", head("session"), action.session_id));
    let cause = match action.cause {
        Cause::Gated => "this tool is gated in the butler's settings",
        Cause::Exposure => {
            "its session was shown a stranger's words and private data, and this would leave the household"
        }
    };
    out.line(&format!("{}{cause}", head("waits as")));
    if let Some(why) = &action.why {
        out.line(&format!("{}{}", head("it says"), one_line(why, 1000)));
    }
    out.line(&format!("{}{}", head("hash"), action.args_sha256));
    out.line("");
    out.line(&block(&serde_json::to_string_pretty(&action.tool_args).unwrap_or_default()));
    if let Some(result) = &action.execution_result {
        out.line("");
        out.line(&block(&result.to_string()));
    }
    out.line("");
    for event in &page.events {
        let reason = event.reason.as_deref().map(|r| format!(": {}", one_line(r, 200))).unwrap_or_default();
        out.line(&format!("{} {} by {}{reason}", caller.moment(event.occurred_at), event.event_type, event.actor));
    }
}

fn decided(out: Out, action: &Action) {
    if out.json {
        return out.value(action);
    }
    match action.status {
        Status::Approved => out.line(&format!("{} is let through; {} makes the call now.", action.id, action.butler)),
        _ => out.line(&format!("{} is turned down; {} is told.", action.id, action.butler)),
    }
}
