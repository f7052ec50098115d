//! `butlerd upgrade --check`: what a start would do to the database and what it would refuse, said before the start and
//! without a change.

use serde_json::{Value, json};

use crate::backup::prints::{at_rest, same};
use crate::support::tally::{TALLY, counting_model};
use crate::support::{Household, ports};
use crate::upgrades::{change, edited, of_tomorrow};

/// The exit code of a command, and both of its outputs.
fn typed(household: &Household, args: &[&str]) -> (i32, String) {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(args));
    (code, out + &err)
}

/// What it tells programs.
fn compared(household: &Household) -> (i32, Value) {
    let typed = ["upgrade", "--check", "--offline", "--json"];
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&typed));
    (code, serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {code} {out}{err}")))
}

/// Schema, chain and files of what a start would apply.
fn pending(said: &Value) -> Vec<(String, String, Vec<String>)> {
    serde_json::from_value::<Vec<Value>>(said["pending"].clone())
        .expect("a list")
        .iter()
        .map(|chain| {
            let text = |key: &str| chain[key].as_str().expect("a text").to_owned();
            (text("schema"), text("chain"), serde_json::from_value(chain["files"].clone()).expect("files"))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_changed_a_start_does_nothing() {
    let household = Household::few();
    let mut daemon = household.start().await;
    daemon.ready().await;
    let (code, said) = compared(&household);
    assert_eq!((code, &said["ok"], &said["database"]), (0, &json!(true), &json!("read")), "{said}");
    assert_eq!((&said["pending"], &said["refused"]), (&json!([]), &json!([])), "{said}");
    assert_eq!(said["running"], daemon.status().await["version"], "{said}");
    assert_eq!((&said["backup"], &said["check"]["ok"]), (&Value::Null, &json!(true)), "{said}");
    // For people, and with the roster's SQL.
    let (code, said) = typed(&household, &["upgrade", "--check"]);
    assert_eq!(code, 0, "{said}");
    for words in [
        "daemon    butlerd ",
        "to make one: butlerd backup FILE",
        "a start would apply no migrations",
        "All is well: 2 butlers",
        "Nothing stands in the way",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);

    let before = at_rest(&household.data()).await;
    let backups = household.data().join("backups");
    std::fs::create_dir_all(&backups).expect("a directory");
    std::fs::write(backups.join("butlerd-20200101T000000Z.backup"), "").expect("a backup");
    let (code, said) = compared(&household);
    assert_eq!((code, &said["ok"], &said["running"]), (0, &json!(true), &Value::Null), "{said}");
    assert_eq!(said["backup"]["at"], "2020-01-01T00:00:00Z", "{said}");
    assert!(said["backup"]["age_seconds"].as_i64().is_some_and(|age| age > 100_000_000), "{said}");
    same("after a look", &before, &at_rest(&household.data()).await);

    let (code, said) = typed(&household, &["upgrade"]);
    assert!(code == 2 && said.contains("package manager") && said.contains("butlerd upgrade --check"), "{code} {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_a_start_would_apply_are_named_chain_by_chain() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1);
    let (code, said) = compared(&household);
    assert_eq!((code, &said["ok"]), (0, &json!(true)), "{said}");
    let found = pending(&said);
    let chains: Vec<_> = found.iter().map(|(schema, chain, _)| (schema.as_str(), chain.as_str())).collect();
    assert_eq!(chains, [(TALLY, "core"), (TALLY, TALLY), (TALLY, "probe")], "{said}");
    assert_eq!(found[0].2[0], "sql/core/001_sessions.sql");
    assert!(found[1].2.len() == 1 && found[1].2[0].ends_with("tally/migrations/001_tally.sql"), "{said}");
    let mut daemon = household.start().await;
    daemon.ready().await;
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);
    let (_, said) = compared(&household);
    assert!(pending(&said).is_empty(), "{said}");

    let last = "DELETE FROM switchboard.schema_migrations WHERE chain = 'inbox' AND version =
                (SELECT max(version) FROM switchboard.schema_migrations WHERE chain = 'inbox')";
    change(&household, last).await;
    let (code, said) = compared(&household);
    let found = pending(&said);
    assert_eq!((code, found.len(), found[0].1.as_str(), found[0].2.len()), (0, 1, "inbox", 1), "{said}");
    let (_, told) = typed(&household, &["upgrade", "--check", "--offline"]);
    assert!(told.contains("a start would apply these migrations:\n") && told.contains(&found[0].2[0]), "{told}");

    // A butler whose own file is another one by now.
    let household = household.replace("tally/migrations/001_tally.sql", "mark text NOT NULL", "mark varchar NOT NULL");
    let (code, said) = compared(&household);
    assert_eq!((code, &said["refused"][0]["butler"], pending(&said).len()), (1, &json!(TALLY), 1), "{said}");
    let error = said["refused"][0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("001_tally.sql was applied to schema tally with another text"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_start_would_refuse_is_said_before() {
    let household = Household::few();
    let tidied = |schema: &str| format!("DELETE FROM {schema}.schema_migrations WHERE version = 999");
    for (made, undone, butler, words) in [
        (
            edited("sql || '-- edited'"),
            edited("left(sql, -length('-- edited'))"),
            Value::Null,
            "was applied to schema shared with another text",
        ),
        (
            of_tomorrow("shared", "shared"),
            tidied("shared"),
            Value::Null,
            "schema shared has version 999 of the chain `shared`, newer than this butlerd knows",
        ),
        (
            of_tomorrow("switchboard", "core"),
            tidied("switchboard"),
            json!("switchboard"),
            "schema switchboard has version 999 of the chain `core`, newer than this butlerd knows",
        ),
    ] {
        change(&household, &made).await;
        let (code, said) = compared(&household);
        assert_eq!((code, &said["ok"], &said["check"]["ok"]), (1, &json!(false), &json!(true)), "{said}");
        let refused = said["refused"].as_array().expect("a list");
        assert_eq!((refused.len(), &refused[0]["butler"]), (1, &butler), "{said}");
        assert!(refused[0]["error"].as_str().is_some_and(|error| error.contains(words)), "{words}: {said}");
        let (code, told) = typed(&household, &["upgrade", "--check", "--offline"]);
        assert!(code == 1 && told.contains(words) && !told.contains("Nothing stands in the way"), "{code} {told}");
        change(&household, &undone).await;
    }
    assert_eq!(compared(&household).0, 0);
}

/// It could not look at the database, and says why.
fn unknown(code: i32, said: &Value, why: &str) {
    assert_eq!((code, &said["ok"], &said["database"]), (1, &json!(false), &json!("unknown")), "{said}");
    assert!(said["refused"][0]["error"].as_str().is_some_and(|error| error.contains(why)), "{why}: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_nobody_could_read_is_not_called_well() {
    let (_taken, nobody) = ports::nobodys();
    let household = Household::few();
    let away = Household::again(&household, "BUTLERD_DATABASE__URL", &format!("postgres://butlerd@{nobody}/butlers"));
    let (code, said) = compared(&away);
    unknown(code, &said, "the database can't be reached");

    // Without the key nobody reads it.
    let (key, aside) = (household.data().join("master.key"), household.path().join("master.key"));
    std::fs::rename(&key, &aside).expect("the key is put away");
    let (code, said) = compared(&household);
    unknown(code, &said, "there is no master key at");
    assert!(!key.exists(), "a look makes no key");
    let (code, told) = typed(&household, &["upgrade", "--check", "--offline", "--key", &aside.to_string_lossy()]);
    assert!(code == 0 && told.contains("a start would apply no migrations"), "{code} {told}");

    let wrong = Household::again(&household, "BUTLERD_OWNER__TIME_ZONE", "Nowhere/Land");
    let (code, said) = compared(&wrong);
    assert_eq!((code, &said["ok"], &said["database"]), (2, &json!(false), &json!("unknown")), "{said}");
    assert_eq!(said["check"]["mistakes"][0]["key"], "BUTLERD_OWNER__TIME_ZONE", "{said}");

    let fresh = Household::bare();
    let (code, said) = compared(&fresh);
    assert_eq!((code, &said["database"], &said["pending"]), (0, &json!("absent"), &json!([])), "{said}");
    assert!(!fresh.data().exists(), "a look makes no household");
    // A key without a database: the daemon's environment names a server that this command does not know.
    std::fs::create_dir(fresh.data()).expect("a directory");
    std::fs::copy(&aside, fresh.data().join("master.key")).expect("a key");
    let (code, said) = compared(&fresh);
    unknown(code, &said, "there is no household in");
}
