//! Two years of a life, told twice: what is told again in other words is one row, what is new is kept, what memory told
//! does not come back in, and what changed has one value and its history.
//!
//! The turns stand in `tests/data/life/`: each with what a good extraction of it stores, and which truth that is.
//! Nothing in the code knows them. Most of what is told again is known at once; of what takes knowledge of the world
//! consolidation asks a model, whose part is played by somebody who knows the truths.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio_postgres::Client;

use testkit::model::{Script, ScriptedModel};

use crate::support::{Household, Mcp};

/// So many things are told of at once; what is about one thing in its order.
const LANES: usize = 8;
/// Of so many turns, one has what memory told in its answer.
const RECALLED: usize = 40;
/// Of so many turns, one is kept as an episode too, as it was said.
const EPISODES: usize = 12;

/// What is told of one thing, in order.
type Lane = Vec<Value>;

/// All turns, in the order in which they were said.
fn turns() -> Vec<Value> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/life");
    let mut turns: Vec<Value> = Vec::new();
    for file in std::fs::read_dir(dir).expect("the data") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("text");
        turns.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")));
    }
    turns.sort_by_key(|t| t["turn"].as_u64());
    turns
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

/// By what they are about; turns without a fact have a lane of their own.
fn lanes(turns: &[Value]) -> Vec<Lane> {
    let mut lanes: BTreeMap<&str, Lane> = BTreeMap::new();
    for turn in turns {
        lanes.entry(text(turn, "of")).or_default().push(turn.clone());
    }
    lanes.into_values().collect()
}

/// All of it, or every so many-th thing (`MEMORY_LIFE_PART=4`) and all that changes.
fn part(turns: &[Value]) -> Vec<Value> {
    let every = std::env::var("MEMORY_LIFE_PART").ok().and_then(|text| text.parse::<u32>().ok()).unwrap_or(1).max(1);
    let taken = |turn: &&Value| turn["role"] == "change" || hash(turn).is_multiple_of(every);
    turns.iter().filter(taken).cloned().collect()
}

fn hash(turn: &Value) -> u32 {
    text(turn, "of").bytes().fold(2_166_136_261_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(16_777_619))
}

/// The half of the data that nobody looked at when the comparing of texts was made better.
fn held_out(turn: &Value) -> bool {
    (hash(turn) >> 7) & 1 == 1
}

/// What came of telling it all.
#[derive(Default)]
struct Book {
    /// Of which truth each row is.
    truth_of: HashMap<String, String>,
    /// The rows of each truth, in the order in which they were stored.
    rows: BTreeMap<String, Vec<String>>,
    /// Truths that were told and stand in another's row, and what was missed: of the half that was tuned on, and the
    /// other.
    merged: [BTreeSet<String>; 2],
    again: [Vec<String>; 2],
    truths: [BTreeSet<String>; 2],
    retold: [usize; 2],
    grown: usize,
}

impl Book {
    fn enter(&mut self, turn: &Value, fact: &Value, done: &Value) {
        let (truth, id, half) = (text(fact, "truth"), text(done, "id"), usize::from(held_out(turn)));
        let told_before = !self.truths[half].insert(truth.to_owned());
        self.retold[half] += usize::from(told_before);
        match text(done, "status") {
            "stored" => {
                self.grown += 1;
                if told_before {
                    self.again[half].push(format!("{}: {}", truth, text(fact, "content")));
                }
                self.truth_of.insert(id.to_owned(), truth.to_owned());
                self.rows.entry(truth.to_owned()).or_default().push(id.to_owned());
            }
            "confirmed" => {
                let is = self.truth_of.get(id).cloned().unwrap_or_default();
                if is != truth {
                    self.merged[half].insert(format!("{truth} into {is}: {}", text(fact, "content")));
                }
            }
            other => panic!("{fact}: {other}"),
        }
    }
}

/// Tells all of it, as a butler would that takes in each turn; what memory tells meanwhile is said back to it.
async fn tell(mcp: &Mcp, lanes: &[Lane], book: &Mutex<Book>) {
    stream::iter(lanes)
        .for_each_concurrent(LANES, |lane| async move {
            for turn in lane {
                let (n, said, when) =
                    (turn["turn"].as_u64().expect("a number") as usize, text(turn, "text"), text(turn, "when"));
                if n.is_multiple_of(EPISODES) {
                    let episode = json!({"content": said, "speaker": turn["speaker"], "occurred_at": when,
                                         "session_id": format!("life {}", &when[..10])});
                    let kept = mcp.call("memory_store_episode", episode).await.text();
                    let polite = text(turn, "role") == "chat" && text(&kept, "code") == "not_remembered";
                    assert!(polite || ["stored", "repeated"].contains(&text(&kept, "status")), "{said}: {kept}");
                }
                for fact in turn["facts"].as_array().into_iter().flatten() {
                    let mut given = fact.clone();
                    let given = given.as_object_mut().expect("an object");
                    given.remove("truth");
                    given.insert("said_at".to_owned(), json!(when));
                    let done = mcp.ok("memory_store_fact", Value::Object(given.clone())).await;
                    book.lock().expect("nobody fails with it").enter(turn, fact, &done);
                    if n.is_multiple_of(RECALLED) {
                        said_back(mcp, turn, fact).await;
                    }
                }
            }
        })
        .await;
}

/// What memory tells comes back in an answer, and as a fact: nothing of it is taken in.
async fn said_back(mcp: &Mcp, turn: &Value, fact: &Value) {
    let told = mcp.ok("memory_context", json!({"trigger_prompt": turn["text"]})).await;
    let block = text(&told, "context");
    assert!(block.contains("memory-"), "there is something to tell: {told}");
    let own = format!("Answered turn {} of the day.", turn["turn"]);
    let answer = json!({"content": format!("{own}\n{block}"), "session_id": format!("answer {}", turn["turn"])});
    let kept = mcp.ok("memory_store_episode", answer).await;
    let episode = mcp.ok("memory_get", json!({"memory_type": "episode", "memory_id": kept["id"]})).await;
    assert_eq!(episode["content"], json!(own), "an episode without what memory told");
    let again = json!({"subject": fact["subject"], "predicate": "note", "content": block});
    let refused = mcp.call("memory_store_fact", again).await.text();
    assert_eq!(refused["code"], "not_remembered", "{refused}");
}

async fn counted(db: &Client) -> (i64, i64) {
    let sql = "SELECT count(*), count(*) FILTER (WHERE validity IN ('active', 'fading')) FROM health.memory_facts";
    let row = db.query_one(sql, &[]).await.expect("a count");
    (row.get(0), row.get(1))
}

/// Is told things in a session, and says them back as facts. Asked which facts are the same, it says so by the truths
/// that the data gives them.
async fn parrot(turns: &[Value]) -> ScriptedModel {
    let mut truths: HashMap<(String, String), BTreeSet<String>> = HashMap::new();
    let key = |subject: &str, says: &str| (subject.to_lowercase(), says.to_owned());
    for fact in turns.iter().flat_map(|t| t["facts"].as_array().into_iter().flatten()) {
        let of = truths.entry(key(text(fact, "subject"), text(fact, "content"))).or_default();
        of.insert(text(fact, "truth").to_owned());
    }
    let same = move |pair: &Value| {
        let of = |side: &str| &truths[&key(text(&pair[side], "subject"), text(&pair[side], "says"))];
        !of("one").is_disjoint(of("other"))
    };
    let thinks = move |asked: &str| {
        let lines = asked.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let pairs: Vec<Value> = lines.filter(|line| line["pair"].is_u64()).collect();
        let numbers: Vec<&Value> = pairs.iter().filter(|pair| same(pair)).map(|pair| &pair["pair"]).collect();
        if asked.starts_with("You keep a household's memory") {
            return Some("Nothing is worth keeping.\n```json\n{}\n```".to_owned());
        }
        (!pairs.is_empty()).then(|| format!("```json\n{}\n```", json!({"same": numbers})))
    };
    let script = Script::from_value(
        json!({"conversations": [{"when": "look up \"([^\"]+)\" and note that of ([^|]+)\\|([^|]+)\\|(.+)", "steps": [
        {"call": {"tool": "memory_search", "arguments": {"query": "{{match.1}}", "limit": 20}}},
        {"call": {"tool": "memory_store_fact", "arguments":
            {"subject": "{{match.2}}", "predicate": "{{match.3}}", "content": "{{match.4}}"}}},
        {"say": "I know that {{match.4}}."}]}]}),
    );
    ScriptedModel::start_thinking(script.expect("a right script"), thinks).await.expect("the model starts")
}

/// Lets consolidation run until no fact waits to be compared.
async fn consolidated(household: &Household, db: &Client) {
    for _ in 0..12 {
        let (_, out, err) = household.cli(&["schedule", "run", "memory-consolidation", "--butler", "health", "--json"]);
        let ran: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
        println!("{}", text(&ran, "result"));
        let waiting = "SELECT count(*) FROM health.memory_facts WHERE compared = 'pending'";
        if db.query_one(waiting, &[]).await.expect("a count").get::<_, i64>(0) == 0 {
            return;
        }
    }
    panic!("facts wait still");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_life_told_twice_is_kept_once() {
    let turns = turns();
    let model = parrot(&turns).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let mcp = daemon.mcp("health");
    let db = household.owner().await;
    assert!(turns.len() >= 1000, "{} turns", turns.len());
    let mut told = part(&turns);
    let unsaid = keep_back(&mut told);
    let lanes = lanes(&told);
    let book = Mutex::new(Book::default());

    tell(&mcp, &lanes, &book).await;
    let told_once = counted(&db).await;
    let mut first = book.into_inner().expect("nobody failed with it");
    assert_eq!(told_once.0, i64::try_from(first.grown).expect("few"), "a row for each that was stored, and no other");
    let ([tuned, held], [again_tuned, again_held]) = (&first.truths, &first.again);
    println!(
        "{} turns, {} truths; told again in other words {} times: {} rows more than truths ({} of {} in the half that was \
         looked at, {} of {} in the half that was not); merged by mistake: {} and {}",
        told.len(),
        tuned.len() + held.len(),
        first.retold[0] + first.retold[1],
        again_tuned.len() + again_held.len(),
        again_tuned.len(),
        first.retold[0],
        again_held.len(),
        first.retold[1],
        first.merged[0].len(),
        first.merged[1].len()
    );
    let merged = first.merged[0].len() + first.merged[1].len();
    let truths = tuned.len() + held.len();
    assert!(merged * 100 <= truths, "merged by mistake, of {truths}: {:?}", first.merged);
    let duplicates = active_twice(&db, &first).await;
    println!("{duplicates} truths have more than one active row before consolidation");
    assert!(duplicates * 100 <= truths * KEPT_TWICE, "{:?}", first.again);
    consolidated(&household, &db).await;
    assert_eq!(not_as_told(&db, &first).await, Vec::<String>::new(), "no truth has two rows of its own");
    let once = counted(&db).await;

    // What changed has the value that was told last, and all others behind it.
    let changes: BTreeSet<&str> = turns.iter().filter(|t| t["role"] == "change").map(|t| text(t, "of")).collect();
    assert!(changes.len() >= 50, "{} properties change", changes.len());
    for of in &changes {
        assert_eq!(history(&db, &first, of).await, values(&turns, of), "{of}");
    }

    // In sessions, which are told from memory first.
    let sample: Vec<&Value> = told.iter().filter(|t| t["role"] == "near").step_by(20).collect();
    for turn in &sample {
        let fact = &turn["facts"][0];
        noted(&mcp, text(fact, "content"), fact).await;
    }
    let confirmed = "SELECT coalesce(sum(confirmations), 0)::bigint FROM health.memory_facts WHERE id = ANY($1)";
    let ids: Vec<uuid::Uuid> =
        sample.iter().filter_map(|t| first.rows.get(text(&t["facts"][0], "truth"))?.first()?.parse().ok()).collect();
    let by_itself: i64 = db.query_one(confirmed, &[&ids]).await.expect("a sum").get(0);
    assert_eq!((by_itself, counted(&db).await), (0, once), "what memory told is neither stored nor counted as heard");
    in_own_words(&mcp, &db, &unsaid).await;
    consolidated(&household, &db).await;
    assert_eq!(counted(&db).await.1, once.1, "what became a row in other words is one with what memory had told");
    let once = counted(&db).await;

    // The same life once more.
    first.grown = 0;
    let book = Mutex::new(first);
    tell(&mcp, &lanes, &book).await;
    let second = book.into_inner().expect("nobody failed with it");
    assert_eq!((second.grown, counted(&db).await), (0, once), "nothing new was told, and nothing has grown");
    for of in &changes {
        assert_eq!(history(&db, &second, of).await, values(&turns, of), "{of} after the second time");
    }
    // Only what is new makes it grow.
    let new = json!({"subject": "owner", "predicate": "likes", "content": "watching the lighthouse at dusk"});
    assert_eq!(mcp.ok("memory_store_fact", new).await["status"], "stored");
    assert_eq!(counted(&db).await, (once.0 + 1, once.1 + 1));
    a_hundred_times(&mcp, &db, &turns).await;
    household.at_rest("after two lives").await;
}

/// Takes the last wording of some truths out of what is told, so that nobody but sessions ever uses it. Each with the first
/// wording, which is told.
fn keep_back(told: &mut Vec<Value>) -> Vec<(Value, Value)> {
    let mut wordings: BTreeMap<String, Vec<(Value, Value)>> = BTreeMap::new();
    for turn in told.iter().filter(|turn| turn["role"] == "told") {
        let fact = &turn["facts"][0];
        // All of these are told a hundred times.
        if !text(fact, "subject").eq_ignore_ascii_case("cleaning help") {
            let of = wordings.entry(text(fact, "truth").to_owned()).or_default();
            of.push((turn["turn"].clone(), fact.clone()));
        }
    }
    let kept: Vec<_> = wordings.into_values().filter(|of| of.len() > 2).step_by(10).collect();
    told.retain(|turn| !kept.iter().any(|of| of[of.len() - 1].0 == turn["turn"]));
    kept.iter().map(|of| (of[0].1.clone(), of[of.len() - 1].1.clone())).collect()
}

/// A session that looks something up in memory and then notes a fact.
async fn noted(mcp: &Mcp, looked_up: &str, fact: &Value) {
    let (subject, predicate, content) = (text(fact, "subject"), text(fact, "predicate"), text(fact, "content"));
    let prompt = format!("look up \"{looked_up}\" and note that of {subject}|{predicate}|{content}");
    let end = mcp.ok("trigger", json!({"prompt": prompt})).await;
    assert_eq!(end["success"], true, "{end}");
}

/// Sessions that were told a fact note it in words that nobody has used for it: most of them are known at once, and none
/// counts as heard once more.
async fn in_own_words(mcp: &Mcp, db: &Client, unsaid: &[(Value, Value)]) {
    let heard = async || -> i64 {
        let sql = "SELECT coalesce(sum(confirmations), 0)::bigint FROM health.memory_facts";
        db.query_one(sql, &[]).await.expect("a sum").get(0)
    };
    let (before, heard_before) = (counted(db).await.0, heard().await);
    let mut stored = Vec::new();
    for (told, own) in unsaid {
        let rows = counted(db).await.0;
        noted(mcp, &format!("{} {}", text(told, "subject"), text(told, "content")), own).await;
        if counted(db).await.0 > rows {
            stored.push(format!("{} beside {}", text(own, "content"), text(told, "content")));
        }
    }
    let grown = usize::try_from(counted(db).await.0 - before).expect("nothing goes");
    println!("of {} facts that sessions said in other words {grown} became rows: {stored:?}", unsaid.len());
    assert!(!unsaid.is_empty() && grown * 100 <= unsaid.len() * NOTED_TWICE, "{stored:?}");
    assert_eq!(heard().await, heard_before, "what memory told is not heard once more");
}

/// In hundredths of what sessions say in other words: how much may become a row until consolidation, because only knowledge
/// of the world tells that it is the same.
const NOTED_TWICE: usize = 20;

/// In hundredths of all truths: how many may have a second active row until consolidation.
const KEPT_TWICE: usize = 7;

/// Truths of which more than one row holds, and rows that are wordings of another truth's.
async fn not_as_told(db: &Client, book: &Book) -> Vec<String> {
    let sql = "SELECT id::text, merged_into::text, validity, content FROM health.memory_facts ORDER BY seq";
    let mut own: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in db.query(sql, &[]).await.expect("rows") {
        let (id, into, content): (String, Option<String>, String) = (row.get(0), row.get(1), row.get(3));
        let truth = book.truth_of[&id].clone();
        match into {
            None => own.entry(truth).or_default().push((row.get(2), content)),
            Some(into) if book.truth_of[&into] == truth => {}
            Some(into) => wrong.push(format!("{content} is not a wording of {}", book.truth_of[&into])),
        }
    }
    let active = |rows: &[(String, String)]| rows.iter().filter(|(v, _)| v == "active" || v == "fading").count();
    wrong.extend(own.iter().filter(|(_, rows)| active(rows) > 1).map(|(truth, rows)| format!("{truth}: {rows:?}")));
    wrong
}

/// How many truths have more than one row that holds.
async fn active_twice(db: &Client, book: &Book) -> usize {
    let sql = "SELECT id::text FROM health.memory_facts WHERE validity IN ('active', 'fading')";
    let active: BTreeSet<String> = db.query(sql, &[]).await.expect("rows").iter().map(|r| r.get(0)).collect();
    book.rows.values().filter(|ids| ids.iter().filter(|id| active.contains(*id)).count() > 1).count()
}

/// The truths that a property had, in order, with the one that holds now at the end.
fn values(turns: &[Value], of: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for turn in turns.iter().filter(|t| text(t, "of") == of) {
        let truth = text(&turn["facts"][0], "truth");
        if values.last().is_none_or(|last| last != truth) {
            values.push(truth.to_owned());
        }
    }
    values
}

/// The same as the rows tell it: one after the other, the last one active, each ending where the next begins.
async fn history(db: &Client, book: &Book, of: &str) -> Vec<String> {
    let ids: Vec<uuid::Uuid> = book
        .rows
        .iter()
        .filter(|(truth, _)| truth.split('#').next() == Some(of))
        .flat_map(|(_, ids)| ids.iter().filter_map(|id| id.parse().ok()))
        .collect();
    let sql = "SELECT id::text, validity, valid_from, valid_to, lead(valid_from) OVER (ORDER BY valid_from) AS next
               FROM health.memory_facts WHERE id = ANY($1) AND validity <> 'merged' ORDER BY valid_from";
    let rows = db.query(sql, &[&ids]).await.expect("rows");
    let last = rows.len().saturating_sub(1);
    let mut story: Vec<String> = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let (id, validity): (String, String) = (row.get(0), row.get(1));
        assert_eq!(validity, if n == last { "active" } else { "superseded" }, "{of}: {id}");
        let (to, next): (Option<jiff::Timestamp>, Option<jiff::Timestamp>) = (row.get(3), row.get(4));
        assert_eq!(to, next, "{of}: {id} ends where the next begins");
        story.push(book.truth_of[&id].clone());
    }
    story
}

/// One fact in each of its wordings, over and over, some at once.
async fn a_hundred_times(mcp: &Mcp, db: &Client, turns: &[Value]) {
    let of = |t: &&Value| t["role"] == "told" && text(&t["facts"][0], "subject").to_lowercase() == "cleaning help";
    let wordings: Vec<Value> = turns.iter().filter(of).map(|t| t["facts"][0].clone()).collect();
    let name: Vec<&Value> = wordings.iter().filter(|f| text(f, "predicate") == "name").collect();
    assert_eq!(name.len(), 3, "{wordings:?}");
    let ids: BTreeSet<String> = stream::iter(0..100)
        .map(|n| {
            let given = json!({"subject": "Cleaning help", "predicate": "name", "content": name[n % 3]["content"]});
            async move { text(&mcp.ok("memory_store_fact", given).await, "id").to_owned() }
        })
        .buffer_unordered(LANES)
        .collect()
        .await;
    assert_eq!(ids.len(), 1, "{ids:?}");
    let id: uuid::Uuid = ids.iter().next().and_then(|id| id.parse().ok()).expect("an id");
    let sql = "SELECT confirmations FROM health.memory_facts WHERE id = $1 AND validity = 'active'";
    let confirmations: i32 = db.query_one(sql, &[&id]).await.expect("the row").get(0);
    assert!(confirmations >= 99, "{confirmations}");
}
