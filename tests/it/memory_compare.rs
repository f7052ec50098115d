//! Facts that were put down twice in other words: consolidation asks once whether they are the same, and makes them
//! one.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::model::{Script, ScriptedModel};

use crate::support::memory::{dump, put, remembering, run, said};
use crate::support::tally::{TALLY, died};
use crate::support::{Household, Mcp, eventually};

const FIRST: &str = "detective stories by Simenon";
const AGAIN: &str = "likes reading Simenon's detective stories";

/// Says of all pairs that they are the same, but of those that speak of Chandler.
async fn trusting() -> ScriptedModel {
    thinking(|one, other| !format!("{one}{other}").contains("Chandler")).await
}

async fn thinking(same: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> ScriptedModel {
    let thinks = move |asked: &str| {
        let pairs: Vec<Value> =
            asked.lines().filter_map(|l| serde_json::from_str(l).ok()).filter(|l: &Value| l["pair"].is_u64()).collect();
        let says = |pair: &Value, side: &str| pair[side]["says"].as_str().unwrap_or_default().to_owned();
        let numbers: Vec<&Value> =
            pairs.iter().filter(|p| same(&says(p, "one"), &says(p, "other"))).map(|p| &p["pair"]).collect();
        (!pairs.is_empty()).then(|| format!("```json\n{}\n```", json!({"same": numbers})))
    };
    let script = Script::from_value(json!({"conversations": [{"when": "", "steps": [{"say": "{}"}]}]}));
    ScriptedModel::start_thinking(script.expect("a script"), thinks).await.expect("the model starts")
}

async fn store(mcp: &Mcp, predicate: &str, content: &str) -> Value {
    mcp.ok("memory_store_fact", json!({"subject": "owner", "predicate": predicate, "content": content})).await
}

/// Stores what is new, and returns its id.
async fn new(mcp: &Mcp, predicate: &str, content: &str) -> String {
    let stored = store(mcp, predicate, content).await;
    assert_eq!(stored["status"], "stored", "{content}: {stored}");
    stored["id"].as_str().expect("an id").to_owned()
}

async fn why(mcp: &Mcp, id: &str) -> Value {
    mcp.ok("memory_why", json!({"memory_id": id})).await
}

fn event(story: &Value, what: &str) -> Value {
    let events = story["events"].as_array().expect("events");
    events.iter().rev().find(|e| e["what"] == what).unwrap_or_else(|| panic!("no {what} in {story}"))["event"].clone()
}

/// The ids that a search finds.
async fn found(mcp: &Mcp, query: &str) -> Vec<Value> {
    let answer = mcp.ok("memory_search", json!({"query": query, "types": ["fact"]})).await;
    answer["results"].as_array().expect("results").iter().map(|r| r["id"].clone()).collect()
}

fn owner(household: &Household, args: &[&str]) -> String {
    let with = [&["memory", "--butler", TALLY], args].concat();
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&with));
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_says_the_same_becomes_one_that_is_known_by_all_its_wordings() {
    let model = trusting().await;
    let household = remembering(Household::few_with_model(&model), "");
    let daemon = household.start().await;
    let mcp = daemon.mcp(TALLY);
    let first = new(&mcp, "likes", FIRST).await;
    let chandler = new(&mcp, "likes", "reading Chandler's detective stories").await;
    let keyed = json!({"subject": "owner", "predicate": "likes", "content": AGAIN, "idempotency_key": "letter 7"});
    let again = mcp.ok("memory_store_fact", keyed.clone()).await["id"].as_str().expect("an id").to_owned();
    let water = [
        new(&mcp, "habit", "drinks two litres of water a day").await,
        new(&mcp, "habit", "3 litres of water each day").await,
    ];
    let ran = run(&household, "memory-consolidation");
    assert_eq!(said(&ran), "1 session over 2 pairs of facts: 1 said the same", "{ran}");
    let asked = model.requests().last().expect("a request").body.to_string();
    assert!(!asked.contains("litres"), "of other numbers nobody is asked: {asked}");
    let likes = found(&mcp, "detective stories").await;
    assert!(likes.len() == 2 && likes.contains(&json!(first)) && likes.contains(&json!(chandler)), "{likes:?}");
    assert_eq!(found(&mcp, "litres of water").await.len(), water.len());
    // It is known in its new words, and of both it can be said how they came to be.
    let told = store(&mcp, "likes", AGAIN).await;
    assert_eq!((&told["status"], &told["id"]), (&json!("confirmed"), &json!(first)));
    let told = mcp.ok("memory_store_fact", keyed).await;
    assert_eq!(
        (&told["status"], &told["id"]),
        (&json!("repeated"), &json!(first)),
        "the same call is no more evidence"
    );
    let story = why(&mcp, &first).await;
    assert_eq!(story["also_put"][0]["content"], AGAIN, "{story}");
    assert!(story["memory"]["confirmations"].as_i64() >= Some(2), "{story}");
    assert!(owner(&household, &["why", &first]).contains("It was also put as"));
    let facts = mcp.ok("memory_stats", json!({})).await["facts"].clone();
    assert_eq!(
        (&facts["merged"], &facts["active"], &facts["to_compare"]),
        (&json!(1), &json!(4), &json!(0)),
        "{facts}"
    );
    // Nobody is asked twice.
    let asked = model.requests().len();
    assert_eq!(said(&run(&household, "memory-consolidation")), "no episode waits");
    assert_eq!(model.requests().len(), asked);
    // An export takes it along.
    let file = household.path().join("all.jsonl");
    let path = file.to_str().expect("a path");
    owner(&household, &["export", path]);
    let other = Household::clone_of(&household);
    let running = other.start().await;
    owner(&other, &["import", path]);
    let told = store(&running.mcp(TALLY), "likes", AGAIN).await;
    assert_eq!((&told["status"], &told["id"]), (&json!("confirmed"), &json!(first)));
    drop(running);
    // What was made one by mistake is taken back, and not made one again.
    let undo = json!({"event": event(&why(&mcp, &again).await, "merged")});
    mcp.ok("memory_undo", undo).await;
    assert_eq!(found(&mcp, "detective stories").await.len(), 3);
    let told = store(&mcp, "likes", AGAIN).await;
    assert_eq!((&told["status"], &told["id"]), (&json!("confirmed"), &json!(again)));
    assert_eq!(said(&run(&household, "memory-consolidation")), "no episode waits");
    assert_eq!(found(&mcp, "detective stories").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_forgotten_purged_or_corrected_does_not_live_on_in_other_words() {
    let model = trusting().await;
    let household = remembering(Household::few_with_model(&model), "");
    let daemon = household.start().await;
    let (mcp, db) = (daemon.mcp(TALLY), household.owner().await);
    let first = new(&mcp, "likes", FIRST).await;
    let again = new(&mcp, "likes", AGAIN).await;
    assert!(said(&run(&household, "memory-consolidation")).ends_with("1 said the same"));
    // Forgotten, it is so in both wordings, and comes back in both.
    let gone = mcp.ok("memory_forget", json!({"memory_type": "fact", "memory_id": first})).await;
    for words in [FIRST, AGAIN] {
        let again = json!({"subject": "owner", "predicate": "likes", "content": words});
        let told = mcp.call("memory_store_fact", again).await.text();
        assert_eq!(told["code"], "forgotten", "{words}: {told}");
    }
    let file = household.path().join("forgotten.jsonl");
    owner(&household, &["export", file.to_str().expect("a path")]);
    assert!(!std::fs::read_to_string(&file).expect("the export").contains("Simenon"));
    mcp.ok("memory_undo", json!({"event": gone["event"]})).await;
    assert_eq!(store(&mcp, "likes", AGAIN).await["id"], json!(first));
    // Corrected, it is no longer what the other wording said.
    owner(&household, &["edit", &first, "--content", "detective films with Maigret"]);
    let told = store(&mcp, "likes", AGAIN).await;
    assert_eq!(told["status"], "stored", "{told}");
    assert!(told["id"] != json!(first) && told["id"] != json!(again), "{told}");
    // Purged, no wording of it stands anywhere, nor comes back.
    let other = new(&mcp, "owns", "a 1974 motorbike with a sidecar").await;
    let wording = new(&mcp, "owns", "a motorcycle with a sidecar from 1974").await;
    assert!(said(&run(&household, "memory-consolidation")).contains(" said the same"));
    assert_eq!(why(&mcp, &other).await["also_put"][0]["id"], json!(wording));
    // What it said before it was corrected goes with it, in all its wordings.
    owner(&household, &["edit", &other, "--content", "an old motorbike"]);
    let of_wording = household.cli(&["memory", "--butler", TALLY, "edit", &wording, "--importance", "9"]);
    assert_eq!(of_wording.0, 0, "it is nobody's wording any more: {of_wording:?}");
    owner(&household, &["forget", &other, "--purge"]);
    for words in ["an old motorbike", "a motorcycle with a sidecar from 1974"] {
        assert_eq!(dump(&db, "a 1974 motorbike with a sidecar").await, Vec::<String>::new());
        assert_eq!(dump(&db, words).await, Vec::<String>::new());
        let again = json!({"subject": "owner", "predicate": "owns", "content": words});
        let told = mcp.call("memory_store_fact", again).await.text();
        assert_eq!(told["code"], "forgotten", "{words}: {told}");
    }
    let purged = std::fs::read_to_string(household.data().join("purged/tally")).expect("the ledger");
    assert!(purged.contains(&other) && purged.contains(&wording), "{purged}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_was_only_put_otherwise_has_not_changed() {
    let model = trusting().await;
    let household = remembering(Household::few_with_model(&model), "");
    let daemon = household.start().await;
    let (mcp, db) = (daemon.mcp(TALLY), household.owner().await);
    let first = new(&mcp, "diet", "vegetarian who eats fish").await;
    let again = new(&mcp, "diet", "eats fish but otherwise vegetarian").await;
    let third = new(&mcp, "diet", "a vegetarian that also eats fish now and then").await;
    let diets = async || {
        let sql = "SELECT id::text, validity, merged_into::text, valid_to IS NULL FROM tally.memory_facts ORDER BY seq";
        let rows = db.query(sql, &[]).await.expect("rows");
        rows.iter()
            .map(|r| (r.get(0), r.get(1), r.get(2), r.get(3)))
            .collect::<Vec<(String, String, Option<String>, bool)>>()
    };
    let row = |id: &str, validity: &str, into: Option<&str>, open: bool| {
        (id.to_owned(), validity.to_owned(), into.map(str::to_owned), open)
    };
    assert_eq!(
        diets().await,
        [
            row(&first, "superseded", None, false),
            row(&again, "superseded", None, false),
            row(&third, "active", None, true)
        ]
    );
    let ran = run(&household, "memory-consolidation");
    assert_eq!(said(&ran), "1 session over 2 pairs of facts: 2 said the same", "{ran}");
    let into = Some(first.as_str());
    let mut now = diets().await;
    assert_eq!((now[0].1.as_str(), now[1].2.as_deref(), now[2].2.as_deref()), ("active", into, into), "{now:?}");
    assert!(why(&mcp, &first).await["superseded_by"].is_null());
    // A merge is taken back with its place, the last one first.
    let merged = event(&why(&mcp, &third).await, "merged");
    mcp.ok("memory_undo", json!({"event": merged})).await;
    now = diets().await;
    assert_eq!((now[0].1.as_str(), now[2].1.as_str(), now[2].3), ("superseded", "active", true), "{now:?}");
    let undone = why(&mcp, &third).await;
    mcp.ok("memory_undo", json!({"event": event(&undone, "undone")})).await;
    assert_eq!(diets().await[0].1, "active");
    // Another value takes the place of all of it.
    let vegan = store(&mcp, "diet", "vegan, without any fish").await;
    assert_eq!(vegan["superseded_id"], json!(first), "{vegan}");
    now = diets().await;
    assert_eq!((now[0].1.as_str(), now[3].1.as_str()), ("superseded", "active"), "{now:?}");
    assert_eq!(why(&mcp, &first).await["superseded_by"]["id"], vegan["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_words_are_held_against_strangers_alone() {
    let model = trusting().await;
    let household = remembering(Household::few_with_model(&model), "");
    let daemon = household.start().await;
    let (mcp, db) = (daemon.mcp(TALLY), household.owner().await);
    new(&mcp, "likes", FIRST).await;
    for content in [AGAIN, "the detective stories that Simenon wrote"] {
        let more = json!({"kind": "many", "subject": "owner", "predicate": "likes", "content": content});
        put(&db, "fact", "owner", "stranger", more).await;
    }
    // They have no vectors yet, and get them because somebody wants to compare them.
    eventually("they are compared", || async {
        run(&household, "memory-consolidation");
        let left = "SELECT count(*) FROM tally.memory_facts WHERE compared = 'pending'";
        match db.query_one(left, &[]).await.map_err(|e| e.to_string())?.get(0) {
            0_i64 => Ok(()),
            n => Err(format!("{n} wait")),
        }
    })
    .await;
    let asked = model.requests().last().expect("a request").body.to_string();
    assert!(
        asked.contains(AGAIN) && !asked.contains(&format!("\"{FIRST}\"")) && !asked.contains(&format!("\\\"{FIRST}")),
        "{asked}"
    );
    let sql = "SELECT trust FROM tally.sessions WHERE trigger_source = 'schedule:memory-consolidation'";
    let trust: Vec<String> = db.query(sql, &[]).await.expect("sessions").iter().map(|r| r.get(0)).collect();
    assert_eq!(trust, ["stranger"]);
    let sql = "SELECT content, trust FROM tally.memory_facts WHERE validity = 'active' ORDER BY trust";
    let rows = db.query(sql, &[]).await.expect("facts");
    let left: Vec<(String, String)> = rows.iter().map(|r| (r.get(0), r.get(1))).collect();
    assert_eq!(left, [(FIRST.to_owned(), "owner".to_owned()), (AGAIN.to_owned(), "stranger".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_asked_is_given_up_where_the_owner_sees_it_and_taken_up_again() {
    let script = json!({"conversations": [
        {"when": "one fact in two wordings", "steps": [
            {"fail": {"status": 400, "body": "not now", "times": 5}}, {"say": "{\"same\": [1, 99]}"}]}]});
    let model = ScriptedModel::start(Script::from_value(script).expect("a script")).await.expect("the model");
    let household = remembering(Household::few_with_model(&model), "");
    let daemon = household.start().await;
    let mcp = daemon.mcp(TALLY);
    new(&mcp, "likes", FIRST).await;
    new(&mcp, "likes", AGAIN).await;
    for tries in 1..=5 {
        let ran = run(&household, "memory-consolidation");
        let up = if tries == 5 { "1 comparison failed, 1 of them given up: " } else { "1 comparison failed: " };
        assert!(said(&ran).starts_with(up), "{ran}");
    }
    assert_eq!(said(&run(&household, "memory-consolidation")), "no episode waits");
    assert!(owner(&household, &["stats"]).contains("not compared 1"));
    assert!(owner(&household, &["retry"]).starts_with("1 memory is taken up again"));
    eventually("they are one", || async {
        match found(&mcp, "Simenon").await.len() {
            1 => Ok(()),
            n => Err(format!("{n} facts")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_it_compares_it_makes_them_one_once() {
    for point in ["memory.compared", "memory.before_merge"] {
        let model = trusting().await;
        let household = remembering(Household::few_with_model(&model), "");
        let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", point).start().await;
        let mcp = daemon.mcp(TALLY);
        let first = new(&mcp, "likes", FIRST).await;
        new(&mcp, "likes", AGAIN).await;
        let wish = json!({"name": "learn", "in": "1s", "dispatch_mode": "job", "job_name": "memory_consolidation"});
        mcp.ok("schedule_create", wish).await;
        died(&mut daemon, point).await;
        drop(daemon);
        let daemon = household.start().await;
        let mcp = daemon.mcp(TALLY);
        eventually(&format!("{point}: they are one"), || async {
            let found = found(&mcp, "Simenon").await;
            if found == [json!(first)] { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
        let told = why(&mcp, &first).await;
        assert_eq!(told["memory"]["confirmations"], 1, "{point}: {told}");
        household.at_rest(point).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happened_twice_or_is_kept_more_secret_is_not_even_asked_about() {
    let model = trusting().await;
    let household = remembering(Household::few_with_model(&model), "");
    let daemon = household.start().await;
    let mcp = daemon.mcp(TALLY);
    for (content, at) in
        [("ibuprofen 400 mg after breakfast", "08:00"), ("400 mg of ibuprofen after the breakfast", "16:00")]
    {
        let at = format!("2026-03-01T{at}:00Z");
        let taken = json!({"subject": "owner", "predicate": "medication_dose", "content": content, "valid_at": at});
        assert_eq!(mcp.ok("memory_store_fact", taken).await["status"], "stored");
    }
    for (content, sensitivity) in [(FIRST, "normal"), (AGAIN, "sensitive")] {
        let liked = json!({"subject": "owner", "predicate": "likes", "content": content, "sensitivity": sensitivity});
        assert_eq!(mcp.ok("memory_store_fact", liked).await["status"], "stored");
    }
    assert_eq!(said(&run(&household, "memory-consolidation")), "no episode waits");
    assert_eq!(model.requests().len(), 0);
    assert_eq!(mcp.ok("memory_stats", json!({})).await["facts"]["to_compare"], 0);
}

/// What happens while the model thinks.
type Meanwhile = Mutex<Option<Box<dyn FnOnce() + Send>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_about_what_was_corrected_meanwhile_is_no_answer() {
    let meanwhile: Arc<Meanwhile> = Arc::default();
    let then = meanwhile.clone();
    let model = thinking(move |_, _| {
        if let Some(then) = then.lock().expect("nobody fails with it").take() {
            tokio::task::block_in_place(then);
        }
        true
    })
    .await;
    let household = Arc::new(remembering(Household::few_with_model(&model), ""));
    let daemon = household.start().await;
    let mcp = daemon.mcp(TALLY);
    new(&mcp, "likes", FIRST).await;
    let again = new(&mcp, "likes", AGAIN).await;
    let (house, which) = (household.clone(), again.clone());
    let correct = move || {
        owner(&house, &["edit", &which, "--content", "likes reading Glauser's detective stories"]);
    };
    *meanwhile.lock().expect("nobody fails with it") = Some(Box::new(correct));
    assert!(said(&run(&household, "memory-consolidation")).ends_with(": 0 said the same"));
    assert_eq!(found(&mcp, "detective stories").await.len(), 2);
}
