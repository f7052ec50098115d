//! A database that does not fit what is to run on it is refused at the start and left as it is: its migrations had
//! another text, or it is newer. A butler whose own files don't fit is refused alone.

use std::time::Duration;

use serde_json::json;

use crate::backup::prints::{at_rest, same, server};
use crate::support::tally::{TALLY, counting_model};
use crate::support::{Household, eventually};

/// Changes the database of a household that is stopped.
pub async fn change(household: &Household, sql: &str) {
    let (cluster, client) = server(&household.data()).await;
    client.batch_execute(sql).await.expect("a change");
    drop(client);
    cluster.stop(Duration::from_secs(20)).await;
}

/// A row of the history for a version that is not shipped yet.
pub fn of_tomorrow(schema: &str, chain: &str) -> String {
    format!(
        "INSERT INTO {schema}.schema_migrations (chain, version, name, sha256, duration_ms, sql, ordinal, after_shared)
         SELECT '{chain}', 999, 'of_tomorrow', sha256('SELECT 1'), 0, 'SELECT 1', max(ordinal) + 1, max(after_shared)
         FROM {schema}.schema_migrations"
    )
}

/// What a database looks like on which an edited file was applied: another text, and its digest.
pub fn edited(text: &str) -> String {
    format!(
        "UPDATE shared.schema_migrations SET sql = {text}, sha256 = sha256(convert_to({text}, 'UTF8'))
         WHERE chain = 'shared' AND version = 2"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_other_migrations_is_refused_and_left_as_it_is() {
    let household = Household::few();
    let tidied = "DELETE FROM shared.schema_migrations WHERE version = 999".to_owned();
    for (what, made, undone, told) in [
        (
            "an edited migration",
            edited("sql || '-- edited'"),
            edited("left(sql, -length('-- edited'))"),
            vec!["sql/shared/002_", "was applied to schema shared with another text"],
        ),
        (
            "a newer database",
            of_tomorrow("shared", "shared"),
            tidied,
            vec![
                "schema shared has version 999 of the chain `shared`",
                "newer than this butlerd knows",
                "restore a backup",
            ],
        ),
    ] {
        change(&household, &made).await;
        let before = at_rest(&household.data()).await;
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["serve"]));
        assert_ne!(code, 0, "{what}: {out}{err}");
        for words in told {
            assert!(err.contains(words) || out.contains(words), "{what}: {words}: {out}{err}");
        }
        same(what, &before, &at_rest(&household.data()).await);
        change(&household, &undone).await;
    }
    let daemon = household.start().await;
    daemon.ready().await;
}

/// Starts the household, whose butler [`TALLY`] may not use its own tables, and looks that nothing else is amiss.
async fn without_tables(household: &Household, words: &str) {
    let mut daemon = household.start().await;
    let failed = daemon.butler(TALLY).await["modules"][TALLY].clone();
    assert_eq!((&failed["health"], &failed["failure_phase"]), (&json!("failed"), &json!("migration")), "{failed}");
    assert!(failed["failure_error"].as_str().is_some_and(|error| error.contains(words)), "{words}: {failed}");
    daemon.ready().await;
    assert_eq!(household.counted("kept").await, 1);
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butler_of_other_migrations_is_refused_alone() {
    let model = counting_model(0).await;
    let first = "tally/migrations/001_tally.sql";
    let household = Household::few_with_model(&model).with_tally(1).migration(
        TALLY,
        "spare",
        "CREATE TABLE spare (n int);\nSELECT shared.tenant_table('spare');\n",
    );
    let mut daemon = household.start().await;
    let sql = "INSERT INTO tally.counted (mark, tenant_id, trust) VALUES ('kept', 'owner', 'system')";
    household.owner().await.batch_execute(sql).await.expect("a row");
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);

    // Its first file is edited.
    let household = household.replace(first, "mark text NOT NULL", "mark varchar NOT NULL");
    without_tables(&household, "001_tally.sql was applied to schema tally with another text").await;
    let household = household.replace(first, "mark varchar NOT NULL", "mark text NOT NULL");

    // An older roster is put back, which has not its last file.
    let last = household.roster().join("tally/migrations/002_spare.sql");
    let text = std::fs::read_to_string(&last).expect("the file");
    std::fs::remove_file(&last).expect("the file goes");
    without_tables(&household, "schema tally has version 2 of the chain `tally`, newer than this butlerd knows (1)")
        .await;
    std::fs::write(&last, text).expect("the file");

    // What butlerd itself keeps for it is newer: then there is no butler, and the others go on.
    change(&household, &of_tomorrow(TALLY, "core")).await;
    let mut daemon = household.start().await;
    let parked = eventually("it is parked", || async {
        let tally = daemon.butler(TALLY).await;
        if tally["state"] == "parked" { Ok(tally) } else { Err(tally.to_string()) }
    })
    .await;
    let words = "schema tally has version 999 of the chain `core`, newer than this butlerd knows";
    assert!(parked["error"].as_str().is_some_and(|error| error.contains(words)), "{parked}");
    daemon.ready().await;
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);
    change(&household, "DELETE FROM tally.schema_migrations WHERE version = 999").await;

    let daemon = household.start().await;
    let tally = daemon.butler(TALLY).await;
    assert_eq!((&tally["state"], &tally["modules"][TALLY]["health"]), (&json!("up"), &json!("active")), "{tally}");
    assert_eq!(household.counted("kept").await, 1);
}
