//! What connecting calendars and address books has in common: choosing among what an account has, storing what opens it, and
//! its settings.

use std::collections::BTreeSet;
use std::io::IsTerminal;

use serde_json::{Value, json};

use super::super::caller::Caller;
use super::super::out::Out;
use super::super::problem::{FAILED, Problem};
use super::super::{Outcome, prompt};
use super::good;
use admin::api::SecretsApiClient;
use base::Secret;
use config::{Environment, Overrides};
use offline::setup::{AccountPlace, Follower, WrittenAccount, write_account};

/// As many as `[modules.calendar] calendars` takes.
const MOST: usize = 50;
/// What a name in settings may have, in bytes.
const LONGEST_NAME: usize = 200;

/// A calendar or an address book that an account has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub name: String,
    /// Its path or id at the provider.
    pub place: String,
    pub read_only: bool,
}

impl Found {
    /// As settings name it: by its name, or by its place where the name says too little.
    pub fn setting(&self, all: &[Self]) -> String {
        let alone = all.iter().filter(|other| other.name == self.name).count() == 1;
        let fits = !self.name.trim().is_empty() && self.name.len() <= LONGEST_NAME;
        if alone && fits { self.name.clone() } else { self.place.clone() }
    }

    /// By its name or its path.
    fn is(&self, named: &str) -> bool {
        self.name == named || self.place.trim_matches('/') == named.trim_matches('/')
    }

    /// By what its path ends with.
    fn ends(&self, named: &str) -> bool {
        self.place.trim_matches('/').rsplit('/').next() == Some(named)
    }
}

/// What is there, one a line, each with the number that chooses it.
fn show(out: &Out, all: &[Found]) {
    for (n, found) in (1..).zip(all) {
        let note = if found.read_only { ", which this account only reads" } else { "" };
        out.aside(&format!("  {n}  {}{note}", found.setting(all)));
    }
}

fn nothing_changed(why: &str, next: &str) -> Problem {
    Problem::new(FAILED, "not_connected", format!("Nothing was changed: {why}."), next)
}

fn names(all: &[Found]) -> String {
    all.iter().take(20).map(|found| format!("`{}`", found.setting(all))).collect::<Vec<_>>().join(", ")
}

/// The calendars that are wanted, as settings name them: those that are named, else those that the owner picks, or all
/// where there is nobody to ask. Those that can be written come first, because new events go into the first.
pub(super) fn chosen(out: &Out, all: &[Found], named: &[String], ask: bool) -> Result<Vec<String>, Problem> {
    if all.is_empty() {
        return Err(nothing_changed("the account has no calendar", "Make one there first."));
    }
    if !named.is_empty() {
        let mut picked: Vec<&Found> = Vec::new();
        for name in named {
            let whole: Vec<&Found> = all.iter().filter(|found| found.is(name)).collect();
            let found = if whole.is_empty() { all.iter().filter(|found| found.ends(name)).collect() } else { whole };
            match found.as_slice() {
                [one] if picked.contains(one) => {}
                [one] => picked.push(one),
                [] => return Err(nothing_changed(&format!("there is no `{name}`; there are: {}", names(all)), "")),
                _ => {
                    let why = format!("several are called `{name}`; name one by its path: {}", places(&found));
                    return Err(nothing_changed(&why, ""));
                }
            }
        }
        return Ok(picked.iter().map(|found| found.setting(all)).collect());
    }
    let mut in_order: Vec<Found> = all.to_vec();
    in_order.sort_by_key(|found| found.read_only);
    show(out, &in_order);
    let picked = match ask && in_order.len() > 1 {
        true => loop {
            let question = "Which of them, by numbers or names with commas between; new events go into the first";
            match picked(&in_order, &prompt::line(question, "all")?) {
                Ok(picked) => break picked,
                Err(why) => out.aside(&why),
            }
        },
        false => (0..in_order.len()).collect(),
    };
    if picked.len() > MOST {
        let why = format!("{} calendars are more than the {MOST} that a butler follows", picked.len());
        return Err(nothing_changed(&why, "Name some with --calendar."));
    }
    Ok(picked.into_iter().map(|n| in_order[n].setting(all)).collect())
}

/// The keys that say which calendars.
pub(super) fn calendar_keys(
    out: &Out,
    all: &[Found],
    named: &[String],
    private: &[String],
) -> Result<Vec<(&'static str, Value)>, Problem> {
    let names = chosen(out, all, named, std::io::stdin().is_terminal())?;
    let mut keys = vec![("calendars", json!(names))];
    if !private.is_empty() {
        let known: Vec<Found> = all.iter().filter(|found| names.contains(&found.setting(all))).cloned().collect();
        let private = chosen(out, &known, private, false)?;
        keys.push(("private", json!(private)));
    }
    Ok(keys)
}

fn places(found: &[&Found]) -> String {
    found.iter().map(|found| format!("`{}`", found.place)).collect::<Vec<_>>().join(", ")
}

/// What somebody typed means: names, or numbers as they were shown. Each once, in the order in which it was typed.
fn picked(shown: &[Found], typed: &str) -> Result<Vec<usize>, String> {
    if typed.trim().eq_ignore_ascii_case("all") {
        return Ok((0..shown.len()).collect());
    }
    let (mut seen, mut picked) = (BTreeSet::new(), Vec::new());
    for word in typed.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let named = || shown.iter().position(|found| found.is(word));
        let numbered = || word.parse::<usize>().ok().filter(|n| (1..=shown.len()).contains(n)).map(|n| n - 1);
        let ending = || shown.iter().position(|found| found.ends(word));
        // What was shown with a number is meant by it, whatever else ends so.
        let n = named().or_else(numbered).or_else(ending).ok_or_else(|| format!("There is no `{word}`."))?;
        if seen.insert(n) {
            picked.push(n);
        }
    }
    if picked.is_empty() { Err("Nothing was named.".to_owned()) } else { Ok(picked) }
}

/// The one that is wanted, as settings name it.
pub(super) fn one(out: &Out, what: &str, flag: &str, all: &[Found], named: Option<&str>) -> Result<String, Problem> {
    match (all, named) {
        ([], _) => Err(nothing_changed(&format!("the account has no {what}"), "Make one there first.")),
        ([only], None) => {
            show(out, all);
            Ok(only.setting(all))
        }
        (_, Some(named)) => Ok(chosen(out, all, &[named.to_owned()], false)?.remove(0)),
        (_, None) if std::io::stdin().is_terminal() => {
            show(out, all);
            loop {
                match picked(all, &prompt::line(&format!("Which {what}, by its number or name"), "1")?).as_deref() {
                    Ok([one]) => break Ok(all[*one].setting(all)),
                    Ok(_) => out.aside("Name one."),
                    Err(why) => out.aside(why),
                }
            }
        }
        (_, None) => {
            let why = format!("there are several: {}", names(all));
            Err(nothing_changed(&why, &format!("Name one with {flag} NAME.")))
        }
    }
}

/// Writes the settings and stores what opens the account; if that fails, the settings are as they were. Settings that are
/// there already stay as they are.
pub(super) async fn finish(
    caller: &Caller,
    (place, follower, keys): (&AccountPlace, Follower, &[(&str, Value)]),
    opens: &Secret<String>,
    (overrides, environment): &(Overrides, Environment),
    account: Value,
) -> Outcome {
    let out = &caller.out;
    let written = write_account(overrides, environment, place, follower, keys)?;
    store(caller, &place.secret, opens, written.as_slice()).await?;
    told(out, place, written.is_some());
    let changed: Vec<_> = written.iter().map(|_| &place.file).collect();
    let said = json!({"status": "connected", "account": account, "butler": place.butler, "secret": place.secret,
                      "changed": changed});
    out.answer(&said, |out, _| next(out, &[(follower, place)]))
}

/// Stores what opens an account, or takes back what was written for it.
pub(super) async fn store(
    caller: &Caller,
    secret: &str,
    opens: &Secret<String>,
    written: &[WrittenAccount],
) -> Result<(), Problem> {
    let stored = match caller.quick() {
        Ok(client) => caller.got(client.secret_set(secret.to_owned(), opens.clone().into()).await).map(drop),
        Err(e) => Err(e),
    };
    if let Err(why) = stored {
        written.iter().rev().try_for_each(WrittenAccount::take_back)?;
        return Err(why);
    }
    good(&caller.out, &format!("what opens it is stored as {secret}, encrypted"));
    Ok(())
}

/// Says where the settings are.
pub(super) fn told(out: &Out, place: &AccountPlace, new: bool) {
    let file = place.file.display();
    match new {
        true => {
            good(out, &format!("written for the butler {}: {file}", place.butler));
            if !place.local.is_empty() {
                let others = place.local.join(", ");
                out.aside(&format!("The household's own calendar stays that of: {others}. Run this again with --butler for each that is to see these."));
            }
        }
        false => {
            out.aside(&format!("The settings of {} were there already and stay as they are: {file}", place.butler))
        }
    }
}

/// What comes next.
pub(super) fn next(out: &Out, followed: &[(Follower, &AccountPlace)]) {
    let command = |(follower, place): &(Follower, &AccountPlace)| match (follower, place.butler.as_str()) {
        // As the commands themselves find the butler.
        (Follower::Contacts, "relationship") => "butlerd contacts sync".to_owned(),
        (Follower::Contacts, butler) => format!("butlerd contacts sync --butler {butler}"),
        (Follower::Calendar, butler) => format!("butlerd calendar sync --butler {butler}"),
    };
    let commands: Vec<String> = followed.iter().map(command).collect();
    out.line(&format!("Restart butlerd or run `butlerd reload`. Then: {}", commands.join(" · ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, place: &str) -> Found {
        Found { name: name.to_owned(), place: place.to_owned(), read_only: false }
    }

    #[test]
    fn numbers_names_and_paths_pick_each_once() {
        let all = [found("Home", "/a/1/"), found("2", "/a/9/"), found("Work", "/a/4/"), found("Work", "/a/w/")];
        assert_eq!(picked(&all, "all"), Ok(vec![0, 1, 2, 3]));
        assert_eq!(picked(&all, "3, Home,,3"), Ok(vec![2, 0]));
        // A name comes before a number, and a path is a name.
        assert_eq!(picked(&all, "2"), Ok(vec![1]));
        assert_eq!(
            (picked(&all, "/a/4"), picked(&all, "4"), picked(&all, "w")),
            (Ok(vec![2]), Ok(vec![3]), Ok(vec![3]))
        );
        for wrong in ["5", "0", "Garden", ","] {
            assert!(picked(&all, wrong).is_err(), "{wrong}");
        }
        let settings: Vec<String> = all.iter().map(|one| one.setting(&all)).collect();
        assert_eq!(settings, ["Home", "2", "/a/4/", "/a/w/"]);
    }
}
