//! `butlerd schedule add|update|remove|done`

use clap::{ArgGroup, Args};
use jsonrpsee_http_client::HttpClient;

use super::common::one_of;
use super::out::Out;
use super::problem::Problem;
use super::text::one_line;
use super::{Caller, Outcome};
use admin::api::ScheduleEditsApiClient;
use admin::{MarkedRun, RemovedSchedule, ScheduleFields, ScheduleRow};
use config::Missed;

/// Names one schedule.
#[derive(Debug, Args)]
pub struct Which {
    /// Its name, or its id or the beginning of that
    pub schedule: String,
    /// Of this butler, where several have one of this name
    #[arg(long, value_name = "NAME")]
    pub butler: Option<String>,
}

/// A new schedule.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("times").required(true).args(["after", "at", "every", "cron"]))]
pub struct New {
    /// What the butler is told when it is due
    pub prompt: String,
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    how: How,
    /// Wait until the butler has had no session for 3 seconds, at most 30 minutes
    #[arg(long)]
    require_idle: bool,
    /// Whose it is; `general` by default
    #[arg(long, value_name = "NAME")]
    butler: Option<String>,
}

/// What changes of a schedule.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("times").args(["after", "at", "every", "cron"]))]
pub struct Changes {
    #[command(flatten)]
    which: Which,
    /// What the butler is told when it is due
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    how: How,
    /// Wait until the butler has had no session for 3 seconds, at most 30 minutes
    #[arg(long, conflicts_with = "no_require_idle")]
    require_idle: bool,
    /// Wait for no idle butler
    #[arg(long)]
    no_require_idle: bool,
    /// Send the outcome nowhere
    #[arg(long, conflicts_with_all = ["reply_channel", "reply_to"])]
    clear_reply: bool,
}

/// When it is due: one of these.
#[derive(Debug, Args)]
struct When {
    /// Once, after this time: "10 seconds", "4 hours", "2 days"
    #[arg(long = "in", id = "after", value_name = "TIME")]
    after: Option<String>,
    /// Once, at this moment: "tomorrow 9:00", "monday at 6pm", "2026-12-24 18:00"
    #[arg(long, value_name = "MOMENT")]
    at: Option<String>,
    /// Every so often: "4 hours", "90m"
    #[arg(long, value_name = "TIME")]
    every: Option<String>,
    /// At the times of a cron expression: "0 8 * * 1-5"
    #[arg(long, value_name = "CRON")]
    cron: Option<String>,
    /// The zone of --at and --cron; the owner's by default
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
}

/// How it runs.
#[derive(Debug, Args)]
struct How {
    /// 3 is ordinary, 2 goes before it, 1 before people's messages
    #[arg(long, value_name = "1-3", value_parser = clap::value_parser!(u8).range(1..=3))]
    priority: Option<u8>,
    /// Its name; the first words of the prompt by default
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What becomes of times that pass while butlerd is off
    #[arg(long, value_name = "HOW", value_parser = one_of::<Missed>())]
    missed: Option<Missed>,
    /// Send the outcome over this channel
    #[arg(long, value_name = "CHANNEL")]
    reply_channel: Option<String>,
    /// To whom on that channel; the owner by default
    #[arg(long, value_name = "WHO")]
    reply_to: Option<String>,
}

fn fields(prompt: Option<String>, when: When, how: How) -> ScheduleFields {
    let When { after, at, every, cron, timezone } = when;
    let How { priority, name, missed, reply_channel, reply_to } = how;
    let missed = missed.map(|missed| missed.to_string());
    ScheduleFields {
        prompt,
        name,
        cron,
        every,
        at,
        after,
        timezone,
        priority,
        missed,
        reply_channel,
        reply_to,
        ..ScheduleFields::default()
    }
}

/// When it is due next, if it is.
pub(super) fn next(out: &Out, row: &ScheduleRow) -> Option<String> {
    match (row.paused, row.enabled) {
        (true, _) => Some("paused".to_owned()),
        (_, false) => Some("off".to_owned()),
        _ => row.next_run_at.map(|at| out.moment(at)),
    }
}

fn told(out: &Out, row: &ScheduleRow, what: &str) {
    let next = next(out, row).map(|next| format!("; next: {next}")).unwrap_or_default();
    out.line(&format!("{} of {} is {what}{next}.", one_line(&row.name, 100), row.butler));
    out.aside(&format!("To see it: butlerd schedule show {}", row.id));
}

/// A refusal of the schedule tools as somebody can act on it who types: behind what happened they name the tool that
/// helps, and here that is a command. `name`: of the schedule that is in the way.
fn typed(problem: Problem, name: &str) -> Problem {
    let next = match problem.code.as_str() {
        "already_exists" => "To change it: butlerd schedule update",
        "declared" => "To pause it: butlerd schedule pause",
        _ => return problem,
    };
    let happened = problem.message.rsplit_once("; ").map_or(&*problem.message, |(happened, _)| happened);
    let message = format!("{}.", happened.trim_end_matches('.'));
    Problem { message, next: format!("{next} {}", one_line(name, 100)), ..problem }
}

pub async fn add(caller: &Caller, calls: &HttpClient, new: New) -> Outcome {
    let New { prompt, when, how, require_idle, butler } = new;
    let fields = ScheduleFields { require_idle: require_idle.then_some(true), ..fields(Some(prompt), when, how) };
    let name = fields.name.clone().unwrap_or_default();
    let made = caller.got(calls.schedule_create(fields, butler).await).map_err(|problem| typed(problem, &name))?;
    caller.out.answer(&made, |out, row| told(out, row, "scheduled"))
}

pub async fn update(caller: &Caller, calls: &HttpClient, changes: Changes) -> Outcome {
    let Changes { which, prompt, when, how, require_idle, no_require_idle, clear_reply } = changes;
    let fields = ScheduleFields {
        require_idle: (require_idle || no_require_idle).then_some(require_idle),
        clear_reply: clear_reply.then_some(true),
        ..fields(prompt, when, how)
    };
    if fields == ScheduleFields::default() {
        return Err(Problem::usage("Nothing was given that is to change.", "See: butlerd schedule update --help"));
    }
    let name = fields.name.clone().unwrap_or_default();
    let changed = caller.got(calls.schedule_change(which.schedule, fields, which.butler).await);
    let changed = changed.map_err(|problem| typed(problem, &name))?;
    caller.out.answer(&changed, |out, row| told(out, row, "changed"))
}

pub async fn remove(caller: &Caller, calls: &HttpClient, Which { schedule, butler }: Which) -> Outcome {
    let removed = caller.got(calls.schedule_remove(schedule.clone(), butler).await);
    let removed = removed.map_err(|problem| typed(problem, &schedule))?;
    caller.out.answer(&removed, |out, RemovedSchedule { butler, .. }| {
        out.line(&format!("{} of {butler} is removed.", one_line(&schedule, 100)));
    })
}

pub async fn done(caller: &Caller, calls: &HttpClient, Which { schedule, butler }: Which) -> Outcome {
    caller.show(calls.schedule_done(schedule, butler).await, |out, MarkedRun { name, run, .. }| {
        let then = if run == "waiting" { "it does not begin any more" } else { "its session goes on to its end" };
        out.line(&format!("The current run of {} counts as done; {then}.", one_line(name, 100)));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_can_be_typed() {
        let refused = |code: &str, said: &str| typed(Problem::new(1, code, said, ""), "a; b");
        let taken = refused("already_exists", "There is a schedule `a; b` already; use schedule_update.");
        assert_eq!(taken.message, "There is a schedule `a; b` already.");
        assert_eq!(taken.next, "To change it: butlerd schedule update a; b");
        let said = "This schedule is its butler's own and can't be deleted; pause it (schedule_update with enabled=false, or \
                    butlerd schedule pause).";
        let declared = refused("declared", said);
        assert_eq!(declared.message, "This schedule is its butler's own and can't be deleted.");
        assert_eq!(declared.next, "To pause it: butlerd schedule pause a; b");
        let other = refused("never_due", "That moment has passed already; name another.");
        assert_eq!((&*other.message, &*other.next), ("That moment has passed already; name another.", ""));
    }
}
