//! What one message asks for is told to the owner as one proposal, and decided on whole, in part, or not at all.

use serde_json::{Value, json};
use testkit::model::ScriptedModel;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::approvals::{count, json_of, says, waiting};
use crate::support::{Daemon, Household, eventually, model};

const LEAK: &str = "/*---\ndescription: Send a text to somebody outside.\nargs:\n  text: {type: string, required: true,
    description: what to send}\nreturns: row\nmeta: {sends_out: true, reads_private: false}\n---*/\n\
    INSERT INTO leaks (text) VALUES (:text::text) RETURNING id;\n";
const TABLE: &str = "CREATE TABLE leaks (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), text text NOT NULL);\n\
    SELECT shared.tenant_table('leaks');\n";

async fn household() -> (ScriptedModel, Household) {
    let leak = |n: usize| json!({"call": {"tool": "leak", "arguments": {"text": format!("{{{{match.1}}}}-{n}")}}});
    let long = json!({"call": {"tool": "leak", "arguments": {"text": format!("{{{{match.1}}}}{}", "x".repeat(4000))}}});
    let model = model(json!([
        {"when": "A call of `[a-z_]+` that you had made", "steps": [{"say": "I know."}]},
        {"when": "leak twice ([a-z]+)", "steps": [leak(1), leak(2), {"say": "Done."}]},
        {"when": "leak once ([a-z]+)", "steps": [leak(3), {"say": "Done."}]},
        {"when": "leak long ([a-z]+)", "steps": [long, {"say": "Done."}]},
    ]))
    .await;
    let household =
        Household::with_model(&model).write("health/tools/leak.sql", LEAK).migration("health", "leaks", TABLE).replace(
            "health/butler.toml",
            "[modules.health]",
            "[modules.health]\n\n[modules.approvals.gated_tools.leak]\n",
        );
    (model, household)
}

/// From now on what is held counts as asked for by one message, as if others had influenced its sessions.
async fn bundle(db: &Client, proposal: Uuid) {
    let sql = format!(
        "CREATE FUNCTION shared.test_bundle() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             NEW.cause := 'proposal';
             NEW.proposal := '{proposal}';
             NEW.sources := '[{{\"who\": \"email:bea@example.org\", \"trust\": \"known\", \"request_id\": \"{proposal}\",
                               \"root_request_id\": \"{proposal}\"}}]';
             RETURN NEW;
         END $$;
         CREATE TRIGGER test_bundle BEFORE INSERT ON shared.pending_actions
             FOR EACH ROW EXECUTE FUNCTION shared.test_bundle();"
    );
    db.batch_execute(&sql).await.expect("a trigger");
}

/// The newest notice that speaks of this.
async fn notice(daemon: &Daemon, of: &str) -> String {
    eventually("the owner is told", || async {
        let (_, notes) = daemon.get("/api/chat/notes").await;
        let notes: Value = serde_json::from_str(&notes).map_err(|e| e.to_string())?;
        let texts = notes["notes"].as_array().into_iter().flatten().filter_map(|note| note["message"].as_str());
        texts.filter(|text| text.contains(of)).map(str::to_owned).next_back().ok_or(notes.to_string())
    })
    .await
}

async fn made(db: &Client, wanted: i64) {
    eventually(&format!("{wanted} calls are made"), || async {
        let made = count(db, "SELECT count(*) FROM health.leaks").await;
        if made == wanted { Ok(()) } else { Err(made.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_message_asks_for_is_one_notice_and_one_decision() {
    let (_model, household) = household().await;
    let daemon = household.start().await;
    let db = household.owner().await;
    let proposal = Uuid::now_v7();
    let id = proposal.to_string();
    bundle(&db, proposal).await;
    says(&daemon, "leak twice ann").await;
    // Told of the first alone, the owner is told of both together.
    let told = notice(&daemon, "ann-2").await;
    for part in ["What \"email", "asks to: (1) leak", "(2) leak", "ann-1", "ann-2", "All of it:", "None of it:"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let all = told.split(&format!("approvals approve {id} --seen ")).nth(1).expect("the line for all of it");
    let hash = all.split_whitespace().next().expect("a hash").to_owned();
    // One more comes up after the notice: the hash of two does not approve three, and nothing does unseen.
    says(&daemon, "leak once eve").await;
    let third = waiting(&db, "eve-3").await;
    for args in [vec!["approvals", "approve", &id, "--seen", &hash], vec!["approvals", "approve", &id]] {
        let (code, out, err) = household.cli(&args);
        assert!(code == 1 && (err.contains("not what you saw") || err.contains("not shown")), "{out}{err}");
    }
    assert_eq!(count(&db, "SELECT count(*) FROM health.leaks").await, 0);
    let (_, table, _) = household.cli(&["approvals", "list"]);
    assert!(table.contains("PROPOSAL") && table.matches(&id[..13]).count() == 3, "{table}");
    // One of them alone, and then the rest, seen whole.
    json_of(&household, &["approvals", "reject", &third]);
    let shown = json_of(&household, &["approvals", "show", &id]);
    assert_eq!(shown["actions"].as_array().map(Vec::len), Some(2), "{shown}");
    let decided = json_of(&household, &["approvals", "approve", &id]);
    assert_eq!(decided.as_array().map(Vec::len), Some(2), "{decided}");
    made(&db, 2).await;
    let (code, _, err) = household.cli(&["approvals", "approve", &id]);
    assert!(code == 1 && err.contains("no action"), "{err}");
    household.at_rest("after the proposal").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_proposal_is_turned_down_whole_and_never_approved_in_part_unseen() {
    let (_model, household) = household().await;
    let daemon = household.start().await;
    let db = household.owner().await;
    let proposal = Uuid::now_v7();
    let id = proposal.to_string();
    bundle(&db, proposal).await;
    says(&daemon, "leak twice ann").await;
    says(&daemon, "leak long ben").await;
    // One of them is too long for a notice, so there is no line that approves all.
    let told = notice(&daemon, "benxxx").await;
    assert!(told.contains("This is part 1 of") && !told.contains(&format!("approvals approve {id}")), "{told}");
    let hash = approved_hash(&daemon, &id).await;
    let (code, _, err) = household.cli(&["approvals", "approve", &id, "--seen", &hash]);
    assert!(code == 1 && err.contains("not shown"), "{err}");
    let decided = json_of(&household, &["approvals", "reject", &id, "--reason", "no"]);
    assert_eq!(decided.as_array().map(Vec::len), Some(3), "{decided}");
    assert_eq!(count(&db, "SELECT count(*) FROM shared.pending_actions WHERE status = 'rejected'").await, 3);
    assert_eq!(count(&db, "SELECT count(*) FROM health.leaks").await, 0);
}

/// The hash of a proposal as another program of the owner's has it, which was shown to nobody else.
async fn approved_hash(daemon: &Daemon, id: &str) -> String {
    let http = crate::support::http();
    let rpc = |token: String, method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        http.post(format!("http://{}/rpc", daemon.admin())).bearer_auth(token).json(&body).send()
    };
    let params = json!({"wanted": {"label": "program", "scopes": ["admin"]}});
    let made: Value =
        rpc(daemon.token(), "butlerd.token_create", params).await.expect("an answer").json().await.expect("JSON");
    let token = made["result"]["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let page: Value = rpc(token, "butlerd.approvals_proposal", json!({"id": id}))
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    page["result"]["seen"].as_str().unwrap_or_else(|| panic!("{page}")).to_owned()
}
