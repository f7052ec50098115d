//! Making a household, a butler and a tool out of nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::inbound::{ended, ingest, message};
use crate::support::{Household, Mcp, model};

/// Every file below a directory with its text.
fn files(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("the directory").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => drop(found.insert(path.clone(), std::fs::read_to_string(path).unwrap_or_default())),
        }
    }
    found
}

fn cli(household: &Household, args: &[&str]) -> (i32, String, String) {
    tokio::task::block_in_place(|| household.cli(args))
}

fn right(household: &Household, args: &[&str]) -> Value {
    let (code, out, err) = cli(household, &[args, &["--json"]].concat());
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}"))
}

/// What a reload did with one butler.
fn of(done: &Value, butler: &str) -> Value {
    let list = done["butlers"].as_array().unwrap_or_else(|| panic!("{done}"));
    list.iter().find(|b| b["name"] == butler).unwrap_or_else(|| panic!("no {butler} in {done}")).clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butler_out_of_nothing_serves_and_grows_a_tool() {
    let household = Household::whole();
    let daemon = household.start().await;
    let made = right(&household, &["new", "butler", "wine-cellar"]);
    let port = made["port"].as_u64().expect("a port");
    assert!((40107..40200).contains(&port), "{made}");
    assert_eq!(made["files"].as_array().map(Vec::len), Some(9), "{made}");
    assert_eq!(right(&household, &["check"])["ok"], true);
    let tested = right(&household, &["test", "wine-cellar"]);
    let cellar = &tested["butlers"][0];
    assert_eq!(
        (&cellar["tools"], &cellar["proven"], &cellar["scenarios"]),
        (&json!(1), &json!(1), &json!(3)),
        "{tested}"
    );
    let cellar = of(&right(&household, &["reload"]), "wine-cellar");
    assert_eq!((&cellar["change"], &cellar["state"]), (&json!("added"), &json!("up")), "{cellar}");
    let mcp =
        |port: &Value| Mcp::new(port.as_u64().and_then(|p| p.try_into().ok()).expect("a port"), Some(daemon.token()));
    let added = mcp(&cellar["port"]).ok("item_add", json!({"title": "Turn the bottles"})).await;
    assert_eq!((&added["title"], &added["already_there"]), (&json!("Turn the bottles"), &json!(false)));
    let schedules = mcp(&cellar["port"]).ok("schedule_list", json!({})).await;
    assert!(schedules.to_string().contains("due-items"), "{schedules}");
    let skill = mcp(&cellar["port"]).ok("skill_read", json!({"name": "items"})).await;
    assert!(skill.to_string().contains("item_add"), "{skill}");

    let made = right(&household, &["new", "tool", "wine-cellar", "item_count"]);
    assert_eq!(made["table"], "items", "{made}");
    assert_eq!(right(&household, &["check"])["ok"], true);
    let tested = right(&household, &["test", "wine-cellar"]);
    assert_eq!((&tested["butlers"][0]["proven"], &tested["ok"]), (&json!(2), &json!(true)), "{tested}");
    let done = right(&household, &["reload"]);
    let cellar = of(&done, "wine-cellar");
    assert_eq!(cellar["change"], "changed", "{cellar}");
    assert_eq!(mcp(&cellar["port"]).ok("item_count", json!({})).await["found"], 1);

    // Nothing is made over anything, and nothing that could not live.
    let before = files(&household.roster());
    for (args, code, why) in [
        (&["new", "butler", "wine-cellar"][..], 1, "wine-cellar exists already"),
        (&["new", "butler", "health"], 1, "health exists already"),
        (&["new", "butler", "Garden"], 2, "`Garden` can't be a butler's name"),
        (&["new", "butler", "../garden"], 2, "can't be a butler's name"),
        (&["new", "butler", "shared"], 2, "the name of what butlers share"),
        (&["new", "butler", "memory"], 2, "the name of a module"),
        (&["new", "butler", "public"], 1, "butler.db.schema"),
        (&["new", "tool", "wine-cellar", "item_count"], 1, "item_count.sql exists already"),
        (&["new", "tool", "wine-cellar", "Item"], 2, "can't be a tool's name"),
        (&["new", "tool", "wine-cellar", "state_get"], 2, "built in"),
        (&["new", "tool", "messenger", "post_count"], 1, "has no [modules.messenger]"),
        (&["new", "tool", "garden", "plant_count"], 1, "Make it: butlerd new butler garden"),
    ] {
        let (got, out, err) = cli(&household, args);
        assert!(got == code && err.contains(why), "{args:?}: {got} {out}{err}");
    }
    assert_eq!(files(&household.roster()), before);
    // The next one has another port, without a daemon. Which is up to who else listens on this machine.
    drop(daemon);
    let next = right(&household, &["new", "butler", "garden"])["port"].as_u64().expect("a port");
    assert!((40107..40200).contains(&next) && next != port, "{next}");
    assert_eq!(right(&household, &["check"])["ok"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_household_out_of_nothing_answers_within_three_minutes() {
    const KEY: &str = "sk-key-of-the-household-out-of-nothing";
    let model = model(json!([
        {"when": "Route the message in", "steps": [
            {"call": {"tool": "route_to_butler", "arguments": {"butler": "general", "prompt": "hello"}}}]},
        {"when": "hello", "steps": [{"say": "Good morning, Ada."}]},
    ]))
    .await;
    let household = Household::bare().env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &model.base_url());
    std::fs::remove_dir_all(household.roster()).expect("no roster");
    std::fs::remove_dir_all(household.path().join("config")).expect("no settings");
    let flags = ["init", "--owner", "Ada", "--zone", "Europe/Rome", "--butlers", "health", "--key-stdin"];
    for (args, why) in [
        (&["init"][..], "--owner NAME"),
        (&["init", "--owner", "Ada", "--zone", "Rome"], "`Rome` is not a time zone"),
        (&["init", "--owner", "Ada", "--butlers", "gardener"], "No butler `gardener` is shipped"),
        (&["init", "--owner", "Ada", "--key-from-env", "NOT_SET"], "NOT_SET is not set"),
    ] {
        let (code, out, err) = cli(&household, args);
        assert!(code == 2 && err.contains(why), "{args:?}: {code} {out}{err}");
        assert!(!household.roster().exists() && !household.path().join("config").exists(), "{args:?}");
    }
    let (code, out, err) = tokio::task::block_in_place(|| {
        household.cli_with_input(&[&flags[..], &["--json"]].concat(), &format!("{KEY}\n"))
    });
    let done: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {code} {out}{err}"));
    assert_eq!((done["made"].as_array().map(Vec::len), &done["there"]), (Some(2), &json!([])), "{done}");
    assert_eq!(done["key"], "ANTHROPIC_API_KEY", "{done}");
    assert_eq!(code, i32::from(done["doctor"]["problems"] != 0), "it ends as the doctor does: {done}");
    let mut names: Vec<String> = (std::fs::read_dir(household.roster()).expect("the roster").flatten())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["general", "health", "messenger", "shared", "switchboard"]);
    let settings = std::fs::read_to_string(household.path().join("config/butlerd.toml")).expect("the settings");
    assert!(settings.contains("name = \"Ada\"") && settings.contains("time_zone = \"Europe/Rome\""), "{settings}");
    assert!(files(&household.path().join("config")).values().all(|text| !text.contains(KEY)));
    assert_eq!(right(&household, &["check"])["ok"], true);

    // The first message.
    let daemon = household.start().await;
    let (status, accepted) = ingest(&daemon, &message("1", "c", "hello")).await;
    assert_eq!(status, 202, "{accepted}");
    let entry = ended(&daemon, accepted["request_id"].as_str().expect("an id")).await;
    assert_eq!(entry["replies"][0]["message"], "Good morning, Ada.", "{entry}");

    // A second time: it says what is there, and changes nothing.
    let before = files(&household.path().join("config"));
    let (code, out, err) = cli(&household, &flags);
    assert!(code == 1 && err.contains("config/butlerd.toml is there, with owner"), "{code} {out}{err}");
    assert!(err.contains("roster is there, with its butlers; nothing was changed"), "{err}");
    let again = ["init", "--key-stdin"];
    let (code, out, err) = tokio::task::block_in_place(|| household.cli_with_input(&again, "another\n"));
    assert!(code == 1 && err.contains("ANTHROPIC_API_KEY is stored already"), "{code} {out}{err}");
    let (_, out, err) = cli(&household, &["init"]);
    assert!(out.matches("there").count() >= 2 && out.contains("butlerd chat"), "{out}{err}");
    assert_eq!(files(&household.path().join("config")), before);
    if !Path::new("/run/systemd/system").exists() {
        let (code, out, err) = cli(&household, &["init", "--service"]);
        assert!(code == 1 && out.contains("No service was installed"), "{code} {out}{err}");
        assert!(out.contains("systemctl enable --now butlerd"), "{out}");
    }
    let unit = cli(&household, &["init", "--print-unit"]).1;
    assert!(unit.contains("ExecReload=/usr/local/bin/butlerd reload"), "{unit}");
}
