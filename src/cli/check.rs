//! `butlerd check`

use std::path::Path;

use serde_json::json;

use super::args::CheckArgs;
use super::out::{Out, Tone, count};
use super::problem::{Problem, USAGE};
use super::serve::on_all_cores;
use super::{CommandContext, Outcome};
use butler::own_tools;
use config::{ButlerConfig, Household, Mistake, Refused, load};
use modules::{Catalog, StrictCatalog};
use scenario::mentions;
use supervisor::rehearse;

pub fn run(context: &CommandContext, args: &CheckArgs) -> Outcome {
    // Every mistake is told, those in modules' settings, too; a butler that has only such ones would start without the
    // module, so what would happen is asked in the way of a start.
    let strict = load(&context.overrides, &context.environment, &StrictCatalog::new(own_tools, mentions));
    let start = load(&context.overrides, &context.environment, &Catalog::default());
    let mut found = Found { mistakes: told(&strict), start, untried: None };
    if !args.offline {
        found.rehearse()?;
    }
    Ok(show(context.out, &found))
}

/// What the strict look tells, each once: what butlers share is looked at with each of them.
fn told(strict: &Result<Household, Refused>) -> Vec<Mistake> {
    let all: Vec<&Mistake> = match strict {
        Ok(household) => household.mistakes().collect(),
        Err(refused) => refused.mistakes().collect(),
    };
    let mut mistakes: Vec<Mistake> = Vec::new();
    for mistake in all {
        if !mistakes.contains(mistake) {
            mistakes.push(mistake.clone());
        }
    }
    mistakes
}

/// All that was found.
struct Found {
    mistakes: Vec<Mistake>,
    /// What a start would make of it.
    start: Result<Household, Refused>,
    /// Why the SQL was not tried, where it should have been.
    untried: Option<String>,
}

impl Found {
    /// Tries the SQL of the butlers that would start, but for those in whose SQL there are mistakes already.
    fn rehearse(&mut self) -> Result<(), Problem> {
        let Ok(household) = &self.start else { return Ok(()) };
        let is_sql = |m: &&Mistake| m.file.extension().is_some_and(|e| e == "sql");
        let broken = |butler: &ButlerConfig| {
            let dir = butler.file.parent().unwrap_or(Path::new(""));
            self.mistakes.iter().filter(is_sql).any(|m| m.file.starts_with(dir))
        };
        let butlers: Vec<ButlerConfig> = household.butlers.iter().filter(|b| !broken(b)).cloned().collect();
        match on_all_cores(rehearse(&household.config, &butlers))? {
            Ok(more) => self.mistakes.extend(more),
            Err(why) => self.untried = Some(why),
        }
        Ok(())
    }
}

/// Tells every mistake, or where the household is. Returns the exit code.
fn show(out: Out, found: &Found) -> i32 {
    let mistakes = &found.mistakes;
    if out.json {
        out.value(&as_json(found));
    } else {
        for mistake in mistakes {
            out.line(&mistake.to_string());
        }
        out.line(&summary(out, &found.start, mistakes.len()));
        if let Some(why) = &found.untried {
            let note = "The roster's SQL was not tried on a database (--offline leaves that out):";
            out.line(&format!("{} {why}", out.paint(Tone::Warn, note)));
        }
    }
    if mistakes.is_empty() { 0 } else { USAGE }
}

fn as_json(found: &Found) -> serde_json::Value {
    let mut shown = json!({"ok": found.mistakes.is_empty(), "mistakes": found.mistakes});
    if let Some(why) = &found.untried {
        shown["untried"] = json!(why);
    }
    if let Ok(household) = &found.start {
        let butlers: Vec<&str> = household.butlers.iter().map(|b| b.name.as_str()).collect();
        let parked: Vec<&str> = household.broken.iter().map(|b| b.name.as_str()).collect();
        shown["roster"] = json!(household.config.daemon.roster);
        shown["config_file"] = json!(household.config_file);
        shown["data_dir"] = json!(household.config.daemon.data_dir);
        shown["butlers"] = json!(butlers);
        shown["parked"] = json!(parked);
    }
    shown
}

fn summary(out: Out, found: &Result<Household, Refused>, mistakes: usize) -> String {
    match found {
        Ok(house) if mistakes == 0 => {
            let settings = match &house.config_file {
                Some(file) => format!("the settings of {}", file.display()),
                None => "default settings".to_owned(),
            };
            let butlers = count(house.butlers.len(), "butler");
            let roster = house.config.daemon.roster.display();
            format!("{} {butlers} in {roster}, with {settings}.", out.paint(Tone::Good, "All is well:"))
        }
        Ok(house) => {
            let parked: Vec<&str> = house.broken.iter().map(|b| b.name.as_str()).collect();
            let parked = match parked.as_slice() {
                [] => "none parked".to_owned(),
                names => format!("parked: {}", names.join(", ")),
            };
            let mistakes = out.paint(Tone::Bad, &format!("{}.", count(mistakes, "mistake")));
            format!("{mistakes} The household would start with {}; {parked}.", count(house.butlers.len(), "butler"))
        }
        Err(_) => {
            format!(
                "{} The household would not start.",
                out.paint(Tone::Bad, &format!("{}.", count(mistakes, "mistake")))
            )
        }
    }
}
