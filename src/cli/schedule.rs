//! `butlerd schedule`

use clap::Subcommand;

use super::out::{Out, Tone};
use super::problem::FAILED;
use super::schedule_edit::{self, Changes, New, Which, next};
use super::text::{brief, count, one_line, words};
use super::{Caller, Outcome};
use admin::api::SchedulesApiClient;
use admin::{OpenRun, RunRow, ScheduleDetail, ScheduleRan, ScheduleRow};

/// The source of the house's own upkeep.
const UPKEEP: &str = "house";

/// `schedule`
#[derive(Debug, Subcommand)]
pub enum Schedule {
    /// List schedules: when they are due next, and how the last run ended
    List {
        /// Only this butler's
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        /// Also the house's own upkeep
        #[arg(long)]
        all: bool,
    },
    /// Add a schedule: a prompt for a butler, once or again and again
    Add(Box<New>),
    /// Change a schedule; only what is given changes
    ///
    /// --in or --at alone move the next run of one that comes again and again.
    Update(Box<Changes>),
    /// Remove a schedule that was added
    Remove(Which),
    /// Mark the current run of a schedule as done
    Done(Which),
    /// List what is due next
    Next {
        /// How many
        #[arg(value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Only this butler's
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        /// Also the house's own upkeep
        #[arg(long)]
        all: bool,
    },
    /// List the runs that are at work or wait
    Running {
        /// Only this butler's
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
    },
    /// Show one schedule with its last runs
    Show(Which),
    /// Run a schedule now, and wait for the end; its next time stays
    Run(Which),
    /// Pause a schedule; restarts and butler.toml don't change that
    Pause(Which),
    /// Let a paused schedule go on
    Resume(Which),
    /// List what became of its times, the newest first
    History {
        #[command(flatten)]
        which: Which,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
}

pub async fn run(caller: Caller, what: Schedule) -> Outcome {
    // A run is answered when it is over.
    let calls = if matches!(what, Schedule::Run(_)) { caller.patient()? } else { caller.quick()? };
    match what {
        Schedule::List { butler, all } => {
            let page = caller.got(calls.schedule_list(butler, None).await)?;
            caller.out.list(&page.schedules, &page.unavailable, |out, schedules| list(out, schedules, all))
        }
        Schedule::Add(new) => schedule_edit::add(&caller, &calls, *new).await,
        Schedule::Update(changes) => schedule_edit::update(&caller, &calls, *changes).await,
        Schedule::Remove(which) => schedule_edit::remove(&caller, &calls, which).await,
        Schedule::Done(which) => schedule_edit::done(&caller, &calls, which).await,
        Schedule::Next { limit, butler, all } => {
            let page = caller.got(calls.schedule_list(butler, None).await)?;
            let mut due: Vec<ScheduleRow> = page.schedules.into_iter().filter(|s| all || s.source != UPKEEP).collect();
            due.retain(|s| s.enabled && s.next_run_at.is_some());
            due.sort_by_key(|s| s.next_run_at);
            due.truncate(limit as usize);
            caller.out.list(&due, &page.unavailable, due_next)
        }
        Schedule::Running { butler } => {
            let page = caller.got(calls.schedule_running(butler).await)?;
            caller.out.list(&page.runs, &page.unavailable, running)
        }
        Schedule::Show(Which { schedule, butler }) => {
            caller.show(calls.schedule_show(schedule, butler, Some(5)).await, show)
        }
        Schedule::History { which: Which { schedule, butler }, limit } => {
            let found = caller.got(calls.schedule_show(schedule, butler, Some(limit)).await)?;
            caller.out.list(&found.history, &[], history)
        }
        Schedule::Run(Which { schedule, butler }) => {
            let done = caller.got(calls.schedule_run(schedule, butler).await)?;
            caller.out.answer(&done, ran)?;
            Ok(if done.status == "triggered" { 0 } else { FAILED })
        }
        Schedule::Pause(Which { schedule, butler }) => {
            caller.show(calls.schedule_switch(schedule, butler, false).await, |out, ScheduleRow { name, .. }| {
                out.line(&format!("{name} is paused. To let it go on: butlerd schedule resume {name}"));
            })
        }
        Schedule::Resume(Which { schedule, butler }) => {
            caller.show(calls.schedule_switch(schedule, butler, true).await, |out, row| match row.next_run_at {
                None => out.line(&format!("{} goes on, but no time of it is left.", row.name)),
                Some(next) => out.line(&format!("{} goes on; next at {}.", row.name, out.moment(next))),
            })
        }
    }
}

fn ran(out: &Out, done: &ScheduleRan) {
    match (&done.error, &done.name) {
        (Some(error), _) => out.toned(Tone::Bad, &format!("The run failed: {}", one_line(error, 1000))),
        (None, name) => {
            let result = match &done.result {
                serde_json::Value::Null => String::new(),
                // It may be a sentence.
                result => format!(": {}", brief(result, 1000).trim_end_matches('.')),
            };
            out.line(&format!("{} is done{result}.", name.as_deref().unwrap_or("The run")));
        }
    }
    if let Some(session) = done.session_id {
        out.line(&format!("Its session: butlerd sessions show {session}"));
    }
}

fn state(run: &RunRow) -> (Tone, &String) {
    let tone = match run.state.as_str() {
        "done" => Tone::Good,
        "failed" => Tone::Bad,
        "skipped" => Tone::Faint,
        _ => Tone::Warn,
    };
    (tone, &run.state)
}

/// When it is due, in the words of its author.
fn when(out: &Out, row: &ScheduleRow) -> String {
    match (&row.cron, &row.every, row.at) {
        (Some(cron), _, _) => one_line(cron, 40),
        (None, Some(every), _) => format!("every {every}"),
        (None, None, at) => format!("once, {}", at.map(|at| out.moment(at)).unwrap_or_default()),
    }
}

/// Where the outcome goes.
fn reply(row: &ScheduleRow) -> Option<String> {
    let text = |key: &str| row.more.get(key).and_then(serde_json::Value::as_str);
    let to = text("reply_to").map(|to| format!(" to {}", one_line(to, 100))).unwrap_or_default();
    text("reply_channel").map(|channel| format!("over {channel}{to}"))
}

/// The house's own upkeep is left out as long as it is well, unless `all`.
fn list(out: &Out, schedules: &[ScheduleRow], all: bool) {
    let well = |s: &ScheduleRow| s.last.as_ref().is_none_or(|run| run.state != "failed");
    let (upkeep, shown): (Vec<&ScheduleRow>, Vec<&ScheduleRow>) =
        schedules.iter().partition(|s| !all && s.source == UPKEEP && well(s));
    out.table(&shown)
        .ids("SCHEDULE", |s| s.id)
        .column("BUTLER", |s| &s.butler)
        .column("NAME", |s| one_line(&s.name, 40))
        .column("WHEN", |s| when(out, s))
        .column("NEXT", |s| next(out, s))
        .column("LAST", |s| s.last.as_ref().map(|run| out.moment(run.fire_at)))
        .column("OUTCOME", |s| s.last.as_ref().map(state))
        .column("COST", |s| s.last.as_ref().and_then(|run| run.cost_usd))
        .print("No schedules yet");
    if !upkeep.is_empty() {
        out.aside(&format!("{} of the house's own are not listed: --all", count(upkeep.len(), "schedule")));
    }
}

fn due_next(out: &Out, due: &[ScheduleRow]) {
    out.table(due)
        .column("NEXT", |s| next(out, s))
        .ids("SCHEDULE", |s| s.id)
        .column("BUTLER", |s| &s.butler)
        .column("NAME", |s| one_line(&s.name, 40))
        .column("WHEN", |s| when(out, s))
        .print("Nothing is due");
}

fn running(out: &Out, runs: &[OpenRun]) {
    out.table(runs)
        .ids("SCHEDULE", |r| r.task_id)
        .column("BUTLER", |r| &r.butler)
        .column("NAME", |r| one_line(&r.schedule, 40))
        .column("DUE", |r| out.moment(r.run.fire_at))
        .column("STATE", |r| state(&r.run))
        .column("STARTED", |r| r.started_at.map(|at| out.moment(at)))
        .ids("SESSION", |r| r.run.session_id)
        .column("REASON", |r| one_line(r.run.reason.as_deref().unwrap_or_default(), 160))
        .print("No runs at work, and none that wait");
}

fn show(out: &Out, ScheduleDetail { schedule: s, history: runs }: &ScheduleDetail) {
    let idle = if s.require_idle { "; waits until its butler is idle" } else { "" };
    let job = s.job_name.as_deref().map(|job| {
        let args = s.job_args.as_ref().filter(|args| !args.is_null());
        format!("{job} {}", args.map(ToString::to_string).unwrap_or_default())
    });
    out.fields()
        .field("schedule", s.id)
        .field("name", one_line(&s.name, 100))
        .field("butler", &s.butler)
        .field("when", format!("{} ({})", when(out, s), s.timezone.as_deref().unwrap_or_default()))
        .field("from", s.start_at.map(|at| out.moment(at)))
        .field("until", s.until_at.map(|at| out.moment(at)))
        .field("next", next(out, s))
        .field("source", &s.source)
        .field("priority", s.priority)
        .field("missed", format!("{} within {}; overlap: {}{idle}", words(&s.missed), s.missed_window, s.overlap))
        .field("job", job)
        .field("reply", reply(s))
        .print();
    if s.job_name.is_none() {
        out.section("prompt", s.prompt.as_deref().unwrap_or_default());
    }
    out.line("");
    history(out, runs);
}

fn history(out: &Out, runs: &[RunRow]) {
    let reason = |run: &RunRow| {
        let least = if run.more { "at least " } else { "" };
        let until = run.until.map(|at| out.moment(at)).unwrap_or_default();
        let several = if run.times > 1 { format!("{least}{} times until {until}; ", run.times) } else { String::new() };
        one_line(&format!("{several}{}", run.reason.as_deref().unwrap_or_default()), 160)
    };
    out.table(runs)
        .column("DUE", |r| out.moment(r.fire_at))
        .column("WHY", |r| &r.cause)
        .column("OUTCOME", state)
        .ids("SESSION", |r| r.session_id)
        .column("COST", |r| r.cost_usd)
        .column("REASON", reason)
        .print("No runs yet");
}
