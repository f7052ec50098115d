//! Backup and restore: the same rows on an empty machine, or nothing at all.

pub mod prints;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use access::credentials::{Credentials, MasterKey};
use base::{Clock, TenantId};
use prints::{at_rest, prints, same, sequences, server};
use serde_json::{Value, json};
use store::{Database, DatabaseOptions};
use supervisor::owner_login;

use crate::support::tally::{counting_model, envelope, insist, rule};
use crate::support::{Daemon, Household, eventually};

/// Everything that a careless copy would get wrong.
const ODD: &str = r#"
CREATE TYPE mood AS ENUM ('fine', 'it''s, so so');
CREATE TABLE "Odd ""things""" (
    "the id" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    above bigint REFERENCES "Odd ""things""",
    words text, bytes bytea, moods mood[], numbers double precision[], span interval, at timestamptz, money numeric,
    twice text GENERATED ALWAYS AS (words || words) STORED,
    gone integer
);
ALTER TABLE "Odd ""things""" DROP COLUMN gone;
SELECT shared.tenant_table('Odd "things"');
CREATE TABLE left_hand (id integer PRIMARY KEY, other integer);
SELECT shared.tenant_table('left_hand');
CREATE TABLE right_hand (id integer PRIMARY KEY, other integer NOT NULL REFERENCES left_hand (id));
SELECT shared.tenant_table('right_hand');
ALTER TABLE left_hand ADD FOREIGN KEY (other) REFERENCES right_hand (id) DEFERRABLE INITIALLY DEFERRED;
-- A row that the migration itself writes, and that was changed since.
CREATE TABLE seeded (name text PRIMARY KEY, value text);
SELECT shared.tenant_table('seeded');
INSERT INTO seeded (name, value, tenant_id) VALUES ('a', 'from the migration', 'owner'), ('b', 'gone later', 'owner');
-- New rows are stamped, old ones can't be changed: rows that come back are neither.
CREATE TABLE diary (id serial PRIMARY KEY, words text, stamp text);
SELECT shared.tenant_table('diary');
CREATE FUNCTION stamped() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.stamp := 'new'; RETURN NEW; END $$;
CREATE TRIGGER stamped BEFORE INSERT ON diary FOR EACH ROW EXECUTE FUNCTION stamped();
ALTER TABLE diary ENABLE ALWAYS TRIGGER stamped;
CREATE VIEW moods WITH (security_invoker = true) AS SELECT moods FROM "Odd ""things""";
"#;

const ROWS: &str = r#"
SET butlerd.tenant = 'owner'; SET search_path = tally, shared, public;
INSERT INTO "Odd ""things""" (above, words, bytes, moods, numbers, span, at, money) VALUES
    (NULL, E'line\nbreak\ttab \\ back\\N \u2028 é', '\x00ff0a5c', '{fine,"it''s, so so"}',
     '{0.1,1e-300,NaN,-Infinity}', '1 mon -2 days 03:04:05.678901', 'infinity', 'NaN'),
    (1, '\.', '', '{}', NULL, '-1 year', '0044-03-15 12:00:00+00 BC', 123456789012345678901234567890.000),
    (1, NULL, NULL, NULL, '{}', NULL, NULL, NULL);
INSERT INTO "Odd ""things""" (words, bytes) VALUES (repeat('long ', 200000), decode(repeat('00017f80ff', 400000), 'hex'));
INSERT INTO left_hand VALUES (1, NULL), (2, NULL); INSERT INTO right_hand VALUES (7, 2), (8, 1);
UPDATE left_hand SET other = 8 WHERE id = 1;
UPDATE seeded SET value = 'changed' WHERE name = 'a'; DELETE FROM seeded WHERE name = 'b';
INSERT INTO diary (words) VALUES ('one'), ('two'); UPDATE diary SET stamp = 'old';
INSERT INTO blobs (sha256, media_type, content) SELECT encode(sha256(c), 'hex'), 'image/png', c
    FROM (SELECT decode(repeat(md5(i::text), 20000), 'hex') AS c FROM generate_series(1, 3) i) x;
SET butlerd.tenant = 'guest'; INSERT INTO state (key, value) VALUES ('theirs', '1');
"#;

/// A household whose butler `tally` has odd tables.
fn odd(household: Household) -> Household {
    household.with_tally(2).write("tally/migrations/002_odd.sql", ODD)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

fn told(what: &str, (code, out, err): (i32, String, String)) -> Value {
    assert_eq!(code, 0, "{what}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{what}: {e}: {out}"))
}

/// The code of a refusal and its sentence.
fn refused(what: &str, (code, out, err): (i32, String, String)) -> (String, String) {
    assert_eq!(code, 1, "{what}: {out}{err}");
    let said: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{what}: {e}: {out}{err}"));
    (said["code"].as_str().expect("a code").to_owned(), said["error"].as_str().expect("a sentence").to_owned())
}

fn key(household: &Household) -> PathBuf {
    household.data().join("master.key")
}

/// Runs a command while the daemon's clients go on.
fn busy(household: &Household, args: &[&str]) -> (i32, String, String) {
    tokio::task::block_in_place(|| household.cli(args))
}

/// Restores `file` into an empty household of the shipped roster. Another roster than where it came from.
fn restored(file: &Path, key: &Path) -> Household {
    let empty = Household::bare();
    let said = told("restore", busy(&empty, &["restore", text(file), "--key", text(key), "--json"]));
    assert!(said["rows"].as_u64() > Some(0) && said["tables"].as_u64() > Some(0), "{said}");
    empty
}

/// Keeps writing until told to stop: state of one butler, and messages that lead to sessions of another.
async fn write(daemon: &Daemon, household: &Household, stop: &Arc<AtomicBool>, written: &Arc<AtomicUsize>) {
    let health = daemon.mcp("health");
    let state = async {
        for n in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            health.ok("state_set", json!({"key": format!("k{}", n % 50), "value": {"n": n}})).await;
            written.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (data, client) = (household.data(), household.owner().await);
    let messages = async {
        for n in 0.. {
            // So many may wait: a slow machine would be busy with the others long after the backup.
            let counted = || client.query_one("SELECT count(*) FROM tally.counted", &[]);
            while !stop.load(Ordering::Relaxed) && counted().await.expect("the count").get::<_, i64>(0) + 20 < n {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
            insist(&data, &envelope(&format!("m{n}"), &format!("t{}", n % 5), &format!("count: m{n}"), "default"))
                .await;
        }
    };
    futures_util::join!(state, messages);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_backup_made_under_load_comes_back_table_by_table() {
    let model = counting_model(0).await;
    let household = Arc::new(odd(Household::with_model(&model)));
    let daemon = Arc::new(household.start().await);
    rule(&household.owner().await, "count: ", "tally").await;
    household.owner().await.batch_execute(ROWS).await.expect("the odd rows");
    let (code, out, err) = household.cli_with_input(&["secret", "set", "PRECIOUS_KEY"], "hunter2-hunter2\n");
    assert_eq!(code, 0, "{out}{err}");

    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = tokio::spawn({
        let (daemon, household, stop, written) = (daemon.clone(), household.clone(), stop.clone(), written.clone());
        async move { write(&daemon, &household, &stop, &written).await }
    });
    eventually("sessions under load", || async {
        match household.owner().await.query_one("SELECT count(*) FROM tally.counted", &[]).await {
            Ok(row) if row.get::<_, i64>(0) >= 5 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    // One moment in the middle of it, which this test and the backup see.
    let mut client = household.owner().await;
    let moment = client.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let tx = moment.start().await.expect("a transaction");
    let id: String = tx.query_one("SELECT pg_export_snapshot()", &[]).await.expect("a snapshot").get(0);
    let before = written.load(Ordering::Relaxed);
    let file = household.path().join("a.backup");
    let said = told("backup", busy(&household, &["backup", text(&file), "--snapshot", &id, "--json"]));
    let expected = prints(&tx).await;
    eventually("the load goes on", || async {
        let now = written.load(Ordering::Relaxed);
        if now > before { Ok(()) } else { Err(format!("{now} writes")) }
    })
    .await;
    drop(tx);
    // And one of a moment of its own.
    let other = household.path().join("b.backup");
    told("backup", busy(&household, &["backup", text(&other), "--json"]));
    stop.store(true, Ordering::Relaxed);
    load.await.expect("the load");

    let rows: u64 = expected.values().filter_map(|p| p.split_once(" rows ")?.0.parse::<u64>().ok()).sum();
    assert_eq!(said["rows"].as_u64(), Some(rows), "{said}");
    assert!(said["reminder"].as_str().is_some_and(|r| r.contains("master.key is not in it")), "{said}");
    assert!(said["bytes"].as_u64() == std::fs::metadata(&file).ok().map(|m| m.len()), "{said}");

    // Neither the key nor any row can be seen in it.
    let bytes = std::fs::read(&file).expect("the backup");
    let secret = std::fs::read_to_string(key(&household)).expect("the key");
    for needle in [secret.trim(), "hunter2", "shared", "measurements", "count: m1"] {
        assert!(!bytes.windows(needle.len()).any(|w| w == needle.as_bytes()), "{needle}");
    }

    let back = restored(&file, &key(&household));
    let (cluster, client) = server(&back.data()).await;
    same("restored from the moment", &expected, &prints(&client).await);
    drop(client);
    cluster.stop(std::time::Duration::from_secs(20)).await;

    // The other one holds together: what refers to something finds it, and the house starts with it and goes on.
    let again = odd(restored(&other, &key(&household)));
    let again = model_of(&household, again);
    let running = again.start().await;
    assert_eq!(running.butler("tally").await["state"], "up", "{}", running.log());
    again.at_rest("the restored household").await;
    assert_eq!(secret_of(&again).await.as_deref(), Some("hunter2-hunter2"));
    let (code, out, _) = again.cli(&["secret", "list", "--json"]);
    assert!(code == 0 && out.contains("PRECIOUS_KEY"), "{out}");
    insist(&again.data(), &envelope("fresh", "fresh", "count: fresh", "default")).await;
    eventually("a message to the restored household", || async {
        let n = again.counted("fresh").await;
        if n == 1 { Ok(()) } else { Err(format!("counted {n} times")) }
    })
    .await;
    household.at_rest("the household that was backed up").await;
}

/// `other`, with the environment in which `household` has its model.
fn model_of(household: &Household, other: Household) -> Household {
    household.environment().iter().fold(other, |h, (name, value)| h.env(name, value))
}

/// The value of the secret, decrypted by the household's own key.
async fn secret_of(household: &Household) -> Option<String> {
    let key = MasterKey::load(None, &household.data()).expect("a key");
    let pid = std::fs::read_to_string(household.data().join("postgres/postmaster.pid")).expect("a server");
    let socket = Path::new(pid.lines().nth(4).expect("its socket"));
    let options = DatabaseOptions {
        owner: store::cluster::socket_config(socket, "butlerd", &owner_login(&key)),
        pool_size: 1,
        time_zone: jiff::tz::TimeZone::UTC,
        master_key: key.bytes().clone(),
        clock: Clock::default(),
    };
    let db = Arc::new(Database::open(options).await.expect("the database"));
    let found = Credentials::new(db, key.bytes()).get(&TenantId::owner(), "PRECIOUS_KEY").await;
    found.expect("it can be decrypted").map(|(value, _)| value.expose().clone())
}

/// A stopped household with rows, its backup and what is in it.
async fn kept() -> (Household, PathBuf, prints::Prints) {
    let household = odd(Household::new());
    let mut daemon = household.start().await;
    household.owner().await.batch_execute(ROWS).await.expect("the odd rows");
    daemon.stop_blocking();
    let file = household.path().join("a.backup");
    let (code, out, err) = busy(&household, &["backup", text(&file)]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("rows in") && out.contains("master.key is not in it: keep a copy"), "{out}");
    let expected = at_rest(&household.data()).await;
    (household, file, expected)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_is_killed_leaves_nothing_or_all() {
    let (household, file, expected) = kept().await;
    let own = key(&household);
    let args = ["restore", text(&file), "--key", text(&own), "--json"];
    for point in ["key_placed", "schemas", "table:5", "table:40", "before_commit", "committed"] {
        let empty = Household::bare();
        let doomed = Household::again(&empty, "BUTLERD_CRASH_POINT", &format!("restore.{point}"));
        let (code, out, err) = busy(&doomed, &args);
        assert_eq!(code, -1, "{point}: {out}{err}");
        let again = busy(&empty, &args);
        match point {
            "committed" => assert_eq!(refused(point, again).0, "not_empty"),
            _ => drop(told(point, again)),
        }
        same(point, &expected, &at_rest(&empty.data()).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_is_killed_leaves_no_file_and_the_next_is_whole() {
    let (household, _, expected) = kept().await;
    let file = household.path().join("b.backup");
    for point in ["backup.table:9", "backup.before_rename"] {
        let doomed = Household::again(&household, "BUTLERD_CRASH_POINT", point);
        let (code, out, err) = busy(&doomed, &["backup", text(&file)]);
        assert_eq!((code, file.exists()), (-1, false), "{point}: {out}{err}");
    }
    told("backup", busy(&household, &["backup", text(&file), "--json"]));
    // A daemon that is about to start is waited for.
    let _starting = Daemon::spawn(&household);
    let early = household.path().join("early.backup");
    told("while it starts", busy(&household, &["backup", text(&early), "--json"]));
    same("after kills", &expected, &at_rest(&restored(&file, &key(&household)).data()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_whole_or_not_ours_is_refused_and_leaves_nothing() {
    let (household, file, _) = kept().await;
    let whole = std::fs::read(&file).expect("the backup");
    let empty = Household::bare();
    let bad = empty.path().join("bad.backup");
    let own = key(&household);
    let no = |what: &str, key: &Path, expected: &str| {
        let (code, said) = refused(what, empty.cli(&["restore", text(&bad), "--key", text(key), "--json"]));
        assert_eq!(code, expected, "{what}: {said}");
        assert!(said.contains("nothing was restored"), "{what}: {said}");
        assert!(!empty.data().exists(), "{what} left something");
    };
    for at in [0, 7, 18, 100, 300, whole.len() / 3, whole.len() / 2, whole.len() - 17, whole.len() - 1] {
        std::fs::write(&bad, &whole[..at]).expect("a cut file");
        no(&format!("cut at {at}"), &own, "broken_backup");
    }
    for at in [0, 17, 200, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let mut other = whole.clone();
        other[at] ^= 0x20;
        std::fs::write(&bad, &other).expect("a damaged file");
        no(&format!("flipped at {at}"), &own, "broken_backup");
    }
    std::fs::write(&bad, [&whole[..], b"more"].concat()).expect("a longer file");
    no("more behind its end", &own, "broken_backup");

    std::fs::write(&bad, &whole).expect("the file");
    let stranger = Household::bare();
    let other = stranger.path().join("master.key");
    std::fs::copy(&own, &other).expect("a key");
    std::fs::write(&other, "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=\n").expect("another key");
    no("another key", &other, "wrong_key");
    let (code, said) = refused("no key", empty.cli(&["restore", text(&bad), "--json"]));
    assert!(
        code == "master_key" && said.contains("there is no master key at") || said.contains("There is no"),
        "{said}"
    );

    // A look changes nothing; a place that is taken is left as it is.
    let look = empty.cli(&["restore", text(&bad), "--key", text(&own), "--dry-run", "--json"]);
    assert!(told("dry run", look)["butlers"].as_array().is_some_and(|b| b.contains(&json!("tally"))));
    assert!(!empty.data().exists());
    let before = at_rest(&household.data()).await;
    assert_eq!(refused("taken", household.cli(&["restore", text(&file), "--json"])).0, "not_empty");
    let given = ["restore", text(&file), "--key", text(&other), "--json"];
    assert_eq!(refused("two keys", household.cli(&given)).0, "master_key");
    assert_eq!(refused("there already", household.cli(&["backup", text(&file), "--json"])).0, "exists");
    assert_eq!(std::fs::read(&file).expect("the backup"), whole);
    same("what was there", &before, &at_rest(&household.data()).await);
    let _daemon = household.start().await;
    assert_eq!(refused("running", household.cli(&["restore", text(&file), "--json"])).0, "running");
    told("forced", household.cli(&["backup", text(&file), "--force", "--json"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_servers_own_database_is_backed_up_and_restored_too() {
    // Two servers that are not the household's: private ones of directories of their own.
    let (one, two) = (Household::bare(), Household::bare());
    for place in [&one, &two] {
        std::fs::create_dir(place.data()).expect("a directory");
    }
    let ((from, _), (to, _)) = (server(&one.data()).await, server(&two.data()).await);
    let url = |place: &Household, cluster: &store::cluster::Cluster, database: &str| {
        let key = MasterKey::load(None, &place.data()).expect("a key");
        let host = text(cluster.socket_dir()).replace('/', "%2F");
        format!("postgresql://butlerd:{}@{host}/{database}", owner_login(&key).expose())
    };
    let household = odd(Household::bare()).env("BUTLERD_DATABASE__URL", &url(&one, &from, "postgres"));
    let mut daemon = household.start().await;
    let source: tokio_postgres::Config = url(&one, &from, "butlers").parse().expect("a URL");
    prints::connect(&source).await.batch_execute(ROWS).await.expect("the odd rows");
    let file = household.path().join("a.backup");
    // Running and stopped.
    told("running", busy(&household, &["backup", text(&file), "--json"]));
    daemon.stop_blocking();
    told("stopped", busy(&household, &["backup", text(&file), "--force", "--json"]));
    let client = prints::connect(&source).await;
    let mut expected = prints(&client).await;
    expected.extend(sequences(&client).await);

    // Onto the other server, into a database of another name,
    // and by somebody who is not the server's master.
    let master = prints::connect(&url(&two, &to, "postgres").parse().expect("a URL")).await;
    let keeper = "CREATE ROLE keeper LOGIN CREATEROLE PASSWORD 'keeps-it-well'";
    master.batch_execute(keeper).await.expect("a role");
    master.batch_execute("CREATE DATABASE elsewhere OWNER keeper").await.expect("a database");
    let host = text(to.socket_dir()).replace('/', "%2F");
    let address = format!("postgresql://keeper:keeps-it-well@{host}/elsewhere");
    let elsewhere = Household::bare().env("BUTLERD_DATABASE__URL", &address);
    let own = key(&household);
    let args = ["restore", text(&file), "--key", text(&own), "--json"];
    told("elsewhere", busy(&elsewhere, &args));
    let target = prints::connect(&url(&two, &to, "elsewhere").parse().expect("a URL")).await;
    let mut found = prints(&target).await;
    found.extend(sequences(&target).await);
    same("on another server", &expected, &found);
    assert_eq!(refused("a second time", busy(&elsewhere, &args)).0, "not_empty");
    let elsewhere = odd(elsewhere);
    let running = elsewhere.start().await;
    assert_eq!(running.butler("tally").await["state"], "up", "{}", running.log());
    drop(running);

    // And into a private server.
    same("a private server", &expected, &at_rest(&restored(&file, &key(&household)).data()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_a_butlers_once_is_kept_too() {
    let household = Household::whole();
    let _daemon = household.start().await;
    let mut client = household.owner().await;
    let sql = "SET butlerd.tenant = 'owner'; INSERT INTO travel.state (key, value) VALUES ('passport', '\"old\"');
               DELETE FROM shared.butler_roles WHERE butler = 'travel'";
    client.batch_execute(sql).await.expect("a butler that nobody knows any more");
    // The butler is up all the while, and may write.
    let moment = client.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let tx = moment.start().await.expect("a transaction");
    let id: String = tx.query_one("SELECT pg_export_snapshot()", &[]).await.expect("a snapshot").get(0);
    let file = household.path().join("a.backup");
    let said = told("backup", busy(&household, &["backup", text(&file), "--snapshot", &id, "--json"]));
    assert!(!said["butlers"].as_array().is_some_and(|b| b.contains(&json!("travel"))), "{said}");
    let rows = |all: prints::Prints| -> prints::Prints {
        all.into_iter().filter(|(table, print)| table.starts_with("travel.") && print.contains(" rows ")).collect()
    };
    let expected = rows(prints(&tx).await);
    assert!(expected["travel.state"].starts_with("1 rows"), "{expected:?}");
    same("travel", &expected, &rows(at_rest(&restored(&file, &key(&household)).data()).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_is_nothing_nothing_is_made() {
    let empty = Household::bare();
    let file = empty.path().join("a.backup");
    assert_eq!(refused("no key", empty.cli(&["backup", text(&file), "--json"])).0, "master_key");
    assert!(!empty.data().exists());
    std::fs::create_dir(empty.data()).expect("a directory");
    MasterKey::load(None, &empty.data()).expect("a key");
    assert_eq!(refused("no database", empty.cli(&["backup", text(&file), "--json"])).0, "nothing");
    let left: Vec<_> = std::fs::read_dir(empty.data()).expect("a directory").flatten().map(|e| e.file_name()).collect();
    assert_eq!((left.len(), file.exists()), (1, false), "{left:?}");
}
