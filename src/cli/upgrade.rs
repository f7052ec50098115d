//! `butlerd upgrade`

use std::path::PathBuf;

use clap::Args;

use super::check;
use super::common::PostgresArgs;
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem, USAGE};
use super::serve::on_all_cores;
use super::text::{one_line, span};
use super::{Outcome, Place};
use config::Overrides;
use offline::upgrade::{DatabaseState, Report, examine};

/// `upgrade`
#[derive(Debug, Args)]
pub struct UpgradeArgs {
    /// Compare the database with this program before the daemon is restarted; change nothing
    #[arg(long)]
    pub check: bool,
    /// The master key, if it is not in the data directory
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    #[command(flatten)]
    pub roster: check::CheckArgs,
    #[command(flatten)]
    pub postgres: PostgresArgs,
}

pub fn run(place: Place, args: UpgradeArgs) -> Outcome {
    if !args.check {
        let message = "The program is replaced by what installed it: the package manager, or who built it.";
        return Err(Problem::usage(message, "Before you restart the daemon: butlerd upgrade --check"));
    }
    let PostgresArgs { pg_bin, pg_bundle } = args.postgres;
    let overrides = Overrides { pg_bin, pg_bundle, ..place.overrides };
    let report = on_all_cores(examine(&overrides, &place.environment, args.key, !args.roster.offline))?;
    place.out.answer(&report, show)?;
    Ok(match report.ok {
        true => 0,
        false if report.check.ok => FAILED,
        false => USAGE,
    })
}

fn show(out: &Out, report: &Report) {
    out.line(&format!("program   butlerd {}", report.version));
    let running = report.running.as_ref().map(|version| format!("butlerd {}", one_line(version, 50)));
    out.line(&format!("daemon    {}", running.as_deref().unwrap_or("none is known to run")));
    let newest = report.backup.as_ref().map(|b| format!("{}, {} old", b.file.display(), span(b.age_seconds * 1000)));
    let newest = newest.as_deref().unwrap_or("none of the daemon's own is known");
    out.line(&format!("backup    {newest}; to make one: butlerd backup FILE"));
    let database = match report.database {
        DatabaseState::Absent => "none yet; the first start makes it",
        DatabaseState::Unknown => "nothing is known of it",
        DatabaseState::Read if report.pending.is_empty() => "a start would apply no migrations",
        DatabaseState::Read => "a start would apply these migrations:",
    };
    out.line(&format!("database  {database}"));
    for pending in &report.pending {
        let file = |file: &String| out.line(&format!("          {}: {}", pending.schema, one_line(file, 500)));
        pending.files.iter().for_each(file);
    }
    for refused in &report.refused {
        let (word, whose) = (out.paint(Tone::Bad, "refused "), refused.butler.as_deref().unwrap_or("everything"));
        out.line(&format!("{word}  {whose}: {}", one_line(&refused.error, 2000)));
    }
    check::show(out, &report.check);
    match report.ok {
        true => out.toned(Tone::Good, "Nothing stands in the way of a start."),
        false => out.toned(Tone::Bad, "A start would be refused, or leave out what is named above."),
    }
}
