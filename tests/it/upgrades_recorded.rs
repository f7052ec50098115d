//! What older programs left: today's brings each recorded state up to date, shows what was in it, does what was still to
//! be done, and its roster's scenarios hold there. `tests/data/upgrades/record.py` records states and says what is of one.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use what_was_left_out::left_out;

use crate::backup::prints::{Prints, at_rest, prints, same, server};
use crate::support::council::council_of;
use crate::support::{Daemon, Household, Receiver, eventually, model};
use crate::upgrades::change;

/// A household as it was under an older program.
struct State {
    dir: PathBuf,
    /// The SQL that makes its roles and its database.
    sql: String,
    /// Its `state.json`.
    says: Value,
}

/// All that were recorded; `None`: they can't be unpacked here, and `test` has said so.
fn states(test: &str) -> Option<Vec<State>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/upgrades");
    let entries = std::fs::read_dir(root).expect("the states").flatten().map(|entry| entry.path());
    let mut dirs: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    dirs.sort();
    assert!(!dirs.is_empty(), "no state is recorded");
    let mut states = Vec::new();
    for dir in dirs {
        let Ok(unpacked) = Command::new("xz").arg("-dc").arg(dir.join("household.sql.xz")).output() else {
            left_out(test, "xz is not installed");
            return None;
        };
        assert!(unpacked.status.success(), "{}: {unpacked:?}", dir.display());
        let sql = String::from_utf8(unpacked.stdout).expect("SQL");
        let says = std::fs::read_to_string(dir.join("state.json")).expect("what it holds");
        states.push(State { dir, sql, says: serde_json::from_str(&says).expect("JSON") });
    }
    Some(states)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().map(text).collect()
}

/// Runs a command; its exit code, and all that it said.
fn cli(household: &Household, args: &[&str]) -> (i32, String) {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(args));
    (code, out + &err)
}

/// Whether a command prints its words.
fn holds(household: &Household, shown: &Value) -> Result<(), String> {
    let command = texts(&shown["command"]);
    let (code, said) = cli(household, &command);
    let lost: Vec<&str> = texts(&shown["words"]).into_iter().filter(|word| !said.contains(*word)).collect();
    match code == 0 && lost.is_empty() {
        true => Ok(()),
        false => Err(format!("{command:?} exits with {code} and lacks {lost:?}: {said}")),
    }
}

/// Of each table how many rows it has.
fn rows(prints: &Prints) -> BTreeMap<&str, u64> {
    let count = |print: &String| print.split_once(" rows ")?.0.parse::<u64>().ok();
    prints.iter().filter_map(|(table, print)| Some((table.as_str(), count(print)?))).collect()
}

/// Of what a database holds what its migrations made: not the rows, and not where sequences stand.
fn made(prints: Prints) -> Prints {
    prints.into_iter().filter(|(what, _)| what.contains(' ')).collect()
}

impl State {
    fn name(&self) -> String {
        self.dir.display().to_string()
    }

    /// The roster of today with the settings of this household, at its moment. Its models are at `model`.
    fn household(&self, model: &str, receiver: &Receiver) -> Household {
        let mut household = Household::bare().and_workshop();
        for (butler, lines) in self.says["roster"].as_object().expect("lines of butlers") {
            let lines = text(lines).replace("http://model.invalid", model);
            let lines = lines.replace("http://127.0.0.1:9/hook", &receiver.url());
            household = match butler.as_str() {
                "council" => council_of(household, &lines),
                _ => {
                    let file = format!("{butler}/butler.toml");
                    let shipped = std::fs::read_to_string(household.roster().join(&file)).expect("the file");
                    household.write(&file, &(shipped + &lines))
                }
            };
        }
        let clock = household.path().join("clock").to_string_lossy().into_owned();
        household.set_clock(text(&self.says["at"]));
        household
            .env("BUTLERD_CLOCK_FILE", &clock)
            .env("BUTLERD_OWNER__TIME_ZONE", text(&self.says["zone"]))
            .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", model)
    }

    /// Gives a household without a data directory this one's key and database.
    async fn lay(&self, household: &Household) {
        let data = household.data();
        std::fs::create_dir(&data).expect("the data directory");
        let key = data.join("master.key");
        std::fs::copy(self.dir.join("master.key"), &key).expect("the key");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        change(household, "CREATE DATABASE butlers").await;
        change(household, &self.sql).await;
    }

    /// What is left to do, and what comes of it.
    async fn goes_on(&self, household: &Household) {
        for step in list(&self.says["steps"]) {
            let step = texts(step);
            let (code, said) = cli(household, &step);
            assert_eq!(code, 0, "{step:?}: {said}");
        }
        let later = &self.says["later"];
        let at: Timestamp = text(&self.says["at"]).parse().expect("a time");
        let minutes = later["minutes"].as_i64().expect("a number");
        household.set_clock(&(at + SignedDuration::from_mins(minutes)).to_string());
        for shown in list(&later["shown"]) {
            eventually(&self.name(), || async { holds(household, shown) }).await;
        }
        household.at_rest(&self.name()).await;
        household.all_delivered(&self.name()).await;
    }
}

/// Looks that all butlers are up, and all of their modules with them.
async fn all_up(daemon: &Daemon, name: &str) {
    daemon.ready().await;
    let status = daemon.status().await;
    for butler in list(&status["butlers"]) {
        let modules = butler["modules"].as_object().into_iter().flatten();
        let failed: Vec<_> = modules.filter(|(_, module)| module["health"] != "active").collect();
        assert!(butler["state"] == "up" && failed.is_empty(), "{name}: {failed:?} of {butler}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_older_program_left_is_brought_up_to_date_and_goes_on() {
    let Some(states) = states("what_an_older_program_left_is_brought_up_to_date_and_goes_on") else { return };
    for state in states {
        let name = state.name();
        let (model, receiver) = (model(state.says["model"].clone()).await, Receiver::start().await);
        let household = state.household(&model.base_url(), &receiver);
        state.lay(&household).await;
        let before = at_rest(&household.data()).await;

        let mut daemon = household.start().await;
        all_up(&daemon, &name).await;
        let after = prints(&household.owner().await).await;
        let (had, has) = (rows(&before), rows(&after));
        let lost: Vec<_> = had.iter().filter(|(table, count)| has.get(*table) < Some(*count)).collect();
        assert!(had.len() > 200 && lost.is_empty(), "{name}: rows of {lost:?} are lost");
        for shown in list(&state.says["shown"]) {
            let held = holds(&household, shown);
            assert!(held.is_ok(), "{name}: {held:?}");
        }
        state.goes_on(&household).await;
        assert_eq!(receiver.hooks().len(), 1, "{name}: {:?}", receiver.hooks());
        assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);

        // Nothing tells it from a household that today's program made.
        let new = state.household(&model.base_url(), &receiver);
        let mut daemon = new.start().await;
        daemon.ready().await;
        assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);
        same(&name, &made(at_rest(&new.data()).await), &made(at_rest(&household.data()).await));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scenarios_of_the_roster_hold_on_what_an_older_program_left() {
    let Some(states) = states("the_scenarios_of_the_roster_hold_on_what_an_older_program_left") else { return };
    for state in states {
        // What was still to be done finds no model.
        let household = Household::bare().env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", "http://127.0.0.1:9");
        state.lay(&household).await;
        let data = household.data();
        let (code, said) = cli(&household, &["test", "--on", data.to_str().expect("a path in UTF-8")]);
        assert_eq!(code, 0, "{}: {said}", state.name());
        let (cluster, client) = server(&data).await;
        let sql = "SELECT count(DISTINCT tenant_id) FROM health.measurements";
        let tenants: i64 = client.query_one(sql, &[]).await.expect("a count").get(0);
        assert!(tenants > 1, "{}: they were played elsewhere: {said}", state.name());
        drop(client);
        cluster.stop(std::time::Duration::from_secs(20)).await;
    }
}
