//! `butlerd check`

use clap::Args;
use offline::check::{Report, check};

use super::out::{Out, Tone};
use super::problem::USAGE;
use super::serve::on_all_cores;
use super::text::count;
use super::{Outcome, Place};

/// `check`
#[derive(Debug, Clone, Default, Args)]
pub struct CheckArgs {
    /// Skip trying the roster's SQL on a scratch database
    #[arg(long)]
    pub offline: bool,
}

pub fn run(place: &Place, args: &CheckArgs) -> Outcome {
    let report = on_all_cores(check(&place.overrides, &place.environment, !args.offline))?;
    place.out.answer(&report, show)?;
    Ok(if report.ok { 0 } else { USAGE })
}

/// Tells every mistake, or where the household is.
pub fn show(out: &Out, report: &Report) {
    report.mistakes.iter().for_each(|mistake| out.line(&mistake.to_string()));
    out.line(&summary(out, report));
    if let Some(why) = &report.untried {
        let note = "The roster's SQL was not tried on a database (--offline skips that):";
        out.line(&format!("{} {why}", out.paint(Tone::Warn, note)));
    }
}

fn summary(out: &Out, report: &Report) -> String {
    let mistakes = || out.paint(Tone::Bad, &format!("{}.", count(report.mistakes.len(), "mistake")));
    let Some(start) = &report.start else { return format!("{} The household would not start.", mistakes()) };
    let butlers = count(start.butlers.len(), "butler");
    if report.ok {
        let settings = match &start.config_file {
            Some(file) => format!("the settings of {}", file.display()),
            None => "default settings".to_owned(),
        };
        let well = out.paint(Tone::Good, "All is well:");
        return format!("{well} {butlers} in {}, with {settings}.", start.roster.display());
    }
    let parked = match start.parked.as_slice() {
        [] => "none parked".to_owned(),
        names => format!("parked: {}", names.join(", ")),
    };
    format!("{} The household would start with {butlers}; {parked}.", mistakes())
}
