//! A standing rule is for the owner's own sessions, and for those that somebody influenced whom it names.

use serde_json::{Value, json};

use crate::approvals::{count, from_stranger, json_of, says, waiting};
use crate::inbound::{ended, ingest, message};
use crate::support::{Daemon, Household, model};

async fn from(daemon: &Daemon, who: &str, id: &str, text: &str) {
    let mut envelope = message(id, id, text);
    envelope["sender"]["identity"] = json!(who);
    envelope["control"]["pinned_target"] = json!("health");
    let (status, accepted) = ingest(daemon, &envelope).await;
    assert_eq!(status, 202, "{accepted}");
    let entry: Value = ended(daemon, accepted["request_id"].as_str().expect("an id")).await;
    assert_eq!(entry["state"], "done", "{entry}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rule_lets_nobody_through_whom_it_does_not_name() {
    let model = model(json!([
        {"when": "leak ([a-z0-9-]+)", "steps": [
            {"call": {"tool": "leak", "arguments": {"text": "{{match.1}}"}}}, {"say": "Done."}]},
    ]))
    .await;
    let tool = "/*---\ndescription: Send a text to somebody outside.\nargs:\n  text: {type: string, required: true,
        description: what to send}\nreturns: row\nmeta: {sends_out: true, reads_private: false}\n---*/\n\
        INSERT INTO leaks (text) VALUES (:text::text) RETURNING id;\n";
    let table = "CREATE TABLE leaks (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), text text NOT NULL);\n\
                 SELECT shared.tenant_table('leaks');\n";
    let household =
        Household::with_model(&model).write("health/tools/leak.sql", tool).migration("health", "leaks", table).replace(
            "health/butler.toml",
            "[modules.health]",
            "[modules.health]\n\n[modules.approvals.gated_tools.leak]\n",
        );
    let daemon = household.start().await;
    let db = household.owner().await;
    db.batch_execute(
        "SET butlerd.tenant = 'owner';
         INSERT INTO shared.contacts (name) VALUES ('Bob'), ('Carl');
         INSERT INTO shared.contact_identities (contact_id, channel, identity)
             SELECT id, 'telegram', lower(name) FROM shared.contacts;",
    )
    .await
    .expect("two people");
    let leaks = "SELECT count(*) FROM health.leaks";
    says(&daemon, "leak first").await;
    let first = waiting(&db, "first").await;
    // A rule as the owner makes it after having been asked: for anything, and no word of anybody else.
    let plain = json_of(&household, &["approvals", "rule", &first, "--any", "text"]);
    assert_eq!(plain["also_influenced_by"], json!([]), "{plain}");
    says(&daemon, "leak by-the-owner").await;
    assert_eq!(count(&db, leaks).await, 1, "the owner's own session is let through");
    from(&daemon, "bob", "b-1", "leak by-bob").await;
    waiting(&db, "by-bob").await;
    from_stranger(&daemon, "e-1", "leak by-eve").await;
    waiting(&db, "by-eve").await;
    assert_eq!(count(&db, leaks).await, 1, "nobody else's is");
    // Bob is named, and with him a stranger, whom no rule can let through.
    let (code, out, err) = household.cli(&[
        "approvals",
        "rule",
        &first,
        "--any",
        "text",
        "--also-influenced-by",
        "telegram:BOB",
        "--also-influenced-by",
        "telegram:eve",
    ]);
    assert!(code == 0 && out.contains("telegram:bob"), "{out}{err}");
    from(&daemon, "bob", "b-2", "leak again-by-bob").await;
    assert_eq!(count(&db, leaks).await, 2, "whom the rule names and contacts know is let through");
    from(&daemon, "carl", "c-1", "leak by-carl").await;
    waiting(&db, "by-carl").await;
    from_stranger(&daemon, "e-2", "leak again-by-eve").await;
    waiting(&db, "again-by-eve").await;
    assert_eq!(count(&db, leaks).await, 2);
    let (_, table, _) = household.cli(&["approvals", "rules"]);
    assert!(table.contains("INFLUENCED BY") && table.contains("you alone"), "{table}");
    for wrong in ["bob", "telegram:*"] {
        let (code, _, err) = household.cli(&["approvals", "rule", &first, "--also-influenced-by", wrong]);
        assert!(code == 1 && err.contains("channel:identity"), "{wrong}: {err}");
    }
}
