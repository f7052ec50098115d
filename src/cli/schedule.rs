//! `butlerd schedule`

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::out::{Out, Table, Tone, block, moment_of, one_line, text};
use super::problem::FAILED;
use super::{Caller, Outcome};
use admin::{ApiClient, SchedulePage};

/// `schedule`
#[derive(Debug, Subcommand)]
pub enum Schedule {
    /// All schedules: when they are due next, and how the last run ended
    List {
        /// Only this butler's
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
    },
    /// One schedule with its last runs
    Show(Which),
    /// Run one now, and wait for the end; its next time stays
    Run(Which),
    /// Let one rest; restarts and butler.toml don't change that
    Pause(Which),
    /// Let one go on
    Resume(Which),
    /// What became of its times, the newest first
    History {
        #[command(flatten)]
        which: Which,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
}

/// Names one schedule.
#[derive(Debug, Args)]
pub struct Which {
    /// Its name, or its id or the beginning of that
    pub schedule: String,
    /// Of this butler, where several have one of this name
    #[arg(long, value_name = "NAME")]
    pub butler: Option<String>,
}

pub async fn run(caller: Caller, what: Schedule) -> Outcome {
    let out = caller.out;
    match what {
        Schedule::List { butler } => {
            let page = caller.client.quick()?.schedule_list(butler, None).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&page),
                false => list(out, &page, &caller.zone()),
            }
        }
        Schedule::Show(Which { schedule, butler }) => {
            let calls = caller.client.quick()?;
            let shown = calls.schedule_show(schedule, butler, Some(5)).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&shown),
                false => show(out, &shown, &caller.zone()),
            }
        }
        Schedule::History { which: Which { schedule, butler }, limit } => {
            let calls = caller.client.quick()?;
            let shown = calls.schedule_show(schedule, butler, Some(limit)).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&shown["history"]),
                false => history(out, &shown["history"], &caller.zone()),
            }
        }
        Schedule::Run(Which { schedule, butler }) => {
            // It is answered when the run is over.
            let done = caller.client.patient()?.schedule_run(schedule, butler).await.map_err(caller.failed())?;
            let failed = done["status"] != "triggered";
            if out.json {
                out.value(&done);
            } else if failed {
                out.line(&out.paint(Tone::Bad, &format!("It failed: {}", one_line(text(&done, "error"), 1000))));
            } else {
                let result = done["result"].as_str().map(|r| format!(": {}", one_line(r, 1000))).unwrap_or_default();
                out.line(&format!("{} is done{result}.", text(&done, "name")));
            }
            if let (false, Some(session)) = (out.json, done["session_id"].as_str()) {
                out.line(&format!("Its session: butlerd sessions show {session}"));
            }
            return Ok(if failed { FAILED } else { 0 });
        }
        Schedule::Pause(which) => switch(&caller, which, false).await?,
        Schedule::Resume(which) => switch(&caller, which, true).await?,
    }
    Ok(0)
}

async fn switch(caller: &Caller, which: Which, on: bool) -> Result<(), super::problem::Problem> {
    let calls = caller.client.quick()?;
    let done = calls.schedule_switch(which.schedule, which.butler, on).await.map_err(caller.failed())?;
    let out = caller.out;
    let name = text(&done, "name");
    match (out.json, on) {
        (true, _) => out.value(&done),
        (false, false) => out.line(&format!("{name} rests until: butlerd schedule resume {name}")),
        (false, true) => match moment_of(&done, "next_run_at", &caller.zone()) {
            next if next.is_empty() => out.line(&format!("{name} goes on, but no time of it is left.")),
            next => out.line(&format!("{name} goes on; next at {next}.")),
        },
    }
    Ok(())
}

fn tone(state: &str) -> Tone {
    match state {
        "done" => Tone::Good,
        "failed" => Tone::Bad,
        "skipped" => Tone::Faint,
        _ => Tone::Warn,
    }
}

/// When it is due, in the words of whoever wrote it.
fn when(row: &Value, zone: &TimeZone) -> String {
    match (row["cron"].as_str(), row["every"].as_str()) {
        (Some(cron), _) => one_line(cron, 40),
        (None, Some(every)) => format!("every {every}"),
        (None, None) => format!("once, {}", moment_of(row, "at", zone)),
    }
}

fn next(row: &Value, zone: &TimeZone) -> String {
    match (row["paused"].as_bool(), row["enabled"].as_bool()) {
        (Some(true), _) => "paused".to_owned(),
        (_, Some(false)) => "off".to_owned(),
        _ => moment_of(row, "next_run_at", zone),
    }
}

fn cost(row: &Value) -> String {
    row["cost_usd"].as_str().map(|c| format!("${c}")).unwrap_or_default()
}

fn list(out: Out, page: &SchedulePage, zone: &TimeZone) {
    if page.schedules.is_empty() {
        out.line("There is no schedule yet.");
    } else {
        let mut table = Table::new(&["SCHEDULE", "BUTLER", "NAME", "WHEN", "NEXT", "LAST", "OUTCOME", "COST"]);
        for row in &page.schedules {
            let last = &row["last"];
            let state = text(last, "state");
            table.row(vec![
                (Tone::Faint, text(row, "id").to_owned()),
                (Tone::Plain, text(row, "butler").to_owned()),
                (Tone::Plain, one_line(text(row, "name"), 40)),
                (Tone::Plain, when(row, zone)),
                (Tone::Plain, next(row, zone)),
                (Tone::Plain, moment_of(last, "fire_at", zone)),
                (tone(state), state.to_owned()),
                (Tone::Plain, cost(last)),
            ]);
        }
        out.table(&table);
    }
    for missing in &page.unavailable {
        out.aside(&format!("Without {}: {}", missing.butler, one_line(&missing.reason, 500)));
    }
}

fn show(out: Out, row: &Value, zone: &TimeZone) {
    let field = |name: &str, value: &str| {
        if !value.is_empty() {
            out.line(&format!("{}  {value}", out.paint(Tone::Head, &format!("{name:<9}"))));
        }
    };
    field("schedule", text(row, "id"));
    field("name", &one_line(text(row, "name"), 100));
    field("butler", text(row, "butler"));
    field("when", &format!("{} ({})", when(row, zone), text(row, "timezone")));
    field("from", &moment_of(row, "start_at", zone));
    field("until", &moment_of(row, "until_at", zone));
    field("next", &next(row, zone));
    field("source", text(row, "source"));
    field("priority", &row["priority"].to_string());
    let idle = if row["require_idle"] == true { "; waits until its butler is idle" } else { "" };
    let missed = format!("{} within {}", text(row, "missed").replace('_', " "), text(row, "missed_window"));
    field("missed", &format!("{missed}; overlap: {}{idle}", text(row, "overlap")));
    match row["job_name"].as_str() {
        Some(job) => field(
            "job",
            &format!(
                "{} {}",
                one_line(job, 100),
                if row["job_args"].is_null() { String::new() } else { row["job_args"].to_string() }
            ),
        ),
        None => out.line(&format!("\n{}\n{}", out.paint(Tone::Head, "prompt"), block(text(row, "prompt")))),
    }
    out.line("");
    history(out, &row["history"], zone);
}

fn history(out: Out, runs: &Value, zone: &TimeZone) {
    let runs = runs.as_array().map(Vec::as_slice).unwrap_or_default();
    if runs.is_empty() {
        return out.line("It has not run yet.");
    }
    let mut table = Table::new(&["DUE", "WHY", "OUTCOME", "SESSION", "COST", "REASON"]);
    for run in runs {
        let state = text(run, "state");
        let several = match (run["times"].as_i64(), run["more"].as_bool()) {
            (Some(n), more) if n > 1 => {
                let least = if more == Some(true) { "at least " } else { "" };
                format!("{least}{n} times until {}; ", moment_of(run, "until", zone))
            }
            _ => String::new(),
        };
        table.row(vec![
            (Tone::Plain, moment_of(run, "fire_at", zone)),
            (Tone::Plain, text(run, "cause").to_owned()),
            (tone(state), state.to_owned()),
            (Tone::Plain, text(run, "session_id").to_owned()),
            (Tone::Plain, cost(run)),
            (Tone::Plain, one_line(&format!("{several}{}", text(run, "reason")), 160)),
        ]);
    }
    out.table(&table);
}
