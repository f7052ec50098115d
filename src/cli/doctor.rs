//! `butlerd doctor`

use super::common::PostgresArgs;
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::text::{count, one_line};
use super::{Outcome, Place, runtime};
use config::{Environment, Overrides};
use offline::doctor::{Level, Report, examine};

pub fn run(place: Place, postgres: PostgresArgs) -> Outcome {
    let overrides = Overrides { pg_bin: postgres.pg_bin, pg_bundle: postgres.pg_bundle, ..place.overrides };
    let report = look(&overrides, &place.environment, true)?;
    place.out.answer(&report, show)?;
    Ok(if report.problems > 0 { FAILED } else { 0 })
}

/// Looks at everything; `models`: and tries them.
pub fn look(overrides: &Overrides, environment: &Environment, models: bool) -> Result<Report, Problem> {
    Ok(runtime()?.block_on(examine(overrides, environment, models)))
}

/// A level's word and colour.
pub fn mark(level: Level) -> (Tone, &'static str) {
    match level {
        Level::Ok => (Tone::Good, "ok"),
        Level::Warning => (Tone::Warn, "warning"),
        Level::Problem => (Tone::Bad, "problem"),
    }
}

pub fn show(out: &Out, report: &Report) {
    let mut topic = "";
    for (i, finding) in report.findings.iter().enumerate() {
        if finding.topic != topic {
            topic = finding.topic;
            out.toned(Tone::Head, topic);
        }
        let (tone, word) = mark(finding.level);
        out.line(&format!("  {}  {}", out.paint(tone, &format!("{word:<7}")), one_line(&finding.text, 2000)));
        // Several findings with one remedy: it is told once, below the last of them.
        let next = report.findings.get(i + 1).and_then(|f| f.advice.as_ref());
        if let Some(advice) = finding.advice.as_ref().filter(|advice| next != Some(*advice)) {
            out.line(&format!("           {}", out.paint(Tone::Faint, advice)));
        }
    }
    out.line("");
    out.line(&summary(report));
}

fn summary(report: &Report) -> String {
    let warnings = count(report.warnings, "warning");
    match (report.problems, report.warnings) {
        (0, 0) => "All is well.".to_owned(),
        (0, _) => format!("No problem, {warnings}."),
        (n, _) => format!("{}, {warnings}.", count(n, "problem")),
    }
}
