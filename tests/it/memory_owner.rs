//! The owner's side of memory, by the command line: seeing, correcting, forgetting, purging, taking out and bringing
//! in.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::model::ScriptedModel;
use tokio_postgres::Client;

use crate::support::memory::dump;
use crate::support::{Daemon, Household, eventually, model};

/// What is purged: with what JSON escapes, and longer than what a line of the block shows.
fn secret() -> String {
    let more = "and then something about the cupboard under the stairs, ".repeat(14);
    format!("keeps the \"blue\" letters\nin C:\\old behind the boiler, {more}until the spring")
}

async fn household(health: &str) -> (ScriptedModel, Household) {
    let model = model(json!([
        {"when": "where are the letters", "steps": [
            {"call": {"tool": "memory_recall", "arguments": {"topic": "blue letters boiler"}}},
            {"call": {"tool": "state_set", "arguments": {"key": "letters", "value": {"note": secret(), "more": [1, secret()]}}}},
            {"say": format!("You told me: {}", secret())}]},
        {"when": "", "steps": [{"say": "Done."}]},
    ]))
    .await;
    let household = Household::with_model(&model).replace(
        "health/butler.toml",
        "[modules.memory]\nenabled = true\n",
        &format!("[modules.memory]\nenabled = true\n{health}"),
    );
    (model, household)
}

/// Asks of the health butler's memory, unless another is named.
fn ran(household: &Household, args: &[&str]) -> (i32, String, String) {
    if args.first() == Some(&"memory") && !args.contains(&"--butler") {
        return ran(household, &[&["memory", "--butler", "health"], &args[1..]].concat());
    }
    asked(household, args)
}

fn asked(household: &Household, args: &[&str]) -> (i32, String, String) {
    tokio::task::block_in_place(|| household.cli(args))
}

/// What a command answers to a program.
fn told(household: &Household, args: &[&str]) -> Value {
    let with = [&["memory"], args, &["--json"]].concat();
    let (code, out, err) = ran(household, &with);
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}"))
}

/// What it says to a person.
fn said(household: &Household, args: &[&str]) -> String {
    let (code, out, err) = ran(household, &[&["memory"], args].concat());
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    out
}

fn refused(household: &Household, args: &[&str]) -> String {
    let (code, out, err) = ran(household, &[&["memory"], args].concat());
    assert_eq!(code, 1, "{args:?}: {out}{err}");
    err
}

fn id(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap_or_else(|| panic!("no {name} in {of}")).to_owned()
}

fn found(household: &Household, words: &str) -> BTreeSet<String> {
    let answer = told(household, &["search", words]);
    answer["items"].as_array().expect("items").iter().map(|r| id(r, "id")).collect()
}

async fn episode_of(db: &Client, session: &str) -> String {
    let sql = format!("SELECT id::text FROM health.memory_episodes WHERE session_id = '{session}'");
    eventually("the session's episode", || async {
        let rows = db.query(&sql, &[]).await.map_err(|e| e.to_string())?;
        rows.first().map(|r| r.get(0)).ok_or_else(|| "none yet".to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memories_are_added_seen_corrected_and_brought_back() {
    let (_model, household) = household("").await;
    let _daemon = household.start().await;
    let added = told(
        &household,
        &["add", "wants to weigh 78 kg by summer", "--predicate", "target_weight", "--importance", "8"],
    );
    assert_eq!((added["status"].as_str(), added["memory_type"].as_str()), (Some("stored"), Some("fact")), "{added}");
    let fact = id(&added, "id");
    let rule = id(&told(&household, &["add", "Ask before noon about the weight", "--type", "rule"]), "id");
    assert_eq!(
        told(&household, &["add", "wants to weigh 78 kg by summer", "--predicate", "target_weight"])["status"],
        "confirmed"
    );
    assert!(found(&household, "weight by summer").contains(&fact));
    let table = said(&household, &["search", "weight", "by", "summer"]);
    assert!(
        table.starts_with("MEMORY") && table.contains(&fact[..13]) && table.contains("wants to weigh 78 kg"),
        "{table}"
    );
    // By the beginning of its id.
    let shown = told(&household, &["show", &fact[..fact.len() - 2]]);
    assert_eq!(
        (shown["memory"]["importance"].as_f64(), shown["memory"]["id"].as_str()),
        (Some(8.0), Some(&*fact)),
        "{shown}"
    );
    assert!(said(&household, &["show", &rule]).contains("Ask before noon"));
    let err = refused(&household, &["show", "ffffffff"]);
    assert!(err.contains("no memory whose id begins with ffffffff"), "{err}");
    let why = told(&household, &["why", &fact]);
    let events: Vec<&str> =
        why["events"].as_array().expect("events").iter().filter_map(|e| e["what"].as_str()).collect();
    assert_eq!(events, ["stored", "confirmed"], "{why}");
    assert!(said(&household, &["why", &fact]).contains("confirmed"));

    let edited = told(
        &household,
        &[
            "edit",
            &fact,
            "--content",
            "wants to weigh 74 kg by autumn",
            "--confidence",
            "0.5",
            "--reason",
            "new doctor",
        ],
    );
    let shown = told(&household, &["show", &fact]);
    assert_eq!(shown["memory"]["content"], "wants to weigh 74 kg by autumn", "{shown}");
    assert!(found(&household, "74 kg autumn").contains(&fact));
    let vector = "SELECT embedding IS NOT NULL FROM health.memory_facts";
    assert!(household.owner().await.query_one(vector, &[]).await.expect("the fact").get::<_, bool>(0));
    let history = told(&household, &["history", &fact]);
    let newest = &history["items"][0];
    let change = &newest["changed"][0]["parts"];
    assert_eq!(
        change["content"],
        json!({"from": "wants to weigh 78 kg by summer", "to": "wants to weigh 74 kg by autumn"}),
        "{history}"
    );
    assert_eq!((newest["what"].as_str(), newest["reason"].as_str()), (Some("edited"), Some("new doctor")), "{history}");
    assert!(said(&household, &["history"]).contains("78 kg by summer → wants to weigh 74 kg"));
    // What a rule does not have, and what is not so.
    assert!(refused(&household, &["edit", &rule, "--subject", "x"]).contains("subject"));
    said(&household, &["undo", &id(&edited, "event")]);
    assert_eq!(told(&household, &["show", &fact])["memory"]["content"], "wants to weigh 78 kg by summer");
    assert!(refused(&household, &["undo", &id(&edited, "event")]).contains("taken back already"));
    let stats = told(&household, &["stats"])["items"][0].clone();
    assert_eq!((&stats["facts"]["active"], &stats["butler"]), (&json!(1), &json!("health")), "{stats}");
    said(&household, &["stats"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_butlers_with_a_memory_are_asked_together() {
    let (_model, household) = household("").await;
    let _daemon = household.start().await;
    let all = |args: &[&str]| {
        let (code, out, err) = asked(&household, &[&["memory"], args].concat());
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    };
    // What one of them is to do alone needs its name.
    let (code, _, err) = asked(&household, &["memory", "add", "likes chamomile tea"]);
    assert!(code == 2 && err.contains("general, health") && err.contains("--butler"), "{err}");
    for (butler, words) in [("general", "likes chamomile tea in bed"), ("health", "drinks chamomile tea for sleep")] {
        all(&["--butler", butler, "add", words, "--predicate", butler, "--private"]);
    }
    let found: Value = serde_json::from_str(&all(&["search", "chamomile", "tea", "--json"])).expect("JSON");
    let mut whose: Vec<&str> =
        found["items"].as_array().expect("items").iter().filter_map(|hit| hit["butler"].as_str()).collect();
    whose.sort_unstable();
    assert_eq!(whose, ["general", "health"], "{found}");
    // The id that a list prints finds its butler.
    let table = all(&["search", "chamomile", "tea"]);
    let of_general = table.lines().find(|line| line.contains("in bed")).expect("its line");
    let short = of_general.split_whitespace().next().expect("an id");
    assert!(short.len() < 36 && of_general.contains("general"), "{table}");
    assert!(all(&["show", short]).contains("likes chamomile tea in bed"));
    let forgotten: Value = serde_json::from_str(&all(&["forget", short, "--json"])).expect("JSON");
    assert!(!all(&["search", "chamomile", "tea"]).contains("in bed"));
    let history = all(&["history"]);
    let event = id(&forgotten, "event");
    let event = history.split_whitespace().find(|word| word.len() >= 13 && event.starts_with(word));
    all(&["undo", event.unwrap_or_else(|| panic!("{forgotten} is not in\n{history}"))]);
    assert!(all(&["search", "chamomile", "tea"]).contains("in bed"));
    let stats = all(&["stats"]);
    assert!(stats.contains("general") && stats.contains("health"), "{stats}");
    assert_eq!(told(&household, &["--butler", "general", "stats"])["items"][0]["butler"], "general");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_forgotten_is_never_seen_again_until_it_is_taken_back() {
    let (_model, household) = household("").await;
    let mut daemon = household.start().await;
    let fact = id(&told(&household, &["add", "drives a green Saab to work", "--predicate", "car"]), "id");
    let done = told(&household, &["forget", &fact, "--reason", "sold"]);
    let nowhere = async |daemon: &Daemon| {
        assert!(found(&household, "green Saab").is_empty());
        let health = daemon.mcp("health");
        let recalled = health.ok("memory_recall", json!({"topic": "green Saab"})).await;
        let context = health.ok("memory_context", json!({"trigger_prompt": "my green Saab", "butler": "health"})).await;
        let (_, export, _) = ran(&household, &["memory", "export"]);
        for (what, text) in [("recall", recalled.to_string()), ("context", context.to_string()), ("export", export)] {
            assert!(!text.contains("Saab"), "{what}: {text}");
        }
        assert!(!told(&household, &["history", &fact]).to_string().contains("Saab"));
        assert!(refused(&household, &["show", &fact]).contains("forgotten"));
    };
    nowhere(&daemon).await;
    // Neither another telling nor an export of before or after brings it back.
    assert!(
        refused(&household, &["add", "drives a green Saab to work", "--predicate", "car"])
            .contains("forgotten on purpose")
    );
    let file = household.path().join("all.jsonl");
    let path = file.to_str().expect("a path");
    said(&household, &["export", path]);
    said(&household, &["import", path]);
    nowhere(&daemon).await;
    daemon.stop_blocking();
    let daemon = household.start().await;
    nowhere(&daemon).await;
    said(&household, &["undo", &id(&done, "event")]);
    assert!(found(&household, "green Saab").contains(&fact));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_purged_is_nowhere_in_a_dump() {
    let (_model, household) = household("").await;
    let daemon = household.start().await;
    let db = household.owner().await;
    let stays =
        id(&told(&household, &["add", "keeps the spare key with the neighbours", "--predicate", "spare_key"]), "id");
    let fact = id(&told(&household, &["add", &secret(), "--predicate", "letters"]), "id");
    let other =
        id(&told(&household, &["add", "takes the letters to the post on Mondays", "--predicate", "post"]), "id");
    let forgotten = told(&household, &["forget", &other]);
    // A session is told it, recalls it, writes it down and says it.
    let end =
        daemon.mcp("health").call("trigger", json!({"prompt": "where are the letters behind the boiler"})).await.text();
    let session = id(&end, "session_id");
    let episode = episode_of(&db, &session).await;
    let words = "behind the boiler, and then something";
    let before = dump(&db, words).await;
    for table in [
        "health.sessions",
        "health.session_events",
        "health.state",
        "health.memory_facts",
        "health.memory_episodes",
        "shared.memory_catalog",
    ] {
        assert!(before.iter().any(|found| found.starts_with(table)), "{table} should have it: {before:#?}");
    }
    let trusts = "SELECT string_agg(trust, ',' ORDER BY id) FROM health.sessions";
    let trust: String = db.query_one(trusts, &[]).await.expect("trusts").get(0);
    let out = said(&household, &["forget", &fact, "--purge"]);
    assert!(out.contains("gone for good") && out.contains("health.sessions") && out.contains("Backups"), "{out}");
    // The prompt of the test itself has other words; all of the memory's are gone, whole or in parts.
    let secret = secret();
    let one_line = secret.replace('\n', " ");
    for words in [
        "boiler, and then",
        "cupboard under the stairs",
        "\"blue\" letters",
        "blue\\\" letters",
        &one_line[..30],
        "until the spring",
    ] {
        let found = dump(&db, words).await;
        assert!(found.is_empty(), "{words}: {found:#?}");
    }
    assert_eq!(db.query_one(trusts, &[]).await.expect("trusts").get::<_, String>(0), trust);
    assert!(!found(&household, "blue letters boiler cupboard").contains(&fact));
    assert!(found(&household, "spare key neighbours").contains(&stays));
    // It is not taken in again, and taking back says why not.
    assert!(refused(&household, &["add", &secret, "--predicate", "letters"]).contains("forgotten on purpose"));
    let history = told(&household, &["history", &fact]);
    let events = history["items"].as_array().expect("items");
    assert_eq!(events[0]["what"], "purged", "{history}");
    for event in events {
        assert!(refused(&household, &["undo", &id(event, "event")]).contains("purged"), "{event}");
    }
    // What was only forgotten comes back.
    said(&household, &["undo", &id(&forgotten, "event")]);
    assert!(found(&household, "post on Mondays").contains(&other));
    // The episode is there still, without the words.
    let shown = told(&household, &["show", &episode]);
    assert!(shown["memory"]["content"].as_str().is_some_and(|c| c.contains("[purged]")), "{shown}");
    assert!(!daemon.log().contains("boiler"), "the log");
    household.at_rest("after a purge").await;
    // Nor is it in a backup of now.
    let file = household.path().join("after.backup");
    let (code, out, err) = ran(&household, &["backup", file.to_str().expect("a path")]);
    assert_eq!(code, 0, "{out}{err}");
}

/// Stops the household, takes its database away and restores this file in its place.
async fn restored_over(household: &Household, mut daemon: Daemon, file: &str) -> (Daemon, String) {
    tokio::task::block_in_place(|| daemon.stop_blocking());
    std::fs::remove_dir_all(household.data().join("postgres")).expect("the database is taken away");
    let (code, out, err) = ran(household, &["restore", file]);
    assert_eq!(code, 0, "{out}{err}");
    (household.start().await, out)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_from_before_a_purge_does_not_bring_it_back() {
    let (_model, household) = household("").await;
    let daemon = household.start().await;
    let stays = id(&told(&household, &["add", "keeps the spare key with the neighbours", "--predicate", "key"]), "id");
    let fact = id(&told(&household, &["add", &secret(), "--predicate", "letters"]), "id");
    let end = daemon.mcp("health").call("trigger", json!({"prompt": "where are the letters behind the boiler"})).await;
    let db = household.owner().await;
    episode_of(&db, &id(&end.text(), "session_id")).await;
    let file = household.path().join("before.backup");
    let file = file.to_str().expect("a path").to_owned();
    assert_eq!(ran(&household, &["backup", &file]).0, 0);
    said(&household, &["forget", &fact, "--purge"]);
    let after = household.path().join("after.backup");
    let after = after.to_str().expect("a path").to_owned();
    assert_eq!(ran(&household, &["backup", &after]).0, 0);
    drop(db);
    // Made before the purge: it is purged again before anybody can ask.
    let (daemon, out) = restored_over(&household, daemon, &file).await;
    assert!(out.contains("purged again at the start"), "{out}");
    let gone = async |when: &str| {
        let db = household.owner().await;
        for words in ["boiler, and then", "cupboard under the stairs", "until the spring"] {
            let found = dump(&db, words).await;
            assert!(found.is_empty(), "{when}: {words}: {found:#?}");
        }
        assert!(!found(&household, "blue letters boiler cupboard").contains(&fact), "{when}");
        assert!(found(&household, "spare key neighbours").contains(&stays), "{when}");
        household.at_rest(when).await;
    };
    gone("after the old backup").await;
    // Made after it: there is nothing to purge.
    let (_daemon, _) = restored_over(&household, daemon, &after).await;
    gone("after the new backup").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_purges_and_short_words_stay_where_they_are_others() {
    let (_model, household) = household("").await;
    let daemon = household.start().await;
    let db = household.owner().await;
    let fact = id(&told(&household, &["add", "Paris 3", "--predicate", "lives_in"]), "id");
    daemon
        .mcp("health")
        .ok("state_set", json!({"key": "a", "value": {"a": "Paris 3", "b": "to Paris 3 by train"}}))
        .await;
    let purged = told(&household, &["forget", &fact, "--purge"]);
    assert!(purged["notes"].to_string().contains("under 12 characters"), "{purged}");
    let value: Value = db.query_one("SELECT value FROM health.state", &[]).await.expect("the state").get(0);
    assert_eq!(value, json!({"a": "[purged]", "b": "to Paris 3 by train"}));
    let role = household.role("health").await;
    role.batch_execute("SET butlerd.tenant = 'owner'; SET butlerd.trust = 'known'").await.expect("settings");
    for sql in ["SELECT memory_purge('fact', gen_random_uuid(), '{}')", "SELECT * FROM memory_export(NULL, 10)"] {
        let e = role.simple_query(sql).await.expect_err(sql);
        assert_eq!(e.code().map(tokio_postgres::error::SqlState::code), Some("BD003"), "{sql}: {e}");
    }
    let e = role.simple_query("SELECT shared.scrub(ARRAY['a text of some length'])").await.expect_err("scrub");
    assert_eq!(e.code().map(tokio_postgres::error::SqlState::code), Some("42501"), "{e}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_comes_back_as_the_same_state() {
    let (model, household) = household("").await;
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let ada = id(
        &health.ok("memory_entity_create", json!({"canonical_name": "Ada Lovelace", "entity_type": "person"})).await,
        "entity_id",
    );
    let lives = json!({"subject": "Ada", "predicate": "lives_in", "content": "Lyon, near the river", "entity_id": ada});
    health.ok("memory_store_fact", lives).await;
    let lives =
        json!({"subject": "Ada", "predicate": "lives_in", "content": "Turin, in the old town", "entity_id": ada});
    let moved = health.ok("memory_store_fact", lives).await;
    told(&household, &["add", "Write to Ada in Italian", "--type", "rule", "--tag", "ada"]);
    told(&household, &["add", "Ada came to dinner", "--type", "episode"]);
    let edited = told(&household, &["edit", &id(&moved, "id"), "--importance", "9"]);
    let gone = id(
        &told(&household, &["add", "Ada dislikes coriander very much", "--subject", "Ada", "--predicate", "dislikes"]),
        "id",
    );
    told(&household, &["forget", &gone, "--reason", "coriander was a joke"]);
    let file = household.path().join("a.jsonl");
    let path = file.to_str().expect("a path").to_owned();
    assert!(said(&household, &["export", &path]).contains("lines of health"));
    let text = std::fs::read_to_string(&file).expect("the export");
    assert!(!text.contains("coriander") && text.contains("Ada Lovelace") && text.contains(&gone), "{text}");
    // Into its own house: all is there.
    let again = told(&household, &["import", &path]);
    assert!(again["outcomes"].as_object().expect("outcomes").values().all(|of| of["added"].is_null()), "{again}");

    let empty = Household::clone_of(&household);
    let other = empty.start().await;
    let done = told(&empty, &["import", &path]);
    assert!(done["outcomes"]["fact"]["added"] == 3 && done["outcomes"]["rule"]["added"] == 1, "{done}");
    let (code, back, err) = ran(&empty, &["memory", "export", "-"]);
    assert_eq!(code, 0, "{err}");
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<String>>();
    assert_eq!(lines(&back), lines(&text));
    assert!(found(&empty, "Turin old town").contains(&id(&moved, "id")));
    let vectors =
        "SELECT count(*) FILTER (WHERE embedding IS NULL) FROM health.memory_facts WHERE forgotten_at IS NULL";
    assert_eq!(empty.owner().await.query_one(vectors, &[]).await.expect("vectors").get::<_, i64>(0), 0);
    // It can be taken back there as well, and what was forgotten is known to be.
    said(&empty, &["undo", &id(&edited, "event")]);
    assert_eq!(told(&empty, &["show", &id(&moved, "id")])["memory"]["importance"], 5.0);
    let again =
        refused(&empty, &["add", "Ada dislikes coriander very much", "--subject", "Ada", "--predicate", "dislikes"]);
    assert!(again.contains("forgotten on purpose"), "{again}");
    drop((other, model));

    // A bad line is named, and nothing of its page is in.
    let third = Household::clone_of(&household);
    let _running = third.start().await;
    let mut bad = lines(&text);
    let at =
        bad.iter().position(|l| l.starts_with("{\"row\":{") || l.contains("\"type\":\"rule\"")).map_or(3, |n| n.max(3));
    bad[at] = bad[at].replace("\"trust\":\"owner\"", "\"trust\":\"nobody\"");
    let broken = third.path().join("bad.jsonl");
    std::fs::write(&broken, bad.join("\n")).expect("a bad file");
    let err = refused(&third, &["import", broken.to_str().expect("a path")]);
    assert!(err.contains(&format!("Line {}: ", at + 1)) && err.contains("Nothing was brought in"), "{err}");
    let rows = third.owner().await.query_one("SELECT count(*) FROM health.memory_episodes", &[]).await.expect("rows");
    assert_eq!(rows.get::<_, i64>(0), 0);
}
