//! Two daemons on one database: what is due is done by one of them, and neither takes the other for dead.

use access::credentials::MasterKey;
use serde_json::{Value, json};
use store::cluster::Cluster;
use supervisor::owner_login;
use testkit::model::ScriptedModel;
use tokio_postgres::Client;

use crate::backup::prints::{connect, server};
use crate::calendar_caldav::{event, synced, titles};
use crate::support::front::Front;
use crate::support::mail_server::MailServer;
use crate::support::mailbox::{ADA, HOUSEHOLD, proven};
use crate::support::radicale::Radicale;
use crate::support::tally::{TALLY, counting_model, rule};
use crate::support::{Daemon, Household, Receiver, eventually, model};

/// Every two seconds, and none of them left out.
const BEAT: &str = "\n[[butler.schedule]]\nname = \"beat\"\ncron = \"*/2 * * * * *\"\nprompt = \"count: beat\"\n\
                    missed = \"backfill\"\noverlap = \"queue\"\n";

/// A server that is neither's, and where it is.
pub struct Shared {
    pub url: String,
    pub cluster: Cluster,
    _place: Household,
}

impl Shared {
    pub async fn start() -> Self {
        let place = Household::bare();
        std::fs::create_dir(place.data()).expect("a directory");
        let (cluster, _) = server(&place.data()).await;
        let key = MasterKey::load(None, &place.data()).expect("a key");
        let host = cluster.socket_dir().to_str().expect("a path").replace('/', "%2F");
        let url = format!("postgresql://butlerd:{}@{host}/butlers", owner_login(&key).expose());
        let made = url.replace("/butlers", "/postgres").parse().expect("a URL");
        connect(&made).await.batch_execute("CREATE DATABASE butlers").await.expect("a database");
        Self { url, cluster, _place: place }
    }

    /// A household on it; all of them have one master key.
    pub fn household(&self, model: &ScriptedModel, receiver: &Receiver) -> Household {
        let gate = "\n[modules.approvals.gated_tools.state_set]\n";
        let toml = "general/butler.toml";
        let household = Household::with_model(model)
            .with_tally(4)
            .with_webhook(receiver, "")
            .env("BUTLERD_SCHEDULES__MIN_INTERVAL", "1s");
        let general = std::fs::read_to_string(household.roster().join(toml)).expect("the butler");
        let tally = std::fs::read_to_string(household.roster().join("tally/butler.toml")).expect("the butler");
        household
            .write(toml, &format!("{general}{gate}"))
            .write("tally/butler.toml", &format!("{tally}{BEAT}"))
            .env("BUTLERD_DATABASE__URL", &self.url)
            .env("BUTLERD_LEASE_SECONDS", "4")
    }

    /// A household on it in which nothing is due by itself.
    pub fn quiet_household(&self, model: &ScriptedModel, receiver: &Receiver, lease: u64) -> Household {
        let hangs = "[modules.health]\n\n[modules.probe]\nonce = true\n\n[modules.approvals.gated_tools.probe_echo]\n";
        Household::with_model(model)
            .with_tally(4)
            .with_webhook(receiver, "timeout = \"100s\"")
            .replace("health/butler.toml", "[modules.health]", hangs)
            .env("BUTLERD_SPAWNER__MAX_SESSIONS", "12")
            .env("BUTLERD_DATABASE__URL", &self.url)
            .env("BUTLERD_LEASE_SECONDS", &lease.to_string())
    }

    pub async fn client(&self) -> Client {
        connect(&self.url.parse().expect("a URL")).await
    }
}

pub async fn counting() -> ScriptedModel {
    let add = json!({"call": {"tool": "tally_add", "arguments": {"mark": "{{match.1}}"}}});
    let keep = json!({"call": {"tool": "state_set", "arguments": {"key": "{{match.1}}", "value": {"n": 1}}}});
    model(json!([
        {"when": "A call of `state_set` that you had made", "steps": [{"say": "I know."}]},
        {"when": "keep ([a-z0-9-]+)", "steps": [keep, {"say": "It waits."}]},
        {"when": "slowly: ([a-z0-9-]+)", "steps": [
            {"call": {"tool": "probe_echo", "arguments": {"ms": 6000}}}, add, {"say": "counted"}]},
        {"when": "stay: ([a-z0-9-]+)", "steps": [{"hang": true}]},
        {"when": "count: ([a-z0-9-]+)", "steps": [add, {"say": "counted"}]},
    ]))
    .await
}

pub async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.expect("a count").get(0)
}

/// Waits until so many runs of the beat are done.
pub async fn beats(client: &Client, n: i64) {
    eventually(&format!("{n} beats"), || async {
        match number(client, "SELECT count(*) FROM tally.schedule_runs WHERE state = 'done'").await {
            done if done >= n => Ok(()),
            done => Err(format!("{done}")),
        }
    })
    .await;
}

/// Has a session begun that nobody waits for.
pub fn begin(daemon: &Daemon, butler: &str, prompt: &str) -> tokio::task::JoinHandle<Value> {
    let (mcp, prompt) = (daemon.mcp(butler), prompt.to_owned());
    tokio::spawn(async move { mcp.call("trigger", json!({"prompt": prompt})).await.text() })
}

pub async fn running(client: &Client, prompt: &str) -> String {
    eventually(&format!("{prompt} runs"), || async {
        let sql = "SELECT id::text FROM tally.sessions WHERE prompt = $1 AND state = 'running' AND pid IS NOT NULL";
        let row = client.query_opt(sql, &[&prompt]).await.map_err(|e| e.to_string())?;
        row.map(|row| row.get(0)).ok_or_else(|| "not yet".to_owned())
    })
    .await
}

/// Each time from the first to the last has its one row, which was dispatched once and is done.
async fn each_beat_once(client: &Client) {
    let rows = client
        .query(
            "SELECT extract(epoch FROM fire_at)::bigint, r.state || ' ' || coalesce(r.reason, ''),
                    (SELECT count(*) FROM tally.sessions s WHERE s.run_id = r.id)
             FROM tally.schedule_runs r JOIN tally.scheduled_tasks t ON t.id = r.task_id
             WHERE t.name = 'beat' ORDER BY fire_at",
            &[],
        )
        .await
        .expect("the runs");
    let told: Vec<(i64, String, i64)> = rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect();
    for pair in told.windows(2) {
        assert_eq!(pair[1].0 - pair[0].0, 2, "a time is missing or there twice: {pair:?}");
    }
    // The last ones may be under way.
    let over = told.iter().filter(|(_, state, _)| !state.starts_with("due") && !state.starts_with("running"));
    for run in over {
        assert!(run.1.trim() == "done" && run.2 == 1, "{run:?} of {told:?}");
    }
    let twice = "SELECT count(*) FROM tally.schedule_runs GROUP BY task_id, fire_at HAVING count(*) > 1";
    assert_eq!(client.query(twice, &[]).await.expect("the runs").len(), 0);
}

pub async fn no_run_has_counted_twice(client: &Client) {
    let counted = "SELECT count(*) FROM tally.tool_calls c JOIN tally.sessions s ON s.id = c.session_id
                   WHERE c.tool = 'tally_add' AND c.outcome = 'ok' GROUP BY s.run_id HAVING s.run_id IS NOT NULL AND count(*) > 1";
    assert_eq!(client.query(counted, &[]).await.expect("the calls").len(), 0, "a run has counted twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_due_time_is_dispatched_by_one_of_two_daemons() {
    let (shared, model, receiver) = (Shared::start().await, counting().await, Receiver::start().await);
    let (left, right) = (shared.household(&model, &receiver), shared.household(&model, &receiver));
    let mut one = left.start().await;
    let client = shared.client().await;
    beats(&client, 2).await;
    // The second one starts while the first one works: it takes nothing of it for left over.
    let slow = begin(&one, "tally", "slowly: slow");
    running(&client, "slowly: slow").await;
    let mut two = right.start().await;
    assert_eq!(two.butler("tally").await["interrupted_sessions"], 0);
    let answer = slow.await.expect("its end");
    assert_eq!(answer["success"], true, "the other's start ended it: {answer}");
    assert_eq!(number(&client, "SELECT count(*) FROM shared.nodes").await, 2);
    // They work side by side: each has had some, and no time is left out or had by both.
    let both = "SELECT count(DISTINCT node) FROM tally.sessions WHERE run_id IS NOT NULL";
    eventually("both have had runs", || async {
        let nodes = number(&client, both).await;
        let most = number(&client, "SELECT count(*) FROM tally.schedule_runs WHERE state = 'done'").await;
        if nodes == 2 && most >= 10 { Ok(()) } else { Err(format!("{nodes} in {most} runs")) }
    })
    .await;
    each_beat_once(&client).await;
    // What leaves and what waits: each once, whoever was asked.
    let to_door =
        |n: usize| json!({"intent": "send", "channel": "webhook", "recipient": "door", "message": format!("m{n}")});
    for n in 0..20 {
        let daemon = if n % 2 == 0 { &one } else { &two };
        daemon.mcp("general").ok("notify", to_door(n)).await;
    }
    for n in 0..6 {
        let asked = if n % 2 == 0 { &one } else { &two };
        assert_eq!(begin(asked, "general", &format!("keep k{n}")).await.expect("an end")["success"], true);
        let sql = "SELECT id::text FROM shared.pending_actions WHERE status = 'pending'";
        let id: String = client.query_one(sql, &[]).await.expect("one that waits").get(0);
        let decided = if n % 3 == 0 { &left } else { &right };
        let (code, out, err) = tokio::task::block_in_place(|| decided.cli(&["approvals", "approve", &id]));
        assert_eq!(code, 0, "{out}{err}");
    }
    eventually("all calls were made and told", || async {
        let sql =
            "SELECT count(*) FROM shared.pending_actions WHERE status = 'executed' AND handed_back_at IS NOT NULL";
        match number(&client, sql).await {
            6 => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    let calls = "SELECT count(*) FROM general.tool_calls WHERE tool = 'state_set' AND outcome = 'ok'
                   AND caller LIKE 'approval %'";
    assert_eq!(number(&client, calls).await, 6, "each approved call is made once");
    eventually("all messages are out", || async {
        let sql =
            "SELECT count(*) FROM shared.outbox WHERE state = 'sent' AND message LIKE 'm%' AND channel = 'webhook'";
        match number(&client, sql).await {
            20 => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    for n in 0..20 {
        assert_eq!(receiver.of(&format!("m{n}")).len(), 1, "m{n}");
    }
    // One of them stops as it should, and nobody misses it.
    tokio::task::block_in_place(|| one.stop_blocking());
    let done = number(&client, "SELECT count(*) FROM tally.schedule_runs WHERE state = 'done'").await;
    beats(&client, done + 3).await;
    each_beat_once(&client).await;
    tokio::task::block_in_place(|| two.stop_blocking());
    each_beat_once(&client).await;
    let failed = "SELECT count(*) FROM tally.sessions WHERE state NOT IN ('succeeded')";
    assert_eq!(number(&client, failed).await, 0, "every session came to a good end");
    assert_eq!(number(&client, "SELECT count(*) FROM shared.nodes").await, 0);
    drop(client);
    shared.cluster.stop(std::time::Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_daemon_left_is_ended_by_the_other() {
    let (shared, model, receiver) = (Shared::start().await, counting().await, Receiver::start().await);
    let (left, right) = (shared.household(&model, &receiver), shared.household(&model, &receiver));
    let mut one = left.start().await;
    let two = right.start().await;
    let client = shared.client().await;
    let stays = begin(&one, "tally", "stay: here");
    let id = running(&client, "stay: here").await;
    let other = begin(&two, "tally", "slowly: other");
    running(&client, "slowly: other").await;
    one.kill();
    stays.abort();
    let state = || async {
        let sql = "SELECT state FROM tally.sessions WHERE id = $1::text::uuid";
        client.query_one(sql, &[&id]).await.expect("its row").get::<_, String>(0)
    };
    // Not at once: it might only be slow.
    assert_eq!(state().await, "running");
    eventually("the other one closes its session", || async {
        match state().await.as_str() {
            "interrupted" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    assert_eq!(other.await.expect("an end")["success"], true, "its own session goes on");
    // The runs that it held are taken over: none is lost, and none is counted twice.
    let held = number(&client, "SELECT count(*) FROM tally.schedule_runs WHERE state IN ('due', 'running')").await;
    let done = number(&client, "SELECT count(*) FROM tally.schedule_runs WHERE state IN ('done', 'failed')").await;
    eventually("the runs go on", || async {
        let sql = "SELECT count(*) FROM tally.schedule_runs WHERE state IN ('done', 'failed')";
        let now = number(&client, sql).await;
        if now > done + held { Ok(()) } else { Err(format!("{now}")) }
    })
    .await;
    no_run_has_counted_twice(&client).await;
    assert_eq!(two.logged(&["a daemon on this database is gone"], 1).await, 1, "{}", two.log());
    drop(two);
    drop(client);
    shared.cluster.stop(std::time::Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mailbox_is_read_by_one_of_two_daemons_and_by_the_other_when_that_one_dies() {
    let Some(server) = MailServer::start().await else { return };
    let (shared, model) = (Shared::start().await, counting_model(1).await);
    let household = || {
        let household = Household::few_with_model(&model).with_tally(4).with_email(&server, "backfill = \"7d\"");
        household.env("BUTLERD_DATABASE__URL", &shared.url).env("BUTLERD_LEASE_SECONDS", "4")
    };
    let (left, right) = (household(), household());
    let mut one = left.start().await;
    let client = shared.client().await;
    rule(&client, "count:", TALLY).await;
    let _two = right.start().await;
    let write = async |n: usize| {
        let text = format!("count: m{n}");
        server.deliver(HOUSEHOLD, &proven(ADA, &format!("{n}@x"), &format!("S{n}"), "", &text)).await;
        eventually(&format!("letter {n} is answered"), || async {
            let found = server.folder(ADA, "INBOX").await.len();
            if found == n { Ok(()) } else { Err(format!("{found} answers")) }
        })
        .await;
    };
    for n in 1..=3 {
        write(n).await;
    }
    let held = "SELECT count(DISTINCT instance_id) FROM switchboard.connector_registry";
    assert_eq!(number(&client, held).await, 1);
    one.kill();
    for n in 4..=6 {
        write(n).await;
    }
    assert_eq!(number(&client, "SELECT count(*) FROM switchboard.message_inbox").await, 6, "each is taken in once");
    assert_eq!(server.submitted().len(), 6, "each is answered once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_calendar_is_synced_by_one_of_two_daemons_and_by_the_other_when_that_one_dies() {
    let Some(server) = Radicale::start("two_daemons::a_calendar").await else { return };
    let (front, shared, model) = (Front::start(&server.server.url).await, Shared::start().await, counting().await);
    let household = || {
        let household = Household::few_with_model(&model).with_caldav("switchboard", &server, "private = [\"cal\"]\n");
        household
            .replace("switchboard/butler.toml", &server.server.url, &front.url)
            .env("BUTLERD_DATABASE__URL", &shared.url)
            .env("BUTLERD_LEASE_SECONDS", "4")
    };
    server.put("dentist", "Dentist", "").await;
    let (left, right) = (household(), household());
    let (one, two) = (left.start().await, right.start().await);
    for daemon in [&one, &two] {
        synced(&daemon.mcp("switchboard")).await;
        assert_eq!(titles(&daemon.mcp("switchboard")).await, ["Dentist"]);
    }
    // Whichever of them sends it dies before it hears that it arrived.
    front.keeps_next_answer();
    one.mcp("switchboard").ok("calendar_create_event", event("Tea", "2027-03-11T16:00")).await;
    front.kept().await;
    let client = shared.client().await;
    let sql = "SELECT node FROM shared.calendar_cursors WHERE claim IS NOT NULL";
    let node: String = client.query_one(sql, &[]).await.expect("one of them holds it").get(0);
    let is_left = node.ends_with(left.data().to_str().expect("a path"));
    let (mut dead, other) = if is_left { (one, two) } else { (two, one) };
    dead.kill();
    let sql = "SELECT lease_until::text FROM shared.calendar_cursors WHERE claim IS NOT NULL";
    let until: String = client.query_one(sql, &[]).await.expect("what it held").get(0);
    let butler = other.mcp("switchboard");
    assert_eq!(titles(&butler).await, ["Dentist", "Tea"], "the household has it all the while");
    synced(&butler).await;
    let sql = "SELECT count(*) FROM shared.calendar_cursors WHERE clock_timestamp() >= $1::text::timestamptz AND claim IS NULL";
    let over = client.query_one(sql, &[&until]).await.expect("a count").get::<_, i64>(0);
    assert_eq!(over, 1, "not before the lease was over");
    // The other one goes on, both ways, and nothing is there twice.
    server.edit("SUMMARY:Dentist", "SUMMARY:Dentist at ten").await;
    butler.ok("calendar_create_event", event("Supper", "2027-03-12T19:00")).await;
    synced(&butler).await;
    let all = ["Dentist at ten", "Supper", "Tea"];
    assert_eq!(
        (titles(&butler).await, server.titles().await),
        (all.map(str::to_owned).into(), all.map(str::to_owned).into())
    );
    let left_over = "SELECT (SELECT count(*) FROM shared.calendar_items WHERE pending OR sent IS NOT NULL)
                          + (SELECT count(*) FROM shared.calendar_conflicts)";
    assert_eq!(number(&client, left_over).await, 0);
    drop((dead, other, client));
    shared.cluster.stop(std::time::Duration::from_secs(20)).await;
}
