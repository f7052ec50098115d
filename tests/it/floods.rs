//! Attackers flood the household, and the owner goes on: his messages are taken, and their sessions begin.
//!
//! For a few seconds here, with generous bounds: what counts then is the order. `FLOOD_SECONDS=480` is the long form
//! (`just soak`), on a machine that nobody else uses: it holds the promised 200 ms and 5 s, and tells what it saw.

mod attackers;
mod owner;

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::idle_sockets::more_descriptors;
use crate::inbound::message;
use crate::soak::proc;
use crate::support::{Daemon, Household, http, model};
use attackers::{Attack, Body, Done};
use owner::Owner;

/// So much more memory a flood may cost the daemon, in KiB.
const MEMORY: u64 = 400 * 1024;

/// How long each flood lasts, and whether somebody asked for that.
fn length() -> (Duration, bool) {
    let asked = std::env::var("FLOOD_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    (Duration::from_secs(asked.unwrap_or(4)), asked.is_some())
}

/// The owner's messages are answered at once; what strangers send keeps a model busy for ever.
fn conversations() -> Value {
    json!([
        {"when": "FLOOD", "steps": [{"hang": true}]},
        {"when": "(?s)weigh.*Route the message in", "steps": [
            {"call": {"tool": "route_to_butler", "arguments": {"butler": "health", "prompt": "I weigh 82 kg"}}}]},
        {"when": "weigh", "steps": [{"say": "Noted."}]},
    ])
}

/// A message of a sender of whom nobody has proven anything.
fn strangers(sender: &str, id: &str, text: &str) -> Value {
    let mut envelope = message(id, &format!("thread {id}"), text);
    envelope["sender"] = json!({"identity": sender, "authenticated": {"result": "none", "method": "platform"}});
    envelope["control"]["policy_tier"] = json!("high_priority");
    envelope
}

/// A token for this; that of a connector (`ingest`) is believed about nobody.
fn new_token(household: &Household, scope: &str) -> String {
    let (code, out, err) = household.cli(&["token", "new", "--json", "--scope", scope]);
    assert_eq!(code, 0, "{out}{err}");
    let made: Value = serde_json::from_str(&out).expect("JSON");
    made["token"].as_str().expect("a token").to_owned()
}

async fn count(db: &Client, sql: &str) -> i64 {
    db.query_one(sql, &[]).await.expect("a count").get(0)
}

/// Lets the owner write for as long as a flood lasts and until there was `enough` of it, and demands what he is promised. The
/// attack that came to its end.
async fn beside(
    (name, enough): (&str, impl Fn(&Done) -> bool),
    household: &Household,
    daemon: &Daemon,
    attack: Attack,
) -> Done {
    let db = household.owner().await;
    let (length, asked) = length();
    let before = proc::memory(daemon.pid(), "VmRSS");
    let mut owner = Owner::new(daemon);
    let memory = || proc::memory(daemon.pid(), "VmRSS");
    let most = owner.write_for(length, || enough(&attack.so_far()), memory).await;
    let done = attack.end().await;
    let seen = owner.heard(&db).await;
    println!("{name}, {} s: {seen}; {done}; {before} KiB before, at most {most}", length.as_secs());
    assert!(done.tried > 0, "nobody attacked");
    assert!(most < before + MEMORY, "{name}: {most} KiB, and {before} before");
    // A shared machine may stand still for a while; whoever asked for a length says that this one does not.
    let (accept, start) = if asked { (200, 5000) } else { (10_000, 30_000) };
    assert!(seen.accepts.p99() <= Duration::from_millis(accept), "{name}: {seen}");
    assert!(seen.starts.p99() <= Duration::from_millis(start), "{name}: {seen}");
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_flood_with_messages_keep_the_owner_from_nothing() {
    let model = model(conversations()).await;
    let (_, asked) = length();
    let mut household = Household::with_model(&model);
    if !asked {
        // Small, so that a few seconds fill what is theirs of it.
        household =
            household.replace("switchboard/butler.toml", "worker_count = 3", "worker_count = 3\nmax_backlog = 120");
    }
    let daemon = household.start().await;
    let token = new_token(&household, "ingest");
    // Each message has a sender of its own, whom the connector names and nobody proves: no limit of one sender counts
    // them.
    let envelope = |n: usize| {
        let mut envelope = strangers(&format!("eve-{n}"), &format!("flood {n}"), &format!("FLOOD {n}"));
        if n.is_multiple_of(2) {
            envelope["control"]["pinned_target"] = json!("health");
        }
        envelope.to_string()
    };
    let url = format!("http://{}/api/ingest", daemon.admin());
    let full = |done: &Done| asked || done.of(429) > 0;
    let done = beside(("messages", full), &household, &daemon, Attack::messages(8, &url, &token, envelope)).await;
    let db = household.owner().await;
    let taken = "SELECT count(*) FROM switchboard.message_inbox WHERE trust = 'stranger'";
    let taken = count(&db, taken).await;
    assert!(taken >= i64::try_from(done.of(202)).expect("a number"), "{taken} on record, and acknowledged: {done}");
    if !asked {
        assert!(done.of(429) > 0, "their share was never used up: {done}");
        assert!(taken <= 90, "{taken} of 120 are waiting; a quarter is the owner's");
    }
    let waiting = "SELECT count(*) FROM switchboard.message_inbox WHERE trust = 'stranger' AND settled_at IS NULL";
    assert!(count(&db, waiting).await > 30, "the owner went before them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_without_a_token_keep_the_owner_from_nothing() {
    more_descriptors();
    let model = model(conversations()).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let admin: u16 = daemon.admin().rsplit_once(':').expect("a port").1.parse().expect("a port");
    let ports = [admin, daemon.port("health"), daemon.port("switchboard")];
    let replaced = |done: &Done| done.tried > 3 * attackers::SOCKETS;
    let done = beside(("sockets", replaced), &household, &daemon, Attack::sockets(&ports)).await;
    assert!(replaced(&done), "those that were closed were replaced: {done}");
    let called = daemon.mcp("health").ok("status", json!({})).await;
    assert!(called.is_object(), "{called}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn costly_schedules_keep_the_owner_from_nothing() {
    let model = model(conversations()).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    // A session ends after so many calls; this token makes as many as session after session would.
    let token = new_token(&household, "tools");
    let url = format!("http://127.0.0.1:{}/mcp", daemon.port("health"));
    let patterns =
        ["* * 30 2 *", "* * * 31 2,4,6,9,11 *", "* * 31 4 +1", "0 0 29 2 +1", "59 59 23 29 2 +6", "0 0 1 1 +L"];
    let call = move |n: usize| {
        let wish = json!({"name": format!("flood {n}"), "cron": patterns[n % patterns.len()], "prompt": "x"});
        json!({"jsonrpc": "2.0", "id": n, "method": "tools/call",
               "params": {"name": "schedule_create", "arguments": wish}})
        .to_string()
    };
    let answered = |done: &Done| done.of(200) > 10;
    let done = beside(("cron", answered), &household, &daemon, Attack::messages(4, &url, &token, call)).await;
    assert!(answered(&done), "they were answered: {done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn big_bodies_keep_the_owner_from_nothing() {
    let model = model(conversations()).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let token = new_token(&household, "ingest");
    let admin: u16 = daemon.admin().rsplit_once(':').expect("a port").1.parse().expect("a port");
    let health = daemon.port("health");
    let bodies = [
        Body { port: admin, path: "/api/ingest", token: token.clone() },
        Body { port: health, path: "/mcp", token: daemon.token() },
        Body { port: health, path: "/mcp", token: "nobody's".to_owned() },
    ];
    let refused = |done: &Done| done.of(413) > 0 && done.of(401) > 0;
    let done = beside(("bodies", refused), &household, &daemon, Attack::bodies(&bodies)).await;
    assert!(refused(&done), "what was too big or nobody's was refused: {done}");
}

/// What bounds strangers who take a new name for each message is what strangers have together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_names_for_each_message_get_strangers_no_more_than_their_share() {
    let model = model(conversations()).await;
    let household = Household::with_model(&model).replace(
        "switchboard/butler.toml",
        "worker_count = 3",
        "worker_count = 3\nmax_backlog = 40",
    );
    let daemon = household.start().await;
    let token = new_token(&household, "ingest");
    let send = async |envelope: &Value, token: &str| {
        let request = http().post(format!("http://{}/api/ingest", daemon.admin())).bearer_auth(token);
        let answer = request.json(envelope).send().await.expect("an answer");
        let after = answer.headers().contains_key("retry-after");
        (answer.status().as_u16(), after, answer.json::<Value>().await.expect("JSON"))
    };
    for n in 0..60 {
        let mut envelope = strangers(&format!("name-{n}"), &n.to_string(), &format!("FLOOD {n}"));
        // Some call themselves by the owner's name, which nobody proves.
        if n % 10 == 0 {
            envelope["sender"]["identity"] = json!("4711");
        }
        let (status, after, said) = send(&envelope, &token).await;
        let wanted = if n < 30 { 202 } else { 429 };
        assert_eq!((status, after), (wanted, n >= 30), "{n}: {said}");
        let told = said["error"].as_str().is_some_and(|why| why.contains("kept for those whom the household knows"));
        assert_eq!(told, n >= 30, "{n}: {said}");
    }
    let db = household.owner().await;
    let of = |trust: &str| format!("SELECT count(*) FROM switchboard.message_inbox WHERE trust = '{trust}'");
    assert_eq!(count(&db, &of("stranger")).await, 30, "three of four parts, whatever they are called");
    for n in 0..5 {
        let mut own = message(&format!("own {n}"), &format!("chat {n}"), "I weigh 82 kg");
        own["control"]["pinned_target"] = json!("health");
        let (status, _, said) = send(&own, &daemon.token()).await;
        assert_eq!(status, 202, "a quarter is kept for those whom the household knows: {said}");
        let entry = crate::inbound::ended(&daemon, said["request_id"].as_str().expect("an id")).await;
        assert_eq!(entry["state"], "done", "{entry}");
    }
    assert!(count(&db, &of("owner")).await == 5, "he was believed");
}
