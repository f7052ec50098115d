//! `butlerd check`

use serde_json::json;

use super::out::{Out, Tone, count};
use super::problem::USAGE;
use super::{Desk, Outcome};
use crate::butler::own_tools;
use crate::config::{Household, Mistake, Refused, load};
use crate::modules::{Catalog, StrictCatalog};

pub fn run(desk: &Desk) -> Outcome {
    // Every mistake is told, those in modules' settings, too; a butler that has only such ones would start without the
    // module, so what would happen is asked in the way of a start.
    let strict = load(&desk.overrides, &desk.environment, &StrictCatalog::new(own_tools));
    let start = load(&desk.overrides, &desk.environment, &Catalog::default());
    Ok(show(desk.out, &strict, &start))
}

/// Tells every mistake, or where the household is. Returns the exit code.
fn show(out: Out, strict: &Result<Household, Refused>, start: &Result<Household, Refused>) -> i32 {
    let mistakes: Vec<&Mistake> = match strict {
        Ok(household) => household.mistakes().collect(),
        Err(refused) => refused.mistakes().collect(),
    };
    if out.json {
        out.value(&as_json(start, &mistakes));
    } else {
        for mistake in &mistakes {
            out.line(&mistake.to_string());
        }
        out.line(&summary(out, start, mistakes.len()));
    }
    if mistakes.is_empty() { 0 } else { USAGE }
}

fn as_json(found: &Result<Household, Refused>, mistakes: &[&Mistake]) -> serde_json::Value {
    let mut shown = json!({"ok": mistakes.is_empty(), "mistakes": mistakes});
    if let Ok(household) = found {
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
