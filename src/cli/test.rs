//! `butlerd test`

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::serve::on_all_cores;
use super::text::count;
use super::{Outcome, Place};
use offline::scenario::{Report, run as play};

/// `test`
#[derive(Debug, Clone, Default, Args)]
pub struct TestArgs {
    /// Only these butlers [default: all]
    #[arg(value_name = "BUTLER")]
    pub butlers: Vec<String>,
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Let HTTP tools ask the network for what no recording answers, and record it in the butler's tests/http/
    #[arg(long)]
    pub record: bool,
    /// On the household of this data directory, which goes on meanwhile: for the tests of upgrades
    #[arg(long, value_name = "DIR", hide = true)]
    pub on: Option<PathBuf>,
}

pub fn run(place: &Place, args: &TestArgs) -> Outcome {
    let (only, on) = (args.only.as_deref(), args.on.as_deref());
    let played = on_all_cores(play(&place.overrides, &place.environment, &args.butlers, only, args.record, on))?;
    let reports = played.map_err(|why| Problem::new(FAILED, "test", format!("Nothing was tested: {why}"), ""))?;
    Ok(show(&place.out, &reports))
}

/// Tells what came of it. Returns the exit code.
fn show(out: &Out, reports: &[Report]) -> i32 {
    let good = reports.iter().all(Report::is_good);
    if out.json {
        out.value(&json!({"ok": good, "butlers": reports}));
        return if good { 0 } else { FAILED };
    }
    for report in reports {
        for failure in &report.failures {
            let about = match failure.scenario.as_str() {
                "" => String::new(),
                name => format!("\"{name}\": "),
            };
            out.line(&format!("{}:{}: {about}{}", failure.file.display(), failure.line, failure.problem));
        }
        let mut by_lack: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (tool, lacks) in report.lacking.iter().flatten() {
            by_lack.entry(lacks.join(", ")).or_default().push(tool);
        }
        for (lacks, tools) in by_lack {
            out.line(&format!("{}: no evidence of {lacks} for {}", report.butler, tools.join(", ")));
        }
    }
    for report in reports {
        let (tone, word) = if report.is_good() { (Tone::Good, "ok") } else { (Tone::Bad, "FAILED") };
        let failed = match report.failures.len() {
            0 => String::new(),
            n => format!(", {n} failed"),
        };
        out.line(&format!(
            "{:14} {}  {} of {} proven, {}, {}{failed}",
            report.butler,
            out.paint(tone, word),
            report.proven,
            count(report.tools, "tool"),
            count(report.scenarios, "scenario"),
            count(report.steps, "step"),
        ));
    }
    let sum = |of: fn(&Report) -> usize| reports.iter().map(of).sum::<usize>();
    out.line(&format!(
        "{} with success, refusal and tenant scenarios, of {}; {} played.",
        count(sum(|r| r.proven), "tool"),
        sum(|r| r.tools),
        count(sum(|r| r.scenarios), "scenario"),
    ));
    if good { 0 } else { FAILED }
}
