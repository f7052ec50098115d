//! What a person has approved changes also what a more trusted hand wrote, and is labelled as what it is: the words of whoever
//! influenced its session. Nothing else gets that right.

use serde_json::{Value, json};
use tokio_postgres::Client;

use testkit::model::ScriptedModel;

use crate::approvals::{count, from_stranger, json_of, told, waiting};
use crate::support::{Household, model};

const TABLE: &str =
    "CREATE TABLE things (name text NOT NULL, text text NOT NULL);\nSELECT shared.tenant_table('things', 'name');\n";
/// Each with its further arguments, its metadata and its statement.
const TOOLS: [(&str, &[&str], &str, &str); 3] = [
    (
        "thing_put",
        &["text"],
        "effect: once",
        "INSERT INTO things (name, text) VALUES (:name::text, :text::text)
         ON CONFLICT (tenant_id, name) DO UPDATE SET text = excluded.text RETURNING name",
    ),
    (
        "thing_tell",
        &["text"],
        "effect: once, sends_out: true",
        "UPDATE things SET text = :text::text WHERE name = :name::text RETURNING name",
    ),
    ("thing_end", &[], "effect: once, sends_out: true", "DELETE FROM things WHERE name = :name::text RETURNING name"),
];

/// Understands `thing-put NAME`, `thing-tell NAME`, `thing-end NAME`, and `thing-hand NAME`, which has another session put it.
async fn butler() -> ScriptedModel {
    let calls = |tool: &str, args: Value| json!([{"call": {"tool": tool, "arguments": args}}, {"say": "Done."}]);
    let thing = json!({"name": "{{match.1}}", "text": "theirs"});
    model(json!([
        {"when": "A call of `[a-z_]+` that you had made", "steps": [{"say": "I know."}]},
        {"when": "thing-hand ([a-z]+)", "steps": calls("trigger", json!({"prompt": "thing-put {{match.1}}"}))},
        {"when": "thing-put ([a-z]+)", "steps": calls("thing_put", thing.clone())},
        {"when": "thing-tell ([a-z]+)", "steps": calls("thing_tell", thing)},
        {"when": "thing-end ([a-z]+)", "steps": calls("thing_end", json!({"name": "{{match.1}}"}))},
    ]))
    .await
}

/// Strangers may put things by themselves; a session that they have begun waits.
fn household(model: &ScriptedModel) -> Household {
    let household = Household::with_model(model).migration("health", "things", TABLE).replace(
        "health/butler.toml",
        "[modules.health]",
        "[butler.strangers]\nmay = [\"thing_put\"]\n\n[modules.health]\n\n[modules.approvals.gated_tools.trigger]\n",
    );
    TOOLS.iter().fold(household, |household, (name, more, meta, sql)| {
        let arg = |arg: &&str| format!("  {arg}: {{type: string, required: true, description: its {arg}}}\n");
        let args: String = ["name"].iter().chain(*more).map(arg).collect();
        let head = format!("/*---\ndescription: Does something with a thing.\nargs:\n{args}returns: row\n");
        let tool = format!("{head}meta: {{reads_private: false, {meta}}}\n---*/\n{sql};\n");
        household.write(&format!("health/tools/{name}.sql"), &tool)
    })
}

/// All things, each with its text and its label.
async fn things(db: &Client) -> Vec<String> {
    let sql = "SELECT concat_ws(' ', name, text, trust, audience::text) FROM health.things ORDER BY name";
    db.query(sql, &[]).await.expect("rows").iter().map(|row| row.get(0)).collect()
}

const MINE: [&str; 3] = ["lamp mine owner {}", "rug mine owner {}", "sofa mine owner {}"];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_approved_call_alone_changes_what_the_owner_wrote() {
    let model = butler().await;
    let household = household(&model);
    let daemon = household.start().await;
    let (db, health) = (household.owner().await, daemon.mcp("health"));
    for name in ["lamp", "rug", "sofa"] {
        health.ok("thing_put", json!({"name": name, "text": "mine"})).await;
    }
    assert_eq!(things(&db).await, MINE);

    // It waits because somebody would learn of it, and says what becomes of the row.
    from_stranger(&daemon, "s-1", "thing-tell lamp").await;
    from_stranger(&daemon, "s-2", "thing-end rug").await;
    assert_eq!(things(&db).await, MINE);
    for (name, after) in [
        ("lamp", vec!["lamp theirs stranger {}", "rug mine owner {}", "sofa mine owner {}"]),
        ("rug", vec!["lamp theirs stranger {}", "sofa mine owner {}"]),
    ] {
        let id = waiting(&db, name).await;
        let (code, shown, err) = household.cli(&["approvals", "show", &id]);
        assert!(code == 0 && shown.contains("What it changes, of yours as well, is believed no more"), "{shown}{err}");
        json_of(&household, &["approvals", "approve", &id]);
        let outcome = told(&db, &id, "executed").await;
        assert_eq!(outcome["input"]["context"]["outcome"]["success"], true, "{outcome}");
        assert_eq!(things(&db).await, after);
    }

    // Taken back, the rows are the owner's as they were.
    let undoable = json_of(&household, &["undo", "--butler", "health"]);
    for tool in ["thing_end", "thing_tell"] {
        let found = undoable["items"].as_array().and_then(|all| all.iter().find(|call| call["tool"] == tool));
        let call = found.and_then(|call| call["call"].as_str()).unwrap_or_else(|| panic!("no {tool} in {undoable}"));
        let (code, out, err) = household.cli(&["undo", call]);
        assert_eq!(code, 0, "{out}{err}");
    }
    assert_eq!(things(&db).await, MINE);

    // No call that comes after it, on connections that it had, has the right; nor has a session that an approved call begins.
    from_stranger(&daemon, "s-3", "thing-put sofa").await;
    from_stranger(&daemon, "s-4", "thing-hand lamp").await;
    let id = waiting(&db, "thing-put lamp").await;
    json_of(&household, &["approvals", "approve", &id]);
    told(&db, &id, "executed").await;
    assert_eq!(things(&db).await, MINE);
    let tried =
        "SELECT count(*) FROM health.tool_calls WHERE tool = 'thing_put' AND caller = 'session' AND outcome <> 'ok'";
    assert_eq!(count(&db, tried).await, 2, "both have tried");
    // What nobody else wrote they put by themselves.
    from_stranger(&daemon, "s-5", "thing-put vase").await;
    assert_eq!(things(&db).await[3..], ["vase theirs stranger {telegram:eve}"]);
}
