//! The conversation log: everything that is said is in it once, in an order that no reader sees broken, for those whom
//! it concerns.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use access::credentials::MasterKey;
use base::{Clock, TenantId};
use conversation::{ConversationLog, Direction, Placed};
use serde_json::{Value, json};
use store::cluster::{OWNER, socket_config};
use store::{Database, DatabaseOptions};
use supervisor::owner_login;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::inbound::{connector, ended, ingest, message, read_answers};
use crate::support::tally::random;
use crate::support::{Household, Receiver, eventually, model};

/// A message that nobody is to deal with, written as it is accepted.
const SAID: &str = "INSERT INTO switchboard.message_inbox
    (request_id, dedupe_key, dedupe_by, state, settled_at, tier, lane, channel, provider, endpoint, sender, trust,
     observed_at, received_at, body, envelope, context, triage)
    VALUES ($1, $1::uuid::text, 'event', 'done', now(), 2, $2, 'telegram', 't', 'bot:home', '4711', $3, now(), now(),
            $4, '{}', '{}', '{\"action\": \"skip\"}')";

/// Speaks for the tenant of the household.
async fn speaking(client: Client) -> Client {
    client.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a tenant");
    client
}

/// Says something, and returns its request.
async fn say(client: &Client, lane: &str, trust: &str, text: &str) -> Uuid {
    let request = Uuid::now_v7();
    client.execute(SAID, &[&request, &lane, &trust, &text]).await.expect("a message");
    request
}

/// Hands a message to a butler.
async fn hand(client: &Client, butler: &str, request: Uuid) {
    let sql = format!(
        "INSERT INTO {butler}.route_inbox (id, request_id, kind, route, trust, state, settled_at)
         VALUES ($1, $2, 'message', '{{}}', 'owner', 'done', now())"
    );
    client.execute(&sql, &[&Uuid::now_v7(), &request]).await.expect("a part");
}

/// The log of a household whose daemon runs, and its database.
async fn log(household: &Household) -> (ConversationLog, Arc<Database>) {
    let key = MasterKey::load(None, &household.data()).expect("the key");
    let pid = std::fs::read_to_string(household.data().join("postgres/postmaster.pid")).expect("a server");
    let socket = pid.lines().nth(4).expect("its socket").to_owned();
    let mut owner = socket_config(Path::new(&socket), OWNER, &owner_login(&key));
    owner.dbname("butlers");
    let options = DatabaseOptions {
        owner,
        pool_size: 2,
        time_zone: jiff::tz::TimeZone::UTC,
        master_key: key.bytes().clone(),
        clock: Clock::default(),
    };
    let db = Arc::new(Database::open(options).await.expect("the database"));
    (ConversationLog::new(db.clone()), db)
}

const WRITERS: usize = 32;
const ROUNDS: usize = 12;

/// A writer's transaction is open, and this ends it; `None`: the writer is done.
type Event = Option<oneshot::Sender<()>>;

/// One of those who write: it begins, says something, and ends when it is told to; now and then it takes it back.
async fn write(client: Client, n: usize, open: mpsc::UnboundedSender<Event>) {
    for round in 0..ROUNDS {
        let seed = (n * ROUNDS + round) as u64;
        client.batch_execute("BEGIN").await.expect("a transaction");
        for part in 0..=random(seed) % 3 {
            say(&client, &format!("lane {n}"), "owner", &format!("{n} {round} {part}")).await;
        }
        let (end, ending) = oneshot::channel();
        open.send(Some(end)).expect("somebody ends it");
        ending.await.expect("an end");
        client
            .batch_execute(if random(seed + 1).is_multiple_of(8) { "ROLLBACK" } else { "COMMIT" })
            .await
            .expect("an end");
    }
    open.send(None).expect("somebody listens");
}

/// Ends open transactions by chance, and each time only when all writers that are left have one: so
/// it commits long after others that began later.
async fn end_in_random_order(mut open: mpsc::UnboundedReceiver<Event>) {
    let (mut waiting, mut left) = (Vec::new(), WRITERS);
    for n in 0_u64.. {
        while waiting.len() < left {
            match open.recv().await.expect("a writer") {
                Some(end) => waiting.push(end),
                None => left -= 1,
            }
        }
        if waiting.is_empty() {
            return;
        }
        // Now and then several at once.
        for part in 0..=(random(n) % 4).min(waiting.len() as u64 - 1) {
            let chosen = random(n + part) as usize % waiting.len();
            waiting.swap_remove(chosen).send(()).expect("a writer");
        }
    }
}

/// What one reader found, in the order in which it found it.
#[derive(Default)]
struct Found {
    numbers: Vec<i64>,
    polls: usize,
}

impl Found {
    /// Takes what a look found behind the last number, and fails if it should have been found before.
    fn take(&mut self, who: &str, all: &[i64]) {
        let known: BTreeSet<i64> = self.numbers.iter().copied().collect();
        let last = self.numbers.last().copied().unwrap_or(0);
        for number in all.iter().filter(|n| !known.contains(n)) {
            assert!(*number > last, "{who} saw {last}, and finds {number} now");
        }
        self.numbers.extend(all.iter().filter(|n| **n > last));
        self.polls += 1;
    }
}

/// Looks at the whole log again and again by `sql`, with `before` run ahead of each look, until nobody writes any more.
async fn read(who: &'static str, client: Client, before: &str, sql: &str, after: &str, over: Arc<AtomicBool>) -> Found {
    let mut found = Found::default();
    loop {
        // Looked at first: after it everything is there to be found.
        let last = over.load(Ordering::SeqCst);
        client.batch_execute(before).await.expect("a beginning");
        let rows = client.query(sql, &[]).await.expect("the log");
        client.batch_execute(after).await.expect("an end");
        found.take(who, &rows.iter().map(|row| row.get(0)).collect::<Vec<_>>());
        if last {
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn whoever_saw_a_number_never_finds_a_smaller_one_later() {
    let household = Household::few();
    let _daemon = household.start().await;
    let (log, db) = log(&household).await;
    let (open, opened) = mpsc::unbounded_channel();
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..WRITERS {
        writers.spawn(write(speaking(household.owner().await).await, n, open.clone()));
    }
    drop(open);
    let over = Arc::new(AtomicBool::new(false));
    let all = "SELECT id FROM shared.conversation WHERE id IS NOT NULL ORDER BY id";
    let mut readers = tokio::task::JoinSet::new();
    // Who only reads, who puts in order first, who reads under row-level security, and in another isolation level.
    readers.spawn(read("a reader", household.owner().await, "", all, "", over.clone()));
    let order = "SELECT shared.conversation_order()";
    readers.spawn(read("a reader that puts in order", household.owner().await, order, all, "", over.clone()));
    let role = speaking(household.role("switchboard").await).await;
    readers.spawn(read("the switchboard", role, "", all, "", over.clone()));
    let (begin, end) = ("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", "COMMIT");
    readers.spawn(read("a serializable reader", household.owner().await, begin, all, end, over.clone()));
    // And one that only ever asks for what is new.
    let following = tokio::spawn({
        let (log, over) = (log.clone(), over.clone());
        async move {
            let (tenant, mut place, mut numbers) = (TenantId::owner(), 0, Vec::new());
            loop {
                let last = over.load(Ordering::SeqCst);
                let page = log.after(&tenant, place, 7).await.expect("a page");
                place = page.last().map_or(place, |last| last.place);
                numbers.extend(page.iter().map(|placed| placed.place));
                if last && page.is_empty() {
                    return numbers;
                }
            }
        }
    });

    let ending = tokio::spawn(end_in_random_order(opened));
    while let Some(done) = writers.join_next().await {
        done.expect("a writer");
    }
    ending.await.expect("all are ended");
    log.order().await.expect("an order");
    over.store(true, Ordering::SeqCst);

    let client = household.owner().await;
    let rows = client.query(all, &[]).await.expect("the log");
    let there: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let sql = "SELECT count(*), (SELECT count(*) FROM switchboard.message_inbox),
                      count(*) FILTER (WHERE seq < before) FROM (
                   SELECT seq, lag(seq) OVER (ORDER BY id) AS before FROM shared.conversation) c";
    let row = client.query_one(sql, &[]).await.expect("a count");
    let (entries, messages, moved): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    assert_eq!((there.len() as i64, entries), (messages, messages), "each message has its place");
    assert!(messages > (WRITERS * ROUNDS) as i64, "{messages}");
    assert!(moved > 50, "only {moved} were committed in another order than they were written");
    assert_eq!(following.await.expect("the follower"), there, "who follows misses nothing");
    while let Some(found) = readers.join_next().await {
        let found = found.expect("a reader");
        assert!(found.polls > 10, "{} looks", found.polls);
        assert_eq!(found.numbers, there);
    }
    db.close().await;
}

/// What a role sees of the log: direction, butler, text. While an answer waits for its channel the house may tell its owner
/// so, which is not what is looked for.
async fn seen(household: &Household, butler: &str) -> Vec<(String, Option<String>, Option<String>)> {
    let client = speaking(household.role(butler).await).await;
    let sql = "SELECT direction, butler, text FROM shared.conversation WHERE kind <> 'notice' ORDER BY seq";
    client.query(sql, &[]).await.expect("the log").iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_is_in_the_log_for_those_whom_it_concerns() {
    let model = model(json!([
        {"when": "and now", "steps": [{"say": "Still 82 kg."}]},
        {"when": "I weigh 82 kg", "steps": [{"say": "Noted: 82 kg."}]},
    ]))
    .await;
    let receiver = Receiver::start().await;
    let household = Household::whole_with_model(&model).with_webhook(&receiver, "");
    let daemon = household.start().await;
    let mut first = message("1", "chat-1", "I weigh 82 kg today");
    first["control"]["pinned_target"] = json!("health");
    first["sender"]["display_name"] = json!("Ann");
    let (status, accepted) = ingest(&daemon, &first).await;
    assert_eq!(status, 202, "{accepted}");
    let id = accepted["request_id"].as_str().expect("an id").to_owned();
    // The same once more is the same.
    assert_eq!(ingest(&daemon, &first).await.1["duplicate"], true);
    assert_eq!(ended(&daemon, &id).await["body"], "I weigh 82 kg today");
    // What waits for a channel is not said; it is as soon as the connector has read it.
    let client = household.owner().await;
    let out = "SELECT count(*) FROM shared.conversation WHERE direction = 'out' AND kind <> 'notice'";
    assert_eq!(client.query_one(out, &[]).await.expect("a count").get::<_, i64>(0), 0);
    let telegram = connector(&household, "telegram");
    read_answers(&daemon, &telegram, &id).await;

    let sql = "SELECT to_jsonb(c) FROM shared.conversation c WHERE request_id = $1 ORDER BY seq";
    let request: Uuid = id.parse().expect("an id");
    let rows = client.query(sql, &[&request]).await.expect("the log");
    let said: Vec<Value> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    let parts = |of: &Value, names: &[&str]| json!(names.iter().map(|name| of[*name].clone()).collect::<Vec<_>>());
    let names =
        ["direction", "kind", "channel", "endpoint", "lane", "thread", "person", "butler", "text", "trust", "auto"];
    let lane = conversation::Lane::of("telegram", "bot:home", Some("chat-1"), "4711").0;
    assert_eq!(
        parts(&said[0], &names),
        json!([
            "in",
            "message",
            "telegram",
            "bot:home",
            lane,
            "chat-1",
            "4711",
            null,
            "I weigh 82 kg today",
            "owner",
            false
        ])
    );
    assert_eq!(
        parts(&said[1], &names),
        json!([
            "out",
            "reply",
            "telegram",
            "bot:home",
            lane,
            "chat-1",
            "4711",
            "health",
            "Noted: 82 kg.",
            "owner",
            true
        ])
    );
    assert_eq!(said[0]["person_name"], "Ann");
    assert!(!said[1]["session_id"].is_null() && said[1]["entry"] != said[0]["entry"], "{}", said[1]);

    // A delivery is in the log once it has arrived.
    let mut second = message("2", "chat-1", "and now?");
    second["control"]["pinned_target"] = json!("health");
    let (_, accepted) = ingest(&daemon, &second).await;
    let id = accepted["request_id"].as_str().expect("an id");
    ended(&daemon, id).await;
    read_answers(&daemon, &telegram, id).await;
    let wanted = json!({"intent": "send", "channel": "webhook", "recipient": "door", "message": "It is time."});
    daemon.mcp("health").ok("notify", wanted).await;
    household.all_delivered("it is time").await;
    assert_eq!(receiver.of("It is time.").len(), 1);
    let sql = "SELECT c.kind, c.butler, c.channel, c.entry = o.id FROM shared.conversation c
               JOIN shared.outbox o ON o.message = c.text WHERE c.text = 'It is time.'";
    let row = client.query_one(sql, &[]).await.expect("one delivery");
    let found: (String, String, String, bool) = (row.get(0), row.get(1), row.get(2), row.get(3));
    assert_eq!(found, ("message".to_owned(), "health".to_owned(), "webhook".to_owned(), true));

    // Under row-level security.
    let all = seen(&household, "switchboard").await;
    let texts: Vec<&str> = all.iter().filter_map(|(_, _, text)| text.as_deref()).collect();
    assert!(texts.len() >= 5 && texts.contains(&"Still 82 kg.") && texts.contains(&"It is time."), "{texts:?}");
    assert_eq!(seen(&household, "health").await, all, "both messages were handed to it, and it said the rest");
    assert!(seen(&household, "finance").await.is_empty(), "they are no concern of others");
    let out = seen(&household, "messenger").await;
    assert!(out.len() >= 3 && out.iter().all(|(direction, ..)| direction == "out"), "{out:?}");
    let other = household.role("switchboard").await;
    let count = "SELECT count(*) FROM shared.conversation";
    assert_eq!(other.query_one(count, &[]).await.expect("a count").get::<_, i64>(0), 0, "no tenant, no row");
    other.batch_execute("SET butlerd.tenant = 'other'").await.expect("a tenant");
    assert_eq!(other.query_one(count, &[]).await.expect("a count").get::<_, i64>(0), 0, "another tenant's");
    household.at_rest("the log").await;
    // The daemon gives numbers by itself.
    eventually("all have their places", || async {
        let sql = "SELECT count(*) FROM shared.conversation WHERE id IS NULL";
        match client.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get::<_, i64>(0) {
            0 => Ok(()),
            n => Err(format!("{n} have none")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butler_misses_nothing_that_becomes_its_concern_late_and_is_lowered_by_what_it_reads_alone() {
    let household = Household::new();
    let _daemon = household.start().await;
    let (log, db) = log(&household).await;
    let owner = speaking(household.owner().await).await;
    let first = say(&owner, "a", "owner", "first").await;
    let second = say(&owner, "b", "stranger", "second").await;
    let third = say(&owner, "a", "owner", "third").await;
    say(&owner, "a", "stranger", "never handed").await;
    let name = base::ButlerName::new("health").expect("a name");
    let store = db.provision(&name, "health").await.expect("a store");
    let (reader, tenant) = (log.reader("health"), TenantId::owner());
    let texts = |page: &[Placed]| page.iter().filter_map(|p| p.entry.text.clone()).collect::<Vec<_>>();
    let read = async |place| {
        let mut lease = store.tenant(&tenant).await.expect("a lease");
        reader.after(&mut lease, &tenant, place, 10).await.expect("a page")
    };
    assert_eq!(read(0).await, []);
    hand(&owner, "health", third).await;
    let page = read(0).await;
    assert_eq!(texts(&page), ["third"]);
    assert_eq!(page[0].entry.direction, Direction::In);
    hand(&owner, "health", first).await;
    let page = read(page[0].place).await;
    assert_eq!(texts(&page), ["first"], "it was said before, and is found afterwards");
    let place = page[0].place;
    hand(&owner, "health", second).await;
    assert_eq!(texts(&read(place).await), ["second"]);
    assert_eq!(texts(&read(0).await), ["third", "first", "second"]);
    let whole = log.after(&tenant, 0, 10).await.expect("a page");
    assert_eq!(texts(&whole), ["first", "second", "third", "never handed"]);

    // The stranger's words lower whoever reads them, and only then.
    let role = speaking(household.role("health").await).await;
    let believed = async || role.query_one("SELECT shared.trust()", &[]).await.expect("trust").get::<_, String>(0);
    role.batch_execute("BEGIN").await.expect("a transaction");
    let sql = "SELECT text FROM shared.conversation WHERE request_id = ANY($1)";
    assert_eq!(role.query(sql, &[&vec![first, third]]).await.expect("rows").len(), 2);
    assert_eq!(believed().await, "system");
    assert_eq!(role.query(sql, &[&vec![second]]).await.expect("a row").len(), 1);
    assert_eq!(believed().await, "stranger");
    role.batch_execute("ROLLBACK").await.expect("an end");
    for sql in [
        "INSERT INTO shared.conversation DEFAULT VALUES",
        "UPDATE shared.conversation SET text = ''",
        "DELETE FROM shared.conversation",
        "SELECT shared.conversation_order()",
    ] {
        let refused = role.batch_execute(sql).await.expect_err(sql);
        assert_eq!(refused.code().map(|c| c.code()), Some("42501"), "{sql}: {refused}");
    }
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_goes_on_after_a_restore_elsewhere() {
    let household = Household::few();
    let mut daemon = household.start().await;
    let (log, db) = log(&household).await;
    let client = speaking(household.owner().await).await;
    // The first cluster is older than the next: its transactions are numbered higher.
    for n in 0..300 {
        say(&client, "a", "owner", &format!("before {n}")).await;
    }
    log.order().await.expect("an order");
    let before = log.after(&TenantId::owner(), 0, 1000).await.expect("a page");
    assert_eq!(before.len(), 300);
    db.close().await;
    tokio::task::spawn_blocking(move || assert_eq!(daemon.stop_blocking(), 0)).await.expect("a stop");
    let (file, key) = (household.path().join("a.backup"), household.data().join("master.key"));
    let (code, out, err) = household.cli(&["backup", file.to_str().expect("a path")]);
    assert_eq!(code, 0, "{out}{err}");
    let empty = Household::bare();
    let restore = ["restore", file.to_str().expect("a path"), "--key", key.to_str().expect("a path")];
    let (code, out, err) = empty.cli(&restore);
    assert_eq!(code, 0, "{out}{err}");

    let _daemon = empty.start().await;
    let (log, db) = self::log(&empty).await;
    let client = speaking(empty.owner().await).await;
    say(&client, "a", "owner", "after").await;
    let last = before.last().expect("an entry");
    let page = log.after(&TenantId::owner(), last.place, 10).await.expect("a page");
    assert_eq!(page.len(), 1, "{page:?}");
    assert_eq!(page[0].entry.text.as_deref(), Some("after"));
    let all = log.after(&TenantId::owner(), 0, 1000).await.expect("a page");
    assert_eq!(all[..300], before[..], "what was there has its place and its words");
    db.close().await;
}
