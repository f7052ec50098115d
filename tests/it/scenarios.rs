//! `butlerd test`: what it says of scenarios that don't hold, and of those that prove nothing.

use std::path::Path;
use std::process::Command;

use crate::support::{Household, butlerd};

/// What it said, and its exit code.
fn test(roster: &Path, more: &[&str]) -> (i32, String) {
    let home = tempfile::tempdir().expect("a directory");
    let out = Command::new(butlerd())
        .current_dir(home.path())
        .arg("--roster")
        .arg(roster)
        .arg("test")
        .args(more)
        .output()
        .expect("butlerd test runs");
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    (out.status.code().unwrap_or(-1), said)
}

#[test]
fn calendars_of_a_server_are_the_scratch_household_s_own_in_scenarios() {
    let at_a_server = "\n[modules.calendar]\nprovider = \"caldav\"\nurl = \"https://dav.example.org/\"\nuser = \"ada\"\n\
                       calendars = [\"Family\"]\n";
    let household = Household::whole().with_module("travel", "calendar", at_a_server);
    let (code, said) = test(&household.roster(), &["travel", "--only", "A leg that overlaps"]);
    assert!(code == 0 && said.contains("1 scenario played"), "{code}: {said}");
}

/// Steps with one mistake each, and what is said of it.
const WRONG: &[(&str, &str)] = &[
    (
        "proves = \"success\"\ntools = [\"measurement_log\"]\n[[scenario.step]]\ncall = \"measurement_log\"\n\
         args = { kind = \"weight\", value = { kg = 80 } }\n",
        "it compares no rows after `measurement_log`",
    ),
    (
        "[[scenario.step]]\ncall = \"measurement_log\"\nargs = { kind = \"weight\", value = { kg = 80 } }\n\
         [[scenario.step]]\nrows = \"SELECT value FROM measurements\"\nexpect = [ { value = { kg = 81 } } ]\n",
        "0.value.kg is 80, not 81",
    ),
    (
        "[[scenario.step]]\nrows = \"SELECT * FROM finance.transactions\"\nexpect = []\n",
        "permission denied for schema finance",
    ),
    (
        "[[scenario.step]]\nrows = \"WITH x AS (DELETE FROM measurements RETURNING 1) SELECT * FROM x\"\nexpect = []\n",
        "rows: ",
    ),
    (
        "proves = \"refusal\"\ntools = [\"measurement_log\"]\n[[scenario.step]]\ncall = \"measurement_log\"\n\
         args = { kind = \"weight\" }\nrefused = \"value\"\n",
        "show a mistake of the trade",
    ),
    (
        "proves = \"tenant\"\ntools = [\"measurement_latest\"]\n[[scenario.step]]\ncall = \"measurement_latest\"\n\
         args = { kind = \"weight\" }\nnothing = true\n",
        "no other tenant calls `measurement_latest`",
    ),
    (
        "[[scenario.step]]\ncall = \"measurement_latest\"\nargs = { kind = \"weight\" }\nkeep = { id = \"id\" }\n",
        "keep: the result has no id",
    ),
    ("[[scenario.step]]\ncall = \"measurement_lost\"\n", "health has no tool `measurement_lost`"),
    ("[[scenario.step]]\njob = \"nothing\"\nexpect = []\n", "health has no job `nothing`"),
    ("[[scenario.step]]\ncall = \"state_get\"\nargs = { key = \"$x\" }\n", "nothing was kept as `x`"),
];

#[test]
fn a_scenario_that_does_not_hold_is_told_with_its_place() {
    let household = Household::whole();
    let tests = household.roster().join("health/tests");
    let _ = std::fs::remove_dir_all(&tests);
    std::fs::create_dir(&tests).expect("a directory");
    let mut text = String::new();
    let mut lines = Vec::new();
    for (n, (steps, _)) in WRONG.iter().enumerate() {
        lines.push(text.matches('\n').count() + 1);
        text.push_str(&format!("[[scenario]]\nname = \"wrong {n}\"\n{steps}"));
    }
    lines.push(usize::MAX);
    std::fs::write(tests.join("wrong.toml"), &text).expect("written");
    let (code, said) = test(&household.roster(), &["health"]);
    assert_eq!(code, 1, "{said}");
    for (n, (_, word)) in WRONG.iter().enumerate() {
        let line = said.lines().find(|line| line.contains(&format!("\"wrong {n}\":")));
        let line = line.unwrap_or_else(|| panic!("nothing of wrong {n}: {said}"));
        assert!(line.contains(word), "{line}");
        let place = line.split("wrong.toml:").nth(1).and_then(|rest| rest.split(':').next());
        let place: usize = place.and_then(|at| at.parse().ok()).expect("a line");
        assert!((lines[n]..lines[n + 1]).contains(&place), "wrong {n} stands in {place}: {line}");
    }
    assert!(said.contains("health: no evidence of success, refusal, tenant for "), "{said}");
    assert!(said.contains("10 failed"), "{said}");

    let (code, said) = test(&household.roster(), &["butcher"]);
    assert!(code == 1 && said.contains("there is no butler `butcher`"), "{code} {said}");
    std::fs::write(tests.join("wrong.toml"), "[[scenario]]\nname = 1\n").expect("written");
    let (code, said) = test(&household.roster(), &["health"]);
    assert!(code == 1 && said.contains("wrong.toml:2: "), "{code} {said}");
}

#[test]
fn every_tool_of_the_shipped_roster_has_its_scenarios_and_they_hold() {
    let (code, said) = test(&Path::new(env!("CARGO_MANIFEST_DIR")).join("roster"), &[]);
    assert_eq!(code, 0, "{said}");
    let last = said.lines().last().expect("a summary");
    let numbers: Vec<usize> = last.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    assert!(numbers[0] == numbers[1] && numbers[0] >= 133, "every tool, and at least those of the trade: {last}");
}

#[test]
fn what_a_butler_needs_from_outside_stands_in_the_way_of_no_scenario() {
    let door = "\n[modules.webhook.endpoints.door]\nurl = \"http://127.0.0.1:9/\"\n\
                secret = \"DOOR_SECRET_OF_NOBODY\"\n";
    let household =
        Household::whole().replace("health/butler.toml", "required = []", "required = [\"FEED_KEY_OF_NOBODY\"]");
    let toml = std::fs::read_to_string(household.roster().join("health/butler.toml")).expect("the file");
    let household = household.write("health/butler.toml", &format!("{toml}{door}"));
    let (code, said) = test(&household.roster(), &["health", "--only", "condition"]);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains(" 0 scenarios"), "something was played: {said}");
}
