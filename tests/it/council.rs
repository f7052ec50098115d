//! The council as whoever asks it meets it: how an answer comes to be, and what happens when members fail.

use serde_json::json;

use crate::support::council::{CONCLUDED, JUDGED, chairman, member, steps, with_council};
use crate::support::installed;
use crate::support::{Household, model};

const QUESTION: &str = "Should we rent or buy?";
/// Time enough for a member who answers at once, however slow the machine is.
const MEMBERS_TIME: &str = "member_timeout = \"10s\"\n";

/// Three answer, judge each other by letters, and the chairman writes the answer; each is a session under the one that
/// was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_answer_and_judge_and_the_chairman_concludes() {
    let (one, two) = (
        member("Rent, says the first.", "1. Response A\n2. Response B").await,
        member("Buy, second.", "1. Response B\n2. Response A").await,
    );
    let (three, own) =
        (member("It depends: third.", "1. Response A\n2. Response B").await, chairman("Rent for now.", "?").await);
    let members = [("one", "model-a", &one), ("two", "model-b", &two), ("three", "model-c", &three)];
    let household = with_council(&own, &members, "");
    let daemon = household.start().await;
    let end = household.asks_council(QUESTION);
    assert_eq!((end["state"].as_str(), end["output"].as_str()), (Some("succeeded"), Some("Rent for now.")), "{end}");
    assert_eq!(end["cost_usd"], "0", "what was used stands with its sessions: {end}");

    let question = daemon.newest_question().await;
    assert_eq!(question["way"], "council", "{question:#}");
    let mut answers = steps(&question, "answer");
    answers.sort();
    let said = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    assert_eq!(
        answers,
        [said("one", "Rent, says the first."), said("three", "It depends: third."), said("two", "Buy, second.")]
    );
    assert_eq!(steps(&question, "chairman").len(), 1);
    let judged = question["steps"].as_array().unwrap().iter().filter(|s| s["stage"] == "judge");
    for step in judged {
        let letters = step["letters"].as_object().unwrap();
        assert_eq!(letters.len(), 2, "{step}");
        assert!(letters.values().all(|member| *member != step["member"]), "nobody judges himself: {step}");
        assert_eq!(step["ranking"].as_array().unwrap().len(), 2, "{step}");
    }
    assert_eq!(question["ranking"].as_array().unwrap().len(), 3);
    let asked = |server: &testkit::model::ScriptedModel, words: &str| {
        server
            .requests()
            .iter()
            .map(|request| request.body.to_string())
            .find(|body| body.contains(words))
            .unwrap_or_default()
    };
    let concluded = asked(&own, CONCLUDED);
    for answer in ["Rent, says the first.", "Buy, second.", "It depends: third."] {
        assert!(concluded.contains(answer), "the chairman sees all answers: {concluded}");
    }
    let judged = asked(&one, JUDGED);
    assert!(judged.contains("Buy, second.") && !judged.contains("Rent, says the first."), "{judged}");
    // Each is a session like any other, one deeper, without a tool.
    let db = household.role("council").await;
    db.batch_execute("SET butlerd.tenant = 'owner'").await.unwrap();
    let root = end["session_id"].as_str().unwrap().parse::<uuid::Uuid>().unwrap();
    let rows = db.query("SELECT state, model FROM sessions WHERE parent_session_id = $1", &[&root]).await.unwrap();
    assert!(rows.len() >= 7, "{}", rows.len());
    assert!(rows.iter().all(|row| row.get::<_, String>("state") == "succeeded"));
    for server in [&one, &two, &three, &own] {
        assert!(server.requests().iter().all(|request| request.body["tools"].as_array().is_none_or(Vec::is_empty)));
    }
}

/// Members that fail, hang or refuse are left out and named; one answer is enough, and none is an honest failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_answer_is_left_out_and_named() {
    let well = member("Rent.", "1. Response A").await;
    let broken = model(json!([{"when": ".", "steps": [{"fail": {"status": 400, "body": "no such model"}}]}])).await;
    let hangs = model(json!([{"when": ".", "steps": [{"hang": true}]}])).await;
    let own = chairman("Rent, then.", "?").await;
    let members = [("well", "model-a", &well), ("broken", "model-b", &broken), ("slow", "model-c", &hangs)];
    let household = with_council(&own, &members, MEMBERS_TIME);
    let daemon = household.start().await;
    let end = household.asks_council(QUESTION);
    let answer = end["output"].as_str().unwrap_or_default();
    assert!(answer.starts_with("Rent, then."), "{end}");
    assert!(answer.contains("Left out: broken:") && answer.contains("slow: it took longer than 10s"), "{answer}");
    let question = daemon.newest_question().await;
    assert_eq!(steps(&question, "judge").len(), 0, "one answer is not ranked");
    drop(daemon);

    let household = with_council(&own, &[("broken", "model-b", &broken), ("too", "model-d", &broken)], "");
    let daemon = household.start().await;
    let end = household.asks_council(QUESTION);
    assert_eq!(end["state"], "failed", "{end}");
    let why = end["error"].as_str().unwrap();
    assert!(why.contains("no member of the council answered") && why.contains("too:"), "{why}");
    assert_eq!(daemon.newest_question().await["failure"], why);
}

/// A member's time begins when it has its place: who waits behind one that hangs is not left out for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_place_is_not_late() {
    let well = member("Rent.", "1. Response A").await;
    let hangs = model(json!([{"when": ".", "steps": [{"hang": true}]}])).await;
    let own = chairman("Rent, then.", "?").await;
    let members = [("slow", "model-a", &hangs), ("slower", "model-b", &hangs), ("well", "model-c", &well)];
    let household = with_council(&own, &members, MEMBERS_TIME).replace(
        "council/butler.toml",
        "max_concurrent_sessions = 8",
        "max_concurrent_sessions = 1",
    );
    let _daemon = household.start().await;
    let end = household.asks_council(QUESTION);
    let answer = end["output"].as_str().unwrap_or_default();
    assert!(answer.starts_with("Rent, then."), "{end}");
    assert!(answer.contains("slow: it took longer than 10s") && answer.contains("slower: it took"), "{answer}");
    assert!(!answer.contains("well: "), "{answer}");
}

/// A clear word of the router has one model answer alone; a router that fails or rambles has the council deliberate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_router_decides_and_in_doubt_the_council_deliberates() {
    let (one, two) = (member("Rent.", "1. Response A").await, member("Buy.", "1. Response A").await);
    for (word, way) in [("direct", "direct"), ("deliberate", "council"), ("{\"type\": \"direct\"}", "council")] {
        let own = chairman("Together: rent.", word).await;
        let router =
            format!("\n[modules.council.router]\nmodel = \"router-model\"\nendpoint = \"{}\"\n", own.base_url());
        let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &router);
        let daemon = household.start().await;
        let end = household.asks_council(QUESTION);
        let answer = if way == "direct" { "Alone: 42." } else { "Together: rent." };
        assert_eq!(end["output"], answer, "{word}: {end}");
        assert_eq!(daemon.newest_question().await["way"], way, "{word}");
    }
    let own = chairman("Together: rent.", "direct").await;
    let away = model(json!([{"when": ".", "steps": [{"fail": {"status": 401}}]}])).await;
    let router = format!("\n[modules.council.router]\nmodel = \"router-model\"\nendpoint = \"{}\"\n", away.base_url());
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &router);
    let _daemon = household.start().await;
    assert_eq!(household.asks_council(QUESTION)["output"], "Together: rent.", "a failing router means deliberate");
}

/// Where the chairman fails, the person gets what was ranked first, and is told so. Where the question's money or tokens are
/// used up, nobody else is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_chairman_or_tokens_the_best_answer_is_given_as_what_it_is() {
    let (one, two) = (
        member("Rent, best.", "1. Response A\n2. Response B").await,
        member("Buy.", "1. Response A\n2. Response B").await,
    );
    let members = [("one", "model-a", &one), ("two", "model-b", &two)];
    for (step, why) in
        [(json!({"fail": {"status": 400, "body": "gone"}}), ""), (json!({"say": " \n\u{200b}"}), "it said nothing")]
    {
        let own = model(json!([{"when": ".", "steps": [step]}])).await;
        let household = with_council(&own, &members, "");
        let daemon = household.start().await;
        let end = household.asks_council(QUESTION);
        let answer = end["output"].as_str().unwrap_or_default();
        assert!(
            answer.contains("the chairman did not write the council's answer") && answer.contains("ranked first"),
            "{end}"
        );
        let given = ["Rent, best.", "Buy."].iter().any(|said| answer.starts_with(said));
        assert!(given && answer.contains(why), "{end}");
        drop(daemon);
    }

    // Each model call of the script says that it used 1,120 tokens.
    let own = chairman("Rent.", "?").await;
    let household = with_council(&own, &members, "max_tokens = 4000\n");
    let daemon = household.start().await;
    let end = household.asks_council(QUESTION);
    let question = daemon.newest_question().await;
    assert_eq!(steps(&question, "answer").len(), 2, "{question:#}");
    assert!(end["output"].as_str().unwrap_or_default().contains("is used up"), "{end}");
    assert_eq!(own.requests().len(), 0, "the chairman was not asked any more");
}

/// Another butler asks it by `ask_butler`, a chat streams its stages, and a follow-up has the conversation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_sees_the_stages_and_a_follow_up_has_what_was_said() {
    let (one, two) = (member("Rent.", "1. Response A").await, member("Buy.", "1. Response A").await);
    let own = chairman("Rent for now.", "?").await;
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], "");
    let _daemon = household.start().await;
    let (code, out, err) = household.cli(&["council", "ask", QUESTION]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("Rent for now."), "{out}");
    assert!(
        err.contains("answer, one: Rent.") && err.contains("judge, two"),
        "the stages are seen as they come: {err}"
    );
    let (code, out, err) = household.cli(&["council", "ask", "And in ten years?"]);
    assert_eq!(code, 0, "{out}{err}");
    let asked =
        one.requests().iter().filter(|r| r.body.to_string().contains("And in ten years?")).cloned().collect::<Vec<_>>();
    assert!(
        asked.iter().any(|r| r.body.to_string().contains("Rent for now.")),
        "members are told what was said before: {:?}",
        asked.first().map(|r| r.body.to_string())
    );
    let (code, out, err) = household.cli(&["council", "list"]);
    assert!(code == 0 && out.contains(QUESTION) && out.contains("council"), "{out}{err}");
    let (_, listed, _) = household.cli(&["council", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let id = listed["questions"][1]["id"].as_str().unwrap();
    let (code, out, err) = household.cli(&["council", "show", id]);
    assert!(code == 0 && out.contains("A was ") && out.contains("answer, by council"), "{out}{err}");
}

/// Where there is a council other butlers have `council_ask`, which asks as `ask_butler` does: a session of the council's,
/// one deeper, whose answer comes back. Where there is none nobody is told of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_butler_asks_the_council_where_there_is_one() {
    let (one, two) = (member("Rent.", "1. Response A").await, member("Buy.", "1. Response A").await);
    let own = model(json!([
        {"when": CONCLUDED, "steps": [{"say": "Rent for now."}]},
        {"when": "where shall we live", "steps": [
            {"call": {"tool": "council_ask", "arguments": {"question": QUESTION}}}, {"say": "The council says so."}]},
    ]))
    .await;
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], "");
    let daemon = household.start().await;
    let messenger = daemon.mcp("messenger");
    assert!(messenger.tools().await.contains(&"council_ask".to_owned()));
    assert!(butler::own_tools("messenger").contains(&"council_ask"), "and a check knows it");
    assert!(!daemon.mcp("council").tools().await.contains(&"council_ask".to_owned()), "it does not ask itself");
    assert!(!butler::own_tools("council").contains(&"council_ask"));
    let done = messenger.ok("trigger", json!({"prompt": "where shall we live?"})).await;
    assert_eq!(done["output"], "The council says so.", "{done}");
    let told: Vec<String> = own.requests().iter().map(|request| request.body.to_string()).collect();
    let back = told.iter().any(|body| body.contains("where shall we live") && body.contains("Rent for now."));
    assert!(back, "the answer came back: {:?}", told.last());
    let question = daemon.newest_question().await;
    assert_eq!(question["way"], "council", "{question:#}");
    // As every question between butlers, it says who asks.
    let asked = format!("The butler messenger asks you:\n\n{QUESTION}");
    assert_eq!(question["question"], asked.as_str());
    let db = household.role("council").await;
    db.batch_execute("SET butlerd.tenant = 'owner'").await.unwrap();
    let sql = "SELECT s.trigger_source, (s.context #>> '{request,lineage,depth}')::int
        FROM sessions s JOIN council_questions q ON q.session_id = s.id";
    let asked = db.query_one(sql, &[]).await.unwrap();
    let (source, depth): (String, i32) = (asked.get(0), asked.get(1));
    assert_eq!((&*source, depth), ("ask", 1), "one deeper than who asked");
    drop(daemon);

    let household = Household::few_with_model(&own);
    let daemon = household.start().await;
    assert!(!daemon.mcp("messenger").tools().await.contains(&"council_ask".to_owned()));
}

/// The settings that make no council are refused with what to do; another program's are taken over, each key or its reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_checked_and_imported() {
    let own = chairman("x", "?").await;
    let household = with_council(&own, &[("one", "same", &own), ("two", "same", &own)], "");
    let (code, out, err) = household.cli(&["check"]);
    assert!(code == 2 && format!("{out}{err}").contains("they are all one model"), "{code} {out}{err}");
    let household = with_council(&own, &[("one", "same", &own), ("two", "same", &own)], "allow_same_model = true\n");
    let (code, out, err) = household.cli(&["check"]);
    assert_eq!(code, 0, "{out}{err}");
    let graph = "\n[modules.council.graphiti]\nurl = \"http://graph.example.org/mcp\"\n";
    let household = with_council(&own, &[("one", "a", &own), ("two", "b", &own)], graph);
    let (code, out, err) = household.cli(&["check"]);
    assert!(code == 2 && format!("{out}{err}").contains("allow_remote = true"), "{out}{err}");

    let household = Household::few_with_model(&own);
    let file = household.path().join("config.json");
    let config = json!({"models": {"council": [{"id": "a"}, {"id": "b"}], "chairman": {"id": "c"}},
        "memory": {"confidence_threshold": 0.7, "max_memory_age_days": 10, "group_id": "g"}, "theme": "dark"});
    std::fs::write(&file, config.to_string()).unwrap();
    let (code, out, err) = household.cli(&["council", "import", &file.to_string_lossy()]);
    assert!(code == 0 && out.contains("left out: theme"), "{out}{err}");
    let written = std::fs::read_to_string(household.roster().join("council/butler.toml")).unwrap();
    assert!(written.contains("threshold = 0.7") && written.contains("max_age_days = 10"), "{written}");
    let (code, out, err) = household.cli(&["check"]);
    assert_eq!(code, 0, "{out}{err}");
}

/// Every text of a request in which a judge is asked.
fn judged(body: &serde_json::Value, found: &mut Vec<String>) {
    match body {
        serde_json::Value::String(text) if text.contains(JUDGED) => found.push(text.to_lowercase()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| judged(item, found)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| judged(item, found)),
        _ => {}
    }
}

/// No prompt of a judge says whose answers they are, with two programs and four models whose members sign what they say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn judges_never_see_a_name() {
    let ranking = "1. Response C\n2. Response A\n3. Response B";
    let signed = [
        ("gpt-5-mini", "I am ChatGPT (gpt-5-mini) by OpenAI: buy. GPT-5 knows."),
        ("qwen3:8b", "Yours, Qwen3. qwen3:8b says: rent.\n\n— Qwen"),
    ];
    // The butler's own model is two members of the other program as well, and the chairman.
    let own = model(json!([
        {"when": JUDGED, "steps": [{"say": format!("Fine.\n\nFINAL RANKING:\n{ranking}")}]},
        {"when": CONCLUDED, "steps": [{"say": "Rent."}]},
        {"when": ".", "steps": [{"say": "As Claude, I would rent. — Claude Opus 4.1, made by Anthropic; Claude Code says so."}]},
    ]))
    .await;
    let mut servers = Vec::new();
    for (_, answer) in &signed {
        servers.push(member(answer, ranking).await);
    }
    let members: Vec<(&str, &str, &testkit::model::ScriptedModel)> =
        signed.iter().zip(&servers).map(|((model, _), server)| (*model, *model, server)).collect();
    let claude = installed("judges that never see a name").iter().any(|runtime| runtime.kind == "claude-code");
    let runtime = if claude { "claude-code" } else { "native" };
    let more: String = ["claude-opus-4-1", "claude-sonnet-4-5"]
        .iter()
        .map(|model| {
            format!("\n[[modules.council.members]]\nname = \"{model}\"\nruntime = \"{runtime}\"\nmodel = \"{model}\"\n")
        })
        .collect();
    let mut household = with_council(&own, &members, &more);
    if let Ok(program) = std::env::var("BUTLERD_TEST_CLAUDE") {
        household = household.env("BUTLERD_SPAWNER__CLIS__CLAUDE", &program);
    }
    let daemon = household.start().await;
    let rounds: usize = std::env::var("COUNCIL_QUESTIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    for n in 0..rounds {
        let end = household.asks_council(&format!("{QUESTION} ({n})"));
        assert_eq!(end["state"], "succeeded", "{end}");
    }
    let question = daemon.newest_question().await;
    assert_eq!(steps(&question, "answer").iter().filter(|(_, said)| !said.is_empty()).count(), 4, "{question:#}");
    let mut prompts = Vec::new();
    for request in servers.iter().chain([&own]).flat_map(|server| server.requests()) {
        judged(&request.body, &mut prompts);
    }
    assert!(prompts.len() >= rounds * 4, "{}", prompts.len());
    for text in &prompts {
        assert!(text.contains("buy.") || text.contains("says: rent"), "a judge sees the answers: {text}");
        for name in ["claude", "anthropic", "gpt", "openai", "qwen", "opus", "sonnet", "native"] {
            assert!(!text.contains(name), "{name} in {text}");
        }
    }
}
